"""Calls of a kind: later ones launch what the first one did, and look at nothing again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from cuda_cases import long_formula
from cuda_on_host import DeviceArray, empty, forget_launches
from cuda_without_gpu import Recorder, on_device, without_gpu

import mgrec
from mgrec.filters.cuda import phases as filters
from mgrec.signal import lfilter, sosfilt
from mgrec.solve import prepared


@pytest.fixture
def solved(recorder: Recorder) -> list[Any]:
    """The problems that were solved by CuPy's launches, and then prepared."""
    return recorder.solved


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = without_gpu(monkeypatch)
    solve = prepared.solve

    def solve_twice(problem: Any, call: Any = None) -> Any:
        recorder.solved.append(problem)
        solve(problem)
        return solve(problem, call)

    monkeypatch.setattr(prepared, "solve", solve_twice)
    forget_launches()
    yield recorder
    forget_launches()


def launches_of(recorder: Recorder, call: Callable[[], Any]) -> list[Any]:
    """Return the launches of a first call, which are those of the prepared call."""
    both = recorder.of(call)
    half = len(both) // 2
    assert both[:half] == both[half:]
    return both[:half]


def draw(shape: Any, dtype: str = "f4", seed: int = 0) -> Any:
    return on_device(np.random.default_rng(seed).normal(size=shape).astype(dtype))


lowest = mgrec.TransferMap(
    lambda x, rate: (x, rate),
    lambda earlier, later: (np.minimum(earlier[0] + later[1], later[0]), earlier[1] + later[1]),
    lambda step, state: np.minimum(step[0], state + step[1]),
    (np.inf, 0.0),
)
rate = mgrec.Coefficient(lambda i, x: x / (i + 1), 2.0)
x, y, z = draw(5000), draw(5000, seed=1), draw((3, 700, 5))
many, rows = draw((20_000, 64)), draw(20_000)
states = draw((2, 2), "f8")
CALLS: dict[str, Callable[..., Any]] = {
    "arrays": lambda out: mgrec.linear_recurrence(x, y, out=out),
    "a constant": lambda out: mgrec.linear_recurrence(0.5, x, 2.0, out=out),
    "an integer constant": lambda out: mgrec.linear_recurrence(2, t=x, initial=3, out=out),
    "numbers of NumPy": lambda out: mgrec.linear_recurrence(np.float32(0.5), x, np.float32(7), out=out),
    "along the middle": lambda out: mgrec.linear_recurrence(0.5, z, axis=1, out=out),
    "from the end": lambda out: mgrec.linear_recurrence(0.5, z, reverse=True, out=out),
    "walked": lambda out: mgrec.linear_recurrence(0.5, many, axis=1, out=out),
    "walked from states": lambda out: mgrec.linear_recurrence(0.5, many, rows, axis=1, out=out),
    "a coefficient": lambda out: mgrec.linear_recurrence(rate, x, out=out),
    "max-plus": lambda out: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0, out=out),
    "a map of the user's": lambda out: mgrec.scan(lowest, x, 0.25, initial=1.0, out=out),
    "rational": lambda out: mgrec.rational_recurrence(1.0, x, 1.0, 2, initial=1.0, out=out),
    "lfilter": lambda out: lfilter(np.float32([1, 0.5]), np.float32([1, -0.5]), x, out=out),
    "lfilter along columns": lambda out: lfilter(np.float32([1]), np.float32([1, -0.5]), z, 1, out=out),
    "sosfilt": lambda out: sosfilt(np.float32([[1, 0, 0, 1, -0.5, 0]] * 3), x, out=out),
    "lfilter from states": lambda out: lfilter([1.0], [1.0, -0.5], x, zi=states[0, :1], out=out),
    "sosfilt from states": lambda out: sosfilt([[1, 0, 0, 1, -0.5, 0]] * 2, x, zi=states, out=out),
    "filtered for long": lambda out: lfilter(np.float32([1]), np.float32([1, -0.9999999]), x, out=out),
}


