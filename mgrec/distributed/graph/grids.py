"""Graphs of grids: tiles that are computed once, swept several times, or traced back.

A tile starts as soon as the edges of its neighbours above and to the left are there::

    blocks i, j ─── determine i, j ─── state 0 i, j
                          │
                     propagate i, j ─── determine i + 1, j and determine i, j + 1

Whole tiles never travel: ``propagate`` returns only the edges. If a tile has no result, as in an
alignment whose score is wanted, ``determine`` returns the edges itself.

A sweep starts while earlier sweeps still run elsewhere: a tile needs the sides of the tiles above and
to the left from the same sweep, and those below and to the right from the sweep before. Only after
a sweep that may be the last one, a task collects the sides of all tiles.

A path is traced from the last tile to the first. A task gets the blocks of a tile, the edges of the
tiles above and to the left, and the path from those below and to the right. Tasks off the path pass
it on: which tiles it crosses is not known when the graph is built.
"""

from __future__ import annotations

from itertools import groupby
from operator import getitem

import dask.array.core as da
import numpy as np
from dask._task_spec import Alias
from dask.array.utils import meta_from_array
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ...core.contract.recurrence import ChunkIndex
from ..tasks import determine_tile, follow_path, join_path, start_path, start_tile, sweep_tile, write_tile
from .aligned import AlignedProblem, chunk_at, chunk_indices_of
from .chains import Layer, component, extended


def solve_tiles(aligned: AlignedProblem, token: str) -> tuple[tuple[da.Array, ...], da.Array | None]:
    """Return the lazy results of a grid, or the result of its last tile."""
    recurrence, (graph, tiles) = aligned.recurrence, _determine_all(aligned, token)
    if recurrence.results:
        ndim, dtype = len(aligned.chunks), recurrence.result_dtype
        meta = meta_from_array(aligned.blocks[0]._meta, ndim=ndim, dtype=dtype)
        return (component(graph, tiles, aligned.chunks, 0, meta),), None
    *_, last = chunk_indices_of(aligned.chunks)
    key = (f"exit-{token}", 0)
    layer: Layer = {key: Task(key, recurrence.final_result, TaskRef((tiles, *last)))}
    graph = extended(graph, key[0], layer, {tiles})
    meta = np.empty(0, recurrence.result_dtype)
    return (), da.Array(graph, key[0], ((recurrence.result_size,),), meta=meta)


def _determine_all(aligned: AlignedProblem, token: str) -> tuple[HighLevelGraph, str]:
    """Return the graph of all tiles, and the name of its last layer."""
    recurrence = aligned.recurrence
    tiles, edges = f"determine-{token}", f"propagate-{token}"
    edge_layer = edges if recurrence.results else tiles
    layer: Layer = {}
    for chunk_index in chunk_indices_of(aligned.chunks):
        key, blocks = (tiles, *chunk_index), map(TaskRef, aligned.keys(chunk_index))
        before = (_neighbour(aligned, chunk_index, axis, -1, edge_layer) for axis in recurrence.axes)
        position = aligned.position(chunk_index)
        layer[key] = Task(key, determine_tile, recurrence, position, *before, *blocks)
        if recurrence.results:
            layer[edges, *chunk_index] = Task((edges, *chunk_index), getitem, TaskRef(key), 1)
    graph = HighLevelGraph.merge(*(block.dask for block in aligned.blocks))
    return extended(graph, tiles, layer, {block.name for block in aligned.blocks}), tiles


def _neighbour(
    aligned: AlignedProblem, chunk_index: ChunkIndex, axis: int, step: int, layer: str
) -> TaskRef | None:
    """Return the task of a layer for the tile next to one along an axis; None at the border."""
    k = chunk_index[axis] + step
    if not 0 <= k < len(aligned.chunks[axis]):
        return None
    return TaskRef((layer, *chunk_at(chunk_index, axis, k)))


def solve_traceback(aligned: AlignedProblem, token: str) -> Delayed:
    """Return the lazy result of a grid that is traced back."""
    recurrence, (graph, tiles) = aligned.recurrence, _determine_all(aligned, token)
    chunk_indices = list(chunk_indices_of(aligned.chunks))
    name, first, result = f"traceback-{token}", f"turn-{token}", f"alignment-{token}"
    last = TaskRef((tiles, *chunk_indices[-1]))
    layer: Layer = {first: Task(first, start_path, recurrence, last)}
    for chunk_index in chunk_indices:
        key, blocks = (name, *chunk_index), map(TaskRef, aligned.keys(chunk_index))
        edges, after = (
            [_neighbour(aligned, chunk_index, axis, step, near) for axis in recurrence.axes]
            for step, near in ((-1, tiles), (1, name))
        )
        paths = List(*(filter(None, after) if any(after) else [TaskRef(first)]))
        position = aligned.position(chunk_index)
        layer[key] = Task(key, follow_path, recurrence, position, paths, *edges, *blocks)
    graph = extended(graph, name, layer, {tiles, *(block.name for block in aligned.blocks)})
    pieces = List(*(TaskRef((name, *chunk_index)) for chunk_index in chunk_indices))
    joined = {result: Task(result, join_path, recurrence, last, pieces)}
    return Delayed(result, extended(graph, result, joined, {name, tiles}))


def has_several_tiles(aligned: AlignedProblem) -> bool:
    """Return whether a grid is in several chunks; empty ones do not count."""
    counts = [sum(map(bool, aligned.chunks[axis])) for axis in aligned.recurrence.axes]
    return min(counts) > 0 and max(counts) > 1


