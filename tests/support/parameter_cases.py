"""Functions with parameters that may be in host memory beside data on a GPU.

Each case has a function, its data, and its parameters: coefficients, matrices, states and marks.
"""

import numpy as np

import mgrec
from mgrec import adjoint, hmm, signal, statespace

X = np.random.default_rng(0).normal(size=(3, 40))
VECTORS = np.random.default_rng(1).normal(size=(3, 40, 2))
MARKS, LABELS = np.arange(40) == 25, np.repeat(["a", "b"], [25, 15])
ROWS, STATES = np.array([1.0, -2.0, 0.5]), np.array([[1.0], [-2.0], [0.5]])
B, A = np.array([0.5, 0.1]), np.array([1.0, -0.5])
IN_TIME = np.tile([1.0, -0.5], (40, 1))
BANDS = np.outer([1.0, 4.0, 1.0], np.ones(40))
SOS = np.array([[0.5, 0.1, 0.0, 1.0, -0.5, 0.1]])
TRANSMAT = np.array([[0.9, 0.1], [0.3, 0.7]])
EYE, ONE = np.eye(2), np.ones((1, 1))
MODEL = np.ones((1, 2)), ONE, 0.5 * EYE, EYE, np.zeros(2), EYE
MATRIX = mgrec.maps.matrix(2)


def _solve(function):
    def call(y, design, obs_cov, transition, state_cov, state, cov, selection, d, c):
        return function(
            y,
            design,
            obs_cov,
            transition,
            state_cov,
            initial_state=state,
            initial_state_cov=cov,
            selection=selection,
            obs_intercept=d,
            state_intercept=c,
            reset=MARKS,
        )

    return call


OPTIONAL = EYE, np.ones(1), np.ones(2)
CASES = {
    "linear_recurrence": (
        lambda x, initial, reset: mgrec.linear_recurrence(0.5, x, initial, reset=reset),
        (X,),
        (ROWS, MARKS),
    ),
    "linear_recurrence, labels": (
        lambda x, reset: mgrec.linear_recurrence(0.5, x, reset=reset),
        (X,),
        (LABELS,),
    ),
    "scan of matrices": (
        lambda b, M, initial, reset: mgrec.scan(MATRIX, M, b, initial=initial, reset=reset),
        (VECTORS,),
        (TRANSMAT, np.ones(2), MARKS),
    ),
    "lfilter": (
        lambda x, b, a, zi, reset: signal.lfilter(b, a, x, zi=zi, reset=reset),
        (X,),
        (B, A, STATES, MARKS),
    ),
    "lfilter in time": (
        lambda x, b, a, zi, reset: signal.lfilter(b, a, x, zi=zi, reset=reset),
        (X,),
        (B, IN_TIME, STATES, MARKS),
    ),
    "sosfilt": (lambda x, sos, zi: signal.sosfilt(sos, x, zi=zi), (X,), (SOS, np.ones((1, 3, 2)))),
    "ewm": (lambda x, reset: signal.ewm(x, alpha=0.5, reset=reset), (X,), (MARKS,)),
    "solve_tridiagonal": (
        lambda b, dl, d, du: mgrec.solve_tridiagonal(dl, d, du, b),
        (X,),
        (np.ones(40), np.full(40, 4.0), np.ones(40)),
    ),
    "solve_banded": (lambda b, ab: mgrec.solve_banded((1, 1), ab, b), (X,), (BANDS,)),
    "hmm.log_likelihood": (
        lambda frames, start, transmat, reset: hmm.log_likelihood(start, transmat, frames, reset=reset),
        (-abs(VECTORS),),
        (np.full(2, 0.5), TRANSMAT, MARKS),
    ),
    "hmm.viterbi": (
        lambda frames, start, transmat: hmm.viterbi(start, transmat, frames),
        (-abs(VECTORS),),
        (np.full(2, 0.5), TRANSMAT),
    ),
    "kalman_filter": (_solve(statespace.kalman_filter), (X[..., None],), (*MODEL, *OPTIONAL)),
    "kalman_smoother": (_solve(statespace.kalman_smoother), (X[..., None],), (*MODEL, *OPTIONAL)),
    "statespace.log_likelihood": (_solve(statespace.log_likelihood), (X[..., None],), (*MODEL, *OPTIONAL)),
    "statespace.sample": (
        lambda noises, moves, design, transition, state: statespace.sample(
            design, transition, noises, moves, initial_state=state
        ),
        (X[..., None], VECTORS),
        (MODEL[0], MODEL[2], np.ones(2)),
    ),
    "adjoint.linear_recurrence": (
        lambda x, initial, reset: adjoint.linear_recurrence(x, x, 0.5, x, initial, reset=reset),
        (X,),
        (ROWS, MARKS),
    ),
    "adjoint.scan": (
        lambda x, initial: adjoint.scan(x, x, mgrec.maps.max_plus, x, x, initial=initial),
        (X,),
        (ROWS,),
    ),
    "adjoint.scan of matrices": (
        lambda b, M, initial, reset: adjoint.scan(b, b, MATRIX, M, b, initial=initial, reset=reset),
        (VECTORS,),
        (TRANSMAT, np.ones(2), MARKS),
    ),
    "adjoint.lfilter": (
        lambda x, b, a, zi, grad_zf: adjoint.lfilter(x, x, b, a, x, -1, zi, grad_zf=grad_zf),
        (X,),
        (B, A, STATES, STATES),
    ),
    "adjoint.sosfilt": (
        lambda x, sos, zi: adjoint.sosfilt(x, x, sos, x, zi=zi),
        (X,),
        (SOS, np.ones((1, 3, 2))),
    ),
    "adjoint.ewm": (lambda x, reset: adjoint.ewm(x, x, alpha=0.5, reset=reset), (X,), (MARKS,)),
    "adjoint.solve_tridiagonal": (
        lambda b, dl, d, du: adjoint.solve_tridiagonal(b, b, dl, d, du, b),
        (X,),
        (np.ones(40), np.full(40, 4.0), np.ones(40)),
    ),
    "adjoint.solve_banded": (lambda b, ab: adjoint.solve_banded(b, b, (1, 1), ab, b), (X,), (BANDS,)),
    "adjoint.hmm_log_likelihood": (
        lambda frames, start, transmat, grad: adjoint.hmm_log_likelihood(grad, start, transmat, frames),
        (-abs(VECTORS),),
        (np.full(2, 0.5), TRANSMAT, np.ones(3)),
    ),
    "adjoint.statespace_log_likelihood": (
        _solve(lambda *arrays, **options: adjoint.statespace_log_likelihood(1.0, *arrays, **options)),
        (X[..., None],),
        (*MODEL, *OPTIONAL),
    ),
}
"""By name: a function of data and parameters, the data, and the parameters."""


def leaves(results):
    """Return the arrays of a result."""
    results = results if isinstance(results, tuple) else (results,)
    return [result for result in results if result is not None]
