"""Operands that the workers hold: no packs, and one task summarises a run of chunks.

::

    blocks k ─┬─ precompute (a run of chunks) ─┐
              │                         propagate g ─ (propagate g + 1)
              └─ determine k ──────────────────┘

``inputs`` would bring the loads of a chunk to one worker: here they are there. One task precomputes
a run of chunks that lie on one worker, as the scheduler says: a chunk then costs little more than
one task. Two chunks take three rounds instead of four.

Where chunks may forget their carry-ins ``begin`` takes the place of ``precompute``: what it begins
stays on its worker, and ``determine`` finds it there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import dask.array.core as da
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import List, Task, TaskRef
from distributed import Future

from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import determine_persisted, precompute_persisted, propagate_persisted
from ..tasks.speculation import correct_persisted, speculate_persisted
from .cuts import Cut
from .rows import Layer, Layers, extended, rows_of

# Below this many chunks a request to the scheduler, about 2 ms, does not pay: a task less saves
# 0.3 to 1 ms.
FEW = 6
# Chunks that one task precomputes: longer runs save nothing measurable, and a lost worker loses a
# whole run.
RUN = 32


def is_persisted(array: da.Array) -> bool:
    """Whether all blocks of an array are on workers, or being computed there.

    Blocks in this process may go to any worker: they need their pack.
    """
    layer = array.dask.layers.get(array.name, {})
    return type(layer) is MaterializedLayer and all(isinstance(v, Future) for v in layer.values())


class Held(Layers):
    """The tasks over blocks that are held."""

    def __init__(self, cut: Cut, token: str) -> None:
        self.where, self.threads = _find(cut)
        super().__init__(cut, _named_by(token, self.where, self.threads))
        self.summaries: Layer = {}
        self.may_speculate = cut.may_speculate
        if self.may_speculate:
            self.names = (f"begin-{self.token}", *self.names[1:])
        self.run_of: dict[ChunkIndex, tuple[TaskRef, int]] = {}
        chunk_indices = rows_of(cut.chunks)
        self.refs = {
            chunk_index: tuple(map(TaskRef, cut.keys(chunk_index))) for chunk_index in chunk_indices
        }

    def propagate(self, chunk_indices: list[ChunkIndex], before: Any, key: tuple[Any, ...]) -> None:
        cut, name, runs = self.cut, self.names[0], self._runs(chunk_indices)
        summarise = speculate_persisted if self.may_speculate else precompute_persisted
        for run in runs:
            own = (name, *run[0])
            refs = List(*(ref for chunk_index in run for ref in self.refs[chunk_index]))
            about = tuple(map(cut.at, run))
            self.summaries[own] = Task(own, summarise, cut.recurrence, about, refs)
            self.run_of |= {chunk_index: (TaskRef(own), k) for k, chunk_index in enumerate(run)}
        order = {
            chunk_index: (n, k) for n, run in enumerate(runs) for k, chunk_index in enumerate(run)
        }
        asked = List(*(TaskRef((name, *run[0])) for run in runs))
        in_order = tuple(order[chunk_index] for chunk_index in chunk_indices)
        self.entries[key] = Task(key, propagate_persisted, cut.recurrence, in_order, asked, before)

    def determine(self, chunk_index: ChunkIndex, entries: TaskRef, number: int) -> None:
        key, cut = (self.names[2], *chunk_index), self.cut
        given = (cut.recurrence, cut.at(chunk_index), entries, number)
        if self.may_speculate:
            own = (*self.run_of.get(chunk_index, (None, 0)), *self.refs[chunk_index])
            self.results[key] = Task(key, correct_persisted, *given, *own)
        else:
            self.results[key] = Task(key, determine_persisted, *given, *self.refs[chunk_index])

    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        first, second, *_ = self.names
        graph = HighLevelGraph.merge(*(array.dask for array in (*self.cut.blocks, *initial)))
        asked = {array.name for array in initial}
        if self.cut.is_summarised:
            graph = extended(graph, first, self.summaries, {b.name for b in self.cut.blocks})
            asked.add(first)
        return extended(graph, second, self.entries, asked)

    @property
    def read(self) -> set[str]:
        blocks = {block.name for block in self.cut.blocks}
        return {self.names[0], *blocks} if self.may_speculate and self.cut.is_summarised else blocks

    def _runs(self, chunk_indices: list[ChunkIndex]) -> list[list[ChunkIndex]]:
        """Chunks that one worker holds together, in runs that keep its threads busy."""
        by_worker: dict[Any, list[ChunkIndex]] = {}
        for chunk_index in chunk_indices:
            first, *others = (self.where.get(ref.key, ()) for ref in self.refs[chunk_index])
            common = [each for each in first if all(each in other for other in others)]
            by_worker.setdefault(min(common, default=chunk_index), []).append(chunk_index)
        runs = []
        for worker, own in by_worker.items():
            size = run_size(len(own), self.threads.get(worker, 1))
            runs += [own[left : left + size] for left in range(0, len(own), size)]
        return runs


def _named_by(token: str, where: dict[Any, Any], threads: dict[str, int]) -> str:
    """A token of where the chunks lie, on which the runs depend.

    A scheduler keeps the first task of a name, long after its graph. Without the places in the
    name it took the runs of one graph for those of another: chunks got each other's carry-ins
    after a worker was lost.
    """
    chunk_indices = sorted(map(str, (*where.items(), *threads.items())))
    return tokenize(token, " ".join(chunk_indices)) if where else token


def run_size(chunks: int, threads: int = 1) -> int:
    """How many of the chunks that a worker holds one task precomputes.

    One thread takes all in one task; several take two tasks each, so that none waits long.
    """
    return max(1, min(RUN, chunks if threads == 1 else chunks // (2 * threads)))


def _find(cut: Cut) -> tuple[dict[Any, Any], dict[str, int]]:
    """The workers that hold each block, and their threads; empty where they are unknown."""
    futures = cut.futures() if cut.count >= FEW else []
    if any(future.status != "finished" for future in futures):
        return {}, {}
    client = futures[0].client if futures else None
    if client is None or client.asynchronous:
        return {}, {}
    where, threads = client.sync(_ask, client.scheduler, list({each.key for each in futures}))
    return where, threads


async def _ask(scheduler: Any, keys: list[Any]) -> tuple[Any, Any]:
    """Both requests at once: one after the other they take twice as long."""
    return await asyncio.gather(scheduler.who_has(keys=keys), scheduler.ncores(workers=None))
