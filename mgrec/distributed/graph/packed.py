"""Operands yet to be loaded: packed chained groups.

The graph from one chunk k of a group g to the result::

    loads ─ pack k ─┬─ precompute k ─┐
                    │                propagate g ─ (propagate g + 1)
                    └─ determine k ──┘

``inputs`` gathers the blocks of one chunk, so that its loads fuse into one root task on one worker.
A propagation takes the summaries of its group and the carry-ins of the group before. ``determine``
picks its carry-in from those of its group: Dask would place a task for each carry-in without regard
to data.

Where chunks may forget their carry-ins the loads, the pack and ``begin`` are one task::

    loads ─ begin k ─┬─ precompute k ─┐
                     │                propagate g ─ (propagate g + 1)
                     └─ determine k ──┘

Of very many small chunks a propagation takes the packs themselves and summarises them: a task
less a chunk, two in place of three, for a few kilobytes that may have to travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dask.array.core as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef

from ...core.arrays.array_types import is_on_gpu
from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import (
    determine_block,
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
from .cuts import Cut, starts_of
from .operands import read_again
from .rows import Layers

# Chunks along the axis that are very many, and bytes of operands of a small one. 1,000 chunks of
# 1,000 steps took 2.9 times one map task a chunk by three tasks each, and 1.8 times by two.
VERY_MANY, SMALL = 256, 1 << 15


class Packed(Layers):
    """The tasks over packs; two passes have two packs a chunk."""

    def __init__(self, cut: Cut, token: str, memory: str) -> None:
        super().__init__(cut, token)
        summarise: Callable[..., Any] = precompute_block
        self.finish: Callable[..., Any] = determine_block
        self.inputs_of_chunks = self.again = _inputs(cut, cut.blocks, f"pack-{token}")
        if memory == "two-pass":
            fresh = [read_again(block, token) for block in cut.blocks]
            self.again = _inputs(cut, fresh, f"pack-again-{token}")
            if cut.may_speculate:
                summarise, self.finish = precompute_from_blocks, determine_from_blocks
        elif cut.may_speculate:
            self.inputs_of_chunks = self.again = _each(
                cut, speculate_block, self.inputs_of_chunks, f"begin-{token}"
            )
            summarise, self.finish = summarise_block, correct_block
        self.is_small = _is_small(cut)
        self.summarised = self.inputs_of_chunks
        if not self.is_small:
            self.summarised = _each(cut, summarise, self.inputs_of_chunks, self.names[0])

    def propagate(self, chunk_indices: list[ChunkIndex], before: Any, key: tuple[Any, ...]) -> None:
        refs = (TaskRef((self.summarised.name, *chunk_index)) for chunk_index in chunk_indices)
        phase = propagate_inputs if self.is_small else propagate_group
        self.entries[key] = Task(key, phase, self.cut.recurrence, List(*refs), before)

    def determine(self, chunk_index: ChunkIndex, entries: TaskRef, number: int) -> None:
        key, inputs = (self.names[2], *chunk_index), TaskRef((self.again.name, *chunk_index))
        self.results[key] = Task(key, self.finish, self.cut.recurrence, inputs, entries, number)

    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        asked = [self.summarised, *initial] if self.cut.is_summarised else initial
        own = HighLevelGraph.from_collections(self.names[1], self.entries, dependencies=asked)
        return HighLevelGraph.merge(self.again.dask, own)

    @property
    def read(self) -> set[str]:
        return {self.again.name}


def _is_small(cut: Cut) -> bool:
    """Whether a propagation may take the operands of its chunks rather than their summaries."""
    is_on_host = not any(is_on_gpu(block._meta) for block in cut.blocks)
    is_one_way = not cut.recurrence.is_two_sided
    if not (is_on_host and is_one_way and cut.count >= VERY_MANY) or cut.has_unknown_sizes:
        return False
    sizes = [prod(map(max, block.chunks)) * block.dtype.itemsize for block in cut.blocks]
    return sum(sizes) <= SMALL


def _each(cut: Cut, phase: Callable[..., Any], inputs_of_chunks: da.Array, name: str) -> da.Array:
    """A phase of each chunk."""
    index = tuple(range(len(cut.chunks)))
    return da.blockwise(
        phase,
        index,
        inputs_of_chunks,
        index,
        name=name,
        meta=np.empty((0,) * len(index), object),
        align_arrays=False,
        recurrence=cut.recurrence,
    )


def _inputs(cut: Cut, blocks: Sequence[da.Array], name: str) -> da.Array:
    index = tuple(range(len(cut.chunks)))
    return da.blockwise(
        inputs_of_blocks,
        index,
        *indexed(cut, blocks),
        name=name,
        meta=np.empty((0,) * len(index), object),
        align_arrays=False,
        recurrence=cut.recurrence,
        count=len(blocks),
    )


def indexed(cut: Cut, blocks: Sequence[da.Array]) -> list[Any]:
    """The arguments of ``blockwise`` for a chunk's blocks, its place and where it starts."""
    index = tuple(range(len(cut.chunks)))
    pairs: list[Any] = []
    for block in blocks:
        pairs += [block, index[len(index) - block.ndim :]]
    for k in index:
        # The chunk's place, for messages, and the index of its first step.
        values = {(j,): (j, start) for j, start in enumerate(starts_of(cut.chunks[k]))}
        pairs += [ArrayValuesDep((cut.chunks[k],), values), (k,)]
    return pairs
