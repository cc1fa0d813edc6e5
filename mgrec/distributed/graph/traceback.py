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

from ...core.contract.recurrence import Place
from ..tasks.traceback import begin_path, follow_path, join_path
from .cuts import Cut
from .rows import Layer, extended, rows_of
from .tiles import before, determined


def solve_traceback(cut: Cut, token: str) -> Delayed:
    """The lazy result of a grid that is traced back."""
    recurrence, (graph, tiles) = cut.recurrence, determined(cut, token)
    places, name, first = list(rows_of(cut.chunks)), f"traceback-{token}", f"turn-{token}"
    last = TaskRef((tiles, *places[-1]))
    layer: Layer = {first: Task(first, begin_path, recurrence, last)}
    for place in places:
        key, blocks = (name, *place), map(TaskRef, cut.keys(place))
        edges = (before(place, axis, tiles) for axis in recurrence.axes)
        after = [_after(cut, place, axis, name) for axis in recurrence.axes]
        paths = List(*(filter(None, after) if any(after) else [TaskRef(first)]))
        layer[key] = Task(key, follow_path, recurrence, cut.at(place), paths, *edges, *blocks)
    graph = extended(graph, name, layer, {tiles, *(block.name for block in cut.blocks)})
    end = f"alignment-{token}"
    pieces = List(*(TaskRef((name, *place)) for place in places))
    graph = extended(
        graph, end, {end: Task(end, join_path, recurrence, last, pieces)}, {name, tiles}
    )
    return Delayed(end, graph)


def _after(cut: Cut, place: Place, axis: int, name: str) -> Any:
    """The path after the next tile along an axis; None at the border."""
    if place[axis] + 1 == len(cut.chunks[axis]):
        return None
    return TaskRef((name, *place[:axis], place[axis] + 1, *place[axis + 1 :]))
