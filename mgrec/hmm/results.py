"""Results of hidden Markov models."""

from __future__ import annotations

from typing import Any, NamedTuple


class ForwardBackward(NamedTuple):
    """Result of :func:`mgrec.hmm.forward_backward`.

    Attributes
    ----------
    log_prob : array
        Logarithm of the probability of all observations of each row, in float64.
    posteriors : array (..., steps, states)
        Probability of each state at each step, given all observations.
    """

    log_prob: Any
    posteriors: Any


class ViterbiPath(NamedTuple):
    """Result of :func:`mgrec.hmm.viterbi`.

    Attributes
    ----------
    log_prob : array
        Logarithm of the probability of the observations and the states of each row, in float64.
    states : array (..., steps) of int32
        The most probable sequence of states.
    """

    log_prob: Any
    states: Any
