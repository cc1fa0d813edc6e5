"""Grids that are traced back: a path goes from tile to tile, from the last one to the first.

::

    blocks i, j, determine i − 1, j and i, j − 1 ─┐
    traceback i + 1, j and i, j + 1 ──────────────┴─ traceback i, j ─┬─ traceback i − 1, j
                                                                     ├─ traceback i, j − 1
                                                                     └─ result

Tasks off the path hand it on: which tiles it crosses is not known when the graph is built.
"""

from __future__ import annotations

from typing import Any

from dask.delayed import Delayed
from dask.task_spec import List, Task, TaskRef

from ...core.contract.recurrence import ChunkIndex
from ..tasks.traceback import follow_path, join_path, start_path
from .cuts import Cut
from .rows import Layer, extended, rows_of
from .tiles import before, determined


def solve_traceback(cut: Cut, token: str) -> Delayed:
    """The lazy result of a grid that is traced back."""
    recurrence, (graph, tiles) = cut.recurrence, determined(cut, token)
    chunk_indices, name, first = list(rows_of(cut.chunks)), f"traceback-{token}", f"turn-{token}"
    last = TaskRef((tiles, *chunk_indices[-1]))
    layer: Layer = {first: Task(first, start_path, recurrence, last)}
    for chunk_index in chunk_indices:
        key, blocks = (name, *chunk_index), map(TaskRef, cut.keys(chunk_index))
        edges = (before(chunk_index, axis, tiles) for axis in recurrence.axes)
        after = [_after(cut, chunk_index, axis, name) for axis in recurrence.axes]
        paths = List(*(filter(None, after) if any(after) else [TaskRef(first)]))
        layer[key] = Task(key, follow_path, recurrence, cut.at(chunk_index), paths, *edges, *blocks)
    graph = extended(graph, name, layer, {tiles, *(block.name for block in cut.blocks)})
    end = f"alignment-{token}"
    pieces = List(*(TaskRef((name, *chunk_index)) for chunk_index in chunk_indices))
    graph = extended(
        graph, end, {end: Task(end, join_path, recurrence, last, pieces)}, {name, tiles}
    )
    return Delayed(end, graph)


def _after(cut: Cut, chunk_index: ChunkIndex, axis: int, name: str) -> Any:
    """The path after the next tile along an axis; None at the border."""
    if chunk_index[axis] + 1 == len(cut.chunks[axis]):
        return None
    return TaskRef((name, *chunk_index[:axis], chunk_index[axis] + 1, *chunk_index[axis + 1 :]))
