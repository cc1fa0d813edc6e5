"""What the graphs of packed and of held chunks share: rows of chunks, groups, results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import isnan, nan
from typing import Any

import dask.array as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ..phases.door import Problem
from .dask_operands import align

Place = tuple[int, ...]


def starts_of(lengths: tuple[Any, ...]) -> list[int]:
    """The index of the first step of each chunk; -1 after a chunk of unknown size."""
    starts, start = [], 0.0
    for length in lengths:
        starts.append(-1 if isnan(start) else int(start))
        start += length if not isnan(length) else nan
    return starts


def rows_of(chunks: Any, axis: int) -> Iterator[Place]:
    """The places of chunks on all axes but one."""
    return product(*(range(len(c)) for k, c in enumerate(chunks) if k != axis))


def place_of(row: Place, axis: int, k: int) -> Place:
    """The place of chunk k of a row."""
    return (*row[:axis], k, *row[axis:])


def groups_of(count: int, size: int, reverse: bool) -> list[range]:
    """The chunks along the axis in the order of the recurrence, in groups."""
    order = range(count - 1, -1, -1) if reverse else range(count)
    return [order[left : left + size] for left in range(0, count, size)]


def initial_of(problem: Problem, chunks: Any) -> tuple[Callable[[Place], List], list[da.Array]]:
    """What the first propagation of a row of chunks starts from, as a function of the row."""
    rows = tuple(c for k, c in enumerate(chunks) if k != problem.axis)
    row_shape = problem.row_shape
    states = [
        state
        if state.ndim == 0 and not isinstance(state, da.Array)
        else align(state, rows, row_shape)
        for state in problem.initial
    ]

    def at(row: Place) -> List:
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


def results_of(
    problem: Problem,
    tasks: Mapping[Any, Task],
    name: str,
    before: HighLevelGraph,
    dependencies: set[str],
    chunks: Any,
    like: Any,
) -> tuple[da.Array, ...]:
    """The arrays of the determinations: one a scalar of the state."""
    graph = HighLevelGraph(
        {**before.layers, name: tasks}, {**before.dependencies, name: dependencies}
    )
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
