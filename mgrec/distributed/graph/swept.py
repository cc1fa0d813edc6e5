"""Grids that are swept: a tile starts as soon as the sides of the tiles around it are there.

::

    tile s−1 i, j ─── determine s i, j ─── determine s+1 i, j ─── …
                             │
                      propagate s i, j ─── determine s   of the tiles below and to the right,
                                           determine s+1 of the tiles above and to the left

Nothing else waits, so that a sweep begins while those before it are still on their way. Only
where a sweep may be the last one, all tiles do: then a task between two runs knows.
"""

from __future__ import annotations

from itertools import groupby
from operator import getitem

import dask.array.core as da
from dask._task_spec import Alias
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import are_done, start_tile, sweep_tile, write_tile
from .cuts import Cut
from .rows import Layer, extended, rows_of


def is_cut(cut: Cut) -> bool:
    """Whether a grid is in several chunks; empty ones do not count."""
    counts = [sum(map(bool, cut.chunks[axis])) for axis in cut.recurrence.axes]
    return min(counts) > 0 and max(counts) > 1


def solve_sweeps(cut: Cut, token: str) -> tuple[da.Array, ...]:
    """The lazy result of a grid after all sweeps."""
    sweeps = _Sweeps(cut, token)
    sweeps.add_all()
    graph = HighLevelGraph.merge(*(block.dask for block in cut.blocks))
    graph = extended(graph, sweeps.tiles, sweeps.layer, {block.name for block in cut.blocks})
    name, ndim, dtype = f"state-0-{sweeps.tiles}", len(cut.chunks), cut.recurrence.result_dtype
    results: Layer = {}
    for chunk_index in rows_of(cut.chunks):
        key, empty = (name, *chunk_index), TaskRef(cut.keys(chunk_index)[-1])
        if sweeps.has_points(chunk_index):
            results[key] = Task(key, write_tile, cut.recurrence, sweeps.last(chunk_index))
        else:
            results[key] = Alias(key, empty.key)
    read = {key[0] for task in results.values() for key in task.dependencies}
    graph = extended(graph, name, results, read)
    meta = meta_from_array(cut.blocks[-1]._meta, ndim=ndim, dtype=dtype)
    return (da.Array(graph, name, cut.chunks, meta=meta),)


class _Sweeps:
    """The tasks of all sweeps: `tiles` names their layer, `count` is how many there are."""

    def __init__(self, cut: Cut, token: str) -> None:
        self.cut, self.recurrence, self.count = cut, cut.recurrence, 0
        self.layer: Layer = {}
        names = "determine", "propagate", "propagate-done"
        self.tiles, self.sides, self.done = (f"{name}-{token}" for name in names)
        self.chunk_indices = list(filter(self.has_points, rows_of(cut.chunks)))

    def has_points(self, chunk_index: ChunkIndex) -> bool:
        return all(self.cut.chunks[axis][chunk_index[axis]] for axis in self.recurrence.axes)

    def last(self, chunk_index: ChunkIndex) -> TaskRef:
        """A tile and its sides after the last sweep so far."""
        return TaskRef((self.tiles, self.count, *chunk_index))

    def add_all(self) -> None:
        for chunk_index in self.chunk_indices:
            around = tuple(side is not None for side in self._around(chunk_index))
            blocks, key = map(TaskRef, self.cut.keys(chunk_index)), (self.tiles, 0, *chunk_index)
            task = Task(key, start_tile, self.recurrence, self.cut.at(chunk_index), around, *blocks)
            self._add(chunk_index, task)
        *runs, last = self.recurrence.sweep_counts
        for number, run in enumerate(runs):
            self._add_run(run, number, is_checked=True)
            self._add_done(number)
        self._add_run(last, len(runs), is_checked=False)

    def _add(self, chunk_index: ChunkIndex, task: Task) -> None:
        """Add a tile's task of the sweep number `count`, and what takes the sides from it."""
        own = (self.sides, self.count, *chunk_index)
        self.layer[task.key] = task
        self.layer[own] = Task(own, getitem, TaskRef(task.key), 1)

    def _add_run(self, sweeps: int, number: int, is_checked: bool) -> None:
        for left in reversed(range(sweeps)):
            before = [self.last(chunk_index) for chunk_index in self.chunk_indices]
            self.count += 1
            for chunk_index, tile in zip(self.chunk_indices, before, strict=True):
                key, done = (
                    (self.tiles, self.count, *chunk_index),
                    self._done(number - 1, chunk_index),
                )
                options = self.cut.at(chunk_index), is_checked and left == 0
                around = List(*self._around(chunk_index))
                self._add(
                    chunk_index,
                    Task(key, sweep_tile, self.recurrence, *options, tile, around, done),
                )

    def _around(self, chunk_index: ChunkIndex) -> list[TaskRef | None]:
        """The sides above, to the left, below and to the right that a sweep needs."""
        return [
            self._sides(self.count - (way > 0), chunk_index, axis, way)
            for way in (-1, 1)
            for axis in self.recurrence.axes
        ]

    def _sides(self, sweep: int, chunk_index: ChunkIndex, axis: int, way: int) -> TaskRef | None:
        """The sides of the next tile that is not empty along an axis; None at the border."""
        lengths, k = self.cut.chunks[axis], chunk_index[axis] + way
        while 0 <= k < len(lengths):
            if lengths[k]:
                return TaskRef(
                    (self.sides, sweep, *chunk_index[:axis], k, *chunk_index[axis + 1 :])
                )
            k += way
        return None

    def _grid_of(self, chunk_index: ChunkIndex) -> ChunkIndex:
        """The place of a tile's grid among those of a batch."""
        return tuple(k for axis, k in enumerate(chunk_index) if axis not in self.recurrence.axes)

    def _done(self, number: int, chunk_index: ChunkIndex) -> TaskRef | None:
        """What is known of a tile's grid after a run; None before the first."""
        return None if number < 0 else TaskRef((self.done, number, *self._grid_of(chunk_index)))

    def _add_done(self, number: int) -> None:
        """Whether grids are done after a run."""
        for grid, chunk_indices in groupby(self.chunk_indices, self._grid_of):
            tiles = list(chunk_indices)
            sides = List(
                *(TaskRef((self.sides, self.count, *chunk_index)) for chunk_index in tiles)
            )
            key = (self.done, number, *grid)
            self.layer[key] = Task(
                key, are_done, self.recurrence, self._done(number - 1, tiles[0]), sides
            )
