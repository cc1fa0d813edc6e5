"""Hidden Markov models, with the names of hmmlearn, for NumPy, CuPy and Dask arrays.

log_likelihood
    Compute the log-likelihood of observations.
forward_backward
    Compute the probabilities of the states at each step, given all observations.
viterbi
    Find the most probable sequence of states.
sample
    Draw a sequence of states.
"""

from .functions import forward_backward, log_likelihood, sample, viterbi

__all__ = ["forward_backward", "log_likelihood", "sample", "viterbi"]


def __dir__() -> list[str]:
    return __all__
