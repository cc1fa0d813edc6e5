"""Operands that the workers hold: no packs, and one task summarises a run of chunks.

::

    blocks k ─┬─ precompute (a run of chunks) ─┐
              │                         propagate g ─ (propagate g + 1)
              └─ determine k ──────────────────┘

``pack`` would bring the loads of a chunk to one worker: here they are there. One task precomputes
a run of chunks that lie on one worker, as the scheduler says: a chunk then costs little more than
one task. Two chunks take three rounds instead of four.

Where chunks may forget their entries ``begin`` takes the place of ``precompute``: what it begins
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

from ...core.contract.recurrence import Place
from ..tasks.begun import begin_held, finish_held
from ..tasks.phases import determine_held, precompute_held, propagate_held
from .cuts import Cut
from .rows import Layer, Layers, extended, rows_of

# Below this many chunks a request to the scheduler, about 2 ms, does not pay: a task less saves
# 0.3 to 1 ms.
FEW = 6
# Chunks that one task precomputes: longer runs save nothing measurable, and a lost worker loses a
# whole run.
RUN = 32


def is_held(array: da.Array) -> bool:
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
        self.may_begin = cut.may_begin
        if self.may_begin:
            self.names = (f"begin-{self.token}", *self.names[1:])
        self.run_of: dict[Place, tuple[TaskRef, int]] = {}
        places = rows_of(cut.chunks)
        self.refs = {place: tuple(map(TaskRef, cut.keys(place))) for place in places}

    def propagate(self, places: list[Place], before: Any, key: tuple[Any, ...]) -> None:
        cut, name, runs = self.cut, self.names[0], self._runs(places)
        summarise = begin_held if self.may_begin else precompute_held
        for run in runs:
            own = (name, *run[0])
            refs = List(*(ref for place in run for ref in self.refs[place]))
            about = tuple(map(cut.at, run))
            self.summaries[own] = Task(own, summarise, cut.recurrence, about, refs)
            self.run_of |= {place: (TaskRef(own), k) for k, place in enumerate(run)}
        order = {place: (n, k) for n, run in enumerate(runs) for k, place in enumerate(run)}
        asked = List(*(TaskRef((name, *run[0])) for run in runs))
        in_order = tuple(order[place] for place in places)
        self.entries[key] = Task(key, propagate_held, cut.recurrence, in_order, asked, before)

    def determine(self, place: Place, entries: TaskRef, number: int) -> None:
        key, cut = (self.names[2], *place), self.cut
        given = (cut.recurrence, cut.at(place), entries, number)
        if self.may_begin:
            own = (*self.run_of.get(place, (None, 0)), *self.refs[place])
            self.results[key] = Task(key, finish_held, *given, *own)
        else:
            self.results[key] = Task(key, determine_held, *given, *self.refs[place])

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
        return {self.names[0], *blocks} if self.may_begin and self.cut.is_summarised else blocks

    def _runs(self, places: list[Place]) -> list[list[Place]]:
        """Chunks that one worker holds together, in runs that keep its threads busy."""
        by_worker: dict[Any, list[Place]] = {}
        for place in places:
            first, *others = (self.where.get(ref.key, ()) for ref in self.refs[place])
            common = [each for each in first if all(each in other for other in others)]
            by_worker.setdefault(min(common, default=place), []).append(place)
        runs = []
        for worker, own in by_worker.items():
            size = run_size(len(own), self.threads.get(worker, 1))
            runs += [own[left : left + size] for left in range(0, len(own), size)]
        return runs


def _named_by(token: str, where: dict[Any, Any], threads: dict[str, int]) -> str:
    """A token of where the chunks lie, on which the runs depend.

    A scheduler keeps the first task of a name, long after its graph. Without the places in the
    name it took the runs of one graph for those of another: chunks got each other's entries
    after a worker was lost.
    """
    places = sorted(map(str, (*where.items(), *threads.items())))
    return tokenize(token, " ".join(places)) if where else token


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
