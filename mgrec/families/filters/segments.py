"""Filters whose states start anew: a segment is a row of its own.

Segments of about the same length are filtered side by side, filled up with samples of 0, by the
kernels of whole rows. So special values, accuracy and speed are those of a call a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...arrays.chunk import Chunk
from ...arrays.kinds import is_lazy, is_on_gpu, to_host
from ...arrays.layout import canonical_shape, contiguous
from ..begun import Begun
from ..family import Arrays, Pack, Shape
from ..kernels import Again, Backend, Kernels, Summarise
from ..problem import Problem, varying
from .recurrence import FilterRecurrence
from .summary import CascadeSummary

# Samples that are copied at a time, and of a segment that is filtered where it lies.
_BATCH, _LONG = 1 << 22, 1 << 15


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

    def alike(self) -> Iterator[Segments]:
        """Segments of lengths from a power of 2 to the next one, few enough to be copied."""
        classes = np.frexp(self.lengths)[1]
        for each in np.unique(classes):
            chosen = np.flatnonzero(classes == each)
            most = max(1, _BATCH >> int(each)) if 1 << int(each) < _LONG else 1
            for left in range(0, len(chosen), most):
                yield self.part(chosen[left : left + most])


def segments_of(marks: np.ndarray, rows: int) -> Segments:
    """The segments of rows whose marks are (1 or rows, steps), in host memory."""
    steps = marks.shape[1]
    is_begin = marks.astype(bool)
    is_begin[:, :1] = True
    row, begin = np.nonzero(is_begin)
    end = np.append(begin[1:], steps)
    end[np.append(row[1:] != row[:-1], True)] = steps
    is_first = marks[row, begin] == 0
    if len(marks) < rows:
        row = np.repeat(np.arange(rows), len(begin))
        begin, end, is_first = (np.tile(each, rows) for each in (begin, end, is_first))
    return Segments(row, begin, end - begin, is_first)


@dataclass(frozen=True)
class SegmentedSummary:
    """Rows of a chunk by the last step at which they start anew, and how each group ends.

    Attributes
    ----------
    groups : list of (rows, entry, summary)
        `entry` (states, rows) is None where a row is nowhere marked.
    """

    groups: list[tuple[np.ndarray, np.ndarray | None, CascadeSummary]]


@dataclass(frozen=True, kw_only=True)
class SegmentedFilter(FilterRecurrence):
    """A filter whose states start anew where it is marked.

    The blocks of a pack are the samples, the marks, and what each state starts from, if it is
    not 0.
    """

    @property
    def forgets(self) -> bool:
        return False

    def begin(self, backend: Backend, pack: Pack, shape: Shape) -> Begun | None:
        return None

    def again(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, results: Arrays
    ) -> Again | None:
        return None

    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        launch = backend.kernels(self.family).precompute
        samples, marks, starts = self._rows(pack)
        steps = samples.shape[1]
        from_end = marks[:, ::-1].argmax(1) if steps else np.zeros(len(marks), int)
        last = np.broadcast_to(np.where(marks.any(1), steps - 1 - from_end, -1), len(samples))
        groups: list[Any] = []
        for mark in np.unique(last):
            rows = np.flatnonzero(last == mark)
            own = self._lines(samples[rows, max(mark, 0) :])
            entry = starts[:, rows] if mark >= 0 else None
            groups.append((rows, entry, launch(self.cascade, own)))
        return lambda: SegmentedSummary([(rows, entry, own()) for rows, entry, own in groups])

    def advance(self, kernels: Kernels, summary: Any, entry: Any) -> np.ndarray:
        exit = np.array(entry)
        flat = exit.reshape(len(exit), exit.shape[1] * exit.shape[2])
        for rows, start, own in summary.groups:
            before = np.ascontiguousarray((flat[:, rows] if start is None else start)[:, :, None])
            flat[:, rows] = super().advance(kernels, own, before)[:, :, 0]
        return exit

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, entry: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        samples, marks, starts = self._rows(pack)
        outer, steps, inner = canonical_shape(shape, self.axis)
        before = np.zeros_like(starts) if entry is None else to_host(entry)
        before = before.reshape(starts.shape)
        filtered, exit = backend.empty(samples.shape, self.dtype), before.copy()
        segments = segments_of(marks, len(samples))
        is_last = (segments.begins + segments.lengths == steps) & self.is_exit_asked
        for part in (*segments.part(~is_last).alike(), *segments.part(is_last).equal()):
            states = np.where(part.is_first, before[:, part.rows], starts[:, part.rows])
            after = self._filter(backend, samples, part, states, filtered)
            if self.is_exit_asked:  # of use for the last segments, which are not filled up
                exit[:, part.rows] = to_host(after)[:, :, 0]
        result = filtered.reshape(outer, inner, steps).swapaxes(1, 2).reshape(shape)
        if out:
            out[0][...] = result
            result = out[0]
        return (contiguous(result),), exit.reshape(len(exit), outer, inner)

    def _filter(
        self, backend: Backend, samples: Any, part: Segments, states: np.ndarray, filtered: Any
    ) -> Any:
        """Filter segments side by side, and return the states after as many steps for all."""
        chunk, index, is_own = self._side_by_side(samples, part)
        result = backend.empty(chunk.shape, self.dtype)
        determine = backend.kernels(self.family).determine
        after = determine(self.cascade, chunk, np.ascontiguousarray(states[:, :, None]), result)
        if index is None:
            row, begin = int(part.rows[0]), int(part.begins[0])
            filtered[row, begin : begin + chunk.steps] = result[0, :, 0]
        else:
            filtered.reshape(-1)[index[is_own]] = result[:, :, 0][is_own]
        return after

    def _rows(self, pack: Pack) -> tuple[Any, np.ndarray, np.ndarray]:
        """Samples (rows, steps), marks (1 or rows, steps) and starts (states, rows)."""
        x, marks, *starts = pack.blocks
        outer, steps, inner = canonical_shape(x.shape, self.axis)

        def rows(array: Any, shape: Shape) -> Any:
            full = np.broadcast_to(array, shape)
            outer, steps, inner = canonical_shape(shape, self.axis)
            lines = full.reshape(outer, steps, inner).swapaxes(1, 2)
            return contiguous(lines).reshape(outer * inner, steps)

        marks = to_host(marks)
        is_shared = marks.size == marks.shape[self.axis]
        along = tuple(steps if k == self.axis else 1 for k in range(x.ndim))
        marks = rows(marks, along if is_shared else x.shape)
        begin = np.zeros((self.cascade.states, outer * inner), self.state_dtype)
        whole = tuple(1 if k == self.axis else n for k, n in enumerate(x.shape))
        for state, start in zip(begin, starts, strict=False):
            state[:] = rows(to_host(start), whole)[:, 0]
        return rows(x, x.shape), marks, begin

    def _lines(self, samples: Any) -> Chunk:
        samples = contiguous(samples)
        return Chunk((samples[:, :, None],), (*samples.shape, 1), self.dtype)

    def _side_by_side(self, samples: Any, part: Segments) -> tuple[Chunk, Any, Any]:
        """Segments as rows, where their samples lie, and which are theirs; or one where it is."""
        length = int(part.lengths.max())
        if len(part.rows) == 1:
            row, begin = int(part.rows[0]), int(part.begins[0])
            return self._lines(samples[row : row + 1, begin : begin + length]), None, None
        where = part.rows * samples.shape[1] + part.begins
        lengths = part.lengths
        if is_on_gpu(samples):
            where, lengths = (np.asarray(each, like=samples) for each in (where, lengths))
        steps = np.arange(length, like=samples)
        is_own = steps < lengths[:, None]
        index = np.minimum(where[:, None] + steps, samples.size - 1)
        own = samples.reshape(-1)[index]
        own[~is_own] = 0
        return self._lines(own), index, is_own


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
    starts = [np.expand_dims(state, axis) for entry in problem.initial for state in entry]
    if is_on_gpu(x):
        beside = getattr(x, "_meta", x)
        starts = [s if is_on_gpu(s) or is_lazy(s) else np.asarray(s, like=beside) for s in starts]
    blocks = (x, marks, *starts)
    own = {each.name: getattr(problem.recurrence, each.name) for each in fields(problem.recurrence)}
    own["varying"] = tuple([varying(block.shape, x.shape) for block in blocks])
    own["block_dtypes"] = tuple([block.dtype for block in blocks])
    return replace(problem, recurrence=SegmentedFilter(**own), operands=blocks)
