"""Arrays and chunks without rows or steps: every function along an axis, and its adjoint."""

import dask.array as da
import numpy as np
import pytest
from cases import as_tuple
from chunkings import CHUNKS_SOME_EMPTY, EMPTY_CHUNKS, with_extended
from graphs import check_graph

import mgrec
from mgrec import adjoint, hmm, ndimage, signal, statespace

ROWS, STEPS = 3, 8
SOS, B, A = [[0.5, 0.1, 0.0, 1.0, -0.5, 0.1]], [0.5, 0.1], [1.0, -0.5]
# Their responses end after two samples, so that chunks of integers read their neighbours.
SHORT_SOS, SHORT_A = [[0.5, 0.1, 0.0, 1.0, 2.0**-40, 0.0]], [1.0, 2.0**-40]
EYE, HALF = np.eye(2), np.full((2, 2), 0.5)
MODEL = np.ones((1, 2)), np.ones((1, 1)), 0.5 * EYE, EYE
START = {"initial_state": np.zeros(2), "initial_state_cov": EYE}
MATRIX = mgrec.maps.matrix(2)


def numbers(x, count=2):
    """Vectors of equal numbers."""
    return x[..., None] * np.ones(count)


def in_time(x):
    """Coefficients of a filter of first order at each step."""
    return np.ones((x.shape[1], 2)) * [1.0, -0.5]


def bands(x):
    """The diagonals of a matrix of as many unknowns as steps."""
    return np.outer([1.0, 4.0, 1.0], np.ones(x.shape[1]))


FUNCTIONS = {
    "lfilter": lambda x: signal.lfilter(B, A, x, zi=np.ones((1, 1))),
    "lfilter of integers": lambda x: signal.lfilter(B, SHORT_A, x.astype("i4")),
    "lfilter, reset": lambda x: signal.lfilter(B, A, x, reset=x > 2),
    "lfilter in time": lambda x: signal.lfilter(B, in_time(x), x),
    "lfilter in time, complex": lambda x: signal.lfilter(
        B, in_time(x), x.astype("c16"), zi=np.ones((len(x), 1))
    ),
    "sosfilt": lambda x: signal.sosfilt(SOS, x, zi=np.ones((1, len(x), 2))),
    "sosfilt of integers": lambda x: signal.sosfilt(SHORT_SOS, x.astype("i4")),
    "filtfilt": lambda x: signal.filtfilt(B, A, x, padlen=2),
    "sosfiltfilt": lambda x: signal.sosfiltfilt(SHORT_SOS, x, padlen=2, assume_finite=True),
    "decimate": lambda x: signal.decimate(x, 2, 1, zero_phase=False),
    "decimate of integers": lambda x: signal.decimate(x.astype("i4"), 2, 1, zero_phase=False),
    "decimate, fir": lambda x: signal.decimate(x.T, 2, 2, ftype="fir", axis=0).T,
    "ewm": lambda x: signal.ewm(x, alpha=0.5),
    "ewm of two series": lambda x: signal.ewm(x, alpha=0.5, statistic="corr", other=x + 1),
    "solve_tridiagonal": lambda x: mgrec.solve_tridiagonal(1.0, 4.0, 1.0, x),
    "solve_tridiagonal, periodic": lambda x: mgrec.solve_tridiagonal(1, 4.0, 1, x, periodic=True),
    "solve_banded": lambda x: mgrec.solve_banded((1, 1), bands(x), x),
    "solve_banded, periodic": lambda x: mgrec.solve_banded((1, 1), bands(x), x, periodic=True),
    "solve_block_tridiagonal": lambda x: mgrec.solve_block_tridiagonal(HALF, 4 * EYE, HALF, numbers(x)),
    "weighted_scan": lambda x: mgrec.weighted_scan(x, 0.5),
    "scan of matrices": lambda x: mgrec.scan(MATRIX, HALF, numbers(x), initial=np.ones(2), reset=x > 2),
    "hmm.log_likelihood": lambda x: hmm.log_likelihood(HALF[0], HALF, -numbers(x)),
    "hmm.forward_backward": lambda x: hmm.forward_backward(HALF[0], HALF, -numbers(x)),
    "hmm.viterbi": lambda x: hmm.viterbi(HALF[0], HALF, -numbers(x)),
    "hmm.sample": lambda x: hmm.sample(HALF[0], HALF, x / 100),
    "kalman_filter": lambda x: statespace.kalman_filter(numbers(x, 1), *MODEL, **START),
    "kalman_smoother": lambda x: statespace.kalman_smoother(numbers(x, 1), *MODEL, **START),
    "statespace.log_likelihood": lambda x: statespace.log_likelihood(numbers(x, 1), *MODEL, **START),
    "gaussian_filter1d": lambda x: ndimage.gaussian_filter1d(x, 1.0),
    "uniform_filter1d": lambda x: ndimage.uniform_filter1d(x, 3),
    "spline_filter1d": ndimage.spline_filter1d,
    "summed_area_table": mgrec.summed_area_table,
    "adjoint.linear_recurrence": lambda x: adjoint.linear_recurrence(x, x, 0.5, x),
    "adjoint.rational_recurrence": lambda x: adjoint.rational_recurrence(x, x, x, 1.0, 0.0, 1.0, initial=1.0),
    "adjoint.scan": lambda x: adjoint.scan(x, x, mgrec.maps.max_plus, x, x, initial=0.0),
    "adjoint.scan of matrices": lambda x: adjoint.scan(
        numbers(x), numbers(x), MATRIX, HALF, numbers(x), initial=np.zeros(2)
    ),
    "adjoint.lfilter": lambda x: adjoint.lfilter(x, x, B, A, x, zi=np.ones((len(x), 1))),
    "adjoint.sosfilt": lambda x: adjoint.sosfilt(x, x, SOS, x),
    "adjoint.sosfilt, zi": lambda x: adjoint.sosfilt(
        x, x, SOS, x, zi=np.ones((1, len(x), 2)), grad_zf=np.ones((1, len(x), 2))
    ),
    "adjoint.ewm": lambda x: adjoint.ewm(x, x, alpha=0.5),
    "adjoint.solve_tridiagonal": lambda x: adjoint.solve_tridiagonal(x, x, 1.0, 4.0, 1.0, x),
    "adjoint.solve_banded": lambda x: adjoint.solve_banded(x, x, (0, 1), bands(x)[:2], x),
    "adjoint.solve_block_tridiagonal": lambda x: adjoint.solve_block_tridiagonal(
        numbers(x), numbers(x), HALF, 4 * EYE, x[..., None, None] * EYE, numbers(x)
    ),
    "adjoint.hmm_log_likelihood": lambda x: adjoint.hmm_log_likelihood(
        np.ones(len(x)), HALF[0], HALF, -numbers(x)
    ),
    "adjoint.statespace_log_likelihood": lambda x: adjoint.statespace_log_likelihood(
        np.ones(len(x)), numbers(x, 1), *MODEL, **START
    ),
}
"""By name: a function of an array of rows and steps."""
NEED_STEPS = ("filtfilt", "sosfiltfilt")
# The others compile kernels that tests of their families compile too.
SHORT = {
    "lfilter of integers",
    "lfilter in time, complex",
    "decimate, fir",
    "sosfiltfilt",
    "kalman_filter",
    "adjoint.lfilter",
}
COMPILED = with_extended(FUNCTIONS, *(FUNCTIONS.keys() - SHORT))


