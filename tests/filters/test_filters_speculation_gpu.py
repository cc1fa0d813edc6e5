"""Filters of contractive chunks of CuPy arrays start before the states before them are known."""

import logging

import dask.array as da
import numpy as np
import pytest
from internals import begin_filters_on_gpu

from mgrec.signal import ewm, lfilter, sosfilt

pytestmark = pytest.mark.gpu

SAMPLES = 1 << 17
FILTERS = {
    "order 2": lambda x, **how: lfilter([0.2, 0.3, 0.2], [1, -0.6, 0.2], x, **how),
    "equal poles": lambda x, **how: sosfilt([[1, 0.5, 0, 1, -1.2, 0.36]] * 3, x, **how),
    "FIR": lambda x, **how: lfilter([1.0, -0.5, 0.25], [1.0], x, **how),
}


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Speculate on chunks for which it would not pay."""
    begin_filters_on_gpu(monkeypatch)


def on_gpu(x, axis=-1):
    import cupy

    chunks = [n // 2 if k == axis % x.ndim else n for k, n in enumerate(x.shape)]
    return da.from_array(x, chunks=tuple(chunks)).map_blocks(cupy.asarray)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
@pytest.mark.parametrize("axis", [0, -1])
def test_chunks_are_those_of_one_call(name, dtype, axis, caplog):
    shape = (SAMPLES, 3) if axis == 0 else (2, SAMPLES)
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        y = FILTERS[name](on_gpu(x, axis), axis=axis).compute(scheduler="sync").get()
    assert sum("does not depend" in record.message for record in caplog.records) == 2
    wanted = FILTERS[name](x, axis=axis)
    assert y.dtype == wanted.dtype
    np.testing.assert_allclose(y, wanted, rtol=1e-5 if dtype != "f8" else 1e-13, atol=1e-6)


@pytest.mark.parametrize("state", [0.0, 1e30, -3e38, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("zeros", [False, True])
def test_states_of_any_size(state, zeros):
    x = np.zeros(SAMPLES, "f4") if zeros else np.random.default_rng(0).normal(size=SAMPLES)
    x, zi = x.astype("f4"), np.array([state, 1.0], "f4")
    y, zf = FILTERS["order 2"](on_gpu(x), zi=zi)
    wanted, last = FILTERS["order 2"](x, zi=zi)
    np.testing.assert_allclose(y.compute(scheduler="sync").get(), wanted, rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(np.asarray(zf.compute().get()), last, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38])
@pytest.mark.parametrize("place", [5, SAMPLES // 2 + 5, SAMPLES - 5])
def test_special_samples(value, place):
    x = np.random.default_rng(0).normal(size=SAMPLES).astype("f4")
    x[place : place + 2] = value
    y = FILTERS["order 2"](on_gpu(x)).compute(scheduler="sync").get()
    np.testing.assert_allclose(y, FILTERS["order 2"](x), rtol=1e-5, atol=1e-6)


LONG = {
    "lfilter": lambda x: lfilter([1.0], [1.0, -0.9999], x),
    "sosfilt": lambda x: sosfilt([[1, 0, 0, 1, -1.9998, 0.99980001]] * 2, x),
    "ewm": lambda x: ewm(x, alpha=1e-4),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("is_eager", [True, False])
def test_chunks_of_long_memory_wait_for_their_states(name, is_eager, monkeypatch, caplog):
    if not is_eager:
        monkeypatch.undo()
    x = np.random.default_rng(0).normal(size=SAMPLES)
    with caplog.at_level(logging.DEBUG, "mgrec"):
        y = LONG[name](on_gpu(x)).compute(scheduler="sync").get()
    assert not any("does not depend" in record.message for record in caplog.records)
    wanted = LONG[name](x)
    # One call of the double pole differs by 2e-9 on a GPU, whatever the chunks are.
    np.testing.assert_allclose(y, wanted, rtol=5e-9, atol=5e-9 * abs(wanted).max())
