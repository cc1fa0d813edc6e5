"""Hidden Markov models by array operations, for CuPy arrays: prefixes of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.chunk import move_axis
from ..core.backends import CPU, backend_of
from ..scans.matrix.composition import Elements, prefixes
from ..scans.matrix.on_gpu import on_device, steps_first
from ..solve.functions import broadcast_to
from .arguments import Model
from .results import ForwardBackward, ViterbiPath
from .ties import TIE


def forward(model: Model) -> tuple[Any, Any]:
    """Return the log-likelihood of each row, and the weights (steps, *rows, states) of states."""
    arrays = _Arrays(model)
    shift = arrays.frames.max(-1, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    emissions = np.exp(arrays.frames - shift)
    matrices = np.where(
        arrays.is_start[..., None, None], arrays.starts[..., None, :], arrays.matrices
    )
    scales = np.zeros_like(shift[..., 0]) + shift[..., 0]

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, most = _rescaled(np.matmul(earlier[0], later[0]))
        is_start = later[2]
        return (
            np.where(is_start[..., None, None], later[0], product),
            np.where(is_start, later[1], earlier[1] + later[1] + np.log(most)),
            is_start | earlier[2],
        )

    with np.errstate(divide="ignore", invalid="ignore"):
        weights, log_scales, _ = prefixes(
            compose, (matrices * emissions[..., None, :], scales, arrays.is_start)
        )
        weights = weights[..., 0, :]
        totals = log_scales + np.log(weights.sum(-1))
    is_last = np.ones_like(arrays.is_start)
    is_last[:-1] = arrays.is_start[1:]
    return np.where(is_last, totals, 0.0).sum(0), weights


def forward_backward(model: Model) -> ForwardBackward:
    """Return the result of :func:`mgrec.hmm.forward_backward`."""
    log_prob, filtered = forward(model)
    arrays = _Arrays(model)
    shift = arrays.frames.max(-1, keepdims=True)
    emissions = np.exp(arrays.frames - np.where(np.isfinite(shift), shift, 0.0))
    matrices = arrays.matrices * emissions[..., None, :]
    matrices = np.where(arrays.is_start[..., None, None], 1.0, matrices)

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, _ = _rescaled(np.matmul(later[0], earlier[0]))
        is_start = later[1]
        return np.where(is_start[..., None, None], later[0], product), is_start | earlier[1]

    backwards = prefixes(compose, (matrices[::-1], arrays.is_start[::-1]))[0][::-1]
    later = np.ones_like(filtered)
    later[:-1] = backwards[1:].sum(-1)
    posteriors = filtered * later
    with np.errstate(invalid="ignore"):
        posteriors = posteriors / posteriors.sum(-1, keepdims=True)
    return ForwardBackward(log_prob, cast(move_axis(posteriors, 0, model.axis), model.dtype))


def viterbi(model: Model) -> ViterbiPath:
    """Return the result of :func:`mgrec.hmm.viterbi` for a model in logarithms."""
    arrays = _Arrays(model)
    is_start = arrays.is_start
    matrices = np.where(is_start[..., None, None], arrays.starts[..., None, :], arrays.matrices)

    def compose(earlier: Elements, later: Elements) -> Elements:
        product = (earlier[0][..., None] + later[0][..., None, :, :]).max(-2)
        product = product - _finite(product.max((-2, -1), keepdims=True))
        return (
            np.where(later[1][..., None, None], later[0], product),
            later[1] | earlier[1],
        )

    scores, _ = prefixes(compose, (matrices + arrays.frames[..., None, :], is_start))
    scores = scores[..., 0, :]
    scores = scores - _finite(scores.max(-1, keepdims=True))
    last = _first_of_the_best(scores, -1)
    paths = scores[:-1, ..., None] + arrays.matrices[1:]
    # From the state at a step to that at the step before; the first step leads nowhere.
    before = np.zeros_like(last, shape=scores.shape)
    before[1:] = np.where(
        is_start[1:, ..., None], last[:-1, ..., None], _first_of_the_best(paths, -2)
    )
    before[0] = last[-1][..., None]

    def follow(earlier: Elements, later: Elements) -> Elements:
        return (np.take_along_axis(later[0], earlier[0], -1),)

    # The first map leads from any state to the last one of the path.
    ordered = np.concatenate([before[:1], before[:0:-1]])
    states = prefixes(follow, (ordered,))[0][::-1, ..., 0]
    return ViterbiPath(
        _log_prob_of(arrays, states), cast(move_axis(states, 0, model.axis), np.dtype(np.int32))
    )


def sample(model: Model) -> Any:
    """Return the result of :func:`mgrec.hmm.sample`."""
    arrays = _Arrays(model, is_sample=True)
    matrices = np.where(
        arrays.is_start[..., None, None], arrays.starts[..., None, :], arrays.matrices
    )
    # The states after each step, for each state before it.
    is_passed = matrices.cumsum(-1)[..., :-1] <= arrays.frames[..., None, None]

    def follow(earlier: Elements, later: Elements) -> Elements:
        return (np.take_along_axis(later[0], earlier[0], -1),)

    states = prefixes(follow, (is_passed.sum(-1),))[0][..., 0]
    return cast(move_axis(states, 0, model.axis), np.dtype(np.int32))


def _log_prob_of(arrays: _Arrays, states: Any) -> Any:
    """Return the logarithm of the probability of paths and observations."""
    index = states[..., None]
    observed = np.take_along_axis(arrays.frames, index, -1)[..., 0]
    started = np.take_along_axis(broadcast_to(arrays.starts, arrays.frames.shape), index, -1)
    moved = np.zeros_like(observed)
    rows = np.take_along_axis(arrays.matrices[1:], states[:-1, ..., None, None], -2)[..., 0, :]
    moved[1:] = np.take_along_axis(rows, index[1:], -1)[..., 0]
    return (observed + np.where(arrays.is_start, started[..., 0], moved)).sum(0)


class _Arrays:
    """The arrays of a model with the steps first, in float64.

    Attributes
    ----------
    frames : array (steps, *rows, states), or (steps, *rows) for a sample
    matrices : array (steps, *rows, states, states)
    starts : array (1, *rows, states)
    is_start : array (steps, *rows) of bool
    """

    def __init__(self, model: Model, is_sample: bool = False) -> None:
        arrays = (model.log_frameprob, model.transmat, model.startprob)
        like = next((array for array in arrays if backend_of(array) is not CPU), arrays[0])
        shape, axis, count = model.shape, model.axis, model.count
        numbers = () if is_sample else (count,)
        self.frames = steps_first(model.log_frameprob, shape, numbers, axis, False, like)
        self.matrices = steps_first(model.transmat, shape, (count, count), axis, False, like)
        rows = self.matrices.shape[1:-2]
        self.starts = broadcast_to(on_device(model.startprob, like), (*rows, count))[None]
        self.is_start = np.zeros_like(self.frames, dtype=bool, shape=self.matrices.shape[:-2])
        if model.marks is not None:
            self.is_start |= steps_first(model.marks, shape, (), axis, False, like) != 0
        self.is_start[:1] = True


def _rescaled(matrices: Any) -> tuple[Any, Any]:
    """Return matrices divided by their largest entries, and these."""
    most = matrices.max((-2, -1))
    factor = np.where(most > 0, most, 1.0)
    return matrices / factor[..., None, None], most


def _finite(values: Any) -> Any:
    return np.where(np.isfinite(values), values, 0.0)


def _first_of_the_best(scores: Any, axis: int) -> Any:
    """Return the lowest index of a score within a tie of the highest one."""
    return (scores >= scores.max(axis, keepdims=True) - TIE).argmax(axis)
