"""The public functions of state space models."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.elements import Part
from ..solve import StepLabels, function_of_model, solve_parts
from .arguments import PARAMETERS, StateSpaceModel, check_model, filter_problem, smooth_problem
from .cuda import phases
from .recurrence import KalmanFilter, KalmanSmoother

_OF_ROWS: tuple[str, ...] = ()
_MEAN, _COVARIANCE = ("steps", "state"), ("steps", "state", "other_state")
_KALMAN_FILTER = StepLabels(PARAMETERS, (_OF_ROWS, ("steps",), _MEAN, _COVARIANCE, _MEAN, _COVARIANCE))
_KALMAN_SMOOTHER = StepLabels(PARAMETERS, (_OF_ROWS, _MEAN, _COVARIANCE))
_LOG_LIKELIHOOD = StepLabels(PARAMETERS, (_OF_ROWS,))


@partial(function_of_model, check=check_model, labelled=_KALMAN_FILTER, takes_group=True)
def kalman_filter(model: StateSpaceModel) -> KalmanFilter[Any]:
    """Filter observations of a linear Gaussian state space model.

    The model, and the names of its matrices, are those of statsmodels::

        y[t] = design @ a[t] + obs_intercept + noise of covariance obs_cov
        a[t + 1] = transition @ a[t] + state_intercept + selection @ noise of covariance state_cov

    Parameters
    ----------
    endog : array_like (..., steps, p)
        Observations y; nan is missing. p = 1 needs no axis. Labels: :ref:`guide-step-labels`.
    design, obs_cov, transition, state_cov : array_like
        Matrices (p, n), (p, p), (n, n) and (r, r), with n states and r noises: those of all steps,
        or (..., steps, p, n) and so on. n and p are at most 16.
    initial_state, initial_state_cov : array_like (..., n) and (..., n, n)
        Mean and covariance of the state at the first step, before its observation. Of each
        covariance the symmetric part counts.
    selection : array_like (n, r), optional
        How the noise enters the states. The default is the identity, for r = n.
    obs_intercept, state_intercept : array_like (p,) and (n,), optional
        The default is 0.
    axis : int, optional
        Axis of the steps, without those of vectors and matrices. The default is the last.
    reset, lengths : array_like, optional
        Marks or labels of sequences from `initial_state`, or their lengths: :ref:`guide-reset`.
    memory : {"stream", "two-pass"}, optional
        See :func:`mgrec.linear_recurrence`.
    square_root : bool, optional
        Whether to compute with roots of covariances, for ill-conditioned models.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    KalmanFilter
        The tuple (llf, llf_obs, filtered_state, filtered_state_cov, predicted_state,
        predicted_state_cov), where llf is the log-likelihood. Arrays are float32 if all arguments
        are, or float64; llf is float64.

    Raises
    ------
    TypeError
        If an argument is not real, or an initial state is a Dask array.
    ValueError
        If shapes do not match, or a size is out of range.

    Notes
    -----
    *Accuracy.* All is computed in float64, float32 arrays too. In an array in memory, or a chunk
    of a Dask array, states are those of the sequential filter. A chunk's summary is exact but for
    rounding (Särkkä and García-Fernández 2021). A large `initial_state_cov` costs digits, with
    chunks and without: for a level with a slope and noise of variance 1, states are off by 7e-12
    after a variance of 1e6, by 1e-7 after 1e10, and by 1e-3 after 1e14. So does noise of
    observations that is small: of three exact states whose two observed sums differ by a part d of
    one state, and noise of variance d², states are off by 1e-6 of their deviations for d = 1e-5, by
    1e-2 for 1e-7, and by all for 1e-9. With `square_root=True` these errors are 3e-14, 2e-12 and
    3e-10, and 1e-10, 1e-8 and 1e-6. No variance is negative then, a step takes 3 to 6 times as
    long (on a GPU up to 2.3 times), and given covariances with negative eigenvalues lead to nan.

    *Exact observations.* An entry that has no variance but rounding, given all entries before it,
    counts as missing: :doc:`/guide/states` has the bounds. A negative `obs_cov` gives nan.

    *Constant matrices* lead to a steady state. Once each entry of the covariance has changed by 4
    roundings at most in 16 steps, relative to the deviations of its states, the covariance is kept
    until an observation is missing.

    *Unstable states* without noise grow in a chunk by more than its summary holds. The states after
    it are computed step by step, as after an entry without a variance, given an earlier state.

    *Forecasts.* Rows of nan after the last observation have predicted states and no likelihood.

    *Cost.* A chunk is read twice, and its summary takes some 2 to 4 times as long as its states.
    A GPU solves segments of at least 32 steps side by side, from summaries like those of chunks. If
    one loses digits, one thread computes the states before all segments of its row. A chunk of a
    Dask array of CuPy arrays is solved in the same way.

    Examples
    --------
    A level that moves at random, with noise, and one missing observation:

    >>> import numpy as np, mgrec
    >>> one = np.ones((1, 1))
    >>> filtered = mgrec.statespace.kalman_filter(
    ...     [[1.0], [2.0], [np.nan], [4.0]], one, one, one, 0.5 * one,
    ...     initial_state=[0.0], initial_state_cov=10 * one,
    ... )
    >>> filtered.filtered_state[:, 0].round(3)
    array([0.909, 1.547, 1.547, 3.051])
    >>> filtered.filtered_state_cov[:, 0, 0].round(3)
    array([0.909, 0.585, 1.085, 0.613])
    """
    if model.is_in_gpu_memory:
        return phases.kalman_filter(model)
    n, dtype = model.n, model.dtype
    predicted, filtered = _states(n, 1, dtype), _states(n, 1 + n + n * n, dtype)
    llf_obs = Part((), dtype=dtype)
    parts = _llf(model), llf_obs, *filtered, *predicted
    return KalmanFilter(*solve_parts(filter_problem(model, "filter"), *parts))


@partial(function_of_model, check=check_model, labelled=_KALMAN_SMOOTHER, takes_group=True)
def kalman_smoother(model: StateSpaceModel) -> KalmanSmoother[Any]:
    """Smooth observations of a linear Gaussian state space model.

    Parameters
    ----------
    endog, design, obs_cov, transition, state_cov, initial_state, initial_state_cov, selection, \
