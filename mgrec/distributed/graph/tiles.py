"""Grids: a tile starts as soon as the edges of its neighbours above and to the left are there.

::

    blocks i, j ─── determine i, j ─── state 0 i, j
                          │
                     propagate i, j ─── determine i + 1, j and determine i, j + 1

Whole tiles never travel: ``propagate`` hands on the edges alone. Where a tile has no result, as
where a score alone is asked for, ``determine`` gives the edges itself.
"""

from __future__ import annotations

from operator import getitem
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import Task, TaskRef

from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import determine_tile, final_result_block
from .cuts import Cut
from .rows import Layer, component, extended, rows_of


def solve_tiles(cut: Cut, token: str) -> tuple[tuple[da.Array, ...], da.Array | None]:
    """The lazy results of a grid, or what its last tile tells of the whole."""
    recurrence, (graph, tiles) = cut.recurrence, determined(cut, token)
    if recurrence.results:
        ndim, dtype = len(cut.chunks), recurrence.result_dtype
        meta = meta_from_array(cut.blocks[0]._meta, ndim=ndim, dtype=dtype)
        return (component(graph, tiles, cut.chunks, 0, meta),), None
    *_, last = rows_of(cut.chunks)
    return (), _carry_out(graph, cut, (tiles, *last), f"exit-{token}")


def determined(cut: Cut, token: str) -> tuple[HighLevelGraph, str]:
    """The graph of all tiles, and the name of its last layer."""
    recurrence = cut.recurrence
    tiles, edges = f"determine-{token}", f"propagate-{token}"
    handed_on = edges if recurrence.results else tiles
    layer: Layer = {}
    for chunk_index in rows_of(cut.chunks):
        key, blocks = (tiles, *chunk_index), map(TaskRef, cut.keys(chunk_index))
        around = (before(chunk_index, axis, handed_on) for axis in recurrence.axes)
        layer[key] = Task(key, determine_tile, recurrence, cut.at(chunk_index), *around, *blocks)
        if recurrence.results:
            layer[edges, *chunk_index] = Task((edges, *chunk_index), getitem, TaskRef(key), 1)
    graph = HighLevelGraph.merge(*(block.dask for block in cut.blocks))
    return extended(graph, tiles, layer, {block.name for block in cut.blocks}), tiles


def before(chunk_index: ChunkIndex, axis: int, name: str) -> TaskRef | None:
    """The edges of the tile before one along an axis; None at the border."""
    if chunk_index[axis] == 0:
        return None
    return TaskRef((name, *chunk_index[:axis], chunk_index[axis] - 1, *chunk_index[axis + 1 :]))


def _carry_out(graph: HighLevelGraph, cut: Cut, last: tuple[Any, ...], name: str) -> da.Array:
    recurrence = cut.recurrence
    layer: Layer = {(name, 0): Task((name, 0), final_result_block, recurrence, TaskRef(last))}
    graph = extended(graph, name, layer, {last[0]})
    meta = np.empty(0, recurrence.result_dtype)
    return da.Array(graph, name, ((recurrence.result_size,),), meta=meta)