@pytest.mark.parametrize("name", CALLS)
def test_later_calls_launch_what_the_first_one_did(
    name: str, recorder: Recorder, solved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, has_states = empty(1 << 20, "u1"), "filt" in name and "states" in name
    if "filt" in name:  # memory of a launch is where it was
        monkeypatch.setattr(
            sys.modules["cupy"],
            "empty",
            lambda shape, dtype: space[:shape] if type(shape) is int else empty(shape, dtype),
        )
    shape = {
        "along the middle": z.shape,
        "from the end": z.shape,
        "walked": many.shape,
        "walked from states": many.shape,
        "lfilter along columns": z.shape,
    }
    out = empty(shape.get(name, x.shape), "f8" if has_states else "f4")
    first = launches_of(recorder, lambda: CALLS[name](out))
    assert first
    assert len(solved) == 1
    for _ in range(2):
        assert recorder.of(lambda: CALLS[name](out)) == first
    assert len(solved) == 1
    found, again = (CALLS[name](None) for _ in range(2))
    assert len(solved) == 2
    assert again is not found
    if has_states:
        (found, state), (again, later) = found, again
        assert (later.shape, later.dtype) == (state.shape, state.dtype)
    assert (type(again), again.shape, again.dtype) == (DeviceArray, found.shape, found.dtype)


def arguments(recorder: Recorder, call: Callable[[], Any]) -> list[bytes]:
    *_, last = recorder.of(call)
    return list(last[3])


def test_numbers_go_to_kernels_as_they_come(recorder: Recorder, solved: list[Any]) -> None:
    for s, initial in ((0.5, 2.0), (0.25, 3.0), (-0.0, 0.0)):
        found = arguments(recorder, lambda: mgrec.linear_recurrence(s, x, initial))  # noqa: B023
        assert np.float32(s).tobytes() in found
        assert np.float32(initial).tobytes() in found
    assert len(solved) == 1
    for values in ((1, 2, 3, 4, 5), (6, 7, 8, 9, 10)):
        call = partial(mgrec.scan, mgrec.maps.matrix2, x, *values[:3], 0, 0, initial=values[3:])
        found = arguments(recorder, call)
        floats = [np.float32(value).tobytes() for value in values]
        assert [argument for argument in found[1:8] if argument in floats] == floats
    assert len(solved) == 2
    for number in (0, 5):  # an axis is no operand, though it is the same 0
        call = partial(mgrec.scan, mgrec.maps.max_plus, z, number, axis=0, initial=number)
        found = arguments(recorder, call)
        assert found.count(np.float32(number).tobytes()) == 2
    assert len(solved) == 3


GRIDS: dict[str, Callable[..., Any]] = {
    "sweeps": lambda x, y, out: mgrec.sor(x, sweeps=9, omega=1.5, out=out),
    "sweeps with sides": lambda x, y, out: mgrec.sor(x, rhs=y, sweeps=2, out=out),
    "sweeps of grids": lambda x, y, out: mgrec.sor(x, y[0], sweeps=2, out=out),
}


@pytest.mark.parametrize("call", GRIDS.values(), ids=GRIDS)
def test_grids_are_prepared_as_rows_are(
    call: Callable[..., Any], recorder: Recorder, solved: list[Any]
) -> None:
    x, y, out = draw((3, 300, 400)), draw((3, 300, 400)), empty((3, 300, 400), "f4")
    first = launches_of(recorder, lambda: call(x, y, out))
    assert first
    for _ in range(2):
        assert recorder.of(lambda: call(x, y, out)) == first
    assert len(solved) == 1


def test_states_of_another_dtype_are_cast(
    recorder: Recorder, solved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, wide, found = on_device(np.float32([5])), on_device(np.float64([7])), []
    monkeypatch.setattr(filters, "array_at", lambda *about: found.append(about) or narrow)
    cast = filters.cast
    monkeypatch.setattr(filters, "cast", lambda x, to: wide if x is narrow else cast(x, to))
    for _ in range(3):
        launched = recorder.of(lambda: lfilter([1.0], [1.0, -0.5], x, zi=rows[:1]))
    assert len(solved) == 1
    assert found == [(rows.data.ptr, (1, 1, 1), np.float32)] * 3
    for _, _, _, given, *_ in launched:
        assert np.frombuffer(given[0], np.int64)[2] == wide.data.ptr


def test_entries_are_not_made(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any, **named: Any) -> None:
        raise AssertionError("this function must not be called")

    for name in ("asarray", "full"):
        monkeypatch.setattr(sys.modules["cupy"], name, fail, raising=False)
    monkeypatch.setattr(np, "full", fail)
    mgrec.linear_recurrence(0.5, many, axis=1)
    mgrec.linear_recurrence(0.5, many, 7.0, axis=0)


def copied(shape: Any) -> Any:
    return np.asfortranarray(draw(shape)).view(DeviceArray)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mgrec.linear_recurrence(0.5, copied((30, 40))),
        lambda: mgrec.linear_recurrence(x.astype("i4"), y),
        lambda: lfilter([1.0], [1.0, -0.5], copied((30, 40))),
        lambda: lfilter([1.0], [1.0, -0.5], x, zi=np.zeros(1)),
        lambda: mgrec.linear_recurrence(0.5, z, np.zeros((3, 700))),
        lambda: lfilter([1.0], [1.0, -0.5, 0.1], z, zi=draw((3, 700, 2), "f8")),
        lambda: mgrec.linear_recurrence(0.5, z, draw((1, 700))),
        lambda: mgrec.linear_recurrence(0.5, z, method="p-scheme"),
        lambda: mgrec.linear_recurrence(0.5, z[:0]),
    ],
)
def test_what_is_copied_first_is_solved_anew(
    call: Callable[[], Any], solved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mgrec.scans.cuda import p_scheme

    monkeypatch.setattr(p_scheme, "Phases", lambda *given: lambda: None)
    monkeypatch.setattr(sys.modules["cupy"], "full", np.full, raising=False)
    monkeypatch.setattr(np, "broadcast_to", partial(np.broadcast_to, subok=True))
    for _ in range(2):
        call()
    assert len(solved) == 2


def test_a_captured_stream_is_refused_in_later_calls_too(recorder: Recorder) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: mgrec.linear_recurrence(x, y),
        lambda: lfilter([1.0], [1.0, -0.5], x),
        lambda: mgrec.linear_recurrence(mgrec.Coefficient(long_formula), x),
        lambda: mgrec.linear_recurrence(0.5, many, np.zeros(20_000, "f4"), axis=1),
    ]
    for call in calls:
        call()
    mgrec.linear_recurrence(0.5, many, axis=1)
    stream = sys.modules["cupy"].cuda.get_current_stream()
    stream.is_capturing = lambda: True
    for call in calls:
        with pytest.raises(RuntimeError, match="cannot be captured into a CUDA graph"):
            call()
    mgrec.linear_recurrence(0.5, many, axis=1)


def test_threads_share_what_is_prepared(recorder: Recorder) -> None:
    from concurrent.futures import ThreadPoolExecutor

    outs = [empty(5000, "f4") for _ in range(40)]

    def call(k: int) -> None:
        mgrec.linear_recurrence(float(k), x, out=outs[k])

    call(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(40)))
    found = {
        (np.frombuffer(given[1], "f4")[0], int.from_bytes(given[3], "little"))
        for name, _, _, given, *_ in recorder.launched
        if name == "determine_kernel"
    }
    assert found == {(np.float32(k), out.data.ptr) for k, out in enumerate(outs)}
