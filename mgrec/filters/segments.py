"""Filters whose states are reset: each segment between resets is filtered as a row.

The kernels of whole rows filter segments of similar length together, padded with samples of 0.
Special values, accuracy and speed are therefore those of one call for each segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.arrays.array_types import to_host
from ..core.arrays.chunk import Chunk, as_contiguous, as_result, canonical_shape
from ..core.backends import backend_of
from ..core.contract.kernels import Backend, Kernels, PreparedSolver, Summarise
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays, ChunkInputs, Shape, varying
from .recurrence import CascadeSummary, FilterRecurrence

# If a batch would have fewer segments, each segment is filtered alone and without a copy.
_FEW = 100


_SEGMENT = np.dtype([("rows", int), ("starts", int), ("lengths", int), ("is_first", bool)])


def _by_length(segments: np.recarray[Any, Any]) -> Iterator[np.recarray[Any, Any]]:
    """Yield groups of segments of the same length."""
    for length in np.unique(segments.lengths):
        yield segments[segments.lengths == length]


def _in_batches(segments: np.recarray[Any, Any], batch: int) -> Iterator[np.recarray[Any, Any]]:
    """Yield groups whose lengths lie between two powers of 2, of about `batch` samples."""
    exponents = np.frexp(segments.lengths)[1]
    for exponent in np.unique(exponents):
        group = segments[exponents == exponent]
        count = batch >> int(exponent)
        count = count if count >= _FEW else 1
        for left in range(0, len(group), count):
            yield group[left : left + count]


def segments_of(marks: Any, rows: int) -> np.recarray[Any, Any]:
    """Return the segments of rows whose marks are an array (1 or rows, steps).

    They have the fields `rows`, `starts`, `lengths`, and `is_first`: whether a segment continues
    from the states before the rows.
    """
    is_start = marks.copy()
    is_start[:, :1] = 1
    row, start = np.divmod(to_host(np.flatnonzero(is_start)), max(marks.shape[1], 1))
    count, steps = marks.shape
    stop = np.append(start[1:], steps)
    stop[np.append(row[1:] != row[:-1], True)] = steps
    is_first = (start == 0) & ~to_host(marks[:, :1].any(1))[row]
    if count < rows:
        row = np.repeat(np.arange(rows), len(start))
        start, stop, is_first = (np.tile(array, rows) for array in (start, stop, is_first))
    return np.rec.fromarrays([row, start, stop - start, is_first], dtype=_SEGMENT)


@dataclass(frozen=True)
class CascadeSegments:
    """The summary of a chunk, whose rows are grouped by their last reset.

    Each group has its rows, the states (states, rows) at the reset, None without one, and the
    summary of the samples after it.
    """

    groups: list[tuple[np.ndarray, np.ndarray | None, CascadeSummary]]


@dataclass(frozen=True, kw_only=True)
class SegmentedFilter(FilterRecurrence):
    """A filter whose states are reset at marked samples.

    The blocks of a chunk are the marks, the value to which each state is reset (none for 0), and
    the samples.
    """

    @property
    def is_contractive(self) -> bool:
        return False

    def overlapped(self, lengths: Sequence[float]) -> None:
        return None

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        return None

    def precompute(self, backend: Backend, inputs: ChunkInputs, shape: Shape) -> Summarise:
        launch = backend.kernels(self.family).precompute
        samples, marks, reset_states = self._rows(inputs)
        steps = samples.shape[1]
        last_mark = np.full(len(marks), -1)
        if steps:
            from_end, is_marked = to_host(marks[:, ::-1].argmax(1)), to_host(marks.any(1))
            last_mark = np.where(is_marked, steps - 1 - from_end, -1)
        last_mark = np.broadcast_to(last_mark, len(samples))
        groups: list[Any] = []
        for mark in np.unique(last_mark):
            rows = np.flatnonzero(last_mark == mark)
            chunk = self._chunk_of(samples[rows, max(mark, 0) :])
            carry_in = reset_states[:, rows] if mark >= 0 else None
            groups.append((rows, carry_in, launch(self.cascade, chunk)))
        return lambda: CascadeSegments([(rows, carry_in, wait()) for rows, carry_in, wait in groups])

    def advance(self, kernels: Kernels, summary: Any, carry_in: Any) -> np.ndarray:
        carry_out = np.array(carry_in)
        flat = carry_out.reshape(len(carry_out), carry_out.shape[1] * carry_out.shape[2])
        for rows, reset_states, part in summary.groups:
            before = flat[:, rows] if reset_states is None else reset_states
            before = np.ascontiguousarray(before[:, :, None])
            flat[:, rows] = super().advance(kernels, part, before)[:, :, 0]
        return carry_out

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, carry_in: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        samples, marks, reset_states = self._rows(inputs)
        outer, steps, inner = canonical_shape(shape, self.axis)
        before = np.zeros_like(reset_states) if carry_in is None else to_host(carry_in)
        before = before.reshape(reset_states.shape)
        # The last element receives the outputs of the padding.
        filtered, carry_out = backend.empty((samples.size + 1,), self.dtype), before.copy()
        segments = segments_of(marks, len(samples))
        # Padding would change final states: the last segments are grouped by length instead.
        is_last = (segments.starts + segments.lengths == steps) & self.returns_final_state
        for part in (*_in_batches(segments[~is_last], backend.batch_size), *_by_length(segments[is_last])):
            states = np.where(part.is_first, before[:, part.rows], reset_states[:, part.rows])
            after = self._filter(backend, samples, part, states, filtered)
            if self.returns_final_state:
                carry_out[:, part.rows] = to_host(after)[:, :, 0]
        result = filtered[:-1].reshape(outer, inner, steps).swapaxes(1, 2).reshape(shape)
        result = as_result(result, shape, self.result_dtype)
        if out:
            out[0][...] = result
            result = out[0]
        carry_out = backend.from_host(carry_out.reshape(len(carry_out), outer, inner), samples)
        return (as_contiguous(result),), carry_out

    def _filter(self, backend: Backend, samples: Any, part: Any, states: np.ndarray, filtered: Any) -> Any:
        """Filter segments as rows, and return the states after the longest one's steps."""
        chunk, target = self._as_rows(samples, part)
        result = backend.empty(chunk.shape, self.dtype)
        determine = backend.kernels(self.family).determine
        after = determine(self.cascade, chunk, np.ascontiguousarray(states[:, :, None]), result)
        filtered[target] = result[0, :, 0] if isinstance(target, slice) else result[:, :, 0]
        return after

    def _rows(self, inputs: ChunkInputs) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return samples (rows, steps), marks (1 or rows, steps) and states after a reset."""
        marks, *reset_values, x = inputs.blocks
        outer, steps, inner = canonical_shape(x.shape, self.axis)

        def rows(array: Any, shape: Shape) -> Any:
            outer, steps, inner = canonical_shape(shape, self.axis)
            full = np.broadcast_to(array, shape).reshape(outer, steps, inner)
            return as_contiguous(full.swapaxes(1, 2)).reshape(outer * inner, steps)

        along = tuple(steps if k == self.axis else 1 for k in range(x.ndim))
        is_shared = marks.shape in (along, (1,) * x.ndim)
        marks = rows(marks, along if is_shared else x.shape)
        states = np.zeros((self.cascade.states, outer * inner), self.state_dtype)
        one_step = tuple(1 if k == self.axis else n for k, n in enumerate(x.shape))
        for state, value in zip(states, reset_values, strict=False):
            state[:] = rows(to_host(value), one_step)[:, 0]
        return rows(x, x.shape), marks, states

    def _chunk_of(self, samples: Any) -> Chunk:
        samples = as_contiguous(samples)
        return Chunk((samples[:, :, None],), (*samples.shape, 1), self.dtype)

    def _as_rows(self, samples: Any, part: Any) -> tuple[Chunk, Any]:
        """Return segments as rows, and the positions of their outputs."""
        length, size = int(part.lengths.max()), samples.size
        first, lengths = part.rows * samples.shape[1] + part.starts, part.lengths
        if len(first) == 1:
            target = slice(int(first[0]), int(first[0]) + length)
            return self._chunk_of(samples.reshape(-1)[target][None]), target
        backend = backend_of(samples)
        first, lengths = (backend.from_host(array, samples) for array in (first, lengths))
        steps = np.arange(length, like=samples)
        target = np.where(steps < lengths[:, None], first[:, None] + steps, size)
        rows = samples.reshape(-1)[np.minimum(target, size - 1)]
        return self._chunk_of(np.where(target < size, rows, samples.dtype.type(0))), target


def with_marks(problem: Problem, marks: Any) -> Problem:
    """Return the problem of a filter whose states are reset where `marks` (uint8) are not 0."""
    (x,), axis = problem.operands, problem.recurrence.axis
    states = [np.expand_dims(state, axis) for carry_in in problem.initial for state in carry_in]
    states = [backend_of(x).from_host(state, x) for state in states]
    # Results have the chunks of the last operand.
    operands = (marks, *states, x)
    attributes = {field.name: getattr(problem.recurrence, field.name) for field in fields(problem.recurrence)}
    attributes["varying"] = tuple([varying(array.shape, x.shape) for array in operands])
    attributes["block_dtypes"] = tuple([array.dtype for array in operands])
    return replace(problem, recurrence=SegmentedFilter(**attributes), operands=operands)
