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
    totals, weights, is_exact = _forward(arrays)
    if not is_exact:
        totals, logs = _forward_in_logarithms(arrays)
        weights = np.exp(logs)
    return _of_sequences(arrays, totals), weights


def forward_backward(model: Model) -> ForwardBackward:
    """Return the result of :func:`mgrec.hmm.forward_backward`."""
    arrays = _Arrays(model)
    totals, filtered, is_exact = _forward(arrays)
    if is_exact:
        posteriors, is_exact = _posteriors(arrays, filtered)
    if not is_exact:
        totals, logs = _forward_in_logarithms(arrays)
        posteriors = _posteriors_in_logarithms(arrays, logs)
    posteriors = cast(move_axis(posteriors, 0, model.axis), model.dtype)
    return ForwardBackward(_of_sequences(arrays, totals), posteriors)


def _of_sequences(arrays: _Arrays, totals: Any) -> Any:
    """Return the sums of what the last steps of sequences have."""
    is_last = np.ones_like(arrays.is_start)
    is_last[:-1] = arrays.is_start[1:]
    return np.where(is_last, totals, 0.0).sum(0)


class _Underflow:
    """Whether a product of matrices may have lost an entry.

    The product of entries that are 0 or at least SMALL does not underflow.
    """

    SMALL = 1e-120

    def __init__(self) -> None:
        self.flag: Any = False

    def check(self, matrices: Any) -> None:
        self.flag |= ((matrices > 0) & (matrices < self.SMALL)).any()

    def check_emissions(self, emissions: Any, log_emissions: Any) -> None:
        self.flag |= ((emissions < self.SMALL) & (log_emissions > -np.inf)).any()

    @property
    def is_possible(self) -> bool:
        """Waits for a GPU."""
        return bool(self.flag)


def _emissions(arrays: _Arrays, underflow: _Underflow) -> tuple[Any, Any]:
    """Return probabilities of observations, divided by the largest of a step, and its logarithm."""
    shift = _finite(arrays.frames.max(-1, keepdims=True))
    emissions = np.exp(arrays.frames - shift)
    underflow.check_emissions(emissions, arrays.frames)
    return emissions, shift


def _forward(arrays: _Arrays) -> tuple[Any, Any, bool]:
    """Return the log-likelihood and the weights of each step, and whether nothing underflows."""
    underflow = _Underflow()
    emissions, shift = _emissions(arrays, underflow)
    matrices = np.where(
        arrays.is_start[..., None, None], arrays.starts[..., None, :], arrays.matrices
    )
    scales = np.zeros_like(shift[..., 0]) + shift[..., 0]

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, most = _rescaled(np.matmul(earlier[0], later[0]))
        is_start = later[2]
        underflow.check(product)
        return (
            np.where(is_start[..., None, None], later[0], product),
            np.where(is_start, later[1], earlier[1] + later[1] + np.log(most)),
            is_start | earlier[2],
        )

    with np.errstate(divide="ignore", invalid="ignore"):
        elements = matrices * emissions[..., None, :]
        underflow.check(elements)
        weights, log_scales, _ = prefixes(compose, (elements, scales, arrays.is_start))
        weights = weights[..., 0, :]
        totals = log_scales + np.log(weights.sum(-1))
    return totals, weights, not underflow.is_possible


def _posteriors(arrays: _Arrays, filtered: Any) -> tuple[Any, bool]:
    """Return the probabilities of the states, and whether nothing underflows."""
    underflow = _Underflow()
    emissions, _ = _emissions(arrays, underflow)
    matrices = arrays.matrices * emissions[..., None, :]
    matrices = np.where(arrays.is_start[..., None, None], 1.0, matrices)

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, _ = _rescaled(np.matmul(later[0], earlier[0]))
        is_start = later[1]
        underflow.check(product)
        return np.where(is_start[..., None, None], later[0], product), is_start | earlier[1]

    underflow.check(matrices)
    backwards = prefixes(compose, (matrices[::-1], arrays.is_start[::-1]))[0][::-1]
    later = np.ones_like(filtered)
    later[:-1] = backwards[1:].sum(-1)
    posteriors = filtered * later
    with np.errstate(invalid="ignore"):
        posteriors = posteriors / posteriors.sum(-1, keepdims=True)
    return posteriors, not underflow.is_possible


