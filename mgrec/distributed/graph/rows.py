"""Propagations and determinations along rows of chunks, for packed and for held chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ...core.contract.recurrence import ChunkIndex
from ..tasks.phases import final_state_block
from .cuts import Cut, within
from .operands import align

Layer = dict[Any, Task]


def rows_of(rows: Any) -> Iterator[ChunkIndex]:
    """The places of all chunks of these axes."""
    return product(*(range(len(lengths)) for lengths in rows))


def place_of(row: ChunkIndex, axis: int, k: int) -> ChunkIndex:
    """The place of chunk k of a row."""
    return (*row[:axis], k, *row[axis:])


def groups_of(count: int, size: int, reverse: bool) -> list[range]:
    """The chunks along the axis in the order of the recurrence, in groups."""
    order = range(count - 1, -1, -1) if reverse else range(count)
    return [order[left : left + size] for left in range(0, count, size)]


class Layers(ABC):
    """The tasks of a solve, added phase by phase.

    `names` are those of the layers of precompute, propagate, determine and carry-out; `entries`,
    `results` and `carry_outs` are the tasks of the last three.
    """

    def __init__(self, cut: Cut, token: str) -> None:
        self.cut, self.token = cut, token
        phases = ("precompute", "propagate", "determine", "exit")
        self.names = tuple(f"{phase}-{token}" for phase in phases)
        self.entries: Layer = {}
        self.results: Layer = {}
        self.carry_outs: Layer = {}

    @abstractmethod
    def propagate(self, chunk_indices: list[ChunkIndex], before: Any, key: tuple[Any, ...]) -> None:
        """Add the propagation of a group: the summaries of these chunks, after `before`."""

    @abstractmethod
    def determine(self, chunk_index: ChunkIndex, entries: TaskRef, number: int) -> None:
        """Add the determination of a chunk, whose carry-in is that of this number in its group."""

    @abstractmethod
    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        """The graph up to the propagations; `initial` are the Dask arrays of initial states."""

    @property
    @abstractmethod
    def read(self) -> set[str]:
        """Names of the layers that determine reads its operands from."""

    def chain(self, size: int) -> tuple[tuple[da.Array, ...], da.Array | None]:
        """The results, and the carry-out if it is asked for, with groups of this many chunks."""
        recurrence, cut = self.cut.recurrence, self.cut
        groups = groups_of(cut.count, size, recurrence.reverse)
        last = groups[-1][-1]
        initial, arrays = _initial(cut)
        for row in rows_of(cut.rows):
            before: Any = initial(row)
            for group, members in enumerate(groups):
                chunk_indices = [place_of(row, recurrence.axis, k) for k in members]
                # The last chunk is summarised only if something needs it.
                asked = [
                    at for at, k in zip(chunk_indices, members, strict=True)
                    if k != last or self.cut.is_last_asked
                ]  # fmt: skip
                key = (self.names[1], group, *row)
                self.propagate(asked, before, key)
                before = TaskRef(key)
                for number, chunk_index in enumerate(chunk_indices):
                    self.determine(chunk_index, before, number)
            if recurrence.returns_final_state:
                self._leave(row, before)
        graph = self.graph(arrays)
        return self._results(graph), self._carry_out(
            graph
        ) if recurrence.returns_final_state else None

    def _leave(self, row: ChunkIndex, entries: TaskRef) -> None:
        recurrence, like = self.cut.recurrence, self.cut.blocks[0]._meta
        key = (self.names[3], *(0 for _ in recurrence.state_shape), *row)
        self.carry_outs[key] = Task(
            key, final_state_block, recurrence, entries, _like(like, 1, recurrence.dtype)
        )

    def _results(self, graph: HighLevelGraph) -> tuple[da.Array, ...]:
        cut, name = self.cut, self.names[2]
        graph = extended(graph, name, self.results, {self.names[1], *self.read})
        meta = _like(cut.blocks[0]._meta, len(cut.chunks), cut.recurrence.result_dtype)
        if cut.recurrence.results == 1:
            return (da.Array(graph, name, cut.chunks, meta=meta),)
        return tuple(
            component(graph, name, cut.chunks, number, meta)
            for number in range(cut.recurrence.results)
        )

    def _carry_out(self, graph: HighLevelGraph) -> da.Array:
        cut, name = self.cut, self.names[3]
        graph = extended(graph, name, self.carry_outs, {self.names[1]})
        chunks = (*((length,) for length in cut.recurrence.state_shape), *cut.rows)
        meta = _like(cut.blocks[0]._meta, len(chunks), cut.recurrence.dtype)
        return da.Array(graph, name, chunks, meta=meta)


def _initial(cut: Cut) -> tuple[Callable[[ChunkIndex], List], list[da.Array]]:
    """The initial states of each row of chunks, as a function of the row."""
    own = cut.recurrence.state_shape
    chunks = (*((length,) for length in own), *cut.rows)
    shape = tuple(map(sum, chunks))
    states = [
        state
        if state.ndim == 0 and not isinstance(state, da.Array)
        else align(state, chunks, shape)
        for state in cut.initial
    ]

    def at(row: ChunkIndex) -> List:
        chunk_index = (*(0 for _ in own), *row)
        return List(
            *(
                TaskRef((s.name, *within(chunk_index[len(chunk_index) - s.ndim :], s.numblocks)))
                if isinstance(s, da.Array)
                else s
                for s in states
            )
        )

    return at, [state for state in states if isinstance(state, da.Array)]


def _like(array: Any, ndim: int, dtype: np.dtype[Any]) -> Any:
    return meta_from_array(array, ndim=ndim, dtype=dtype)


def extended(
    graph: HighLevelGraph, name: str, tasks: Layer, dependencies: set[str]
) -> HighLevelGraph:
    """A graph with one more layer, which depends on these layers."""
    return HighLevelGraph({**graph.layers, name: tasks}, {**graph.dependencies, name: dependencies})


def component(graph: HighLevelGraph, name: str, chunks: Any, number: int, meta: Any) -> da.Array:
    """One scalar of the state as an array, from determine's tuples."""
    own = f"state-{number}-{name}"
    tasks = {
        (own, *chunk_index): Task(
            (own, *chunk_index), _state_of, TaskRef((name, *chunk_index)), number
        )
        for chunk_index in rows_of(chunks)
    }
    return da.Array(extended(graph, own, tasks, {name}), own, chunks, meta=meta)


def _state_of(states: tuple[Any, ...], number: int) -> Any:
    return states[number]
