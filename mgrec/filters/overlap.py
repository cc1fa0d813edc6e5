"""Filters of chunks that read the samples around a chunk as far as these change its results.

The response of a contractive filter decays. Outputs therefore depend on the last `reach` samples
only, to far below their rounding errors. A chunk is filtered together with so many samples of its
neighbours, from states of 0, or from the steady state at the ends of the signal. It needs no other
chunk, so that results of a recording larger than memory are written while it is still read.

A nan or inf would change all later outputs. This schedule is for samples that are finite.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, prod
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast
from ..core.arrays.chunk import Chunk, as_contiguous, canonical_shape
from ..core.backends import CPU, Backend, backend_of
from ..engines.cpu.compilation import writable
from ..engines.cpu.threads import call_in_parts, split_range, threads_for
from .cascade import Cascade
from .extension import along, beyond
from .kernels import kernels_of

NEGLIGIBLE = 2.0**-60
"""Part of the sum of an impulse response that is left out: 2^-7 of the rounding of one output."""
MOST_CHUNKS = 2
"""Longest reach, in mean chunks. With longer ones a chunk is filtered several times: other graphs
filter it twice, but keep all chunks in memory."""
LARGEST_GAIN = 2.0**28
"""Largest sum of an impulse response: integers of 64 bits then stay below the limits of float32,
also if they are filtered twice."""
LONGEST = 1 << 24
"""Longest impulse response that is computed."""
CELLS = 1 << 22
"""Outputs of the forward pass that a thread keeps, 32 MB. A band-pass of 5 sections, in both
directions over 30,000 steps of 384 columns of int16, took 7.8 ns a sample in blocks of 128 columns,
9.8 in blocks of 64, 12 in blocks of 32 and 7.4 in one of 192."""
WIDE, COLUMNS = 16, 256
"""Fewest and most columns of a block."""
_WORDS = (np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.complex128))


@lru_cache(maxsize=256)
def reach_of(cascade: Cascade) -> int | None:
    """Return the number of earlier samples that change an output; None if there are too many.

    The rest of the impulse response sums to at most 2**-60 of all of it.
    """
    if not cascade.radius < 1 or cascade.decay > LONGEST / 4:
        return None
    steps = 64 + 2 * int(cascade.decay)
    while steps <= LONGEST:
        impulse = np.zeros((1, steps, 1))
        impulse[0, 0] = 1
        dtype = cascade.state_dtype(impulse.dtype)
        response = np.empty(impulse.shape, dtype)
        chunk = Chunk((impulse,), response.shape, dtype)
        CPU.kernels("filters").determine(cascade, chunk, None, response)
        # The sums of each sample's response and all after it.
        sums = np.cumsum(np.abs(response[0, ::-1, 0]))[::-1]
        if not sums[0] <= LARGEST_GAIN:
            return None
        beyond = np.flatnonzero(sums > NEGLIGIBLE * sums[0])
        reach = int(beyond[-1]) + 1 if beyond.size else 0
        if reach < steps // 2:
            return reach
        steps *= 2
    return None


def reach_over_chunks(cascade: Cascade, lengths: Sequence[float], is_finite: bool) -> int | None:
    """Return the reach of a filter over chunks of these lengths; None if they do not overlap.

    `is_finite` is true if samples are known to be neither nan nor inf.
    """
    if len(lengths) == 1:
        return 0  # There are no other chunks.
    length = sum(lengths)
    reach = reach_of(cascade) if is_finite and not isnan(length) else None
    return reach if reach is not None and reach * len(lengths) <= MOST_CHUNKS * length else None


@lru_cache(maxsize=16)
def starts_of(lengths: tuple[int, ...]) -> list[int]:
    """Return the index of the first sample of each chunk, and the number of samples."""
    return [0, *np.cumsum(lengths).tolist()]


def counts_of_results(lengths: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Return the number of results of each chunk, of which there is one for every `step`-th sample."""
    return tuple(np.diff(-(-np.array(starts_of(lengths)) // step)).tolist())


def parts_between(
    starts: Sequence[int], chunk: int, first: int, last: int, count: int = 1
) -> tuple[list[tuple[int, tuple[int, int]]], int]:
    """Return the parts of other chunks from sample `first` to `last`, and those before the chunk.

    A part is a chunk, and the range of its samples. The second value is a number of parts. `count`
    chunks, the first of which is `chunk`, have no parts.
    """
    sources = range(bisect_right(starts, first) - 1, bisect_left(starts, last))
    parts = [
        (k, (max(first - starts[k], 0), min(last, starts[k + 1]) - starts[k]))
        for k in sources
        if not chunk <= k < chunk + count
    ]
    return parts, sum(k < chunk for k, _ in parts)


def has_many_rows(x: Any, axis: int) -> bool:
    """Return whether a whole array is filtered in blocks of rows, on all threads."""
    if type(x) is not np.ndarray:
        return False
    (outer, _, inner), threads = canonical_shape(x.shape, axis), threads_for(x.size)
    return threads > 1 and (outer >= threads or inner >= threads * WIDE)


@dataclass(frozen=True)
class PaddedEnds:
    """How a signal starts and ends.

    `padtype`, {"odd", "even", "constant", None}: extension of the signal.
    `states`: states at either end for a sample of 1. Empty for states of 0.
    """

    padtype: str | None = None
    edge: int = 0
    states: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ResponseRecipe:
    """Where a chunk is among the samples that it is filtered with.

    `before`: number of parts before the chunk.
    `start`: number of samples before the chunk.
    `is_first`, `is_last`: whether the samples contain the start, or the end, of the signal.
    """

    before: int
    start: int
    is_first: bool
    is_last: bool
    kept: slice


@dataclass(frozen=True)
class OverlappedFilter:
    """A filter of chunks with samples of their neighbours: see ``filter_chunks``.

    `dtype`: dtype in which outputs are computed.
    `has_zero_phase`: whether the signal is filtered backwards afterwards.
    `step`: results are kept at every `step`-th sample.
    """

    cascade: Cascade
    dtype: np.dtype[Any]
    reach: int
    has_zero_phase: bool = False
    ends: PaddedEnds = PaddedEnds()
    step: int = 1

    def plan(
        self, lengths: Sequence[int], chunk: int, count: int = 1
    ) -> tuple[list[tuple[int, Any]], ResponseRecipe]:
        """Return the parts (chunk, (start, stop)) that a chunk needs, and its place there.

        `count` chunks, the first of which is `chunk`, can be filtered as one.
        """
        starts = starts_of(tuple(lengths))
        start, stop, length = starts[chunk], starts[chunk + count], starts[-1]
        first, last = start - self.reach, stop + (self.reach if self.has_zero_phase else 0)
        is_first, is_last = first <= 0, last >= length
        edge = self.ends.edge
        # An extension is computed from the samples next to it.
        if is_first:
            first, last = 0, max(last, edge + 1)
        if is_last:
            first, last = min(first, length - edge - 1), length
        first, last = max(first, 0), min(last, length)
        is_first, is_last = first == 0, last == length
        parts, before = parts_between(starts, chunk, first, last, count)
        kept = slice(-start % self.step, stop - start, self.step)
        return parts, ResponseRecipe(before, start - first, is_first, is_last, kept)

    def count(self, length: int, recipe: ResponseRecipe) -> int:
        """Return the number of results of chunks of `length` samples."""
        return len(range(length)[recipe.kept])

    def written_bytes(self, x: Any, axis: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes that a GPU writes for a sample of x, for results of a dtype."""
        outer, _, inner = canonical_shape(x.chunksize, axis)
        if self.is_rounded(outer, inner, x, dtype):
            return 2 * dtype.itemsize
        return int(x.dtype.itemsize + 3 * self.dtype.itemsize)

    def part(self, x: Any, axis: int, part: tuple[int, int]) -> Any:
        """Return samples of a chunk."""
        left, right = part
        if (left, right) == (0, x.shape[axis]):
            return x
        return x[(slice(None),) * axis + (slice(left, right),)].copy(order="C")

    def apply(
        self,
        x: Any,
        axis: int,
        dtype: np.dtype[Any],
        recipe: ResponseRecipe,
        parts: Sequence[Any],
        is_threaded: bool = False,
    ) -> Any:
        """Return the filtered chunk, or those of a list together."""
        chunks = x if type(x) is list else [x]
        x, length = chunks[0], sum(chunk.shape[axis] for chunk in chunks)
        backend = backend_of(x)
        pieces = (*parts[: recipe.before], *chunks, *parts[recipe.before :])
        rows = [as_contiguous(p).reshape(canonical_shape(p.shape, axis)) for p in pieces]
        shape = (*x.shape[:axis], self.count(length, recipe), *x.shape[axis + 1 :])
        with backend.device_of((x,)):
            if not backend.is_host:
                block = _Block(self, backend, recipe, length, dtype)
                return as_contiguous(cast(block.filtered(rows), dtype)).reshape(shape)
            result = backend.empty(shape, dtype)
            target = result.reshape(canonical_shape(shape, axis))
            steps = sum(p.shape[1] for p in rows) + 2 * self.ends.edge
            threads = threads_for(x.size, is_threaded)
            blocks = list(_blocks((target.shape[0], steps, target.shape[2]), threads))

            def fill(first: int, last: int) -> None:
                if self._has_bounded_columns(x, target):
                    columns = _Columns(self, recipe, length, steps)
                    for outer, inner in blocks[first:last]:
                        columns.fill([p[outer.start] for p in rows], target[outer.start], inner)
                    return
                block = _Block(self, backend, recipe, length, self.dtype)
                for outer, inner in blocks[first:last]:
                    filtered = block.filtered([p[outer, :, inner] for p in rows])
                    with np.errstate(over="ignore"):
                        target[outer, :, inner] = filtered

            call_in_parts(fill, len(blocks), threads)
        return result

    def _has_bounded_columns(self, x: Any, target: Any) -> bool:
        """Return whether a chunk has columns of integers, and outputs that cannot overflow."""
        has_columns = type(x) is np.ndarray and target.shape[2] >= 2 * WIDE
        return has_columns and self.is_bounded(x)

    def is_rounded(self, outer: int, inner: int, x: Any, dtype: np.dtype[Any]) -> bool:
        """Return whether a GPU stores outputs of the forward pass over columns as float32."""
        has_columns = outer == 1 and inner >= WIDE and x.dtype.kind != "b"
        return dtype == np.float32 and has_columns and self.has_zero_phase and self.is_bounded(x)

    def is_bounded(self, x: Any) -> bool:
        """Return whether samples are integers, and real outputs cannot overflow."""
        is_real = self.dtype == np.float64 and not self.cascade.is_complex
        is_bounded = x.dtype.kind in "biu" and reach_of(self.cascade) is not None
        return is_real and is_bounded and self.cascade.states > 0


class _Block:
    """Filters blocks of rows of one chunk, one after the other, in the same memory.

    With new memory for each block a chunk took 16.2 ns a sample, instead of 14.7. Results are of
    `dtype` if kernels filter backward.
    """

    def __init__(
        self,
        overlapped: OverlappedFilter,
        backend: Backend,
        recipe: ResponseRecipe,
        length: int,
        dtype: np.dtype[Any],
    ) -> None:
        self.overlapped, self.backend, self.recipe = overlapped, backend, recipe
        self.length, self.dtype = length, dtype
        self.kernels = kernels_of(backend)
        self.memory: list[Any] = [None, None]

    def filtered(self, pieces: Sequence[Any]) -> Any:
        """Return the kept results of a chunk, from the pieces (outer, steps, inner) it needs."""
        recipe, overlapped, (outer, _, inner) = self.recipe, self.overlapped, pieces[0].shape
        if self.kernels.is_directed and overlapped.is_rounded(outer, inner, pieces[0], self.dtype):
            return self._filter_rounded(pieces)
        before, after = beyond_pieces(pieces, overlapped, recipe, 1)
        result = self._filter(self._joined([*before, *pieces, *after]), recipe.is_first)
        start = recipe.start + overlapped.ends.edge * recipe.is_first
        if overlapped.has_zero_phase:
            result, start = self._filter(result[:, start:], recipe.is_last, reverse=True), 0
        return result[:, start : start + self.length][:, recipe.kept]

    def _filter(self, signal: Any, is_end: bool, reverse: bool = False) -> Any:
        """Filter in one direction, from the state of the first sample if it is an end."""
        carry_in = self._states(signal[:, -1 if reverse else 0]) if is_end else None
        is_copied = reverse and not self.kernels.is_directed
        signal = as_contiguous(self._joined([signal[:, ::-1]]) if is_copied else signal)
        is_target = reverse and not is_copied
        result = self.backend.empty(signal.shape, self.dtype) if is_target else self._empty(1, signal.shape)
        chunk = Chunk((signal,), signal.shape, self.overlapped.dtype, is_target)
        self.kernels.determine(self.overlapped.cascade, chunk, carry_in, result)
        return result[:, ::-1] if is_copied else result

    def _filter_rounded(self, pieces: Sequence[Any]) -> Any:
        """Filter columns of integers twice, without a copy of them, with float32 between."""
        recipe, overlapped = self.recipe, self.overlapped

        def filtered(operands: tuple[Any, ...], is_end: bool, reverse: bool = False) -> Any:
            carry_in = self._states(operands[0][:, -1 if reverse else 0]) if is_end else None
            shape = (1, sum(p.shape[1] for p in operands), operands[0].shape[2])
            result = self.backend.empty(shape, self.dtype)
            dtype = np.result_type(operands[0].dtype, result.dtype)  # float32 holds all of int16.
            chunk = Chunk(operands, shape, dtype, reverse)
            self.kernels.determine(overlapped.cascade, chunk, carry_in, result, is_bounded=True)
            return result

        before, after = beyond_pieces(pieces, overlapped, recipe, 1)
        forward = filtered((*before, *pieces, *after), recipe.is_first)
        start = recipe.start + overlapped.ends.edge * recipe.is_first
        result = filtered((forward[:, start:],), recipe.is_last, reverse=True)
        return result[:, : self.length][:, recipe.kept]

    def _states(self, values: Any) -> Any:
        """Return the states of a constant signal of these values; None for states of 0."""
        overlapped = self.overlapped
        if not overlapped.ends.states:
            return None
        states = np.array(overlapped.ends.states)[:, None, None]
        states = self.backend.from_host(states, values)
        return cast(states * values, overlapped.cascade.state_dtype(overlapped.dtype))

    def _joined(self, pieces: Sequence[Any]) -> Any:
        """Return the pieces as one array. Kernels of a GPU cast integers as they read them."""
        if not self.backend.is_host:
            return concatenate_steps(self.backend, pieces)
        shape = (pieces[0].shape[0], sum(p.shape[1] for p in pieces), pieces[0].shape[2])
        return np.concatenate(pieces, axis=1, out=self._empty(0, shape))

    def _empty(self, number: int, shape: tuple[int, ...]) -> Any:
        """Return an array in one of the two memories."""
        size = prod(shape)
        memory = self.memory[number]
        if memory is None or memory.size < size:
            memory = self.memory[number] = self.backend.empty((size,), self.overlapped.dtype)
        return memory[:size].reshape(shape)


def concatenate_steps(backend: Backend, pieces: Sequence[Any]) -> Any:
    """Return arrays (outer, steps, inner) as one, in words of up to 16 bytes.

    CuPy copies one element a thread: 30,000 steps of 384 columns of int16 took 57 us instead of 17.
    """
    (outer, _, inner), dtype = pieces[0].shape, pieces[0].dtype
    if len(pieces) == 1:
        return pieces[0]
    if outer > 1 or any(piece.dtype != dtype for piece in pieces):
        return np.concatenate(pieces, axis=1)
    offsets = [inner * dtype.itemsize, *map(backend.address, pieces)]
    words = [word for word in _WORDS if not any(offset % word.itemsize for offset in offsets)]
    word = max([dtype, *words], key=lambda word: word.itemsize)
    joined = np.concatenate([piece.reshape(-1).view(word) for piece in pieces])
    return joined.view(dtype).reshape(1, -1, inner)


class _Columns:
    """Filters blocks of columns of integers of one chunk, without a copy of the samples."""

    def __init__(self, overlapped: OverlappedFilter, recipe: ResponseRecipe, length: int, steps: int) -> None:
        self.overlapped, self.recipe, self.length = overlapped, recipe, length
        self.memory = np.empty(steps * COLUMNS if overlapped.has_zero_phase else 0)

    def fill(self, pieces: Sequence[np.ndarray], target: np.ndarray, inner: slice) -> None:
        """Write results of columns, from all samples (steps, columns) that the chunk needs."""
        from .cpu.scipy_loops import filter_columns

        overlapped, recipe, kept = self.overlapped, self.recipe, range(self.length)[self.recipe.kept]
        first, count, step = inner.start, inner.stop - inner.start, overlapped.step
        coefficients = overlapped.cascade.float64_coefficients

        def filter_rows(x: np.ndarray, rows: Any, y: np.ndarray, targets: Any, states: np.ndarray) -> None:
            filter_columns(writable(x), rows, y, targets, states, *coefficients)

        states = self._states(count)
        if not overlapped.has_zero_phase:
            for number, piece in enumerate(pieces):
                wait = recipe.kept.start if number == recipe.before and kept else len(piece)
                filter_rows(piece, (0, first, 1, len(piece)), target, (0, first, wait, step), states)
            return
        before, after = beyond_pieces([piece[:, inner] for piece in pieces], overlapped, recipe, 0)
        if recipe.is_first:
            states = self._states(count, before[0][0] if before else pieces[0][0, inner])
        parts = [(piece, first) for piece in pieces]
        parts = [*[(part, 0) for part in before], *parts, *[(part, 0) for part in after]]
        steps, row = sum(len(part) for part, _ in parts), 0
        outputs = self.memory[: steps * count].reshape(steps, count)
        for part, left in parts:
            filter_rows(part, (0, left, 1, len(part)), outputs, (row, 0, 0, 1), states)
            row += len(part)
        stop = recipe.start + overlapped.ends.edge * recipe.is_first + self.length
        states = self._states(count, outputs[-1] if recipe.is_last else None)
        filter_rows(outputs, (steps - 1, 0, -1, steps - stop), target, (0, 0, steps, 1), states)
        if kept:
            targets = len(kept) - 1, first, self.length - 1 - kept[-1], step
            filter_rows(outputs, (stop - 1, 0, -1, self.length), target, targets, states)

    def _states(self, count: int, values: np.ndarray | None = None) -> np.ndarray:
        """Return states (sections, order + 1, count) of values that have been constant, or of 0."""
        cascade, states = self.overlapped.cascade, self.overlapped.ends.states
        result = np.zeros((len(cascade.sections), cascade.order + 1, count))
        if values is not None and states:
            result[:, :-1] = np.reshape(states, (len(result), -1, 1)) * values.astype(np.float64)
        return result


def beyond_pieces(
    pieces: Sequence[Any], overlapped: OverlappedFilter, recipe: ResponseRecipe, axis: int
) -> tuple[list[Any], list[Any]]:
    """Return the samples before the start, and those after the end, of a signal: no array or one."""
    ends = overlapped.ends

    def extension(side: int) -> Any:
        rows, count = [], ends.edge + 1
        for piece in pieces[::-side]:
            length = piece.shape[axis]
            rows.append(along(piece, axis, slice(count) if side < 0 else slice(max(length - count, 0), None)))
            count -= rows[-1].shape[axis]
        outside = beyond(np.concatenate(rows[::-side], axis), axis, ends.padtype, ends.edge, side)
        is_cast = outside.dtype != pieces[0].dtype  # that of bools
        return as_contiguous(cast(outside, overlapped.dtype) if is_cast else outside)

    before = [extension(-1)] if ends.edge and recipe.is_first else []
    return before, [extension(1)] if ends.edge and recipe.is_last else []


def _blocks(shape: tuple[int, int, int], threads: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of rows of an array (outer, steps, inner), as slices of outer and inner."""
    outer, steps, inner = shape
    rows = max(1, CELLS // max(steps, 1))
    if inner < 2 * WIDE:
        for left, right in split_range(outer, min(outer, max(threads, -(-outer * inner // rows)))):
            yield slice(left, right), slice(0, inner)
        return
    parts = min(inner // WIDE, max(-(-threads // outer), -(-inner // min(rows, COLUMNS))))
    for row in range(outer):
        for left, right in split_range(inner, parts):
            yield slice(row, row + 1), slice(left, right)
