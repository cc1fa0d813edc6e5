"""A Dask cluster: every chunk stays where it is, a few scalars a chunk cross.

The graph, *packed chained groups*, from one chunk k of a group g to the result::

    loads ─ pack k ─┬─ precompute k ─┐
                    │                propagate g ─ (propagate g + 1)
                    └─ determine k ──┘

``pack`` takes the blocks of one chunk together, so that its loads fuse into one root task and
land on one worker. A propagation takes the summaries of its group and the entries of the
group before; ``determine`` finds its own entry among those of its group, since a task for
each entry would be placed without regard to data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from math import isnan, nan
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef

from ..phases.door import Problem
from .blocks import Recipe, determine_block, pack_blocks, precompute_block, propagate_group
from .dask_operands import align, read_again, recipe_of, reference_chunks
from .groups import group_size

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000


def solve(problem: Problem, memory: str, method: str) -> tuple[Any, ...]:
    """Build the lazy result of a recurrence over Dask arrays.

    Parameters
    ----------
    problem : Problem
        At least one of its arrays is a Dask array.
    memory : {"stream", "two-pass"}
    method : str

    Returns
    -------
    tuple of dask.array.Array
        One a scalar of the state, chunked like the last operand.
    """
    if da.array_expr_enabled():
        raise NotImplementedError(
            "mgrec builds graphs for legacy Dask arrays; set array.query-planning to False"
        )
    chunks = reference_chunks(problem)
    recipe, blocks = recipe_of(problem, chunks, method)
    _advise(len(chunks[problem.axis]))
    token = tokenize(recipe, [block.name for block in blocks], problem.initial, chunks, memory)
    packs = _pack(recipe, blocks, chunks, f"pack-{token}")
    again = packs
    if memory == "two-pass":
        fresh = [read_again(block, token) for block in blocks]
        again = _pack(recipe, fresh, chunks, f"pack-again-{token}")
    index = tuple(range(len(chunks)))
    summaries = da.blockwise(
        precompute_block,
        index,
        packs,
        index,
        name=f"precompute-{token}",
        meta=np.empty((0,) * len(index), object),
        align_arrays=False,
        recipe=recipe,
    )
    entries = _propagate(problem, recipe, summaries, chunks, f"propagate-{token}")
    return _determine(problem, recipe, again, entries, chunks, token, blocks)


def _advise(count: int) -> None:
    if count > MANY_CHUNKS:
        warnings.warn(
            f"the recurrence runs along {count} chunks: Dask needs seconds to minutes to order "
            f"such a graph before anything is computed. Use larger chunks along this axis "
            f"(array.rechunk), or mgrec.dask.persist_in_stages(result)",
            stacklevel=5,
        )


def _pack(recipe: Recipe, blocks: Any, chunks: Any, name: str) -> da.Array:
    index = tuple(range(len(chunks)))
    pairs: list[Any] = []
    for block in blocks:
        pairs += [block, index[len(index) - block.ndim :]]
    for k in index:
        # Where the chunk lies: the index of its first step, and its place for messages.
        starts = _starts(chunks[k])
        values = {(j,): (j, start) for j, start in enumerate(starts)}
        pairs += [ArrayValuesDep((chunks[k],), values), (k,)]
    return da.blockwise(
        pack_blocks,
        index,
        *pairs,
        name=name,
        meta=np.empty((0,) * len(index), object),
        align_arrays=False,
        recipe=recipe,
        count=len(blocks),
    )


def _starts(lengths: tuple[Any, ...]) -> list[int]:
    starts, start = [], 0.0
    for length in lengths:
        starts.append(-1 if isnan(start) else int(start))
        start += length if not isnan(length) else nan
    return starts


def _propagate(
    problem: Problem, recipe: Recipe, summaries: da.Array, chunks: Any, name: str
) -> HighLevelGraph:
    axis = problem.axis
    initial, dependencies = _initial(problem, chunks)
    size = group_size(chunks, axis, problem)
    last = 0 if problem.reverse else len(chunks[axis]) - 1
    tasks: dict[Any, Task] = {}
    for row in product(*(range(len(c)) for k, c in enumerate(chunks) if k != axis)):
        before: Any = initial(row)
        for group, places in enumerate(_groups(len(chunks[axis]), size, problem.reverse)):
            key = (name, group, *row)
            # No chunk comes after the last one: its summary is not asked for.
            asked = [k for k in places if k != last]
            refs = [TaskRef((summaries.name, *row[:axis], k, *row[axis:])) for k in asked]
            tasks[key] = Task(key, propagate_group, recipe, List(*refs), before)
            before = TaskRef(key)
    return HighLevelGraph.from_collections(name, tasks, dependencies=[summaries, *dependencies])


def _groups(count: int, size: int, reverse: bool) -> Iterator[range]:
    order = range(count - 1, -1, -1) if reverse else range(count)
    for left in range(0, count, size):
        yield order[left : left + size]


def _initial(problem: Problem, chunks: Any) -> tuple[Any, list[da.Array]]:
    """What the first propagation of a row of chunks starts from, as a function of the row."""
    rows = tuple(c for k, c in enumerate(chunks) if k != problem.axis)
    row_shape = problem.row_shape
    states = [
        state
        if state.ndim == 0 and not isinstance(state, da.Array)
        else align(state, rows, row_shape)
        for state in problem.initial
    ]

    def at(row: tuple[int, ...]) -> List:
        parts = []
        for state in states:
            if not isinstance(state, da.Array):
                parts.append(state)
                continue
            own = row[len(row) - state.ndim :]
            place = (0 if n == 1 else k for k, n in zip(own, state.numblocks, strict=True))
            parts.append(TaskRef((state.name, *place)))
        return List(*parts)

    return at, [state for state in states if isinstance(state, da.Array)]


def _determine(
    problem: Problem,
    recipe: Recipe,
    packs: da.Array,
    entries: HighLevelGraph,
    chunks: Any,
    token: str,
    blocks: Sequence[da.Array],
) -> tuple[da.Array, ...]:
    axis = problem.axis
    name, before = f"determine-{token}", f"propagate-{token}"
    size = group_size(chunks, axis, problem)
    places = [
        (k, group, number)
        for group, members in enumerate(_groups(len(chunks[axis]), size, problem.reverse))
        for number, k in enumerate(members)
    ]
    tasks: dict[Any, Task] = {}
    for row in product(*(range(len(c)) for k, c in enumerate(chunks) if k != axis)):
        for k, group, number in places:
            place = (*row[:axis], k, *row[axis:])
            tasks[(name, *place)] = Task(
                (name, *place),
                determine_block,
                recipe,
                TaskRef((packs.name, *place)),
                TaskRef((before, group, *row)),
                number,
            )
    graph = HighLevelGraph.merge(packs.dask, entries)
    graph = HighLevelGraph(
        {**graph.layers, name: tasks}, {**graph.dependencies, name: {packs.name, before}}
    )
    like = blocks[0]._meta if blocks else np.empty(0)
    meta = meta_from_array(like, ndim=len(chunks), dtype=problem.result_dtype)
    if not problem.is_several:
        return (da.Array(graph, name, chunks, meta=meta),)
    return tuple(
        _component(graph, name, chunks, number, meta) for number in range(len(problem.initial))
    )


def _component(graph: HighLevelGraph, name: str, chunks: Any, number: int, meta: Any) -> da.Array:
    """One scalar of the state: an array of its own out of determine's tuples."""
    own = f"state-{number}-{name}"
    tasks = {
        (own, *place): Task((own, *place), _state_of, TaskRef((name, *place)), number)
        for place in product(*(range(len(c)) for c in chunks))
    }
    graph = HighLevelGraph({**graph.layers, own: tasks}, {**graph.dependencies, own: {name}})
    return da.Array(graph, own, chunks, meta=meta)


def _state_of(states: tuple[Any, ...], number: int) -> Any:
    return states[number]
