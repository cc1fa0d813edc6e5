"""A Dask cluster: every chunk stays where it is, a few scalars a chunk cross.

The graph, *packed chained groups*, from one chunk k of a group g to the result::

    loads ─ pack k ─┬─ precompute k ─┐
                    │                propagate g ─ (propagate g + 1)
                    └─ determine k ──┘

``pack`` takes the blocks of one chunk together, so that its loads fuse into one root task and
land on one worker. A propagation takes the summaries of its group and the entries of the
group before; ``determine`` finds its own entry among those of its group, since a task for
each entry would be placed without regard to data.

Operands that the workers hold already need no ``pack``: see dask_held.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.layers import ArrayValuesDep
from dask.task_spec import List, Task, TaskRef

from ..phases.door import Problem
from .blocks import Recipe, determine_block, pack_blocks, precompute_block, propagate_group
from .dask_held import is_held, solve_held
from .dask_operands import read_again, recipe_of, reference_chunks
from .dask_rows import groups_of, initial_of, place_of, results_of, rows_of, starts_of
from .groups import group_size
from .limits import check_chunks
from .logs import log_solve

# Graph ordering takes seconds from here on (it grows with the square of the chunks).
MANY_CHUNKS = 2000


_captured: ContextVar[list[tuple[Problem, str]] | None] = ContextVar("captured", default=None)


def capture(call: Callable[[], Any]) -> tuple[Problem, str]:
    """The checked problem of a public function's call, and its method; nothing is built.

    Raises
    ------
    TypeError
        The function solves no recurrence of Dask arrays by transfer maps.
    """
    found: list[tuple[Problem, str]] = []
    token = _captured.set(found)
    try:
        call()
    finally:
        _captured.reset(token)
    if len(found) != 1:
        raise TypeError(
            "a plan takes linear_recurrence, rational_recurrence or scan, and a Dask array among "
            "their operands; got another function, or no Dask array"
        )
    return found[0]


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
    captured = _captured.get()
    if captured is not None:
        captured.append((problem, method))
        return problem.initial
    if da.array_expr_enabled():
        raise NotImplementedError(
            "mgrec builds graphs for legacy Dask arrays; set array.query-planning to False"
        )
    chunks = reference_chunks(problem)
    recipe, blocks = recipe_of(problem, chunks, method)
    _advise(len(chunks[problem.axis]))
    for block in blocks[:1]:
        check_chunks(block._meta, chunks, problem.dtype)
    token = tokenize(recipe, [block.name for block in blocks], problem.initial, chunks, memory)
    if blocks and all(map(is_held, blocks)):
        held = solve_held(problem, recipe, blocks, chunks, token)
        log_solve(held[0])
        return held
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
    results = _determine(problem, recipe, again, entries, chunks, token, blocks)
    log_solve(results[0])
    return results


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
        starts = starts_of(chunks[k])
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


def _propagate(
    problem: Problem, recipe: Recipe, summaries: da.Array, chunks: Any, name: str
) -> HighLevelGraph:
    axis = problem.axis
    initial, dependencies = initial_of(problem, chunks)
    size = group_size(chunks, axis, problem)
    groups = groups_of(len(chunks[axis]), size, problem.reverse)
    last = 0 if problem.reverse else len(chunks[axis]) - 1
    tasks: dict[Any, Task] = {}
    for row in rows_of(chunks, axis):
        before: Any = initial(row)
        for group, places in enumerate(groups):
            key = (name, group, *row)
            # No chunk comes after the last one: its summary is not asked for.
            asked = [k for k in places if k != last]
            refs = [TaskRef((summaries.name, *place_of(row, axis, k))) for k in asked]
            tasks[key] = Task(key, propagate_group, recipe, List(*refs), before)
            before = TaskRef(key)
    return HighLevelGraph.from_collections(name, tasks, dependencies=[summaries, *dependencies])


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
    groups = groups_of(len(chunks[axis]), size, problem.reverse)
    places = [
        (k, group, number)
        for group, members in enumerate(groups)
        for number, k in enumerate(members)
    ]
    tasks: dict[Any, Task] = {}
    for row in rows_of(chunks, axis):
        for k, group, number in places:
            place = place_of(row, axis, k)
            tasks[(name, *place)] = Task(
                (name, *place),
                determine_block,
                recipe,
                TaskRef((packs.name, *place)),
                TaskRef((before, group, *row)),
                number,
            )
    graph = HighLevelGraph.merge(packs.dask, entries)
    like = blocks[0]._meta if blocks else np.empty(0)
    return results_of(problem, tasks, name, graph, {packs.name, before}, chunks, like)
