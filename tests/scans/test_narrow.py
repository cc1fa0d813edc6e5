"""Arrays of float16 and bfloat16: stored in two bytes, computed in float32."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec
from mgrec.core.arrays.array_types import to_host
from mgrec.signal import filtfilt, lfilter, sosfilt

NARROW: list[Any] = [np.dtype(np.float16)]
try:
    import ml_dtypes

    NARROW.append(np.dtype(ml_dtypes.bfloat16))
except ImportError:
    pass
B, A = np.array([0.25, 0.5, 0.25], "f2"), np.array([1.0, -0.5, 0.25], "f2")
narrow = pytest.mark.parametrize("dtype", NARROW, ids=str)
LAYOUTS: dict[str, tuple[tuple[int, ...], int]] = {
    "rows": ((5, 2003), 1),
    "one row": ((1, 12_001), 1),
    "short rows": ((700, 16), 1),
    "few rows": ((9, 3), 1),
    "channels": ((6000, 3), 0),
    "shifted channels": ((2, 3001, 7), 1),
    "two lines": ((3000, 64), 0),
    "lines": ((3000, 96), 0),
    "columns": ((900, 131), 0),
    "words of columns": ((700, 640), 0),
    "short columns": ((8, 67_600), 0),
}


def loop(s: Any, t: Any, initial: Any = 0, axis: int = -1) -> Any:
    """Run the recurrence in float32."""
    s, t = (np.moveaxis(x, axis, 0).astype(np.float32) for x in np.broadcast_arrays(s, t))
    w, state = np.empty_like(t), np.asarray(initial, np.float32)
    with np.errstate(all="ignore"):
        for i, (factor, term) in enumerate(zip(s, t, strict=True)):
            w[i] = state = factor * state + term
    return np.moveaxis(w, 0, axis)


def draw(dtype: Any, shape: Any, largest: float = 1.0) -> Any:
    random = np.random.default_rng(2)
    s = random.uniform(-largest, largest, shape).astype(dtype)
    return s, random.normal(size=shape).astype(dtype)


def assert_rounded_once(w: Any, exact: Any, dtype: Any) -> None:
    """Results are those of float32, rounded; sums in another order may round to a neighbour."""
    assert w.dtype == dtype
    w, wanted = to_host(w), exact.astype(dtype)
    below, above = (np.nextafter(exact, np.float32(way)) for way in (-np.inf, np.inf))
    spread = np.abs(exact) * 2e-6 + 1e-6
    is_near = (w >= (below - spread).astype(dtype)) & (w <= (above + spread).astype(dtype))
    assert is_near.all()
    assert np.mean(w != wanted) < 0.01


def assert_same(w: Any, wanted: Any) -> None:
    assert w.dtype == wanted.dtype
    np.testing.assert_array_equal(to_host(w).astype(np.float32), wanted.astype(np.float32))


@narrow
def test_all_numbers_are_read_and_rounded_once(xp: Any, dtype: Any) -> None:
    """A product of two numbers is exact in float32, and often halfway between two numbers."""
    numbers = np.arange(0, 2**16, 13, dtype=np.uint16).view(dtype).reshape(-1, 1)
    bits = np.random.default_rng(3).integers(0, 2**16, numbers.shape, np.uint16)
    factors, zeros = bits.view(dtype), np.zeros_like(numbers)
    s, t = np.hstack([zeros, factors]), np.hstack([numbers, zeros])
    with np.errstate(all="ignore"):
        w = mgrec.linear_recurrence(xp.asarray(s), xp.asarray(t))
        product = factors.astype(np.float32) * numbers.astype(np.float32)
        assert_same(w, np.hstack([numbers, product.astype(dtype)]))


@narrow
@pytest.mark.parametrize("reverse", with_extended([False, True], True))
@pytest.mark.parametrize("name", with_extended(LAYOUTS, *(LAYOUTS.keys() - {"rows", "channels", "columns"})))
def test_layouts(xp: Any, name: str, reverse: bool, dtype: Any) -> None:
    shape, axis = LAYOUTS[name]
    s, t = draw(dtype, shape, 0.9)
    out = xp.asarray(np.full_like(t, 77))
    one = tuple(slice(0, 1) if k == axis else slice(None) for k in range(len(shape)))
    for a in (s, np.array(0.5, dtype), s[one]):
        given = xp.asarray(a) if a.ndim else 0.5
        w = mgrec.linear_recurrence(given, xp.asarray(t), axis=axis, reverse=reverse, out=out)
        assert w is out
        a, b = (np.flip(x, axis) if reverse and x.ndim else x for x in (a, t))
        wanted = loop(a, b, axis=axis)
        assert_rounded_once(w, np.flip(wanted, axis) if reverse else wanted, dtype)


@narrow
def test_states_that_overflow_or_vanish_in_lines_of_columns(xp: Any, dtype: Any) -> None:
    """Columns whose products leave the range of float32, the second or the first of their word.

    The repair of a column includes the 32 columns around it: odd ones among the first 32, then even ones.
    """
    rng = np.random.default_rng(4)
    s, t = rng.uniform(-1, 1, (7001, 64)), rng.normal(size=(7001, 64))
    for first in (1, 32):
        s[100:300, first], t[:301, first] = 4, 0  # the product overflows, the states are 0
        s[100:200, first + 2], s[3000:3100, first + 2] = 300, 1e-3
        t[500, first + 4], t[900, first + 4], t[777, first + 6], s[800, first + 6] = (
            np.inf,
            -np.inf,
            np.nan,
            0,
        )
    s, t = s.astype(dtype), t.astype(dtype)
    w = mgrec.linear_recurrence(xp.asarray(s), xp.asarray(t), axis=0)
    with np.errstate(all="ignore"):
        found, wanted = to_host(w).astype(np.float32), loop(s, t, axis=0).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.mean(np.isinf(found) != np.isinf(wanted)) < 1e-4  # sums near the largest number round
    is_finite = np.isfinite(found) & np.isfinite(wanted)
    np.testing.assert_allclose(found[is_finite], wanted[is_finite], rtol=2e-2, atol=1e-3)


@narrow
@pytest.mark.parametrize("name", ["rows", "one row", "channels", "lines", "columns"])
def test_chunks(xp: Any, name: str, dtype: Any) -> None:
    """Chunks are summarised from the numbers of two bytes."""
    shape, axis = LAYOUTS[name]
    s, t = draw(dtype, shape)
    length = shape[axis] // 3

    def lazy(array: Any) -> Any:
        parts = np.split(array, [length, 2 * length], axis)
        return da.concatenate([da.from_array(xp.asarray(x), chunks=-1) for x in parts], axis)

    w = mgrec.linear_recurrence(lazy(s), lazy(t), axis=axis).compute(scheduler="sync")
    assert_rounded_once(w, loop(s, t, axis=axis), dtype)


@narrow
@pytest.mark.parametrize("axis", [0, 1])
def test_overflow_and_nan(xp: Any, axis: int, dtype: Any) -> None:
    """A row that is solved again starts from no rounded state."""
    shape = (4, 3000)
    s, t = np.full(shape, 1.0, dtype), np.ones(shape, dtype)
    s[0], t[0, 5:] = 2, 0
    s[1, 40:], t[2, 100] = -2, np.nan
    s[3, ::2], s[3, 1::2] = 2.0**14, 2.0**-14
    s, t = (np.moveaxis(x, 1, axis) for x in (s, t))
    w = mgrec.linear_recurrence(xp.asarray(s), xp.asarray(t), axis=axis)
    with np.errstate(over="ignore"):
        assert_same(w, loop(s, t, axis=axis).astype(dtype))


@narrow
def test_methods_and_resets(xp: Any, dtype: Any) -> None:
    t, marks = draw(dtype, (40, 30))[1], np.arange(30) % 7 == 0
    w = mgrec.linear_recurrence(0.5, xp.asarray(t), reset=xp.asarray(marks))
    assert_rounded_once(w, loop(np.where(marks, 0, np.float32(0.5)), t), dtype)
    if xp is not np:
        w = mgrec.linear_recurrence(0.5, xp.asarray(t), method="p-scheme")
        assert_rounded_once(w, loop(0.5, t), dtype)


@narrow
@pytest.mark.parametrize("axis", [0, 1])
def test_initial_states(xp: Any, axis: int, dtype: Any) -> None:
    t, rows = draw(dtype, (5, 300))[1], draw(dtype, 5)[1]
    t = np.moveaxis(t, 1, axis)
    for initial in (rows, rows.astype(np.int8), rows[0], 2.0, 3):
        exact = loop(0.5, t, initial, axis)
        for state in (initial, xp.asarray(initial) if np.ndim(initial) else initial):
            assert_rounded_once(mgrec.linear_recurrence(0.5, xp.asarray(t), state, axis=axis), exact, dtype)
    wide = xp.asarray(rows.astype(np.float32))
    w = mgrec.linear_recurrence(0.5, xp.asarray(t), wide, axis=axis)
    assert w.dtype == np.float32


@narrow
def test_states_are_float32_and_results_are_rounded_once(dtype: Any) -> None:
    s, t = draw(dtype, (3, 500))
    assert_rounded_once(mgrec.linear_recurrence(s, t, 2.0), loop(s, t, 2.0), dtype)
    # In two bytes the sum would stay at 2048, or at 256.
    assert mgrec.linear_recurrence(1.0, np.ones(4096, dtype))[-1] == 4096


@narrow
def test_lazy_arrays_and_out(dtype: Any) -> None:
    s, t = draw(dtype, (2, 90))
    w, out = mgrec.linear_recurrence(s, t), np.empty_like(t)
    assert mgrec.linear_recurrence(s, t, out=out) is out
    lazy = mgrec.linear_recurrence(*(da.from_array(x, chunks=(1, 40)) for x in (s, t)))
    assert lazy.dtype == dtype
    for found in (out, lazy.compute()):
        assert found.dtype == dtype
        assert_rounded_once(found, w.astype(np.float32), dtype)


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("operators", [("+", "*"), ("max", "+"), ("+", "+")])
def test_weighted_scans_of_float16_are_rounded_once(operators: Any, inclusive: bool) -> None:
    options: Any = {"operators": operators, "inclusive": inclusive}
    x, weights = draw("f2", (2, 90))
    out = np.empty_like(x)
    assert mgrec.weighted_scan(x, weights, out=out, **options) is out
    wide = mgrec.weighted_scan(x.astype("f4"), weights.astype("f4"), **options)
    lazy = mgrec.weighted_scan(da.from_array(x, chunks=(1, 40)), weights, **options)
    assert lazy.dtype == out.dtype
    for found in (out, lazy.compute()):
        assert_rounded_once(found, wide, np.float16)


def test_numbers_and_integers_do_not_promote_bfloat16() -> None:
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    t = np.ones((2, 4), dtype)
    for s in (0.5, 1, np.ones(4, np.int64)):
        assert mgrec.linear_recurrence(s, t, 1.0).dtype == dtype
    for s, wanted in ((np.ones(4, "f2"), "f4"), (np.float32(1), "f4"), (t[0], dtype)):
        assert mgrec.linear_recurrence(s, t).dtype == np.dtype(wanted)
    with pytest.raises(TypeError, match="got bfloat16"):
        mgrec.solve_tridiagonal(1, 4, 1, t)


FILTERS: dict[str, Any] = {
    "lfilter": lambda x, **options: lfilter(B, A, x, **options),
    "sosfilt": lambda x, **options: sosfilt([[*B, *A]], x, **options),
}


@narrow
@pytest.mark.parametrize("name", with_extended(FILTERS, "sosfilt"))
def test_filters(name: str, dtype: Any) -> None:
    function, x = FILTERS[name], draw(dtype, (2, 300))[1]
    y = function(x)
    exact = function(x.astype(np.float32))
    assert_rounded_once(y, exact, dtype)
    out = np.empty_like(x)
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out, y)
    lazy = function(da.from_array(x, chunks=(1, 120)))
    assert lazy.dtype == lazy.compute().dtype == dtype
    assert_rounded_once(lazy.compute(), exact, dtype)
    marks = np.arange(300) % 100 == 0
    assert_rounded_once(function(x, reset=marks), function(x.astype("f4"), reset=marks), dtype)


@narrow
@pytest.mark.parametrize("name", FILTERS)
def test_final_states_are_float32(name: str, dtype: Any) -> None:
    function, x = FILTERS[name], draw(dtype, (2, 300))[1]
    zi = np.zeros((1, 2, 2) if name == "sosfilt" else (2, 2), dtype)
    lazy = da.from_array(x, chunks=(1, 120))
    for array in (x, lazy):
        y, zf = function(array[:, :120], zi=zi)
        later, last = function(array[:, 120:], zi=zf)
        assert zf.dtype == last.dtype == np.float32
        assert np.asarray(zf).dtype == np.asarray(last).dtype == np.float32
        assert_rounded_once(np.hstack([y, later]), function(x.astype("f4")), dtype)


def test_coefficients_promote_float16_alone() -> None:
    x = np.ones(9, "f2")
    assert lfilter([1.0], [1.0, -0.5], x).dtype == np.float64
    assert lfilter(np.ones(1, "f4"), [1], x).dtype == np.float64
    assert lfilter(np.ones(1, "f4"), np.ones(1, "f4"), x).dtype == np.float32
    x = x.astype(pytest.importorskip("ml_dtypes").bfloat16)
    assert lfilter([1.0], [1.0, -0.5], x).dtype == x.dtype
    assert lfilter([1j], [1.0, -0.5], x).dtype == np.complex128
    assert lfilter(x[:1], x[:1], np.ones(3, "f4")).dtype == np.float32
    with pytest.raises(TypeError, match="got bfloat16"):
        filtfilt([1.0], [1.0, -0.5], x)


LONG = np.array([1.0, -0.999], "f2")


@narrow
@pytest.mark.extended
@pytest.mark.parametrize("shape", [(3, 2000), (2, 1003), (2, 500, 3), (1, 70, 40)], ids=str)
@pytest.mark.parametrize("a", [A, LONG], ids=["short memory", "long memory"])
def test_filters_along_rows_and_columns(xp: Any, shape: Any, a: Any, dtype: Any) -> None:
    x = draw(dtype, shape)[1]
    y = lfilter(B, a, xp.asarray(x), 1)
    exact = lfilter(B.astype("f8"), a.astype("f8"), x.astype("f8"), 1)
    assert y.dtype == x.dtype
    rounded = to_host(y).astype("f8")
    unit = 2.0**-11 if dtype == np.float16 else 2.0**-8
    np.testing.assert_allclose(rounded, exact, rtol=2 * unit, atol=1e-4)


@narrow
def test_final_states_in_the_memory_of_samples(xp: Any, dtype: Any) -> None:
    x, zi = draw(dtype, (2, 300))[1], np.zeros((1, 2, 2), "f4")
    y, zf = sosfilt([[*B, *A]], xp.asarray(x), zi=xp.asarray(zi))
    wanted, last = sosfilt([[*B, *A]], x.astype("f4"), zi=zi)
    assert zf.dtype == np.float32
    np.testing.assert_allclose(to_host(zf), last, rtol=1e-6)
    assert_rounded_once(y, wanted, dtype)
