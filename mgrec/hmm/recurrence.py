"""The passes over the steps of a hidden Markov model, and the summaries of chunks.

===========  =========  ==============================================  ========================
pass         direction  operands                                        state
===========  =========  ==============================================  ========================
"forward"    forward    log_frameprob, transmat, startprob, marks       weights of the states
"backward"   backward   forward result, log_frameprob, transmat, marks  weights of the states
"score"      forward    log_frameprob, log_transmat, log_startprob,     scores of the best paths
                        marks
"follow"     backward   pointers, log_frameprob, log_transmat,          one state
                        log_startprob
"draw"       forward    uniform, transmat, startprob, marks             one state
===========  =========  ==============================================  ========================

:class:`PosteriorRecurrence` has both passes "forward" and "backward" over a chunk.

Weights are probabilities, and their logarithms below LOG_TINY are negative: one array holds both.
Zero is the weight of a state that cannot be reached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from ..core.arrays.elements import Part
from ..core.contract.kernels import Backend, Kernels
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.scan import ElementChain

A = TypeVar("A")
"""Type of the arrays of results."""
TINY = 1e-290
"""A smaller weight is replaced by its logarithm."""
LOG_TINY = math.log(TINY)
LOW = 1e-250
"""Sums of at least this size are not changed by weights below TINY."""
HIDDEN = 45.0
"""128 terms whose logarithms are smaller by more do not change a sum in float64."""
BEFORE_FIRST = -1.0
"""First weight of a column before the first step of a sequence; no weight is this logarithm."""
TIE = 1e-10
"""Scores (logarithms) that differ by less are ties. Chunks change the rounding of scores, and
would otherwise break ties in another way than the loop over the whole sequence."""


FIRST_STATES = {"forward": BEFORE_FIRST, "score": np.inf, "follow": -1.0, "draw": -1.0}
"""States before the first step of a sequence, for each entry."""


@dataclass(frozen=True)
class HmmSummary:
    """The last states of a chunk for each state before it.

    `columns`, array (outer, inner, columns, numbers): column i is the result of state i. The last
      column of all passes but "backward" is that of a sequence that starts with the chunk. Weights
      that are tiny are logarithms.
    `log_scales`, array (outer, inner, columns): logarithms of the factors of the columns of
      "forward" and "backward". Those of rows in which a sequence starts have no effect.
    `is_reset`, array (outer, inner) of bool: whether a sequence starts in the chunk, so that all
      columns are the same.
    `backward`: the states before the chunk for each state after it, if both are needed.
    """

    columns: np.ndarray
    log_scales: np.ndarray
    is_reset: np.ndarray
    backward: HmmSummary | None = None


@dataclass(frozen=True, kw_only=True)
class HmmRecurrence(ElementChain):
    """One pass over the steps of a hidden Markov model with `count` states.

    `is_split`: whether a chunk's results are arrays by the first of their numbers. That of the
      log-likelihood has one step. Both passes have such results, "follow" on a GPU, and there
      "forward" without weights.
    """

    family: ClassVar[str] = "hmm"
    methods: ClassVar[tuple[str, ...]] = ("auto",)
    phase: str
    count: int
    is_split: bool = False

    def in_parts(self, parts: Sequence[Part]) -> HmmRecurrence:
        """Return the recurrence for callers that need parts of its result alone."""
        has_sums_alone = all(part.sum_axis is not None for part in parts)
        is_split = self.phase == "follow" or (self.phase == "forward" and has_sums_alone)
        return replace(self, is_split=is_split)

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """Return the results, and no carry-out."""
        if not self.is_split or backend.is_host:
            return super().determine(backend, inputs, shape, carry_in, out)
        chunk = self.lay_out(inputs, shape)
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        arrays = {}
        if self.phase == "follow":
            arrays[0] = backend.empty((*shape[:-1], 1), np.dtype(np.int32))
        log_prob = backend.kernels(self.family).determine(self, chunk, carry_in, arrays.get(0))
        return ({**arrays, self.numbers - 1: self.one_step(log_prob, shape)},), None

    def one_step(self, log_prob: Any, shape: Shape) -> Any:
        """Return the log-likelihoods of rows as an array of one step with one number."""
        return log_prob.reshape(*shape[: self.axis], 1, *shape[self.axis + 1 : -1], 1)

    def first_state(self) -> Any:
        """Return the state before the first step of a sequence."""
        first = FIRST_STATES.get(self.phase, 1.0 / self.count)
        return np.full(self.state_numbers, first)


@dataclass(frozen=True, kw_only=True)
class PosteriorRecurrence(HmmRecurrence):
    """Both passes over the steps, which give the probabilities of the states.

    The operands are those of "forward". The state of a chunk has the weights before its first step,
    and those after its last. A result has the probabilities of a step and a number: the sum of
    these numbers is the log-likelihood.
    """

    is_two_sided: ClassVar[bool] = True

    def in_parts(self, parts: Sequence[Part]) -> PosteriorRecurrence:
        """Return the recurrence for callers that need parts of its result alone."""
        return replace(self, is_split=True)

    @property
    def passes(self) -> tuple[HmmRecurrence, HmmRecurrence]:
        """The passes "forward" and "backward"."""
        values = {field.name: getattr(self, field.name) for field in fields(HmmRecurrence)}
        values |= {"state_numbers": self.count, "is_split": False}
        forward, backward = (HmmRecurrence(**{**values, "phase": phase}) for phase in ("forward", "backward"))
        return forward, backward

    def first_state(self) -> Any:
        """Return the weights before the first step of a sequence, and after the last one."""
        return np.concatenate([direction.first_state() for direction in self.passes])

    def propagate(
        self, kernels: Kernels, summaries: Sequence[HmmSummary], carry_in: np.ndarray
    ) -> list[np.ndarray]:
        """Return the weights before and after each chunk, from those before and after all."""
        (forward, backward), (before, after) = self.passes, np.split(carry_in, 2, axis=-1)
        forward_weights, backward_weights = [before], [after]
        for summary in summaries[:-1]:
            forward_weights.append(kernels.propagate(forward, summary, forward_weights[-1]))
        for summary in summaries[:0:-1]:
            backward_weights.append(kernels.propagate(backward, summary.backward, backward_weights[-1]))
        pairs = zip(forward_weights, reversed(backward_weights), strict=True)
        return [np.concatenate(pair, axis=-1) for pair in pairs]

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """Return the results, and no carry-out."""
        chunk, count, axis = self.lay_out(inputs, shape), self.count, self.axis
        if carry_in is None:
            carry_in = self.first_carry_in((), shape)
        posteriors = backend.empty((*shape[:-1], count), self.result_dtype)
        log_prob = backend.kernels(self.family).determine(
            self, chunk, carry_in, posteriors.reshape(*chunk.shape, count)
        )
        of_rows = self.one_step(log_prob, shape)
        if self.is_split:
            return ({0: posteriors, count: of_rows},), None
        result = out[0] if out else backend.empty(shape, self.result_dtype)
        result[..., :count], result[..., count:] = posteriors, 0.0
        first = (slice(None),) * axis + (slice(0, 1),)
        if shape[axis]:
            result[(*first, ..., slice(count, None))] = of_rows
        return (result,), None


def propagate(recurrence: HmmRecurrence, summary: HmmSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk, from those before it."""
    count = recurrence.count
    with np.errstate(all="ignore"):
        if recurrence.phase in ("follow", "draw"):
            index = np.where(carry_in < 0, count, carry_in).astype(np.intp)
            return np.take_along_axis(summary.columns[..., 0], index, -1)
        if recurrence.phase == "score":
            carry_out = _best(summary, carry_in)
        else:
            carry_out = _combined(recurrence, summary, carry_in)
    return np.where(summary.is_reset[..., None], summary.columns[..., 0, :], carry_out)


