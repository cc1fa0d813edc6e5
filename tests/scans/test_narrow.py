"""Arrays of float16 and bfloat16: stored in two bytes, computed in float32."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec
from mgrec.signal import filtfilt, lfilter, sosfilt

NARROW: list[Any] = [np.dtype(np.float16)]
try:
    import ml_dtypes

    NARROW.append(np.dtype(ml_dtypes.bfloat16))
except ImportError:
    pass
B, A = np.array([0.25, 0.5, 0.25], "f2"), np.array([1.0, -0.5, 0.25], "f2")
narrow = pytest.mark.parametrize("dtype", NARROW, ids=str)


def loop(s: Any, t: Any, initial: Any = 0) -> Any:
    """Run the recurrence along the last axis in float32."""
    s, t = (np.broadcast_arrays(s, t)[k].astype(np.float32) for k in (0, 1))
    w, state = np.empty_like(t), np.float32(initial)
    for i in range(t.shape[-1]):
        state = s[..., i] * state + t[..., i]
        w[..., i] = state
    return w


def draw(dtype: Any, shape: Any) -> Any:
    random = np.random.default_rng(2)
    return random.uniform(-1, 1, shape).astype(dtype), random.normal(size=shape).astype(dtype)


def assert_rounded_once(w: Any, exact: Any, dtype: Any) -> None:
    """Results are those of float32, rounded; sums in another order may round to a neighbour."""
    assert w.dtype == dtype
    wanted = exact.astype(dtype)
    below, above = (np.nextafter(exact, np.float32(way)) for way in (-np.inf, np.inf))
    spread = np.abs(exact) * 2e-6 + 1e-30
    is_near = (w >= (below - spread).astype(dtype)) & (w <= (above + spread).astype(dtype))
    assert is_near.all()
    assert np.mean(w != wanted) < 0.01


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
