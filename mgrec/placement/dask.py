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
from dask.graph_manipulation import clone
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef

from ..phases.coefficient import Coefficient
from ..phases.door import Problem, arrays_of
from .blocks import Recipe, determine_block, pack_blocks, precompute_block, propagate_group
from .groups import group_size

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000


def solve(problem: Problem, memory: str) -> tuple[Any, ...]:
    """Build the lazy result of a recurrence over Dask arrays.

    Parameters
    ----------
    problem : Problem
        At least one of its arrays is a Dask array.
    memory : {"stream", "two-pass"}

    Returns
    -------
    tuple of dask.array.Array
        One a scalar of the state, chunked like the last operand.
    """
    if da.array_expr_enabled():
        raise NotImplementedError(
            "mgrec builds graphs for legacy Dask arrays; set array.query-planning to False"
        )
    chunks = _reference_chunks(problem)
    recipe, blocks = _recipe(problem, chunks)
    _advise(len(chunks[problem.axis]))
    token = tokenize(recipe, [block.name for block in blocks], problem.initial, chunks, memory)
    packs = _pack(recipe, blocks, chunks, f"pack-{token}")
    again = packs
    if memory == "two-pass":
        # clone returns a single array as it is, several as a tuple.
        fresh = clone(*blocks, seed=token) if len(blocks) > 1 else [clone(*blocks, seed=token)]
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


def _reference_chunks(problem: Problem) -> tuple[tuple[Any, ...], ...]:
    """The chunks of the result: those of the last operand that has each axis."""
    ndim = len(problem.shape)
    chunks: list[tuple[Any, ...] | None] = [None] * ndim
    for array in reversed(arrays_of(problem.operands)):
        if not isinstance(array, da.Array):
            continue
        for k in range(-min(ndim, array.ndim), 0):
            if chunks[k] is None and (array.shape[k] != 1 or problem.shape[k] == 1):
                chunks[k] = array.chunks[k]
    return tuple(
        (int(length),) if own is None else own
        for own, length in zip(chunks, problem.shape, strict=True)
    )


def _recipe(problem: Problem, chunks: Any) -> tuple[Recipe, list[da.Array]]:
    """How a chunk's operands are made of its blocks, and the arrays of these blocks."""
    blocks: list[da.Array] = []

    def slot(array: Any) -> Any:
        if array.ndim == 0 and not isinstance(array, da.Array):
            return array
        blocks.append(_aligned(array, chunks, problem.shape))
        return len(blocks) - 1

    operands = tuple(
        (operand.function, tuple(map(slot, operand.arrays)))
        if isinstance(operand, Coefficient)
        else slot(operand)
        for operand in problem.operands
    )
    has_index = any(isinstance(operand, Coefficient) for operand in problem.operands)
    if has_index and any(map(isnan, chunks[problem.axis])):
        raise ValueError(
            "a Coefficient needs the index of each step, but the chunk sizes along the axis are "
            "unknown: call compute_chunk_sizes() on the arrays first"
        )
    varying = tuple(
        tuple(
            length != 1 or problem.shape[len(chunks) - block.ndim + k] == 1
            for k, length in enumerate(block.shape)
        )
        for block in blocks
    )
    return Recipe.of(problem, operands, varying), blocks


def _aligned(array: Any, chunks: Any, shape: tuple[Any, ...]) -> da.Array:
    """An operand cut like the result; axes of length 1 stay whole."""
    offset = len(chunks) - array.ndim
    wanted = {
        k: chunks[offset + k]
        for k in range(array.ndim)
        if array.shape[k] != 1 or shape[offset + k] == 1
    }
    if not isinstance(array, da.Array):
        own = tuple(wanted.get(k, (1,)) for k in range(array.ndim))
        if any(isnan(length) for lengths in own for length in lengths):
            raise ValueError(
                "a NumPy operand cannot be cut like a Dask array of unknown chunk sizes: call "
                "compute_chunk_sizes() on the Dask array first"
            )
        return da.from_array(array, chunks=own, name=f"operand-{tokenize(array, own)}")
    differing = {}
    for k, lengths in wanted.items():
        own = array.chunks[k]
        if any(map(isnan, (*own, *lengths))):
            if len(own) != len(lengths):
                raise ValueError(
                    f"operands with unknown chunk sizes must have the same number of chunks "
                    f"along axis {offset + k}; got {len(own)} and {len(lengths)}"
                )
        elif own != lengths:
            differing[k] = lengths
    return array.rechunk(differing) if differing else array


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
        else _aligned(state, rows, row_shape)
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
