"""Results of state space models."""

from __future__ import annotations

from typing import Any, NamedTuple


class KalmanFilter(NamedTuple):
    """Result of :func:`mgrec.statespace.kalman_filter`, for n states.

    Attributes
    ----------
    llf : array
        Log-likelihood of each row, in float64.
    llf_obs : array (..., steps)
        Logarithm of the density of each observation, given all earlier ones of its sequence; 0 if
        it is missing.
    filtered_state, filtered_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given the observations up to that step.
    predicted_state, predicted_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given the observations before that step.
    """

    llf: Any
    llf_obs: Any
    filtered_state: Any
    filtered_state_cov: Any
    predicted_state: Any
    predicted_state_cov: Any


class KalmanSmoother(NamedTuple):
    """Result of :func:`mgrec.statespace.kalman_smoother`, for n states.

    Attributes
    ----------
    llf : array
        Log-likelihood of each row, in float64.
    smoothed_state, smoothed_state_cov : arrays (..., steps, n) and (..., steps, n, n)
        Mean and covariance of the state at each step, given all observations.
    """

    llf: Any
    smoothed_state: Any
    smoothed_state_cov: Any


class Sample(NamedTuple):
    """Result of :func:`mgrec.statespace.sample`, for n states.

    Attributes
    ----------
    endog : array (..., steps, p)
        Observations.
    states : array (..., steps, n)
    """

    endog: Any
    states: Any
