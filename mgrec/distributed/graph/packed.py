"""Graphs over operands that are yet to be loaded, and over persisted ones.

Over operands that are yet to be loaded, every chunk k of a group g has three or four tasks::

    loads ─ pack k ─┬─ precompute k ─┐
                    │                propagate g ─ (propagate g + 1)
                    └─ determine k ──┘

The loads of a chunk fuse with its pack into one root task on one worker. ``determine`` selects its
carry-in from those of its group: Dask would place a task for each carry-in without regard to data.
``speculate`` takes the place of the pack if chunks may be determined speculatively. With very many
small chunks a propagation takes the packs and summarises them: two tasks a chunk instead of three,
for a few kilobytes that may have to travel. Rows that are whole in their chunks are one task each.

Persisted blocks need no pack. One task precomputes a batch of chunks that the scheduler says are on
one worker, so that a chunk costs little more than one task, and two chunks take three rounds
instead of four. ``speculate`` takes its place if chunks may be determined speculatively: the
results stay on the worker, where ``determine`` corrects them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef
from distributed import Future, Scheduler

from ...core.backends import common_backend
from ...core.contract.recurrence import ChunkIndex
from ..speculation import (
    correct_persisted,
    determine_from_blocks,
    precompute_from_blocks,
    speculate_block,
    speculate_persisted,
)
from ..tasks import (
    determine_block,
    determine_persisted,
    determine_whole,
    inputs_of_blocks,
    precompute_block,
    precompute_persisted,
    propagate_group,
    propagate_inputs,
    propagate_persisted,
)
from .aligned import AlignedProblem, chunk_indices_of, read_again, starts_of
from .chains import ChainLayers, Layer, extended, split_results

# Chunks along the axis that are very many, and bytes of operands of a small one. 1,000 chunks of
# 1,000 steps took 2.9 times one map task a chunk by three tasks each, and 1.8 times by two.
VERY_MANY, SMALL = 256, 1 << 15
# Below this many chunks a request to the scheduler, about 2 ms, does not pay: a task less saves
# 0.3 to 1 ms.
FEW = 6
# Most chunks that one task precomputes: larger batches save nothing measurable, and a lost worker
# loses a whole batch.
BATCH = 32


class PackedLayers(ChainLayers):
    """The tasks over packs; a "two-pass" schedule has two packs a chunk."""

    def __init__(self, aligned: AlignedProblem, token: str, memory: str) -> None:
        super().__init__(aligned, token)
        summarise: Callable[..., Any] = precompute_block
        self.determine_chunk: Callable[..., Any] = determine_block
        first = second = _chunk_inputs(aligned, aligned.blocks, f"pack-{token}")
        if memory == "two-pass":
            fresh = [read_again(block, token) for block in aligned.blocks]
            second = _chunk_inputs(aligned, fresh, f"pack-again-{token}")
            if aligned.may_speculate:
                summarise, self.determine_chunk = precompute_from_blocks, determine_from_blocks
        elif aligned.may_speculate:
            first = second = _map(aligned, speculate_block, first, f"speculate-{token}")
        self.determined = second
        self.has_small_chunks = _has_small_chunks(aligned)
        self.propagated = first if self.has_small_chunks else _map(aligned, summarise, first, self.names[0])

    def propagate(self, chunk_indices: list[ChunkIndex], previous: TaskRef, key: tuple[Any, ...]) -> None:
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


def _map(aligned: AlignedProblem, phase: Callable[..., Any], inputs: da.Array, name: str) -> da.Array:
    """Return a phase of each chunk."""
    index = tuple(range(len(aligned.chunks)))
    return _objects(phase, index, inputs, index, name=name, recurrence=aligned.recurrence)


def _chunk_inputs(aligned: AlignedProblem, blocks: Sequence[da.Array], name: str) -> da.Array:
    """Return the inputs of each chunk."""
    return _objects(
        inputs_of_blocks,
        tuple(range(len(aligned.chunks))),
        *blockwise_arguments(aligned, blocks),
        name=name,
        recurrence=aligned.recurrence,
        count=len(blocks),
    )


def _objects(function: Callable[..., Any], index: tuple[int, ...], *pairs: Any, **options: Any) -> da.Array:
    """Return an array whose chunks are objects."""
    meta = np.empty((0,) * len(index), object)
    return da.blockwise(function, index, *pairs, meta=meta, align_arrays=False, **options)


def solve_whole(aligned: AlignedProblem, token: str) -> tuple[da.Array, ...]:
    """Return the lazy results of a problem whose rows are whole and have no states."""
    index, recurrence = tuple(range(len(aligned.chunks))), aligned.recurrence
    meta: Any = meta_from_array(aligned.blocks[0]._meta, ndim=len(index), dtype=recurrence.result_dtype)
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


def is_persisted(array: da.Array) -> bool:
    """Return whether all blocks of an array are on workers, or being computed there.

    Blocks in this process may go to any worker: they need their pack.
    """
    layer = array.dask.layers.get(array.name, {})
    return type(layer) is MaterializedLayer and all(isinstance(v, Future) for v in layer.values())


class PersistedLayers(ChainLayers):
    """The tasks over persisted blocks."""

    def __init__(self, aligned: AlignedProblem, token: str) -> None:
        self.where, self.threads = _locate(aligned)
        super().__init__(aligned, _token_of(token, self.where, self.threads))
        self.summaries: Layer = {}
        self.may_speculate = aligned.may_speculate
        if self.may_speculate:
            self.names = (f"speculate-{self.token}", *self.names[1:])
        self.batch_of: dict[ChunkIndex, tuple[TaskRef, int]] = {}
        self.refs = {
            chunk_index: tuple(map(TaskRef, aligned.keys(chunk_index)))
            for chunk_index in chunk_indices_of(aligned.chunks)
        }

    def propagate(self, chunk_indices: list[ChunkIndex], previous: TaskRef, key: tuple[Any, ...]) -> None:
        aligned, name, batches = self.aligned, self.names[0], self._batches(chunk_indices)
        summarise = speculate_persisted if self.may_speculate else precompute_persisted
        summaries, batch_indices = [], {}
        for number, batch in enumerate(batches):
            batch_key = (name, *batch[0])
            refs = List(*(ref for chunk_index in batch for ref in self.refs[chunk_index]))
            positions = tuple(map(aligned.position, batch))
            self.summaries[batch_key] = Task(batch_key, summarise, aligned.recurrence, positions, refs)
            summaries.append(TaskRef(batch_key))
            for index, chunk_index in enumerate(batch):
                self.batch_of[chunk_index] = TaskRef(batch_key), index
                batch_indices[chunk_index] = number, index
        order = tuple(batch_indices[chunk_index] for chunk_index in chunk_indices)
        self.carry_ins[key] = Task(
            key, propagate_persisted, aligned.recurrence, order, List(*summaries), previous
        )

    def determine(self, chunk_index: ChunkIndex, carry_ins: TaskRef, number: int) -> None:
        key, aligned, refs = (self.names[2], *chunk_index), self.aligned, self.refs[chunk_index]
        arguments = (aligned.recurrence, aligned.position(chunk_index), carry_ins, number)
        if self.may_speculate:
            batch = self.batch_of.get(chunk_index, (None, 0))
            self.results[key] = Task(key, correct_persisted, *arguments, *batch, *refs)
        else:
            self.results[key] = Task(key, determine_persisted, *arguments, *refs)

    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        first, second, *_ = self.names
        graph = HighLevelGraph.merge(*(array.dask for array in (*self.aligned.blocks, *initial)))
        dependencies = {array.name for array in initial}
        if self.aligned.needs_summaries:
            graph = extended(graph, first, self.summaries, {b.name for b in self.aligned.blocks})
            dependencies.add(first)
        return extended(graph, second, self.carry_ins, dependencies)

    @property
    def determine_inputs(self) -> set[str]:
        blocks = {block.name for block in self.aligned.blocks}
        reads_batches = self.may_speculate and self.aligned.needs_summaries
        return {self.names[0], *blocks} if reads_batches else blocks

    def _batches(self, chunk_indices: list[ChunkIndex]) -> list[list[ChunkIndex]]:
        """Return batches of chunks on the same worker, enough of them to keep its threads busy."""
        by_worker: dict[Any, list[ChunkIndex]] = {}
        for chunk_index in chunk_indices:
            first, *others = (self.where.get(ref.key, ()) for ref in self.refs[chunk_index])
            common = [worker for worker in first if all(worker in other for other in others)]
            by_worker.setdefault(min(common, default=chunk_index), []).append(chunk_index)
        batches = []
        for worker, indices in by_worker.items():
            size = batch_size(len(indices), self.threads.get(worker, 1))
            batches += [indices[left : left + size] for left in range(0, len(indices), size)]
        return batches


def _token_of(token: str, where: dict[Any, Any], threads: dict[str, int]) -> str:
    """Return a token of the locations of chunks, on which the batches depend.

    A scheduler keeps the first task of a name, long after its graph. Without the locations in the
    name it took the batches of one graph for those of another: chunks got each other's carry-ins
    after a worker was lost.
    """
    locations = sorted(map(str, (*where.items(), *threads.items())))
    return tokenize(token, " ".join(locations)) if where else token


def batch_size(chunks: int, threads: int = 1) -> int:
    """Return how many of a worker's chunks one task precomputes.

    One thread takes all in one task; several take two tasks each, so that none waits long.
    """
    return max(1, min(BATCH, chunks if threads == 1 else chunks // (2 * threads)))


def _locate(aligned: AlignedProblem) -> tuple[dict[Any, Any], dict[str, int]]:
    """Return the workers of each block, and their threads; empty if they are unknown."""
    futures = aligned.futures() if aligned.count >= FEW else []
    if any(future.status != "finished" for future in futures):
        return {}, {}
    client = futures[0].client if futures else None
    if client is None or client.asynchronous:
        return {}, {}
    keys = list({future.key for future in futures})
    where, threads = client.sync(_query, client.scheduler, keys)
    return where, threads


async def _query(scheduler: Scheduler, keys: list[Any]) -> tuple[Any, Any]:
    """Send both requests at once: one after the other they take twice as long."""
    return await asyncio.gather(scheduler.who_has(keys=keys), scheduler.ncores(workers=None))
