"""Rows that are fewer than threads: their pieces have the results of one thread."""

import numpy as np
import pytest
from internals import divide_rows

import mgrec
from mgrec import hmm, maps, statespace
from mgrec.signal import ewm, lfilter

STEPS = 150
RNG = np.random.default_rng(11)
X = RNG.normal(size=STEPS)
GAPS = np.where(RNG.random(STEPS) < 0.3, np.nan, X)
MARKS = np.isin(np.arange(STEPS), [40, 41, 90])
ROWS = RNG.normal(size=(2, STEPS))
TIMES = np.cumsum(RNG.integers(1, 5, STEPS)).astype("datetime64[D]")
LATE = np.where(np.arange(STEPS) < 100, np.nan, X)
EARLY = np.where(np.arange(STEPS) < 5, X, np.nan)
MODEL = {
    "design": np.array([[1.0, 0.5]]),
    "obs_cov": np.eye(1),
    "transition": np.array([[0.9, 0.2], [0.0, 0.8]]),
    "state_cov": 0.1 * np.eye(2),
    "initial_state": np.zeros(2),
    "initial_state_cov": np.eye(2),
}
START, TRANSITIONS = np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]])
FRAMES = np.log(RNG.random((STEPS, 2)))
MATRICES, VECTORS = RNG.normal(size=(STEPS, 2, 2)), RNG.normal(size=(STEPS, 2))
A = np.stack([np.ones(STEPS), RNG.uniform(-0.5, 0.5, STEPS)], axis=-1)


def filtered(y, function=statespace.kalman_filter, **options):
    return function(y[..., None], **MODEL, axis=-1, **options)


CALLS = {
    "mean": lambda: ewm(X, span=9),
    "mean without adjust": lambda: ewm(GAPS, span=9, adjust=False),
    "sum": lambda: ewm(GAPS, span=9, statistic="sum", ignore_na=True),
    "variance": lambda: ewm(ROWS, span=9, statistic="var", min_periods=30),
    "columns": lambda: ewm(ROWS.T, span=9, axis=0, adjust=False, statistic="std"),
    "correlation": lambda: ewm(X, span=9, statistic="corr", other=GAPS, ignore_na=True),
    "times": lambda: ewm(GAPS, halflife="3D", times=TIMES),
    "nothing at first": lambda: ewm(LATE, span=9),
    "nothing at last": lambda: ewm(EARLY, span=1.01, statistic="cov", other=EARLY[::-1] * 0 + X),
    "marks": lambda: ewm(X, span=9, reset=MARKS),
    "filter": lambda: filtered(X),
    "filter with gaps and marks": lambda: filtered(GAPS, reset=MARKS),
    "filter of two rows": lambda: filtered(ROWS),
    "filter with roots": lambda: filtered(X, square_root=True),
    "smoother": lambda: filtered(GAPS, statespace.kalman_smoother),
    "smoother with roots": lambda: filtered(X, statespace.kalman_smoother, square_root=True, reset=MARKS),
    "posteriors": lambda: hmm.forward_backward(START, TRANSITIONS, FRAMES),
    "best path": lambda: hmm.viterbi(START, TRANSITIONS, FRAMES, reset=MARKS),
    "matrices": lambda: mgrec.scan(maps.matrix(2), MATRICES, VECTORS, initial=np.ones(2)),
    "backwards": lambda: mgrec.scan(maps.matrix(2), MATRICES, VECTORS, initial=np.ones(2), reverse=True),
    "varying": lambda: lfilter(np.ones((STEPS, 1)), A, X),
}


@pytest.mark.parametrize("name", CALLS)
def test_pieces_have_the_results_of_one_thread(name, monkeypatch):
    wanted = CALLS[name]()
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    solved = divide_rows(monkeypatch)
    result = CALLS[name]()
    assert solved and all(states is not None for states in solved)
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, tuple) else [(result, wanted)]
    for values, others in pairs:
        np.testing.assert_allclose(values, others, rtol=1e-9, atol=1e-12)


def test_one_thread_solves_a_row_whose_states_overflow(monkeypatch):
    """Rounding may decide where a state becomes infinite."""
    matrices = 1e3 * MATRICES

    def solve():
        return mgrec.scan(maps.matrix(2), matrices, VECTORS, initial=np.ones(2))

    wanted = solve()
    assert not np.isfinite(wanted).all()
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    solved = divide_rows(monkeypatch)
    np.testing.assert_array_equal(solve(), wanted)
    assert solved