def _best(summary: HmmSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the highest sums of a score and those of its column, of which the largest is 0."""
    images, first = summary.columns[..., :-1, :], summary.columns[..., -1, :]
    scores = (carry_in[..., None] + images).max(-2)
    scores = np.where(carry_in[..., :1] == np.inf, first, scores)
    most = scores.max(-1, keepdims=True)
    return scores - np.where(np.isfinite(most), most, 0.0)


def scaled(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of weights, tiny ones as logarithms, and the logarithms of their scales."""
    most = logs.max(-1)
    with np.errstate(invalid="ignore"):
        logs = logs - np.where(np.isfinite(most), most, 0.0)[..., None]
    is_tiny = (logs < LOG_TINY) & (logs > -np.inf)
    return np.where(is_tiny, logs, np.exp(logs)), most


def logarithms(weights: np.ndarray) -> np.ndarray:
    """Return the logarithms of weights, which may be logarithms already."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weights < 0, weights, np.log(weights))


def _combined(recurrence: HmmRecurrence, summary: HmmSummary, carry_in: np.ndarray) -> np.ndarray:
    """Return the weighted sum of the columns, scaled to a sum of 1."""
    count = recurrence.count
    images, log_scales = summary.columns[..., :count, :], summary.log_scales[..., :count]
    logs = logarithms(carry_in) + log_scales
    most = logs.max(-1, keepdims=True)
    logs = logs - np.where(np.isfinite(most), most, 0.0)
    # A column without a possible path is 0, and its scale of no meaning.
    is_impossible = (carry_in == 0) | (log_scales == -np.inf)
    factors = np.where(is_impossible, 0.0, np.exp(logs))
    weights = (factors[..., None] * np.where(images < 0, 0.0, images)).sum(-2)
    total = weights.sum(-1, keepdims=True)
    scaled = np.where(total == 0, 0.0, weights / total)
    if (weights < LOW).any():
        logs = np.where(is_impossible, -np.inf, logs)
        paths = logs[..., None] + logarithms(images)
        most = paths.max(-2)
        most = np.where(np.isfinite(most), most, 0.0)
        in_logarithms = most + np.log(np.exp(paths - most[..., None, :]).sum(-2)) - np.log(total)
        is_tiny = (weights < LOW) & (in_logarithms < LOG_TINY) & (in_logarithms > -np.inf)
        in_logarithms = np.where(is_tiny, in_logarithms, np.exp(in_logarithms))
        scaled = np.where((weights < LOW) & (total > 0), in_logarithms, scaled)
    if recurrence.phase == "forward":
        is_first = carry_in[..., :1] == BEFORE_FIRST
        scaled = np.where(is_first, summary.columns[..., -1, :], scaled)
    return scaled


class ForwardBackward(NamedTuple, Generic[A]):
    """Result of :func:`mgrec.hmm.forward_backward`.

    Attributes
    ----------
    log_prob : array
        Logarithm of the probability of all observations of each row, in float64.
    posteriors : array (..., steps, states)
        Probability of each state at each step, given all observations.
    """

    log_prob: Any
    posteriors: A


class ViterbiPath(NamedTuple, Generic[A]):
    """Result of :func:`mgrec.hmm.viterbi`.

    Attributes
    ----------
    log_prob : array
        Logarithm of the probability of the observations and the states of each row, in float64.
    states : array (..., steps) of int32
        The most probable sequence of states.
    """

    log_prob: Any
    states: A
