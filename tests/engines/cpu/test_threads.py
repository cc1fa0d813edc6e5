"""Calls that are divided among threads have the results of one thread."""

from functools import partial

import numpy as np
import pytest
from internals import divide_among_threads, divide_sweeps, record_threads

from mgrec import sor
from mgrec.ndimage import gaussian_filter1d, uniform_filter1d
from mgrec.signal import ewm, lfilter

X, Y = np.random.default_rng(0).normal(size=(2, 70, 60))
MARKS = np.arange(60) % 25 == 7
CALLS = {
    "ewm": partial(ewm, X, span=5, reset=MARKS, min_periods=2),
    "ewm of columns": partial(ewm, np.tile(X, 3), span=5, reset=np.arange(70) == 9, axis=0),
    "ewm of two series": partial(ewm, X, span=5, statistic="corr", other=Y),
    **{
        f"{function.__name__} along axis {axis}": partial(function, X, 3, axis=axis)
        for function in (gaussian_filter1d, uniform_filter1d)
        for axis in (0, 1)
    },
    "varying filter": partial(lfilter, np.ones((60, 1)), np.stack([1 + X, Y / 9], -1)[0], X),
    "sweeps over several grids": partial(sor, np.stack([X, Y, X + Y]), sweeps=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_one_thread(name, monkeypatch):
    divide_among_threads(monkeypatch, 4)
    divide_sweeps(monkeypatch)
    counts, results = record_threads(monkeypatch), []
    for count in (1, 3):
        monkeypatch.setenv("MGREC_NUM_THREADS", str(count))
        results.append(CALLS[name]())
    assert set(counts) == {3}
    np.testing.assert_array_equal(*results)
