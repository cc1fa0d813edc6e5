"""Calls of short NumPy arrays are prepared once for each signature, and have the same bits."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import numpy as np
import pytest
from internals import record_solved

import mgrec
from mgrec.signal import lfilter, sosfilt


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that were solved without a prepared call."""
    return record_solved(monkeypatch)


def draw(*shape: int, dtype: str = "f8", seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, shape).astype(dtype)


rate = mgrec.Coefficient(lambda i, x: x / (i + 1), 2.0)
x, y, long, table = draw(10), draw(10, seed=1), draw(200), draw(3, 40, 5)
bands = np.array([[0.5], [-1], [4], [-1]]) + draw(4, 10) / 10
z, rows, narrow = x + 1j * y, draw(3, 5), draw(2, 99, dtype="f4")
sections = [[1, 0.5, 0.1, 1, -0.5, 0.2]] * 2
CALLS: dict[str, Callable[..., Any]] = {
    "arrays": lambda **out: mgrec.linear_recurrence(x, y, **out),
    "long rows": lambda **out: mgrec.linear_recurrence(long, long, **out),
    "a constant": lambda **out: mgrec.linear_recurrence(0.5, long, 2.0, **out),
    "a constant beyond powers": lambda **out: mgrec.linear_recurrence(1e-300, long, 2.0, **out),
    "integers": lambda **out: mgrec.linear_recurrence(np.int8([1, 2, 3]), np.int8([5, 6, 7]), 3, **out),
    "complex numbers": lambda **out: mgrec.linear_recurrence(z, z, 1j, **out),
    "names in any order": lambda **out: mgrec.linear_recurrence(t=y, **out, initial=1.5, s=x),
    "from the end": lambda **out: mgrec.linear_recurrence(x, y, reverse=True, **out),
    "along the middle": lambda **out: mgrec.linear_recurrence(0.5, table, rows, axis=1, **out),
    "broadcast": lambda **out: mgrec.linear_recurrence(draw(5), table, 1.5, **out),
    "a coefficient": lambda **out: mgrec.linear_recurrence(rate, table, axis=1, **out),
    "max-plus": lambda **out: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0, **out),
    "several states": lambda **out: mgrec.scan(
        mgrec.maps.matrix2, 0.5, y, x, 0.25, x, 1, initial=(1.0, np.float64(2)), **out
    ),
    "rational": lambda **out: mgrec.rational_recurrence(1.0, y, 1, 2.0, initial=1.0, **out),
    "lfilter": lambda **out: lfilter([1, 0.5], [2.0, -0.5], x, **out),
    "lfilter of float32": lambda **out: lfilter(
        np.float32([1, 0.5]), np.float32([1, -0.5]), draw(300, dtype="f4"), **out
    ),
    "lfilter of integers": lambda **out: lfilter([1.0], [1.0, -0.5], np.arange(90), **out),
    "lfilter along columns": lambda **out: lfilter([1.0], [1.0, -0.5], table, 1, **out),
    "sosfilt": lambda **out: sosfilt(sections, long, **out),
    "lfilter from states": lambda **out: lfilter([1.0], [1.0, -0.5, 0.1], x, zi=np.float32([1, 2]), **out),
    "complex lfilter from states": lambda **out: lfilter([1j], [1.0, -0.5], x, zi=np.ones(1), **out),
    "sosfilt from states": lambda **out: sosfilt(sections, table, 0, zi=draw(2, 2, 40, 5), **out),
    "lfilter of a long row from states": lambda **out: lfilter(
        [1.0], [1.0, -0.5, 0.1], long, zi=draw(2), **out
    ),
    "lfilter beyond the largest number": lambda **out: lfilter([1.0], [1.0, -40.0], long, **out),
    "a system": lambda **out: mgrec.solve_tridiagonal(long, 3 + long, long, long, **out),
    "a system of scalars": lambda **out: mgrec.solve_tridiagonal(-1, 3.0, -1, x, **out),
    "systems": lambda **out: mgrec.solve_tridiagonal(x, 3 + x, x, draw(30, 10), **out),
    "systems along an axis": lambda **out: mgrec.solve_tridiagonal(0.5, 3 + table, 0.5, table, axis=1, **out),
    "systems of float32": lambda **out: mgrec.solve_tridiagonal(
        np.float32(0.5), 3 + narrow, np.float32(0.5), narrow, **out
    ),
    "complex systems": lambda **out: mgrec.solve_tridiagonal(z, 3 + z, z, z, **out),
    "a band": lambda **out: mgrec.solve_banded((1, 2), bands, x, **out),
    "bands": lambda **out: mgrec.solve_banded((1, 2), np.stack([bands] * 30), draw(30, 10), **out),
    "a band of several sides": lambda **out: mgrec.solve_banded((1, 2), bands, draw(10, 3), axis=0, **out),
    "sides of a system": lambda **out: mgrec.solve_tridiagonal(
        x, 3 + x, x, draw(10, 3), axis=0, rhs_axis=1, **out
    ),
}


