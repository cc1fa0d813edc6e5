"""Filters whose states start anew: a segment is a row of its own.

Segments of about the same length are filtered side by side, filled up with samples of 0, by the
kernels of whole rows. So special values, accuracy and speed are those of a call a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy, is_on_gpu, to_host
from ..core.arrays.chunk import Chunk, as_contiguous, canonical_shape
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, Summarise
from ..core.contract.problem import Problem, varying
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..core.contract.speculation import SpeculationWait
from .recurrence import FilterRecurrence
from .summary import CascadeSummary

# Samples that are copied at a time, on a CPU and on a GPU, which takes more to be busy. Where they
# are those of fewer segments, each segment is filtered where it lies.
_BATCH, _BATCH_ON_GPU, _FEW = 1 << 22, 1 << 24, 100


@dataclass(frozen=True)
class Segments:
    """Where segments lie in rows of samples.

    Attributes
    ----------
    rows, begins, lengths : arrays of int, in host memory
    is_first : array of bool
        A segment that goes on with what the states were before the rows.
    """

    rows: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray
    is_first: np.ndarray

    def part(self, chosen: Any) -> Segments:
        return Segments(
            self.rows[chosen], self.begins[chosen], self.lengths[chosen], self.is_first[chosen]
        )

    def equal(self) -> Iterator[Segments]:
        """Segments of the same length."""
        for length in np.unique(self.lengths):
            yield self.part(self.lengths == length)

    def alike(self, batch: int) -> Iterator[Segments]:
        """Segments of lengths from a power of 2 to the next one, few enough to be copied."""
        classes = np.frexp(self.lengths)[1]
        for each in np.unique(classes):
            chosen = np.flatnonzero(classes == each)
            most = batch >> int(each)
            most = most if most >= _FEW else 1
            for left in range(0, len(chosen), most):
                yield self.part(chosen[left : left + most])


def segments_of(marks: Any, rows: int) -> Segments:
    """The segments of rows whose marks are (1 or rows, steps)."""
    is_begin = marks.copy()
    is_begin[:, :1] = 1
    row, begin = np.divmod(to_host(np.flatnonzero(is_begin)), max(marks.shape[1], 1))
    count, steps = marks.shape
    end = np.append(begin[1:], steps)
    end[np.append(row[1:] != row[:-1], True)] = steps
    is_first = (begin == 0) & ~to_host(marks[:, :1].any(1))[row]
    if count < rows:
        row = np.repeat(np.arange(rows), len(begin))
        begin, end, is_first = (np.tile(each, rows) for each in (begin, end, is_first))
    return Segments(row, begin, end - begin, is_first)


@dataclass(frozen=True)
class SegmentedSummary:
    """Rows of a chunk by the last step at which they start anew, and how each group ends.

    Attributes
    ----------
    groups : list of (rows, carry-in, summary)
        `carry_in` (states, rows) is None where a row is nowhere marked.
    """

    groups: list[tuple[np.ndarray, np.ndarray | None, CascadeSummary]]


@dataclass(frozen=True, kw_only=True)
class SegmentedFilter(FilterRecurrence):
    """A filter whose states start anew where it is marked.

    The blocks of a pack are the marks, what each state starts from, if it is not 0, and the
    samples.
    """

    @property
    def forgets(self) -> bool:
        return False

    def begin(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> SpeculationWait | None:
        return None

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, results: Arrays
    ) -> PreparedSolver | None:
        return None

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        launch = backend.kernels(self.family).precompute
        samples, marks, starts = self._rows(inputs)
        steps = samples.shape[1]
        last = np.full(len(marks), -1)
        if steps:
            from_end, is_marked = to_host(marks[:, ::-1].argmax(1)), to_host(marks.any(1))
            last = np.where(is_marked, steps - 1 - from_end, -1)
        last = np.broadcast_to(last, len(samples))
        groups: list[Any] = []
        for mark in np.unique(last):
            rows = np.flatnonzero(last == mark)
            own = self._lines(samples[rows, max(mark, 0) :])
            carry_in = starts[:, rows] if mark >= 0 else None
            groups.append((rows, carry_in, launch(self.cascade, own)))
        return lambda: SegmentedSummary([(rows, carry_in, own()) for rows, carry_in, own in groups])

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> np.ndarray:
        carry_out = np.array(carry_in)
        flat = carry_out.reshape(len(carry_out), carry_out.shape[1] * carry_out.shape[2])
        for rows, start, own in summary.groups:
            before = np.ascontiguousarray((flat[:, rows] if start is None else start)[:, :, None])
            flat[:, rows] = super().advance(kernels, own, before)[:, :, 0]
        return carry_out

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        samples, marks, starts = self._rows(inputs)
        if not samples.size:
            nothing = replace(inputs, blocks=inputs.blocks[-1:])
            return super().determine(backend, nothing, shape, carry_in, out)
        outer, steps, inner = canonical_shape(shape, self.axis)
        before = np.zeros_like(starts) if carry_in is None else to_host(carry_in)
        before = before.reshape(starts.shape)
        # What segments are filled up with goes to one place behind them.
        filtered, carry_out = backend.empty((samples.size + 1,), self.dtype), before.copy()
        segments = segments_of(marks, len(samples))
        is_last = (segments.begins + segments.lengths == steps) & self.returns_final_state
        batch = _BATCH_ON_GPU if is_on_gpu(samples) else _BATCH
        for part in (*segments.part(~is_last).alike(batch), *segments.part(is_last).equal()):
            states = np.where(part.is_first, before[:, part.rows], starts[:, part.rows])
            after = self._filter(backend, samples, part, states, filtered)
            if self.returns_final_state:  # of use for the last segments, which are not filled up
                carry_out[:, part.rows] = to_host(after)[:, :, 0]
        result = filtered[:-1].reshape(outer, inner, steps).swapaxes(1, 2).reshape(shape)
        if out:
            out[0][...] = result
            result = out[0]
        return (as_contiguous(result),), carry_out.reshape(len(carry_out), outer, inner)

    def _filter(
        self, backend: Backend, samples: Any, part: Segments, states: np.ndarray, filtered: Any
    ) -> Any:
        """Filter segments side by side, and return the states after as many steps for all."""
        chunk, target = self._side_by_side(samples, part)
        result = backend.empty(chunk.shape, self.dtype)
        determine = backend.kernels(self.family).determine
        after = determine(self.cascade, chunk, np.ascontiguousarray(states[:, :, None]), result)
        filtered[target] = result[0, :, 0] if isinstance(target, slice) else result[:, :, 0]
        return after

    def _rows(self, inputs: ChunkInputs) -> tuple[Any, np.ndarray, np.ndarray]:
        """Samples (rows, steps), marks (1 or rows, steps) and starts (states, rows)."""
        marks, *starts, x = inputs.blocks
        outer, steps, inner = canonical_shape(x.shape, self.axis)

        def rows(array: Any, shape: Shape) -> Any:
            full = np.broadcast_to(array, shape)
            outer, steps, inner = canonical_shape(shape, self.axis)
            lines = full.reshape(outer, steps, inner).swapaxes(1, 2)
            return as_contiguous(lines).reshape(outer * inner, steps)

        along = tuple(steps if k == self.axis else 1 for k in range(x.ndim))
        is_shared = marks.shape in (along, (1,) * x.ndim)
        marks = rows(marks, along if is_shared else x.shape)
        begin = np.zeros((self.cascade.states, outer * inner), self.state_dtype)
        whole = tuple(1 if k == self.axis else n for k, n in enumerate(x.shape))
        for state, start in zip(begin, starts, strict=False):
            state[:] = rows(to_host(start), whole)[:, 0]
        return rows(x, x.shape), marks, begin

    def _lines(self, samples: Any) -> Chunk:
        samples = as_contiguous(samples)
        return Chunk((samples[:, :, None],), (*samples.shape, 1), self.dtype)

    def _side_by_side(self, samples: Any, part: Segments) -> tuple[Chunk, Any]:
        """Segments as rows, and where their outputs belong; one alone is not copied."""
        length, size = int(part.lengths.max()), samples.size
        where, lengths = part.rows * samples.shape[1] + part.begins, part.lengths
        if len(where) == 1:
            target = slice(int(where[0]), int(where[0]) + length)
            return self._lines(samples.reshape(-1)[target][None]), target
        if is_on_gpu(samples):
            where, lengths = (np.asarray(each, like=samples) for each in (where, lengths))
        steps = np.arange(length, like=samples)
        target = np.where(steps < lengths[:, None], where[:, None] + steps, size)
        own = samples.reshape(-1)[np.minimum(target, size - 1)]
        own = np.where(target < size, own, samples.dtype.type(0))
        return self._lines(own), target


def with_marks(problem: Problem, marks: Any) -> Problem:
    """The problem of a filter whose states start anew at marked samples.

    Parameters
    ----------
    problem : Problem
        Of :func:`.recurrence.filter_problem`.
    marks : array of uint8
        Of as many axes as the samples, each full or of length 1.
    """
    (x,), axis = problem.operands, problem.recurrence.axis
    starts = [np.expand_dims(state, axis) for carry_in in problem.initial for state in carry_in]
    if is_on_gpu(x):
        beside = getattr(x, "_meta", x)
        starts = [s if is_on_gpu(s) or is_lazy(s) else np.asarray(s, like=beside) for s in starts]
    # Results are chunked like the last one.
    blocks = (marks, *starts, x)
    own = {each.name: getattr(problem.recurrence, each.name) for each in fields(problem.recurrence)}
    own["varying"] = tuple([varying(block.shape, x.shape) for block in blocks])
    own["block_dtypes"] = tuple([block.dtype for block in blocks])
    return replace(problem, recurrence=SegmentedFilter(**own), operands=blocks)