def solve_sweeps(aligned: AlignedProblem, token: str) -> tuple[da.Array, ...]:
    """Return the lazy result of a grid after all sweeps."""
    sweeps = _Sweeps(aligned, token)
    sweeps.add_all()
    graph = HighLevelGraph.merge(*(block.dask for block in aligned.blocks))
    graph = extended(graph, sweeps.tiles, sweeps.layer, {block.name for block in aligned.blocks})
    recurrence, ndim = aligned.recurrence, len(aligned.chunks)
    name = f"state-0-{sweeps.tiles}"
    results: Layer = {}
    for chunk_index in chunk_indices_of(aligned.chunks):
        key = (name, *chunk_index)
        if sweeps.has_points(chunk_index):
            results[key] = Task(key, write_tile, recurrence, sweeps.last(chunk_index))
        else:
            results[key] = Alias(key, aligned.keys(chunk_index)[-1])
    dependencies = {key[0] for task in results.values() for key in task.dependencies}
    graph = extended(graph, name, results, dependencies)
    meta = meta_from_array(aligned.blocks[-1]._meta, ndim=ndim, dtype=recurrence.result_dtype)
    return (da.Array(graph, name, aligned.chunks, meta=meta),)


class _Sweeps:
    """The tasks of all sweeps: `tiles` names their layer, `count` is the sweeps so far."""

    def __init__(self, aligned: AlignedProblem, token: str) -> None:
        self.aligned, self.recurrence, self.count = aligned, aligned.recurrence, 0
        self.layer: Layer = {}
        names = "determine", "propagate", "propagate-done"
        self.tiles, self.sides, self.done = (f"{name}-{token}" for name in names)
        self.chunk_indices = list(filter(self.has_points, chunk_indices_of(aligned.chunks)))

    def has_points(self, chunk_index: ChunkIndex) -> bool:
        return all(self.aligned.chunks[axis][chunk_index[axis]] for axis in self.recurrence.axes)

    def last(self, chunk_index: ChunkIndex) -> TaskRef:
        """Return a tile and its sides after the last sweep so far."""
        return TaskRef((self.tiles, self.count, *chunk_index))

    def add_all(self) -> None:
        for chunk_index in self.chunk_indices:
            around = tuple(side is not None for side in self._around(chunk_index))
            key, blocks = ((self.tiles, 0, *chunk_index), map(TaskRef, self.aligned.keys(chunk_index)))
            position = self.aligned.position(chunk_index)
            task = Task(key, start_tile, self.recurrence, position, around, *blocks)
            self._add(chunk_index, task)
        *batches, last = self.recurrence.sweep_counts
        for number, sweeps in enumerate(batches):
            self._add_batch(sweeps, number, is_checked=True)
            self._add_done(number)
        self._add_batch(last, len(batches), is_checked=False)

    def _add(self, chunk_index: ChunkIndex, task: Task) -> None:
        """Add a tile's task of the sweep number `count`, and the task that takes its sides."""
        key = (self.sides, self.count, *chunk_index)
        self.layer[task.key] = task
        self.layer[key] = Task(key, getitem, TaskRef(task.key), 1)

    def _add_batch(self, sweeps: int, number: int, is_checked: bool) -> None:
        for remaining in reversed(range(sweeps)):
            previous = [self.last(chunk_index) for chunk_index in self.chunk_indices]
            self.count += 1
            is_last = is_checked and remaining == 0
            for chunk_index, tile in zip(self.chunk_indices, previous, strict=True):
                key = (self.tiles, self.count, *chunk_index)
                position, done = (self.aligned.position(chunk_index), self._done(number - 1, chunk_index))
                around = List(*self._around(chunk_index))
                task = Task(key, sweep_tile, self.recurrence, position, is_last, tile, around, done)
                self._add(chunk_index, task)

    def _around(self, chunk_index: ChunkIndex) -> list[TaskRef | None]:
        """Return the sides above, to the left, below and to the right that a sweep needs."""
        return [
            self._sides(self.count - (step > 0), chunk_index, axis, step)
            for step in (-1, 1)
            for axis in self.recurrence.axes
        ]

    def _sides(self, sweep: int, chunk_index: ChunkIndex, axis: int, step: int) -> TaskRef | None:
        """Return the sides of the next tile that is not empty along an axis; None at the border."""
        lengths, k = self.aligned.chunks[axis], chunk_index[axis] + step
        while 0 <= k < len(lengths):
            if lengths[k]:
                return TaskRef((self.sides, sweep, *chunk_at(chunk_index, axis, k)))
            k += step
        return None

    def _grid_of(self, chunk_index: ChunkIndex) -> ChunkIndex:
        """Return the index of a tile's grid among several grids."""
        return tuple(k for axis, k in enumerate(chunk_index) if axis not in self.recurrence.axes)

    def _done(self, number: int, chunk_index: ChunkIndex) -> TaskRef | None:
        """Return whether a tile's grid has converged after a batch; None before the first."""
        return None if number < 0 else TaskRef((self.done, number, *self._grid_of(chunk_index)))

    def _add_done(self, number: int) -> None:
        """Add the tasks that find out whether grids have converged after a batch."""
        for grid, chunk_indices in groupby(self.chunk_indices, self._grid_of):
            tiles = list(chunk_indices)
            sides = List(*(TaskRef((self.sides, self.count, *index)) for index in tiles))
            key, previous = (self.done, number, *grid), self._done(number - 1, tiles[0])
            self.layer[key] = Task(key, self.recurrence.is_done, previous, sides)
