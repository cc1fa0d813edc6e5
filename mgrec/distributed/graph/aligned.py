"""Operands with the same chunks: what graphs and plans are built from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from math import inf, isnan
from operator import getitem
from typing import Any

import dask.array.core as da
import numpy as np
from dask._task_spec import Alias, convert_legacy_graph
from dask.base import clone_key, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Future

from ...core.arrays.chunk import has_unknown_sizes
from ...core.backends import common_backend
from ...core.contract.problem import Problem
from ...core.contract.recurrence import AlongAxis, ChunkIndex, ChunkPosition, Overlapping


@dataclass(frozen=True)
class AlignedProblem:
    """A recurrence, and operands that have the same chunks.

    `blocks`, tuple of dask.array.Array: the operands; at least one.
    `chunks`, tuple of tuple of int or nan: the chunks of the results.
    `initial`: states before the first step, in memory or Dask arrays: the recurrence's state_shape,
      then the rows, broadcast.
    """

    recurrence: Any
    blocks: tuple[da.Array, ...]
    chunks: tuple[tuple[Any, ...], ...]
    initial: tuple[Any, ...]

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """The chunks of all axes but that of the recurrence."""
        return without_axis(self.chunks, self.recurrence.axis)

    @property
    def count(self) -> int:
        """Number of chunks along the axis of the recurrence."""
        return len(self.chunks[self.recurrence.axis])

    @property
    def needs_last_summary(self) -> bool:
        """Whether the summary of the last chunk along the axis is needed."""
        return bool(self.recurrence.needs_last_summary(self.count))

    @property
    def needs_summaries(self) -> bool:
        """Whether the summary of any chunk is needed."""
        return self.count > 1 or self.needs_last_summary

    @property
    def is_whole(self) -> bool:
        """Whether every row is in one chunk, without states before or after."""
        return self.count == 1 and not self.initial and not self.recurrence.returns_final_state

    @property
    def has_unknown_sizes(self) -> bool:
        return has_unknown_sizes(self.chunks)

    @property
    def may_speculate(self) -> bool:
        """Whether some chunk may be determined before its carry-in is known."""
        largest = tuple(max(inf if isnan(n) else n for n in lengths) for lengths in self.chunks)
        return bool(self.recurrence.may_speculate(largest, common_backend(self.blocks)))

    @cached_property
    def _starts(self) -> list[list[int]]:
        return [starts_of(lengths) for lengths in self.chunks]

    @cached_property
    def _layouts(self) -> list[tuple[str, int, tuple[int, ...] | None]]:
        """Name of each block, number of axes that it lacks, and its numblocks if it broadcasts."""
        counts, layouts = tuple(map(len, self.chunks)), []
        for block in self.blocks:
            offset, numblocks = len(counts) - block.ndim, block.numblocks
            is_full = numblocks == counts[offset:]
            layouts.append((block.name, offset, None if is_full else numblocks))
        return layouts

    def position(self, chunk_index: ChunkIndex) -> ChunkPosition:
        """Return the index of a chunk, and the indices of its first step and rows."""
        return chunk_index, tuple(map(getitem, self._starts, chunk_index))

    def keys(self, chunk_index: ChunkIndex) -> list[Any]:
        """Return the keys of the blocks of a chunk."""
        keys = []
        for name, offset, numblocks in self._layouts:
            index = chunk_index[offset:]
            keys.append((name, *(index if numblocks is None else broadcast_index(index, numblocks))))
        return keys

    def shapes(self, chunk_index: ChunkIndex) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the blocks of a chunk."""
        return tuple(
            tuple(lengths[k] for lengths, k in zip(block.chunks, key[1:], strict=True))
            for block, key in zip(self.blocks, self.keys(chunk_index), strict=True)
        )

    def futures(self) -> list[Future]:
        """Return the futures of all blocks, which are persisted."""
        return [v for block in self.blocks for v in block.dask.layers[block.name].values()]


def align_problem(problem: Problem) -> AlignedProblem:
    """Bring the operands of a problem to the chunks of its result.

    Raise ValueError if the recurrence needs the index of each step, but the sizes of chunks are
    unknown.
    """
    recurrence, chunks = problem.recurrence, _reference_chunks(problem)
    is_along_axis = isinstance(recurrence, (AlongAxis, Overlapping))
    axes = (recurrence.axis,) if is_along_axis else recurrence.axes
    if recurrence.indexed_by and any(isnan(n) for axis in axes for n in chunks[axis]):
        raise ValueError(
            f"{recurrence.indexed_by} needs the index of each step, but the chunk sizes along "
            "the axis are unknown: call compute_chunk_sizes() on the arrays first"
        )
    recurrence.check_chunks(chunks)
    blocks = tuple(align(array, chunks, problem.shape, recurrence.number_axes) for array in problem.operands)
    if isinstance(recurrence, Overlapping):
        chunks = chunks_of_results(blocks[0], recurrence.axis, recurrence.counts)
    return AlignedProblem(recurrence, blocks, chunks, problem.initial)


def chunk_indices_of(chunks: Sequence[Sequence[Any]]) -> Iterator[ChunkIndex]:
    """Return the indices of all chunks of these axes."""
    return product(*(range(len(lengths)) for lengths in chunks))


def chunk_at(chunk_index: tuple[Any, ...], axis: int, number: Any) -> tuple[Any, ...]:
    """Return the index of another chunk of the same row; or other values of axes, with one replaced."""
    return (*chunk_index[:axis], number, *chunk_index[axis + 1 :])


