"""Calls that are divided among threads have the results of one thread."""

from functools import partial

import numpy as np
import pytest
from cases import as_tuple
from internals import divide_among_threads, divide_sweeps, record_threads

from mgrec import hmm, maps, scan, sor, statespace
from mgrec.ndimage import gaussian_filter1d, uniform_filter1d
from mgrec.signal import ewm, lfilter

X, Y = np.random.default_rng(0).normal(size=(2, 70, 60))
MARKS = np.arange(60) % 25 == 7
CHAIN = np.full(2, 0.5), np.array([[0.9, 0.1], [0.3, 0.7]]), -np.abs(np.stack([X, Y], -1))
MODEL = np.stack([X, Y], -1), np.eye(2), np.eye(2), CHAIN[1], np.eye(2)
START = {"initial_state": np.zeros(2), "initial_state_cov": np.eye(2)}
CALLS = {
    "ewm": partial(ewm, X, span=5, reset=MARKS, min_periods=2),
    "ewm of columns": partial(ewm, np.tile(X, 3), span=5, reset=np.arange(70) == 9, axis=0),
    "ewm of two series": partial(ewm, X, span=5, statistic="corr", other=Y),
    **{
        # Small images are filtered on one thread.
        f"{function.__name__} along axis {axis}": partial(function, np.tile(X, 4), 3, axis=axis)
        for function in (gaussian_filter1d, uniform_filter1d)
        for axis in (0, 1)
    },
    "varying filter": partial(lfilter, np.ones((60, 1)), np.stack([1 + X, Y / 9], -1)[0], X),
    "matrix maps": partial(scan, maps.matrix(2), CHAIN[1], np.stack([X, Y], -1), initial=np.ones(2)),
    "forward_backward": partial(hmm.forward_backward, *CHAIN),
    "viterbi": partial(hmm.viterbi, *CHAIN),
    "samples of a chain": partial(hmm.sample, *CHAIN[:2], abs(X) % 1),
    "kalman_filter": partial(statespace.kalman_filter, *MODEL, **START),
    "kalman_smoother": partial(statespace.kalman_smoother, *MODEL, **START),
    "sweeps over several grids": partial(sor, np.stack([X, Y, X + Y]), sweeps=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_one_thread(name, monkeypatch):
    divide_among_threads(monkeypatch, 4)
    divide_sweeps(monkeypatch)
    counts, results = record_threads(monkeypatch), []
    for count in (1, 3):
        monkeypatch.setenv("MGREC_NUM_THREADS", str(count))
        results.append(as_tuple(CALLS[name]()))
    assert set(counts) == {3}
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(several, one)
