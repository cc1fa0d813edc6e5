"""Statistics and models of sequences that are divided among the ranks of a group."""

import numpy as np
import pytest
from thread_group import ThreadGroup, moved, part_of, run_on_ranks, solve_on_ranks

import mgrec
from mgrec import hmm, statespace
from mgrec.core.backends import CPU
from mgrec.signal import ewm

# One part is empty, the first one too, and one has a single step.
BOUNDS = (0, 0, 13, 13, 14, 40)
STEPS, RANKS = BOUNDS[-1], len(BOUNDS) - 1
MARKS = np.arange(STEPS) % 17 == 5


def check(xp, function, *operands, **options):
    """Arrays of steps are joined; other results are the same on all ranks."""
    expected = function(*operands, **options)

    def call(rank, group):
        given = {name: moved(xp, part_of(value, BOUNDS, rank)) for name, value in options.items()}
        parts = [moved(xp, part_of(x, BOUNDS, rank)) for x in operands]
        return function(*parts, group=group, **given)

    answers = solve_on_ranks(RANKS, call)
    is_tuple = isinstance(expected, tuple)
    columns = zip(*answers, strict=True) if is_tuple else [answers]
    for values, wanted in zip(columns, expected if is_tuple else (expected,), strict=True):
        if np.ndim(wanted) and wanted.shape[0] == STEPS:
            values = [np.concatenate(values)]
        for value in values:
            assert np.asarray(value).dtype == wanted.dtype
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12)


def series(seed=1):
    x = np.random.default_rng(seed).normal(size=STEPS)
    x[[0, 5, 13, 14, 20, 21]] = np.nan
    return x


TIMES = np.datetime64("2026-01-01") + np.cumsum(np.random.default_rng(2).integers(1, 5, STEPS)).astype(
    "m8[h]"
)
MEANS = {
    "mean": {"span": 5},
    "mean, recursive": {"alpha": 0.3, "adjust": False, "ignore_na": True},
    "std": {"com": 3.0, "statistic": "std", "min_periods": 3},
    "sum of segments": {"halflife": 2.0, "statistic": "sum", "reset": MARKS},
    "times": {"halflife": np.timedelta64(5, "h"), "times": TIMES},
}


@pytest.mark.parametrize("name", MEANS)
def test_statistics(xp, name):
    check(xp, ewm, series(), **MEANS[name])


@pytest.mark.parametrize("name", MEANS)
def test_statistics_by_recurrences(name, monkeypatch):
    """As on a GPU."""
    monkeypatch.setattr(type(CPU), "has_kernels", lambda self, family: family != "ewm")
    check(np, ewm, series(), **MEANS[name])


def test_correlation(xp):
    check(xp, ewm, series(), span=5, statistic="corr", other=series(seed=2))


def markov_model(is_varying):
    generator = np.random.default_rng(3)
    start = np.array([0.6, 0.4, 0.0])
    shape = (STEPS, 3, 3) if is_varying else (3, 3)
    matrix = generator.random(shape)
    matrix /= matrix.sum(-1, keepdims=True)
    return start, matrix, generator.normal(size=(STEPS, 3))


@pytest.mark.parametrize("is_varying", [False, True])
@pytest.mark.parametrize(
    "function",
    [pytest.param(hmm.log_likelihood, marks=pytest.mark.extended), hmm.forward_backward, hmm.viterbi],
)
def test_markov_models(xp, function, is_varying):
    model = markov_model(is_varying)
    check(xp, function, *model)
    check(xp, function, *model, reset=MARKS)


def kalman_model():
    generator = np.random.default_rng(4)
    endog = generator.normal(size=(STEPS, 1))
    endog[[3, 13, 30]] = np.nan
    transition = 0.9 * np.eye(2) + 0.05 * generator.normal(size=(STEPS, 2, 2))
    system = endog, np.array([[1.0, 0.5]]), np.eye(1), transition, 0.1 * np.eye(2)
    return system, {"initial_state": np.ones(2), "initial_state_cov": np.eye(2)}


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(statespace.log_likelihood, marks=pytest.mark.extended),
        pytest.param(statespace.kalman_filter, marks=pytest.mark.extended),
        statespace.kalman_smoother,
    ],
)
def test_kalman_filters(xp, function):
    system, initial = kalman_model()
    check(xp, function, *system, **initial)
    check(xp, function, *system, **initial, square_root=True)
    check(xp, function, *system, **initial, reset=MARKS)


def bytes_of(array):
    """The bytes of memory that an array keeps."""
    if hasattr(array, "get"):
        array = array.get() if array.base is None else array.base
    while array.base is not None:
        array = array.base
    return array.nbytes


MODELS = {
    "log-likelihood": (hmm.log_likelihood, markov_model(False), {}),
    "posteriors": (hmm.forward_backward, markov_model(False), {}),
    "path": (hmm.viterbi, markov_model(False), {}),
    "filter": (statespace.kalman_filter, *kalman_model()),
    "smoother": (statespace.kalman_smoother, *kalman_model()),
}


@pytest.mark.parametrize(
    ("name", "exchanges"),
    [("log-likelihood", 2), ("posteriors", 2), ("path", 3), ("filter", 2), ("smoother", 4)],
)
def test_results_are_arrays_of_their_own_and_messages_are_few(xp, name, exchanges, monkeypatch):
    """One message for the summaries of a pass, and one for sums over steps."""
    function, operands, options = MODELS[name]
    sent, all_gather_bytes = [], ThreadGroup.all_gather_bytes

    def counted(group, message):
        sent.append(group.rank)
        return all_gather_bytes(group, message)

    monkeypatch.setattr(ThreadGroup, "all_gather_bytes", counted)

    def call(rank, group):
        parts = [moved(xp, part_of(x, BOUNDS, rank)) for x in operands]
        results = function(*parts, group=group, **options)
        for array in results if isinstance(results, tuple) else ():
            assert array.flags.c_contiguous
            assert bytes_of(array) == array.nbytes

    solve_on_ranks(RANKS, call)
    assert sent.count(0) == exchanges


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("pair", [("+", "*"), ("max", "+"), ("+", "+")])
def test_weighted_scans(xp, pair, inclusive):
    generator = np.random.default_rng(5)
    options = {"operators": pair, "inclusive": inclusive, "axis": 0}
    check(xp, mgrec.weighted_scan, generator.normal(size=(STEPS, 2)), 0.5, **options)
    x, weights = generator.integers(-50, 50, (2, STEPS))
    check(xp, mgrec.weighted_scan, x, weights, **options)


def test_a_weighted_scan_without_room_for_out():
    def call(rank, group):
        return mgrec.weighted_scan(np.ones(3), 0.5, out=np.empty(3), group=group)

    for error in run_on_ranks(2, call):
        with pytest.raises(TypeError, match="out must be None with a group"):
            raise error