def neighbour(chunk_index: ChunkIndex, axis: int, step: int) -> ChunkIndex:
    """Return the index of the chunk so many chunks further along an axis."""
    return chunk_at(chunk_index, axis, chunk_index[axis] + step)


def without_axis(values: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """Return the values of all axes but one, such as the row of chunks to which a chunk belongs."""
    return values[:axis] + values[axis + 1 :]


def chunk_of_row(row: ChunkIndex, axis: int, number: int) -> ChunkIndex:
    """Return the index of a chunk of a row."""
    return (*row[:axis], number, *row[axis:])


def chunks_of_results(x: Any, axis: int, counts: tuple[int, ...] | None) -> tuple[tuple[Any, ...], ...]:
    """Return the chunks of x, with `counts` along the axis if it is not None."""
    return x.chunks if counts is None else chunk_at(x.chunks, axis, counts)


def broadcast_index(chunk_index: ChunkIndex, numblocks: tuple[int, ...]) -> ChunkIndex:
    """Return the index of a chunk in an array that is broadcast along axes of one chunk."""
    return tuple(0 if n == 1 else k for k, n in zip(chunk_index, numblocks, strict=True))


def starts_of(lengths: tuple[Any, ...]) -> list[int]:
    """Return the index of the first step of each chunk; -1 after a chunk of unknown size."""
    starts, start = [], 0
    for length in lengths:
        starts.append(start)
        start = -1 if start < 0 or isnan(length) else start + int(length)
    return starts


def slices_of(lengths: Sequence[int]) -> list[slice]:
    """Return the slices of parts of these lengths, one after the other."""
    return [slice(stop - n, stop) for n, stop in zip(lengths, accumulate(lengths), strict=True)]


def _reference_chunks(problem: Problem) -> tuple[tuple[Any, ...], ...]:
    """Return the chunks of the result: those of the last operand that has each axis."""
    ndim = len(problem.shape)
    chunks: list[tuple[Any, ...] | None] = [None] * ndim
    for array in reversed(problem.operands):
        if not isinstance(array, da.Array):
            continue
        for k in range(-min(ndim, array.ndim), -problem.recurrence.number_axes):
            if chunks[k] is None and (array.shape[k] != 1 or problem.shape[k] == 1):
                chunks[k] = array.chunks[k]
    return tuple(
        (int(length),) if lengths is None else lengths
        for lengths, length in zip(chunks, problem.shape, strict=True)
    )


def align(
    array: Any, chunks: Sequence[Sequence[Any]], shape: tuple[Any, ...], number_axes: int = 0
) -> da.Array:
    """Return an operand in the chunks of the result; axes of length 1 and of numbers stay whole."""
    offset, axes = len(chunks) - array.ndim, range(array.ndim - number_axes)
    wanted = {k: chunks[offset + k] for k in axes if array.shape[k] != 1 or shape[offset + k] == 1}
    if not isinstance(array, da.Array):
        array_chunks = tuple(wanted.get(k, (length,)) for k, length in enumerate(array.shape))
        if has_unknown_sizes(array_chunks):
            raise ValueError(
                "a NumPy operand cannot be cut like a Dask array of unknown chunk sizes: call "
                "compute_chunk_sizes() on the Dask array first"
            )
        name = f"operand-{tokenize(array, array_chunks)}"
        return da.from_array(array, chunks=array_chunks, name=name)
    # An axis of length 1 may come in several chunks, all but one of them empty.
    differing: dict[int, Any] = {k: (1,) for k in axes if k not in wanted and len(array.chunks[k]) > 1}
    for k, lengths in wanted.items():
        present = array.chunks[k]
        if any(map(isnan, (*present, *lengths))):
            if len(present) != len(lengths):
                raise ValueError(
                    f"operands with unknown chunk sizes must have the same number of chunks "
                    f"along axis {offset + k}; got {len(present)} and {len(lengths)}"
                )
        elif present != lengths:
            differing[k] = lengths
    return _rechunk(array, differing) if differing else array


def _rechunk(array: da.Array, chunks: dict[int, Any]) -> da.Array:
    """Return an array in other chunks along some axes."""
    wanted = tuple(chunks.get(k, lengths) for k, lengths in enumerate(array.chunks))
    if array.ndim and not any(array.shape):
        # Dask (2026.7) does not rechunk an array whose axes are all empty.
        nothing = np.empty_like(array._meta, shape=array.shape)
        return da.from_array(nothing, chunks=wanted, name=f"operand-{tokenize(nothing, wanted)}")
    return array.rechunk(wanted)


def read_again(array: da.Array, seed: str) -> da.Array:
    """Return the same array under fresh keys, so that its tasks run a second time.

    Futures stay. ``dask.graph_manipulation.clone`` does not rename the targets of aliases (Dask
    2026.7): after a slice, a reshape or a rechunk its graph lacks keys.
    """
    graph = dict(array.__dask_graph__())
    futures = {key: value for key, value in graph.items() if isinstance(value, Future)}
    others = {key: value for key, value in graph.items() if key not in futures}
    tasks = convert_legacy_graph(others, set(graph))
    fresh = {key: clone_key(key, seed) for key in tasks}
    renamed = {fresh[key]: task.substitute(fresh, key=fresh[key]) for key, task in tasks.items()}
    for key in flatten(array.__dask_keys__()):
        if key in futures:
            renamed[clone_key(key, seed)] = Alias(clone_key(key, seed), key)
    name = clone_key(array.name, seed)
    return da.Array(
        HighLevelGraph.from_collections(name, {**renamed, **futures}), name, array.chunks, meta=array._meta
    )
