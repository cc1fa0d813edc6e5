"""Filters of Dask arrays: packed chained groups, as for every recurrence (see dask.py).

A chunk has one operand, so that its pack is its block: the load and the pack are one task,
which precompute and determine both take.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ..phases.cascade_door import FilterProblem
from .dask_operands import align
from .filter_blocks import (
    FilterRecipe,
    determine_block,
    exit_block,
    precompute_block,
    propagate_group,
)
from .groups import group_size
from .logs import log_solve

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000


class _Cost:
    """What :func:`group_size` asks of a problem."""

    def __init__(self, problem: FilterProblem) -> None:
        self.dtype, self.operands = problem.state_dtype, (problem.x,)
        self.initial = (0,) * problem.cascade.states


def solve_filter(problem: FilterProblem) -> tuple[Any, Any]:
    """The lazy result of a filter, and its lazy states after the last sample.

    The states are None where none were given before the first sample: nobody asks.
    """
    if da.array_expr_enabled():
        raise NotImplementedError(
            "mgrec builds graphs for legacy Dask arrays; set array.query-planning to False"
        )
    x = problem.x if isinstance(problem.x, da.Array) else da.from_array(problem.x, chunks=-1)
    if len(x.chunks[problem.axis]) > MANY_CHUNKS:
        warnings.warn(
            f"the filter runs along {len(x.chunks[problem.axis])} chunks: Dask needs seconds to "
            f"minutes to order such a graph before anything is computed. Use larger chunks along "
            f"this axis (array.rechunk), or mgrec.dask.persist_in_stages(result)",
            stacklevel=5,
        )
    recipe = FilterRecipe(problem.cascade, problem.axis, problem.dtype, problem.state_dtype)
    token = tokenize(recipe, x.name, problem.entry)
    index = tuple(range(x.ndim))
    options: dict[str, Any] = {"align_arrays": False}
    packs = da.blockwise(_itself, index, x, index, name=f"pack-{token}", meta=x._meta, **options)
    summaries = da.blockwise(
        precompute_block,
        index,
        packs,
        index,
        name=f"precompute-{token}",
        meta=np.empty((0,) * x.ndim, object),
        recipe=recipe,
        **options,
    )
    groups = _groups(problem, x)
    entries, last = _propagate(problem, recipe, summaries, groups, f"propagate-{token}")
    y = _determine(recipe, packs, entries, groups, token)
    log_solve(y)
    exit = None if problem.entry is None else _exit(problem, recipe, x, entries, last, token)
    return y, exit


def _itself(block: Any) -> Any:
    return block


def _groups(problem: FilterProblem, x: da.Array) -> list[range]:
    count = len(x.chunks[problem.axis])
    size = group_size(x.chunks, problem.axis, _Cost(problem))  # type: ignore[arg-type]
    return [range(left, min(left + size, count)) for left in range(0, count, size)]


def _rows(chunks: Any, axis: int) -> Any:
    return product(*(range(len(c)) for k, c in enumerate(chunks) if k != axis))


def _propagate(
    problem: FilterProblem, recipe: FilterRecipe, summaries: da.Array, groups: Any, name: str
) -> tuple[HighLevelGraph, int]:
    """One task a group of each row of chunks; and the number of the last group."""
    axis, chunks = recipe.axis, summaries.chunks
    initial, dependencies = _initial(problem, chunks)
    last = groups[-1][-1]
    tasks: dict[Any, Task] = {}
    for row in _rows(chunks, axis):
        before: Any = initial(row)
        for number, places in enumerate(groups):
            key = (name, number, *row)
            # Nobody may ask for what comes after the last chunk: then it is not summarised.
            asked = [k for k in places if k != last or problem.entry is not None]
            refs = [TaskRef((summaries.name, *row[:axis], k, *row[axis:])) for k in asked]
            tasks[key] = Task(key, propagate_group, recipe, List(*refs), before)
            before = TaskRef(key)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[summaries, *dependencies])
    return graph, len(groups) - 1


def _initial(problem: FilterProblem, chunks: Any) -> tuple[Any, list[da.Array]]:
    """What the first propagation of a row of chunks starts from, as a function of the row."""
    if problem.entry is None:
        return (lambda row: None), []
    states = problem.cascade.states
    rows = tuple(c for k, c in enumerate(chunks) if k != problem.axis)
    entry = align(problem.entry, ((states,), *rows), (states, *problem.row_shape))
    entry = entry.rechunk({0: -1})

    def at(row: tuple[int, ...]) -> TaskRef:
        own = zip(row, entry.numblocks[1:], strict=True)
        return TaskRef((entry.name, 0, *(0 if n == 1 else k for k, n in own)))

    return at, [entry]


def _determine(
    recipe: FilterRecipe, packs: da.Array, entries: HighLevelGraph, groups: Any, token: str
) -> da.Array:
    axis, name, before = recipe.axis, f"determine-{token}", f"propagate-{token}"
    tasks: dict[Any, Task] = {}
    for row in _rows(packs.chunks, axis):
        for group, places in enumerate(groups):
            for number, k in enumerate(places):
                key = (name, *row[:axis], k, *row[axis:])
                pack = TaskRef((packs.name, *key[1:]))
                entry = TaskRef((before, group, *row))
                tasks[key] = Task(key, determine_block, recipe, pack, entry, number)
    graph = HighLevelGraph.merge(packs.dask, entries)
    graph = HighLevelGraph(
        {**graph.layers, name: tasks}, {**graph.dependencies, name: {packs.name, before}}
    )
    meta = meta_from_array(packs._meta, ndim=packs.ndim, dtype=recipe.dtype)
    return da.Array(graph, name, packs.chunks, meta=meta)


def _exit(
    problem: FilterProblem,
    recipe: FilterRecipe,
    x: da.Array,
    entries: HighLevelGraph,
    last: int,
    token: str,
) -> da.Array:
    name, before = f"exit-{token}", f"propagate-{token}"
    meta = meta_from_array(x._meta, ndim=x.ndim, dtype=recipe.dtype)
    tasks = {}
    for row in _rows(x.chunks, recipe.axis):
        key = (name, 0, *row)
        tasks[key] = Task(key, exit_block, recipe, TaskRef((before, last, *row)), meta)
    graph = HighLevelGraph(
        {**entries.layers, name: tasks}, {**entries.dependencies, name: {before}}
    )
    rows = tuple(c for k, c in enumerate(x.chunks) if k != recipe.axis)
    chunks = ((problem.cascade.states,), *rows)
    return da.Array(graph, name, chunks, meta=meta)
