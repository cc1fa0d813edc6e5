"""Operands that the workers hold already: no packs, and summaries in runs of chunks.

::

    blocks k ─┬─ precompute (a run of chunks) ─┐
              │                         propagate g ─ (propagate g + 1)
              └─ determine k ──────────────────┘

What ``pack`` is for, that the loads of one chunk end on one worker, has happened. Chunks that
lie on one worker are precomputed in one task, which is asked of the scheduler: a chunk then
costs little more than one task. Two chunks take three rounds instead of four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import List, Task, TaskRef
from distributed import Future

from ..phases.door import Problem
from .blocks import Recipe, determine_held, precompute_held, propagate_held
from .dask_rows import Place, groups_of, initial_of, place_of, results_of, rows_of, starts_of
from .groups import group_size

# Below this many chunks a question to the scheduler, 1 to 2 ms, costs more than it saves.
FEW = 8
# Chunks that one task precomputes: longer runs keep the other threads of a worker waiting.
RUN = 8


def is_held(array: da.Array) -> bool:
    """Whether all blocks of an array are on workers, or will be: none is a task to be run.

    Blocks that are in this process alone travel to any worker: they need their pack.
    """
    layer = array.dask.layers.get(array.name, {})
    return type(layer) is MaterializedLayer and all(isinstance(v, Future) for v in layer.values())


def solve_held(
    problem: Problem, recipe: Recipe, blocks: Sequence[da.Array], chunks: Any, token: str
) -> tuple[da.Array, ...]:
    """Build the lazy result of a recurrence over blocks in memory.

    Parameters
    ----------
    problem : Problem
    recipe : Recipe
    blocks : sequence of dask.array.Array
        At least one; each is held.
    chunks : tuple of tuple of int or nan
    token : str
    """
    cut = Blocks(blocks, chunks)
    size = group_size(chunks, problem.axis, problem, is_held=True)
    groups = groups_of(len(chunks[problem.axis]), size, problem.reverse)
    layers = _Layers(recipe, cut, *_find(cut, len(groups[0])), token)
    last = 0 if problem.reverse else len(chunks[problem.axis]) - 1
    initial, others = initial_of(problem, chunks)
    for row in rows_of(chunks, problem.axis):
        before: Any = initial(row)
        for group, members in enumerate(groups):
            places = [place_of(row, problem.axis, k) for k in members]
            # No chunk comes after the last one: its summary is not asked for.
            asked = [place for place in places if place[problem.axis] != last]
            before = layers.add(asked, before, (group, *row))
            layers.determine(places, before)
    names, own = layers.names, {block.name for block in blocks}
    graph = HighLevelGraph.merge(*(array.dask for array in (*blocks, *others)))
    graph = HighLevelGraph(
        {**graph.layers, names[0]: layers.summaries, names[1]: layers.entries},
        {
            **graph.dependencies,
            names[0]: own,
            names[1]: {names[0], *(array.name for array in others)},
        },
    )
    like, needed = blocks[0]._meta, {names[1], *own}
    return results_of(problem, layers.results, names[2], graph, needed, chunks, like)


class Blocks:
    """The blocks of every chunk, where each lies, and where each starts."""

    def __init__(self, blocks: Sequence[da.Array], chunks: Any) -> None:
        self.blocks = blocks
        self._starts = [starts_of(lengths) for lengths in chunks]

    def keys(self, place: Place) -> list[Any]:
        """Of the blocks of a chunk."""
        found = []
        for block in self.blocks:
            own = zip(place[len(place) - block.ndim :], block.numblocks, strict=True)
            found.append((block.name, *(0 if n == 1 else k for k, n in own)))
        return found

    def shapes(self, place: Place) -> tuple[tuple[int, ...], ...]:
        """Of the blocks of a chunk."""
        return tuple(
            tuple(lengths[k] for lengths, k in zip(block.chunks, key[1:], strict=True))
            for block, key in zip(self.blocks, self.keys(place), strict=True)
        )

    def at(self, place: Place) -> tuple[Place, Place]:
        """A chunk's place, and the indices of its first step and rows."""
        return place, tuple(starts[k] for starts, k in zip(self._starts, place, strict=True))

    def futures(self) -> list[Any]:
        return [v for block in self.blocks for v in block.dask.layers[block.name].values()]


def _find(cut: Blocks, count: int) -> tuple[dict[Any, Any], dict[str, int]]:
    """The workers that hold each block, and their threads; nothing where nobody can tell."""
    futures = cut.futures() if count >= FEW else []
    if any(future.status != "finished" for future in futures):
        return {}, {}
    client = futures[0].client if futures else None
    if client is None or client.asynchronous:
        return {}, {}
    return client.who_has(futures), client.nthreads()


class _Layers:
    """The tasks of the three phases, as they are added."""

    def __init__(
        self, recipe: Recipe, cut: Blocks, where: Any, threads: dict[str, int], token: str
    ) -> None:
        self.recipe, self.cut, self.where, self.threads = recipe, cut, where, threads
        self.names = tuple(f"{phase}-{token}" for phase in ("precompute", "propagate", "determine"))
        self.summaries: dict[Any, Task] = {}
        self.entries: dict[Any, Task] = {}
        self.results: dict[Any, Task] = {}

    def add(self, places: list[Place], before: Any, group: tuple[int, ...]) -> TaskRef:
        """Add the summaries of a group's chunks, in runs, and its propagation."""
        runs = self._runs(places)
        for run in runs:
            refs = [TaskRef(key) for place in run for key in self.cut.keys(place)]
            key: Any = (self.names[0], *run[0])
            about = tuple(map(self.cut.at, run))
            self.summaries[key] = Task(key, precompute_held, self.recipe, about, List(*refs))
        order = {place: (n, k) for n, run in enumerate(runs) for k, place in enumerate(run)}
        asked = List(*(TaskRef((self.names[0], *run[0])) for run in runs))
        key = (self.names[1], *group)
        in_order = tuple(order[place] for place in places)
        self.entries[key] = Task(key, propagate_held, self.recipe, in_order, asked, before)
        return TaskRef(key)

    def determine(self, places: list[Place], entries: TaskRef) -> None:
        for number, place in enumerate(places):
            key = (self.names[2], *place)
            refs = map(TaskRef, self.cut.keys(place))
            about = self.cut.at(place)
            self.results[key] = Task(
                key, determine_held, self.recipe, about, entries, number, *refs
            )

    def _runs(self, places: list[Place]) -> list[list[Place]]:
        """Chunks that one worker holds together, in runs that keep its threads busy."""
        by_worker: dict[Any, list[Place]] = {}
        for place in places:
            holders = [set(self.where.get(key, ())) for key in self.cut.keys(place)]
            common = sorted(set.intersection(*holders))
            by_worker.setdefault(common[0] if common else place, []).append(place)
        runs = []
        for worker, own in by_worker.items():
            size = max(1, min(RUN, len(own) // (2 * self.threads.get(worker, 1))))
            runs += [own[left : left + size] for left in range(0, len(own), size)]
        return runs