def _log_matmul(earlier: Any, later: Any) -> tuple[Any, Any]:
    """Return the logarithms of a product of matrices, less the largest one, and that."""
    paths = earlier[..., None] + later[..., None, :, :]
    most = _finite(paths.max(-2))
    product = most + np.log(np.exp(paths - most[..., None, :]).sum(-2))
    largest = _finite(product.max((-2, -1)))
    return product - largest[..., None, None], largest


def _forward_in_logarithms(arrays: _Arrays) -> tuple[Any, Any]:
    """Return the log-likelihood of each step, and the logarithms of the weights."""

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, most = _log_matmul(earlier[0], later[0])
        is_start = later[2]
        return (
            np.where(is_start[..., None, None], later[0], product),
            np.where(is_start, later[1], earlier[1] + later[1] + most),
            is_start | earlier[2],
        )

    with np.errstate(divide="ignore", invalid="ignore"):
        matrices = np.log(
            np.where(arrays.is_start[..., None, None], arrays.starts[..., None, :], arrays.matrices)
        )
        shift = _finite(arrays.frames.max(-1))
        frames = arrays.frames - shift[..., None]
        logs, scales, _ = prefixes(
            compose, (matrices + frames[..., None, :], shift, arrays.is_start)
        )
        logs = logs[..., 0, :]
        most = _finite(logs.max(-1, keepdims=True))
        totals = most[..., 0] + np.log(np.exp(logs - most).sum(-1))
        return scales + totals, logs - _finite(totals)[..., None]


def _posteriors_in_logarithms(arrays: _Arrays, filtered: Any) -> Any:
    """Return the probabilities of the states, from the logarithms of the forward weights."""

    def compose(earlier: Elements, later: Elements) -> Elements:
        product, _ = _log_matmul(later[0], earlier[0])
        is_start = later[1]
        return np.where(is_start[..., None, None], later[0], product), is_start | earlier[1]

    with np.errstate(divide="ignore", invalid="ignore"):
        frames = arrays.frames - _finite(arrays.frames.max(-1, keepdims=True))
        matrices = np.log(arrays.matrices) + frames[..., None, :]
        matrices = np.where(arrays.is_start[..., None, None], 0.0, matrices)
        backwards = prefixes(compose, (matrices[::-1], arrays.is_start[::-1]))[0][::-1]
        logs = filtered + 0.0
        most = _finite(backwards[1:].max(-1))
        logs[:-1] += most + np.log(np.exp(backwards[1:] - most[..., None]).sum(-1))
        posteriors = np.exp(logs - _finite(logs.max(-1, keepdims=True)))
        return posteriors / posteriors.sum(-1, keepdims=True)


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

    # A sum of probabilities below 1 must not lead to a state of probability 0.
    last = model.count - 1 - (matrices[..., ::-1] > 0).argmax(-1)
    states = prefixes(follow, (np.minimum(is_passed.sum(-1), last),))[0][..., 0]
    return cast(move_axis(states, 0, model.axis), np.dtype(np.int32))


def _log_prob_of(arrays: _Arrays, states: Any) -> Any:
    """Return the logarithm of the probability of paths and observations."""
    index = states[..., None]
    observed = np.take_along_axis(arrays.frames, index, -1)[..., 0]
    started = np.take_along_axis(broadcast_to(arrays.starts, arrays.frames.shape), index, -1)
    moved = np.zeros_like(observed)
    rows = np.take_along_axis(arrays.matrices[1:], states[:-1, ..., None, None], -2)[..., 0, :]
    moved[1:] = np.take_along_axis(rows, index[1:], -1)[..., 0]
    log_probs = observed + np.where(arrays.is_start, started[..., 0], moved)
    # Comparisons of scores ignore nan.
    is_valid = np.where(
        arrays.is_start, (arrays.starts < np.inf).all(-1), (arrays.matrices < np.inf).all((-2, -1))
    )
    is_valid &= (arrays.frames < np.inf).all(-1)
    return np.where(is_valid, log_probs, np.nan).sum(0)


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