def as_bytes(results: Any) -> list[tuple[Any, ...]]:
    arrays = results if isinstance(results, tuple) else (results,)
    return [(array.shape, array.dtype, array.tobytes()) for array in arrays]


QUICK = {
    "a system",
    "arrays",
    "a constant",
    "names in any order",
    "max-plus",
    "lfilter",
    "lfilter from states",
    "a band",
}
"""Others compile kernels of their own."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.extended) for n in CALLS]
)
def test_later_calls_are_prepared_and_have_the_same_bits(name: str, solved: list[Any]) -> None:
    call = CALLS[name]
    first = call()
    wanted = as_bytes(first)
    for _ in range(3):
        assert as_bytes(call()) == wanted
        assert len(solved) == 2
    for count in (3, 4, 4, 4):
        outs = [np.full_like(array, 99) for array in (first if type(first) is tuple else [first])]
        out = tuple(outs) if name == "several states" else outs[0]
        result = call(out=out)
        assert as_bytes(result) == wanted
        assert len(solved) == count
        assert (result[0] if "from states" in name else result) is out


def test_prepared_calls_use_the_values_of_each_call(solved: list[Any]) -> None:
    def loop(s: Any, t: Any, state: float) -> list[float]:
        states = []
        for step in range(10):
            state = s * state + t[step]
            states.append(state)
        return states

    for s, state in ((0.5, 2.0), (0.25, 3.0), (-0.0, 0.0), (np.inf, 1.0), (0.5, np.nan)):
        t = draw(10, seed=int(4 * abs(state)) if state == state else 1)
        t.flags.writeable = s == 0.5
        np.testing.assert_array_equal(mgrec.linear_recurrence(s, t, state), loop(s, t, state))
    assert len(solved) == 2
    for _ in range(3):
        state = np.zeros(1)
        parts = []
        for k in range(5):
            part, state = lfilter([1.0], [1.0, -0.5], x[2 * k : 2 * k + 2], zi=state)
            parts.append(part)
        np.testing.assert_array_equal(np.concatenate(parts), lfilter([1.0], [1.0, -0.5], x))


SIGNATURES: list[Callable[[], Any]] = [
    lambda: mgrec.linear_recurrence(0.5, x),
    lambda: mgrec.linear_recurrence(1, x),
    lambda: mgrec.linear_recurrence(np.float32(0.5), x),
    lambda: mgrec.linear_recurrence(np.array(0.5), x),
    lambda: mgrec.linear_recurrence(0.5, x, 0.0),
    lambda: mgrec.linear_recurrence(0.5, x, reverse=True),
    lambda: mgrec.linear_recurrence(0.5, x[:9]),
    lambda: mgrec.linear_recurrence(0.5, x.astype("f4")),
    lambda: mgrec.linear_recurrence(0.5, table, axis=0),
    lambda: mgrec.linear_recurrence(0.5, table, axis=1),
    lambda: mgrec.scan(mgrec.maps.min_plus, x, 0.0, initial=0.0),
    lambda: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0),
    lambda: lfilter([1.0], [1.0, 0.0], x),
    lambda: lfilter([1.0], [1.0, -0.0], x),
    lambda: lfilter([1.0], np.array([1.0, -0.5]), x),
    lambda: lfilter([1.0], np.array([1.0, -0.25]), x),
    lambda: lfilter([1.0], np.float32([1.0, -0.5]), x),
    lambda: lfilter([1.0], [1.0, -0.5], table, 0),
    lambda: lfilter([1.0], [1.0, -0.5], table, axis=1),
    lambda: sosfilt(sections, x),
    lambda: sosfilt(sections[:1], x),
]


@pytest.mark.extended
def test_calls_of_other_signatures_are_not_prepared(solved: list[Any]) -> None:
    for number, call in enumerate(SIGNATURES):
        call(), call(), call()
        assert len(solved) == 2 * number + 2


@pytest.mark.extended
@pytest.mark.parametrize(
    "call",
    [
        lambda: mgrec.linear_recurrence(table.T, table.T),
        lambda: mgrec.linear_recurrence(x[::-1], x),
        lambda: mgrec.linear_recurrence(x, x.astype(">f8")),
        lambda: mgrec.linear_recurrence(0.5, x.astype("f2")),
        lambda: mgrec.linear_recurrence(0.5, x[:0]),
        lambda: mgrec.linear_recurrence(0.5, table, table[:1, :, 0]),
        lambda: mgrec.linear_recurrence(table[:, :1], table),
        lambda: mgrec.linear_recurrence(draw(400, 1), draw(400)),  # broadcast to many steps
        lambda: mgrec.linear_recurrence(0.5, [1.0, 2.0]),
        lambda: mgrec.solve_tridiagonal(x, 3 + x, x, x, periodic=True),
        lambda: mgrec.solve_tridiagonal(x, 3 + x, x, x, method="thomas"),
        lambda: mgrec.solve_tridiagonal(0.5, 3.0, 0.5, np.arange(9)),  # cast
        lambda: lfilter(x, x, [1.0, 2.0]),
        lambda: lfilter(x, x, table, zi=draw(3, 40, 9)),
    ],
)
def test_calls_that_copy_or_are_long_are_not_prepared(call: Callable[[], Any], solved: list[Any]) -> None:
    wanted = as_bytes(call())
    for count in (2, 3, 4):
        assert as_bytes(call()) == wanted
        assert len(solved) == count


def test_prepared_calls_refuse_what_validation_refuses(solved: list[Any]) -> None:
    w, read_only = np.empty((2, 10))
    read_only.flags.writeable = False
    for _ in range(3):
        mgrec.linear_recurrence(y, x, out=w)
    assert len(solved) == 2
    with pytest.raises(ValueError, match="out must be C-contiguous and writeable"):
        mgrec.linear_recurrence(y, x, out=read_only)
    with pytest.raises(ValueError, match="out must not share memory with an operand"):
        mgrec.linear_recurrence(y, x, out=x)


def test_prepared_calls_find_singular_systems_and_nan(solved: list[Any]) -> None:
    d, b = np.full(8, 3.0), np.arange(8.0)
    for _ in range(3):
        found = mgrec.solve_tridiagonal(1.0, d, 1.0, b)
    assert len(solved) == 2
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        mgrec.solve_tridiagonal(0.0, np.zeros(8), 0.0, b)
    for _ in range(3):
        mgrec.solve_banded((1, 2), bands[:, :8].copy(), b)
    assert len(solved) == 5
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        mgrec.solve_banded((1, 2), np.zeros((4, 8)), b)
    b[3] = np.nan
    with pytest.raises(ValueError, match="nan"):
        mgrec.solve_banded((1, 2), bands[:, :8].copy(), b)
    with pytest.raises(ValueError, match="nan"):
        mgrec.solve_tridiagonal(1.0, d, 1.0, b)
    for _ in range(3):
        result = mgrec.solve_tridiagonal(1.0, d, 1.0, b, check_finite=False)
    assert np.isnan(result).all()
    assert np.isfinite(found).all()


@pytest.mark.extended
def test_prepared_calls_refuse_numbers_and_shared_results() -> None:
    whole, pair = np.arange(5, dtype="i1"), np.empty(25)
    for out in (None, np.empty(5, "i1")):
        for _ in range(3):
            mgrec.linear_recurrence(2, whole, out=out)
        with pytest.raises(ValueError, match="s must be representable in int8; got 300"):
            mgrec.linear_recurrence(300, whole, out=out)

    def scan(*out: Any) -> Any:
        return mgrec.scan(mgrec.maps.matrix2, x, 1, 0, 0, 0, 0, initial=(1.0, 0.0), out=out)

    for _ in range(3):
        scan(pair[:10], pair[15:])
    with pytest.raises(ValueError, match="out must be arrays that share no memory"):
        scan(pair[:10], pair[5:15])


def test_prepared_calls_reference_no_array_of_a_call(request: pytest.FixtureRequest) -> None:
    calls: list[Callable[..., Any]] = [
        lambda *given: mgrec.linear_recurrence(*given, initial=given[0][0]),
        lambda *given: mgrec.linear_recurrence(*given, out=np.empty(10)),
        lambda *given: mgrec.scan(mgrec.maps.max_plus, *given, initial=0.0),
        lambda *given: lfilter([1.0], [1.0, -0.5], given[0], zi=given[1][:1])[0],
        lambda *given: mgrec.solve_tridiagonal(0.5, 3 + given[0], 0.5, given[1]),
    ]
    request.addfinalizer(gc.enable)
    gc.disable()
    for call in calls:
        given = draw(10), draw(10, seed=1)
        for _ in range(3):
            result = call(*given)
        held = [ref(array) for array in (*given, result)]
        del given, result
        assert not any(array() is not None for array in held)


def test_threads_share_prepared_calls(solved: list[Any]) -> None:
    def call(k: int) -> Any:
        return mgrec.linear_recurrence(float(k), x, k), lfilter([1.0], [1.0, -0.5], k * x)

    wanted = [call(k) for k in range(40)]
    count = len(solved)
    with ThreadPoolExecutor(4) as pool:
        for found, own in zip(pool.map(call, range(40)), wanted, strict=True):
            for array, other in zip(found, own, strict=True):
                np.testing.assert_array_equal(array, other)
    assert len(solved) == count
