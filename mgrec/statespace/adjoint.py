"""Adjoint of the log-likelihood of state space models."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.elements import part_of_numbers
from ..core.backends import backend_of
from ..solve import StepLabels, solve
from ..solve.adjoint import adjoint_function, along_steps, from_host, shifted
from ..solve.functions import apply, full_like, where
from ..solve.rules import broadcast_shapes, rule_of_rows
from .arguments import PARAMETERS, StateSpaceModel, check_model, filter_problem, leading_axes, smooth_problem
from .cuda import phases
from .functions import log_likelihood
from .recurrence import NOT_ROUNDING, ROUNDING

_FLOAT64 = np.dtype(np.float64)
_NAMES = (
    "endog",
    "design",
    "obs_cov",
    "transition",
    "state_cov",
    "initial_state",
    "initial_state_cov",
    "selection",
    "obs_intercept",
    "state_intercept",
)
_LABELS = StepLabels(("grad", *PARAMETERS), (("steps", "entries"), *[None] * (len(_NAMES) - 1)))
_OF_OBSERVATIONS = ("endog", "design", "obs_cov", "transition", "obs_intercept")
_SIGNATURE = "(p),(p,n),(p),(p,p),(n,n),(n),(n,n),(n),(n,n)->(w)"


@partial(adjoint_function, function="mgrec.statespace.log_likelihood", arrays=_NAMES, labelled=_LABELS)
def statespace_log_likelihood(
    grad: Any,
    endog: Any,
    design: Any,
    obs_cov: Any,
    transition: Any,
    state_cov: Any,
    *,
    initial_state: Any,
    initial_state_cov: Any,
    selection: Any = None,
    obs_intercept: Any = None,
    state_intercept: Any = None,
    axis: int = -1,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, ...]:
    """Return the gradients of ``mgrec.statespace.log_likelihood(endog, design, ...)``.

    r_t and N_t are those of the smoother: the gradient of the predicted state of step t + 1 is r_t,
    and that of its covariance (r_t·r_tᵀ − N_t) / 2. With the predicted covariance P_t, the
    difference v_t = y_t − Z·a_t − d of covariance F = Z·P_t·Zᵀ + H, the gain K = P_t·Zᵀ·F⁻¹, the
    smoothed state s_t, the filtered covariance Q_t, u = F⁻¹·v_t − Kᵀ·Tᵀ·r_t and
    D = F⁻¹ + Kᵀ·Tᵀ·N_t·T·K, the gradients are sums over the steps of

        endog: −u,    obs_intercept d: u,    obs_cov H: (u·uᵀ − D) / 2
        design Z: u·s_tᵀ − F⁻¹·Z·P_t + Kᵀ·Tᵀ·N_t·T·Q_t
        transition T: r_t·s_tᵀ − N_t·T·Q_t
        state_intercept: r_t,    selection·state_cov·selectionᵀ: (r_t·r_tᵀ − N_t) / 2

    times the gradient of the log-likelihood (Koopman and Shephard 1992; Durbin and Koopman 2012,
    section 7.3.3). No covariance of states or noises is inverted.

    Gradients of covariances are symmetric, and those of missing entries of `endog` are 0. There are
    no second derivatives.

    Notes
    -----
    *Cost.* That of the filter and the smoother, and array operations with some 5·n² numbers a step.

    Examples
    --------
    A level that moves at random, with noise:

    >>> import numpy as np, mgrec
    >>> one = np.ones((1, 1))
    >>> grads = mgrec.adjoint.statespace_log_likelihood(
    ...     1.0, [[1.0], [2.0], [4.0]], one, one, one, 0.5 * one,
    ...     initial_state=[0.0], initial_state_cov=10 * one,
    ... )
    >>> grads[0].round(4)
    array([[ 0.7647],
           [ 0.2353],
           [-1.1765]])
    """
    matrices = design, obs_cov, transition, state_cov, initial_state, initial_state_cov
    optional, is_univariate = (selection, obs_intercept, state_intercept), endog.ndim == 1
    arrays = endog[:, None] if is_univariate else endog, *matrices, *optional
    model = check_model(**dict(zip(_NAMES, arrays, strict=True)), axis=axis, reset=reset)
    a, P, r, N = _predicted_and_sums(model)
    weight, first = along_steps(grad, model, a)
    later_r, later_N = (shifted(values, model.axis, 1) for values in (r, N))
    if model.marks is not None:
        # Nothing is handed on from one sequence to the one before it.
        ends = shifted(cast(full_like(a[..., 0], 0) + first, np.dtype(np.uint8)), model.axis, 1)
        later_r = where(ends[..., None] != 0, full_like(later_r, 0), later_r)
        later_N = where(ends[..., None, None] != 0, full_like(later_N, 0), later_N)
    wanted = {*(of or ())}
    gradients = {"initial_state": r, "state_intercept": later_r}
    if not wanted.isdisjoint(_OF_OBSERVATIONS):
        gradients |= _of_observations(model, a, P, later_r, later_N)
    if "initial_state_cov" in wanted:
        gradients["initial_state_cov"] = 0.5 * (_outer(r) - N)
    if not wanted.isdisjoint(("state_cov", "selection")):
        of_noise = gradients["state_cov"] = 0.5 * (_outer(later_r) - later_N)
        if selection is not None:
            R, Q = (from_host(cast(x, _FLOAT64), of_noise) for x in (selection, state_cov))
            gradients["selection"] = of_noise @ R @ (Q + Q.swapaxes(-1, -2))
            gradients["state_cov"] = R.swapaxes(-1, -2) @ of_noise @ R

    def weighted(name: str) -> Any:
        """Return the gradients of all steps; those of initial states summed over first steps."""
        missing = (...,) + (None,) * (gradients[name].ndim - weight.ndim)
        of_steps = weight[missing] * gradients[name]
        if name.startswith("initial"):
            of_steps = where(first[missing], of_steps, full_like(of_steps, 0)).sum(model.axis)
        return of_steps[..., 0] if name == "endog" and is_univariate else of_steps

    return tuple(partial(weighted, name) for name in _NAMES)


def _of_observations(model: StateSpaceModel, a: Any, P: Any, r: Any, N: Any) -> dict[str, Any]:
    """Return gradients of all steps, of a weight of 1; r and N are those after each step."""
    names = "endog", "design", "obs_intercept", "obs_cov", "transition"
    operands = [cast(model.arrays[name], _FLOAT64) for name in names]
    shapes = {name: model.numbers(name) for name in ("obs_intercept", "design", "obs_cov", "transition")}
    width = sum(map(prod, shapes.values()))
    packed = apply(_gradients_of_steps, _SIGNATURE, width, *operands, a, P, r, N)
    gradients, start = {}, 0
    for name, shape in shapes.items():
        gradients[name] = part_of_numbers(packed, shape, start)
        start += prod(shape)
    return gradients | {"endog": -gradients["obs_intercept"]}


def _outer(vectors: Any) -> Any:
    return vectors[..., :, None] * vectors[..., None, :]


def _predicted_and_sums(model: StateSpaceModel) -> list[Any]:
    """Return the predicted states and their covariances, and r and N before each step."""
    if model.is_in_gpu_memory:
        return phases.predicted_and_sums(model)
    filtered, n = solve(filter_problem(model, "filter")), model.n
    sums = solve(smooth_problem(model, filtered, phase="sums"))
    return [
        part_of_numbers(numbers, shape, start)
        for numbers, start in ((filtered, 1), (sums, 0))
        for shape, start in (((n,), start), ((n, n), start + n))
    ]


def _gradients_of_steps(y: Any, Z: Any, d: Any, H: Any, T: Any, a: Any, P: Any, r: Any, N: Any) -> Any:
    """Return u, and the gradients of design, obs_cov and transition, as one vector a step."""
    with np.errstate(invalid="ignore"):
        eye = backend_of(a).from_host(np.eye(y.shape[-1]), a)
        v = y - d - _apply(Z, a)
        observed = _of_seen(y == y, Z, H, eye)
        seen = (y == y) & _has_variance(P, *observed)
        v, (Z, H) = np.where(seen, v, 0.0), _of_seen(seen, *observed, eye)
        both = seen[..., :, None] & seen[..., None, :]
        ZP = Z @ P
        inverse = np.linalg.inv(ZP @ _transposed(Z) + H)
        K = _transposed(inverse @ ZP)
        TK = T @ K
        filtered = P - K @ ZP
        before = _apply(_transposed(T), r)
        smoothed = a + _apply(K, v) + _apply(filtered, before)
        u = _apply(inverse, v) - _apply(_transposed(TK), r)
        information = inverse + _transposed(TK) @ N @ TK
        later = N @ T @ filtered
        of_design = u[..., None] * smoothed[..., None, :] - inverse @ ZP + _transposed(TK) @ later
        of_obs_cov = np.where(both, 0.5 * (_outer(u) - information), 0.0)
        of_transition = r[..., None] * smoothed[..., None, :] - later
    parts = (u[..., None], of_design, of_obs_cov, of_transition)
    widths = [prod(part.shape[u.ndim - 1 :]) for part in parts]
    vectors = [part.reshape(*u.shape[:-1], n) for part, n in zip(parts, widths, strict=True)]
    return np.concatenate(vectors, axis=-1)


def _of_seen(seen: Any, Z: Any, H: Any, eye: Any) -> tuple[Any, Any]:
    """Return design and obs_cov of entries; others observe nothing, with noise of variance 1."""
    both = seen[..., :, None] & seen[..., None, :]
    return np.where(seen[..., None], Z, 0.0), np.where(both, 0.5 * (H + _transposed(H)), eye)


def _has_variance(P: Any, Z: Any, H: Any) -> Any:
    """Return which entries have a variance, given those before them: see :mod:`.cpu.update`."""
    remainder, noise = Z @ P @ _transposed(Z) + H, np.diagonal(H, axis1=-2, axis2=-1)
    variance = np.diagonal(remainder, axis1=-2, axis2=-1)
    bound = Z.shape[-1] * _apply(Z**2, np.diagonal(P, axis1=-2, axis2=-1))
    least = np.where(noise == 0.0, ROUNDING * bound, NOT_ROUNDING * variance)
    results = []
    for k in range(Z.shape[-2]):
        pivot = remainder[..., k, k]
        results.append(~(pivot - least[..., k] <= 0.0))
        column = remainder[..., k] / np.where(results[-1], pivot, np.inf)[..., None]
        remainder = remainder - column[..., :, None] * remainder[..., k, None, :]
    return np.stack(results, axis=-1)


def _apply(matrices: Any, vectors: Any) -> Any:
    return (matrices @ vectors[..., None])[..., 0]


def _transposed(matrices: Any) -> Any:
    return matrices.swapaxes(-1, -2)


def _steps_shape(arguments: dict[str, Any]) -> tuple[Any, ...]:
    return broadcast_shapes(
        *[
            leading_axes(name, arguments[name])
            for name in _NAMES
            if not name.startswith("initial") and arguments[name] is not None
        ]
    )


RULES = [rule_of_rows(statespace_log_likelihood, log_likelihood, _steps_shape)]
