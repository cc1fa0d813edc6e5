"""Linear Gaussian state space models, with the names of statsmodels.

kalman_filter
    Compute the mean and the covariance of the state at each step, given the observations so far.
kalman_smoother
    Compute those given all observations.
log_likelihood
    Compute the log-likelihood of the observations.
sample
    Compute observations and states from random numbers.
"""

from .functions import kalman_filter, kalman_smoother, log_likelihood
from .sampling import sample

__all__ = ["kalman_filter", "kalman_smoother", "log_likelihood", "sample"]


def __dir__() -> list[str]:
    return __all__
