"""Graphs of filters along an axis, each chunk of which needs parts of other chunks.

::

    chunk j ── parts j ──┐
    chunk k ────────── apply k

A part is a few numbers for each row, or the samples next to a chunk. One task computes all parts of
a chunk. Chunks beyond the reach of the filter do not depend on each other, so that results stream
while chunks are still to be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, prod
from operator import getitem
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import List, Task, TaskRef

from ...core.arrays.chunk import as_contiguous
from ...core.backends import backend_of
from ...core.contract.recurrence import AxisFilter, ChunkIndex, JoiningFilter, filter_chunk
from .aligned import chunk_at, chunk_indices_of, chunks_of_results, slices_of

TOGETHER = 1 << 28
"""Most samples that a task of a GPU filters, of several chunks together. A band-pass of 5 sections,
in both directions over chunks of 30,000 steps of 384 columns of int16, took 76 us a chunk on an
H100 for 23 chunks together, 69 for 46 and 66 for 92, with 8 bytes of memory a sample; other filters
take up to 26 bytes. Dask takes longer to order larger groups, and starts the first one later: if
tasks make the chunks, 600 of them took 133 and 156 us each on two machines, and 127 and 184 in
groups twice as large."""
LEAST_TASKS = 4
"""The number of such tasks along the axis is a multiple of it: 2 or 4 workers with equal ranges of
chunks then need no whole chunk of each other."""


@dataclass(frozen=True)
class ChunkGroup:
    """Consecutive chunks along an axis that are filtered together.

    `chunks`, range, or list of chunk indices: their numbers along the axis; in a row their indices.
    `parts`, list of (number or index of a chunk, part): the parts of other chunks that they need,
      in the order in which the filter takes them.
    `recipe`: what the filter does with them.
    `is_joined`: whether the filter takes a list of chunks.
    """

    chunks: Sequence[Any]
    parts: list[tuple[Any, Any]]
    recipe: Any
    is_joined: bool

    def in_row(self, chunk_index: ChunkIndex, axis: int) -> ChunkGroup:
        """Return the group of the chunks in the row of this one."""
        chunks = [chunk_at(chunk_index, axis, number) for number in self.chunks]
        parts = [(chunk_at(chunk_index, axis, number), part) for number, part in self.parts]
        return replace(self, chunks=chunks, parts=parts)


def groups_of(axis_filter: AxisFilter, x: Any, axis: int) -> list[ChunkGroup]:
    """Return the groups of chunks along the axis, in order.

    Tasks of small chunks on a GPU take longer than their kernels.
    """
    chunks = range(x.numblocks[axis])
    count = count_of_groups(x, axis) if joins_chunks(axis_filter, x) else len(chunks)
    is_joined, lengths = count < len(chunks), x.chunks[axis]
    return [group_of(axis_filter, lengths, part, is_joined) for part in split(chunks, count)]


def group_of(axis_filter: AxisFilter, lengths: Any, chunks: range, is_joined: bool) -> ChunkGroup:
    """Return the group of some of the chunks, whose lengths along the axis are `lengths`."""
    count = (len(chunks),) if is_joined else ()
    parts, recipe = axis_filter.plan(lengths, chunks.start, *count)
    return ChunkGroup(chunks, parts, recipe, is_joined)


def joins_chunks(axis_filter: AxisFilter, x: Any) -> bool:
    """Return whether several chunks of x may be filtered together: on GPUs, by some filters."""
    return isinstance(axis_filter, JoiningFilter) and not backend_of(x).is_host


def split(chunks: range, count: int) -> list[range]:
    """Return so many ranges of nearly equal length."""
    size = len(chunks)
    return [chunks[size * k // count : size * (k + 1) // count] for k in range(count)]


def count_of_groups(x: Any, axis: int) -> int:
    """Return the number of groups if the filter takes lists of chunks."""
    size, count = prod(x.chunksize), x.numblocks[axis]
    if count < 2 * LEAST_TASKS or isnan(size):
        return count
    most = LEAST_TASKS * max(1, TOGETHER // max(1, size))
    return min(count, LEAST_TASKS * -(-count // most))


def filter_chunks(
    axis_filter: AxisFilter, x: Any, axis: int, dtype: np.dtype[Any], counts: tuple[int, ...] | None = None
) -> Any:
    """Return the lazy results of a filter, such as those of ``mgrec.ndimage``, in x's chunks.

    `counts` are the numbers of results of the chunks along the axis, if they are not those of x.
    """
    token = tokenize(axis_filter, x, axis, dtype)
    parts_name, name = f"parts-{token}", f"filtered-{token}"
    chunks = chunks_of_results(x, axis, counts)
    groups = groups_of(axis_filter, x, axis)
    # The parts of each chunk along the axis, with their positions in the list of its task.
    positions: dict[int, dict[Any, int]] = {}
    for group in groups:
        for number, part in group.parts:
            of_chunk = positions.setdefault(number, {})
            of_chunk.setdefault(part, len(of_chunk))
    stored = _stored_blocks(x) if groups[0].is_joined else {}
    block_at = partial(_block_at, stored, x.name)
    parts: dict[Any, Any] = {}
    results: dict[Any, Any] = {}
    for row in chunk_indices_of(chunk_at(x.chunks, axis, (0,))):
        for number, wanted in positions.items():
            index = chunk_at(row, axis, number)
            key = (parts_name, *index)
            parts[key] = Task(key, _parts_of, axis_filter, block_at(index), axis, list(wanted))
        for group in (group.in_row(row, axis) for group in groups):
            refs = [TaskRef((parts_name, *index)) for index, _ in group.parts]
            needed = [positions[index[axis]][part] for index, part in group.parts]
            blocks = list(map(block_at, group.chunks))
            key = (f"together-{token}" if group.is_joined else name, *group.chunks[0])
            block = List(*blocks) if group.is_joined else blocks[0]
            arguments = block, axis, dtype, group.recipe, List(*refs), needed
            results[key] = Task(key, _apply, axis_filter, *arguments)
            if group.is_joined:
                kept = slices_of([chunks[axis][index[axis]] for index in group.chunks])
                for member, result in zip(group.chunks, kept, strict=True):
                    result_key = (name, *member)
                    results[result_key] = Task(result_key, part_of, TaskRef(key), axis, result)
    # Dask orders all blocks of a layer that no task needs.
    layers, dependencies, sources = {**x.dask.layers}, {**x.dask.dependencies}, {x.name}
    if len(stored) == x.npartitions:
        layers, dependencies, sources = {}, {}, set()
    if parts:
        layers[parts_name], dependencies[parts_name] = parts, {*sources}
        sources.add(parts_name)
    graph = HighLevelGraph({**layers, name: results}, {**dependencies, name: sources})
    meta = meta_from_array(x._meta, dtype=dtype)
    return da.Array(graph, name, chunks, meta=meta)


def _stored_blocks(x: Any) -> dict[Any, Any]:
    """Return the blocks of x that are arrays already, as those of persisted arrays.

    Tasks then contain them, because Dask spends as much time on a block as on a task: a call over
    600 chunks spent 68 us a chunk on the host of an H100, 29 of them before the first kernel, and
    110 and 59 with blocks in the graph.
    """
    layer, array_type = x.dask.layers.get(x.name), type(x._meta)
    if not isinstance(layer, MaterializedLayer):
        return {}
    return {key: block for key, block in layer.mapping.items() if type(block) is array_type}


def _block_at(stored: dict[Any, Any], name: str, index: ChunkIndex) -> Any:
    """Return the stored block with an index, or a reference to its task."""
    key = (name, *index)
    return stored[key] if key in stored else TaskRef(key)


def part_of(results: Any, axis: int, kept: slice) -> Any:
    """Return some results along an axis, as a view where that is contiguous."""
    return as_contiguous(results[(slice(None),) * axis + (kept,)])


def _parts_of(axis_filter: AxisFilter, x: Any, axis: int, parts: Sequence[Any]) -> list[Any]:
    """Return the parts of a chunk that other chunks need."""
    return [axis_filter.part(x, axis, part) for part in parts]


def _apply(
    axis_filter: AxisFilter,
    x: Any,
    axis: int,
    dtype: np.dtype[Any],
    recipe: Any,
    parts_of_chunks: Sequence[list[Any]],
    positions: Sequence[int],
) -> Any:
    """Filter a chunk, or a list of chunks, with one part of each list."""
    parts = list(map(getitem, parts_of_chunks, positions))
    return filter_chunk(axis_filter, x, axis, dtype, recipe, parts)