def computed(results):
    results = [result for result in as_tuple(results) if result is not None]
    for result in results:
        if isinstance(result, da.Array):
            check_graph(result)
    return da.compute(*results, scheduler="sync")


def check_chunks(name, chunks):
    rows, steps = map(sum, chunks)
    if name in NEED_STEPS and not steps:
        return
    x = np.arange(float(rows * steps)).reshape(rows, steps) / 8
    results = computed(FUNCTIONS[name](da.from_array(x, chunks=chunks)))
    for result, wanted in zip(results, computed(FUNCTIONS[name](x)), strict=True):
        assert np.shape(result) == np.shape(wanted), chunks
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9, err_msg=str(chunks))


@pytest.mark.quick
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_chunks_without_rows_and_two_without_steps(name):
    check_chunks(name, ((0,), (5, 3)))
    check_chunks(name, ((3,), (0, 0)))


@pytest.mark.parametrize("name", COMPILED)
def test_chunks_of_which_some_or_all_are_empty(name):
    for chunks in CHUNKS_SOME_EMPTY + EMPTY_CHUNKS:
        check_chunks(name, chunks)


@pytest.mark.parametrize("name", COMPILED)
def test_arrays_without_rows_or_steps_have_the_axes_of_others(name):
    function = FUNCTIONS[name]
    full = computed(function(np.ones((ROWS, STEPS))))
    for rows, steps in [(0, STEPS), (ROWS, 0), (0, 0)]:
        if name in NEED_STEPS and not steps:
            with pytest.raises(ValueError, match="length of the input vector"):
                function(np.ones((rows, steps)))
            continue
        sizes = {ROWS: rows, STEPS: steps, STEPS // 2: steps // 2}
        for result, wanted in zip(computed(function(np.ones((rows, steps)))), full, strict=True):
            assert np.shape(result) == tuple([sizes.get(n, n) for n in np.shape(wanted)])
            assert np.asarray(result).dtype == np.asarray(wanted).dtype


@pytest.mark.quick
def test_gradients_of_broadcast_operands_without_steps():
    x, s = np.ones((ROWS, 0)), np.ones((ROWS, 1))
    for array in (x, da.from_array(x)):
        (grad,) = computed(adjoint.linear_recurrence(array, array, s, array, of="s"))
        np.testing.assert_array_equal(grad, np.zeros((ROWS, 1)))