obs_intercept, state_intercept, axis, reset, lengths, memory, square_root
        See :func:`mgrec.statespace.kalman_filter`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    KalmanSmoother
        The tuple (llf, smoothed_state, smoothed_state_cov): the log-likelihood of each row, and the
        mean and the covariance of the state at each step, given all observations.

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.statespace.kalman_filter`.

    Notes
    -----
    The recursion of Durbin and Koopman (2012, section 4.4) runs backwards over the results of the
    filter, and inverts no covariance of states. Like it, and as in statsmodels, the smoothed
    covariance is a difference: it loses digits where the predicted covariance is much larger.
    Variances may even be negative at the first steps after a diffuse state: with 3 states in a
    chain, noise of variance 0.01 and an `initial_state_cov` of 1e7, they are off by 0.05. With
    `square_root=True` they are within 1e-9 and not negative.

    Examples
    --------
    A level that moves at random, with noise, and one missing observation:

    >>> import numpy as np, mgrec
    >>> one = np.ones((1, 1))
    >>> smoothed = mgrec.statespace.kalman_smoother(
    ...     [[1.0], [2.0], [np.nan], [4.0]], one, one, one, 0.5 * one,
    ...     initial_state=[0.0], initial_state_cov=10 * one,
    ... )
    >>> smoothed.smoothed_state[:, 0].round(3)
    array([1.679, 2.102, 2.577, 3.051])
    """
    if model.is_in_gpu_memory:
        return phases.kalman_smoother(model)
    n, parts = model.n, [Part()]
    if model.is_part_on_gpu:
        parts = [Part((n,), 1), Part((n * n,), 1 + n)]
    predict = filter_problem(model, "predict")
    llf, *filtered = solve_parts(predict, _llf(model), *parts, is_last=False)
    return KalmanSmoother(llf, *solve_parts(smooth_problem(model, *filtered), *_states(n)))


@partial(function_of_model, check=check_model, labelled=_LOG_LIKELIHOOD, takes_group=True)
def log_likelihood(model: StateSpaceModel) -> Any:
    """Return the log-likelihood of observations under a linear Gaussian state space model.

    Parameters
    ----------
    endog, design, obs_cov, transition, state_cov, initial_state, initial_state_cov, selection, \
obs_intercept, state_intercept, axis, reset, lengths, memory, square_root
        See :func:`mgrec.statespace.kalman_filter`.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the steps. See :ref:`guide-ranks`.

    Returns
    -------
    float64, array or dask.array.Array
        Log-likelihood of each row. The states are not stored. With `square_root=True` a step of two
        states takes up to 21 times as long, since no steady state is kept.

    Raises
    ------
    TypeError, ValueError
        As for :func:`mgrec.statespace.kalman_filter`.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> one = np.ones((1, 1))
    >>> llf = mgrec.statespace.log_likelihood(
    ...     [[1.0], [2.0], [np.nan], [4.0]], one, one, one, 0.5 * one,
    ...     initial_state=[0.0], initial_state_cov=10 * one,
    ... )
    >>> round(float(llf), 4)
    -6.3264

    A start of which nothing is known:

    >>> llf = mgrec.statespace.log_likelihood(
    ...     [[1.0], [2.0], [np.nan], [4.0]], one, one, one, 0.5 * one,
    ...     initial_state=[0.0], initial_state_cov=1e14 * one, square_root=True,
    ... )
    >>> round(float(llf), 4)
    -21.1185
    """
    if model.is_in_gpu_memory:
        return phases.log_likelihood(model)
    (llf,) = solve_parts(filter_problem(model, "llf"), _llf(model))
    return llf


def _llf(model: StateSpaceModel) -> Part:
    """Return the part of the filter's numbers whose sum is the log-likelihood."""
    return Part((), sum_axis=model.axis)


def _states(n: int, start: int = 0, dtype: np.dtype[Any] | None = None) -> tuple[Part, Part]:
    """Return means and covariances that begin at a place among the numbers of a step."""
    return Part((n,), start, dtype), Part((n, n), start + n, dtype)
