"""Graphs over persisted operands: no packs, and one task summarises a batch of chunks.

::

    blocks k ─┬─ precompute (a batch of chunks) ─┐
              │                           propagate g ─ (propagate g + 1)
              └─ determine k ────────────────────┘

A pack would bring the loads of a chunk to one worker: persisted blocks are there. One task
precomputes a batch of chunks that the scheduler says are on one worker, so that a chunk costs
little more than one task. Two chunks take three rounds instead of four.

If chunks may be determined speculatively, ``speculate`` takes the place of ``precompute``: its
speculative results stay on the worker, where ``determine`` corrects them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import dask.array.core as da
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import List, Task, TaskRef
from distributed import Future, Scheduler

from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import determine_persisted, precompute_persisted, propagate_persisted
from ..tasks.speculation import correct_persisted, speculate_persisted
from .aligned import AlignedProblem, chunk_indices_of
from .chains import ChainLayers, Layer, extended

# Below this many chunks a request to the scheduler, about 2 ms, does not pay: a task less saves
# 0.3 to 1 ms.
FEW = 6
# Most chunks that one task precomputes: larger batches save nothing measurable, and a lost worker
# loses a whole batch.
BATCH = 32


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

    def propagate(
        self, chunk_indices: list[ChunkIndex], previous: TaskRef, key: tuple[Any, ...]
    ) -> None:
        aligned, name, batches = self.aligned, self.names[0], self._batches(chunk_indices)
        summarise = speculate_persisted if self.may_speculate else precompute_persisted
        summaries, batch_indices = [], {}
        for number, batch in enumerate(batches):
            batch_key = (name, *batch[0])
            refs = List(*(ref for chunk_index in batch for ref in self.refs[chunk_index]))
            positions = tuple(map(aligned.position, batch))
            self.summaries[batch_key] = Task(
                batch_key, summarise, aligned.recurrence, positions, refs
            )
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
