"""Graphs over operands that are yet to be loaded.

Every chunk k of a group g has three or four tasks::

    loads ─ pack k ─┬─ precompute k ─┐
                    │                propagate g ─ (propagate g + 1)
                    └─ determine k ──┘

A pack collects the blocks of one chunk, so that its loads fuse into one root task on one worker.
A propagation takes the summaries of its group and the carry-ins of the group before. ``determine``
selects its carry-in from those of its group: Dask would place a task for each carry-in without
regard to data.

If chunks may be determined speculatively, the loads, the pack and ``speculate`` are one task::

    loads ─ speculate k ─┬─ precompute k ─┐
                         │                propagate g ─ (propagate g + 1)
                         └─ determine k ──┘

With very many small chunks a propagation takes the packs and summarises them: two tasks a chunk
instead of three, for a few kilobytes that may have to travel.

Rows that are whole in their chunks need no summary and no carry-in: each chunk is one task, with
which its loads fuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef

from ...core.backends import common_backend
from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import (
    determine_block,
    determine_whole,
    inputs_of_blocks,
    precompute_block,
    propagate_group,
    propagate_inputs,
)
from ..tasks.speculation import (
    correct_block,
    determine_from_blocks,
    precompute_from_blocks,
    speculate_block,
    summarise_block,
)
from .aligned import AlignedProblem, read_again, starts_of
from .chains import ChainLayers, split_results

# Chunks along the axis that are very many, and bytes of operands of a small one. 1,000 chunks of
# 1,000 steps took 2.9 times one map task a chunk by three tasks each, and 1.8 times by two.
VERY_MANY, SMALL = 256, 1 << 15


class PackedLayers(ChainLayers):
    """The tasks over packs; a "two-pass" schedule has two packs a chunk."""

    def __init__(self, aligned: AlignedProblem, token: str, memory: str) -> None:
        super().__init__(aligned, token)
        summarise: Callable[..., Any] = precompute_block
        self.determine_chunk: Callable[..., Any] = determine_block
        first = second = _packs(aligned, aligned.blocks, f"pack-{token}")
        if memory == "two-pass":
            fresh = [read_again(block, token) for block in aligned.blocks]
            second = _packs(aligned, fresh, f"pack-again-{token}")
            if aligned.may_speculate:
                summarise, self.determine_chunk = precompute_from_blocks, determine_from_blocks
        elif aligned.may_speculate:
            first = second = _map(aligned, speculate_block, first, f"speculate-{token}")
            summarise, self.determine_chunk = summarise_block, correct_block
        self.determined = second
        self.has_small_chunks = _has_small_chunks(aligned)
        self.propagated = (
            first if self.has_small_chunks else _map(aligned, summarise, first, self.names[0])
        )

    def propagate(
        self, chunk_indices: list[ChunkIndex], previous: TaskRef, key: tuple[Any, ...]
    ) -> None:
        refs = (TaskRef((self.propagated.name, *chunk_index)) for chunk_index in chunk_indices)
        phase = propagate_inputs if self.has_small_chunks else propagate_group
        self.carry_ins[key] = Task(key, phase, self.aligned.recurrence, List(*refs), previous)

    def determine(self, chunk_index: ChunkIndex, carry_ins: TaskRef, number: int) -> None:
        key, inputs = (self.names[2], *chunk_index), TaskRef((self.determined.name, *chunk_index))
        self.results[key] = Task(
            key, self.determine_chunk, self.aligned.recurrence, inputs, carry_ins, number
        )

    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        inputs = [self.propagated, *initial] if self.aligned.needs_summaries else initial
        graph = HighLevelGraph.from_collections(self.names[1], self.carry_ins, dependencies=inputs)
        return HighLevelGraph.merge(self.determined.dask, graph)

    @property
    def determine_inputs(self) -> set[str]:
        return {self.determined.name}


def _has_small_chunks(aligned: AlignedProblem) -> bool:
    """Return whether a propagation may take the operands of its chunks instead of summaries."""
    is_on_host = common_backend(aligned.blocks).is_host
    is_one_way = not aligned.recurrence.is_two_sided
    if not (is_on_host and is_one_way and aligned.count >= VERY_MANY) or aligned.has_unknown_sizes:
        return False
    sizes = [prod(map(max, block.chunks)) * block.dtype.itemsize for block in aligned.blocks]
    return sum(sizes) <= SMALL


def _map(
    aligned: AlignedProblem, phase: Callable[..., Any], inputs: da.Array, name: str
) -> da.Array:
    """Return a phase of each chunk."""
    index = tuple(range(len(aligned.chunks)))
    return _objects(phase, index, inputs, index, name=name, recurrence=aligned.recurrence)


def _packs(aligned: AlignedProblem, blocks: Sequence[da.Array], name: str) -> da.Array:
    """Return the inputs of each chunk."""
    return _objects(
        inputs_of_blocks,
        tuple(range(len(aligned.chunks))),
        *blockwise_arguments(aligned, blocks),
        name=name,
        recurrence=aligned.recurrence,
        count=len(blocks),
    )


def _objects(
    function: Callable[..., Any], index: tuple[int, ...], *pairs: Any, **options: Any
) -> da.Array:
    """Return an array whose chunks are objects."""
    meta = np.empty((0,) * len(index), object)
    return da.blockwise(function, index, *pairs, meta=meta, align_arrays=False, **options)


def solve_whole(aligned: AlignedProblem, token: str) -> tuple[da.Array, ...]:
    """Return the lazy results of a problem whose rows are whole and have no states."""
    index, recurrence = tuple(range(len(aligned.chunks))), aligned.recurrence
    meta: Any = meta_from_array(
        aligned.blocks[0]._meta, ndim=len(index), dtype=recurrence.result_dtype
    )
    array = da.blockwise(
        determine_whole,
        index,
        *blockwise_arguments(aligned, aligned.blocks),
        name=f"determine-{token}",
        meta=meta,
        align_arrays=False,
        adjust_chunks=dict(enumerate(aligned.chunks)),
        recurrence=recurrence,
        count=len(aligned.blocks),
    )
    return split_results(array, recurrence.results, meta)


def blockwise_arguments(aligned: AlignedProblem, blocks: Sequence[da.Array]) -> list[Any]:
    """Return arguments of ``blockwise``: a chunk's blocks, then its index and start by axis."""
    index = tuple(range(len(aligned.chunks)))
    pairs: list[Any] = []
    for block in blocks:
        pairs += [block, index[len(index) - block.ndim :]]
    for k in index:
        values = {(j,): (j, start) for j, start in enumerate(starts_of(aligned.chunks[k]))}
        pairs += [ArrayValuesDep((aligned.chunks[k],), values), (k,)]
    return pairs
