"""Filters of complex coefficients: nan and inf stand where SciPy has them."""

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from scipy import signal
from test_filters import assert_places_are_scipys, draw

from mgrec.signal import lfilter, sosfilt

FILTERS = {
    "grows": ([1, 0.5j], [1, -1.2 + 1.6j]),
    "grows slowly": ([1, 0.5j], [1, -1.1 + 0.4j, 0.05j]),
    "decays": ([2, 1], [1, 0.5]),
    "feed-forward": ([1, 2j, -1], [1]),
}
SECTIONS = [[1, 0.5j, 0.2, 1, -0.4j, 0.1], [1, 1, 0, 1, -1.1 + 0.4j, 0.05j]]


@pytest.mark.parametrize("dtype", with_extended(["c8", "c16"], "c8"))
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("change", ["none", "nan", "inf", "large"])
def test_special_values_stand_where_scipy_has_them(name, dtype, change):
    b, a = (np.array(part, dtype) for part in FILTERS[name])
    x = draw(2000, dtype)
    if change == "large":
        x[1000] = np.finfo(dtype).max * 0.9
    elif change != "none":
        x[1000] = complex(change)
    with np.errstate(all="ignore"):
        wanted = signal.lfilter(b, a, x)
    # SciPy convolves where there is no feedback, and BLAS has nan for some parts.
    kinds = {"kinds": ()} if name == "feed-forward" else {}
    for data in (x, da.from_array(x, chunks=300)):
        y = np.asarray(lfilter(b, a, data))
        assert y.dtype == wanted.dtype
        assert_places_are_scipys(y, wanted, **kinds)


@pytest.mark.parametrize("dtype", with_extended(["c8", "c16"], "c8"))
def test_sections_overflow_where_scipys_do(dtype):
    sos, x = np.array(SECTIONS, dtype), draw((2, 6000), dtype)
    with np.errstate(all="ignore"):
        wanted = signal.sosfilt(sos, x)
    assert 0 < np.isfinite(wanted).sum() < wanted.size
    assert_places_are_scipys(sosfilt(sos, x), wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_row_that_overflows_leaves_the_others_alone(axis):
    b, a = FILTERS["decays"]
    x = draw((5, 5, 5), "c16")
    y = lfilter(b, a, x, axis)
    x[2, 2, 1] = 1.5e308
    again = lfilter(b, a, x, axis)
    with np.errstate(all="ignore"):
        assert_places_are_scipys(again, signal.lfilter(b, a, x, axis))
    others = np.ones(x.shape, bool)
    others[(slice(None), 2, 1) if axis == 0 else (2, slice(None), 1)] = False
    np.testing.assert_array_equal(again[others], y[others])


@pytest.mark.parametrize("b", [[1.0, 0.5j], [1.0, -3.0]])
def test_complex_and_unstable_filters_write_to_out(b):
    a, x = [1.0, -1.3, 0.05], draw((2, 5000), float)
    out = np.full(x.shape, np.nan, np.result_type(*b))
    with np.errstate(all="ignore"):
        assert lfilter(b, a, x, out=out) is out
    np.testing.assert_array_equal(out, lfilter(b, a, x))
