"""Adjoint of the log-likelihood of hidden Markov models."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import chunked_like, is_lazy
from ..core.arrays.chunk import reversed_copy
from ..core.arrays.elements import part_of_numbers
from ..core.backends import common_backend
from ..distributed.groups.ends import backward_in_time
from ..solve import StepLabels, solve
from ..solve.adjoint import adjoint_function, along, along_steps, shifted, sum_of_outer_products, with_axis
from ..solve.functions import full_like, where
from ..solve.rules import broadcast_shapes, rule_of_rows
from .arguments import MarkovModel, backward_problem, check_model, forward_problem
from .cuda import phases
from .functions import log_likelihood
from .recurrence import TINY

_FLOAT64 = np.dtype(np.float64)
_LABELS = StepLabels(("grad", "startprob", "transmat"), (None, None, ("steps", "entries")))
_LARGEST = 1e300
"""Largest ρ of a state that is not possible, so that its product with 0 is 0."""


@partial(
    adjoint_function,
    function="mgrec.hmm.log_likelihood",
    arrays=("startprob", "transmat", "log_frameprob"),
    labelled=_LABELS,
)
def hmm_log_likelihood(
    grad: Any,
    startprob: Any,
    transmat: Any,
    log_frameprob: Any,
    *,
    axis: int = -1,
    reset: Any = None,
    of: Collection[str] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of ``mgrec.hmm.log_likelihood(startprob, transmat, log_frameprob)``.

    Let α_t be the probabilities of the states given the observations up to step t, q_t those given
    all observations, and π_t = α_{t-1}·transmat, or startprob at the first step. With
    ρ_t = q_t / π_t the gradients are

        log_frameprob at t: q_t,    transmat: Σ_t α_{t-1}·ρ_tᵀ,    startprob: ρ_1

    times the gradient of the log-likelihood. They are partial derivatives: nothing keeps the sums
    of probabilities at 1. They are nan in a sequence without a possible path. There are no second
    derivatives.

    Notes
    -----
    *Cost.* That of :func:`mgrec.hmm.forward_backward`; and for gradients of probabilities one more
    pass, which finds ρ of states with π = 0.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> transmat = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> heads = np.tile(np.log([0.5, 0.8]), (4, 1))
    >>> grads = mgrec.adjoint.hmm_log_likelihood(1.0, [0.5, 0.5], transmat, heads)
    >>> grads[1].round(3)
    array([[0.504, 1.179],
           [1.179, 2.568]])
    """
    model = check_model(startprob, transmat, log_frameprob, axis=axis, reset=reset)
    posteriors, filtered = _posteriors(model)
    weight, first = (rows[..., None] for rows in along_steps(grad, model, posteriors))

    wanted, of_frames = {*(of or ())}, None
    if "log_frameprob" in wanted:
        of_frames = weight * posteriors
    if wanted <= {"log_frameprob"}:
        return None, None, of_frames
    zero = full_like(filtered, 0)
    before = where(first, zero, shifted(filtered, model.axis, -1))
    start = zero + with_axis(model.startprob, filtered, model.axis)
    predicted = where(first, start, _product(before, model.transmat))
    ratios = weight * _ratios(posteriors, _weights_of_later(model), predicted, model.axis)

    def of_startprob() -> Any:
        return where(first, ratios, zero).sum(model.axis)

    def of_transmat() -> Any:
        return sum_of_outer_products(before, where(first, zero, ratios), model.transmat)

    return of_startprob, of_transmat, of_frames


def _posteriors(model: MarkovModel) -> tuple[Any, Any]:
    """Return the probabilities of the states given all observations, and given those so far."""
    if model.is_in_gpu_memory:
        return phases.forward_backward(model).posteriors, phases.weights(model)
    filtered = solve(forward_problem(model))
    return solve(backward_problem(model, filtered)), _decoded(model, filtered)


def _weights_of_later(model: MarkovModel) -> Any:
    """Return the weights of the states by the observations from each step on, with a sum of 1."""
    model = _backward(model)
    if model.is_in_gpu_memory:
        return reversed_copy(phases.weights(model), model.axis)
    with backward_in_time():
        filtered = solve(forward_problem(model))
    return reversed_copy(_decoded(model, filtered), model.axis)


def _decoded(model: MarkovModel, filtered: Any) -> Any:
    """Return weights from the result of the pass "forward", of which the tiny are logarithms."""
    weights = part_of_numbers(filtered, (model.count,))
    zero = full_like(weights, 0)
    weights = where(weights < 0, np.exp(where(weights < 0, weights, zero)), weights)
    is_scaled = common_backend([filtered]).is_host
    return weights if is_scaled else weights / weights.sum(-1, keepdims=True)


def _backward(model: MarkovModel) -> MarkovModel:
    """Return the model whose weights are those of the observations from each step on.

    Its steps are in reverse, its matrices transposed, and each state is as probable at first.
    """

    def in_reverse(array: Any, numbers: int, step: int) -> Any:
        leading = array[(..., *[0] * numbers)]
        axis = along(leading, len(model.shape), model.axis)
        if axis is None:
            return array
        return reversed_copy(shifted(array, axis, 1) if step else array, axis)

    return replace(
        model,
        startprob=full_like(model.startprob, 1),
        transmat=in_reverse(model.transmat, 2, 1).swapaxes(-1, -2),
        log_frameprob=in_reverse(model.log_frameprob, 1, 0),
        marks=None if model.marks is None else in_reverse(model.marks, 0, 1),
    )


def _product(weights: Any, matrices: Any) -> Any:
    if matrices.ndim == 2:
        return weights @ matrices
    return (weights[..., None] * matrices).sum(-2)


def _ratios(posteriors: Any, later: Any, predicted: Any, axis: int) -> Any:
    """Return the posteriors divided by the probabilities before the observation."""
    if not is_lazy(posteriors):
        return _ratios_of_chunk(posteriors, later, predicted)
    later, predicted = chunked_like(later, posteriors), chunked_like(predicted, posteriors)
    return posteriors.map_blocks(_ratios_of_chunk, later, predicted, dtype=_FLOAT64)


def _ratios_of_chunk(posteriors: Any, later: Any, predicted: Any) -> Any:
    """Return ρ; of states that are not possible from the weights of later observations."""
    with np.errstate(all="ignore"):
        scaled = np.minimum(later / (predicted * later).sum(-1, keepdims=True), _LARGEST)
        return np.where(predicted > TINY, posteriors / predicted, np.where(later > 0, scaled, 0.0))


def _steps_shape(arguments: dict[str, Any]) -> tuple[Any, ...]:
    return broadcast_shapes(arguments["transmat"].shape[:-2], arguments["log_frameprob"].shape[:-1])


RULES = [rule_of_rows(hmm_log_likelihood, log_likelihood, _steps_shape)]
