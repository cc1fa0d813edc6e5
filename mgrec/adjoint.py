"""Adjoints of recurrences: gradients of a function's arguments from the gradient of its result.

Each function takes the gradient of the result, the result, and the arguments of the public function
of the same name. It returns a tuple with the gradient of each array among these arguments.

linear_recurrence, rational_recurrence, scan, solve_banded, solve_block_tridiagonal, solve_tridiagonal
    Adjoints of the functions of :mod:`mgrec`.
ewm, lfilter, sosfilt
    Adjoints of the functions of :mod:`mgrec.signal`.
hmm_log_likelihood
    Adjoint of :func:`mgrec.hmm.log_likelihood`.
statespace_log_likelihood
    Adjoint of :func:`mgrec.statespace.log_likelihood`.
"""

from .banded.adjoint import solve_banded, solve_block_tridiagonal
from .ewm.adjoint import ewm
from .filters.adjoint import lfilter, sosfilt
from .hmm.adjoint import hmm_log_likelihood
from .scans.adjoint import linear_recurrence
from .scans.map_adjoint import rational_recurrence, scan
from .statespace.adjoint import statespace_log_likelihood
from .tridiagonal.adjoint import solve_tridiagonal

__all__ = [
    "ewm",
    "hmm_log_likelihood",
    "lfilter",
    "linear_recurrence",
    "rational_recurrence",
    "scan",
    "solve_banded",
    "solve_block_tridiagonal",
    "solve_tridiagonal",
    "sosfilt",
    "statespace_log_likelihood",
]


def __dir__() -> list[str]:
    return __all__
