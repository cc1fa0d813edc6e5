"""The part of a graph along an axis that packed and persisted chunks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dask.array.core as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ...core.arrays.chunk import has_unknown_sizes
from ...core.contract.recurrence import AlongAxis, ChunkIndex
from ..tasks import final_state_block
from .aligned import AlignedProblem, align, broadcast_index, chunk_indices_of, chunk_of_row

# A group keeps its chunks' operands until it has propagated. With 32 small chunks in a group, its
# task adds little to three for each chunk. With large chunks memory counts: groups of 256 MiB made
# a worker of 512 MiB spill 290 MB of 1.6 GB.
LARGEST = 32
# Persisted operands are in memory whatever the size of a group, and each group costs a round trip.
LARGEST_PERSISTED = 128
GROUP_BYTES = 64 << 20
CARRY_IN_BYTES = 64 << 10

Layer = dict[Any, Task]


def group_size(chunks: tuple[tuple[Any, ...], ...], recurrence: AlongAxis, is_persisted: bool) -> int:
    """Return the number of chunks along the axis that one propagation takes.

    At most 32, with at most 64 MiB of operands; or at most 128 if the operands are persisted.
    Fewer if the group's carry-ins, which are sent to each of its chunks, exceed an eighth of a
    chunk's operands (and 64 KiB). All chunks of a row if the recurrence is two-sided.
    """
    if recurrence.is_two_sided:
        return max(1, len(chunks[recurrence.axis]))
    if has_unknown_sizes(chunks):
        return LARGEST
    axis, arrays = recurrence.axis, sum(map(bool, recurrence.varying))
    largest = list(map(max, chunks))
    operands = max(1, prod(largest) * recurrence.dtype.itemsize * arrays)
    last = len(largest) - recurrence.number_axes
    rows = prod(largest[:axis]) * prod(largest[axis + 1 : last])
    carry_in = max(1, rows * recurrence.state_dtype.itemsize * recurrence.states)
    by_memory = GROUP_BYTES // operands
    by_transfer = max(CARRY_IN_BYTES, operands // 8) // carry_in
    if is_persisted:
        return max(1, min(LARGEST_PERSISTED, by_transfer))
    return max(1, min(LARGEST, by_memory, by_transfer))


class ChainLayers(ABC):
    """The tasks of a solve, added phase by phase.

    `names` are those of the layers of precompute, propagate, determine and carry-out;
    `carry_ins`, `results` and `carry_outs` are the tasks of the last three.
    """

    def __init__(self, aligned: AlignedProblem, token: str) -> None:
        self.aligned, self.token = aligned, token
        phases = ("precompute", "propagate", "determine", "exit")
        self.names = tuple(f"{phase}-{token}" for phase in phases)
        self.carry_ins: Layer = {}
        self.results: Layer = {}
        self.carry_outs: Layer = {}

    @abstractmethod
    def propagate(self, chunk_indices: list[ChunkIndex], previous: TaskRef, key: tuple[Any, ...]) -> None:
        """Add the propagation of a group: the summaries of these chunks, after `previous`."""

    @abstractmethod
    def determine(self, chunk_index: ChunkIndex, carry_ins: TaskRef, number: int) -> None:
        """Add the determination of a chunk, which has this number in its group."""

    @abstractmethod
    def graph(self, initial: list[da.Array]) -> HighLevelGraph:
        """Return the graph up to the propagations; `initial` are Dask arrays of initial states."""

    @property
    @abstractmethod
    def determine_inputs(self) -> set[str]:
        """Names of the layers from which determine reads its operands."""

    def solve(self, size: int) -> tuple[tuple[da.Array, ...], da.Array | None]:
        """Return the results and the carry-out or None, with groups of this many chunks."""
        recurrence, aligned = self.aligned.recurrence, self.aligned
        count = aligned.count
        order = [recurrence.order_of_chunk(k, count) for k in range(count)]
        groups = [order[left : left + size] for left in range(0, count, size)]
        initial, arrays = _initial(aligned)
        for row in chunk_indices_of(aligned.rows):
            previous: Any = initial(row)
            for group, members in enumerate(groups):
                chunk_indices = [chunk_of_row(row, recurrence.axis, k) for k in members]
                # The last chunk is summarised only if something needs it.
                is_whole = group < len(groups) - 1 or aligned.needs_last_summary
                summarised = chunk_indices if is_whole else chunk_indices[:-1]
                key = (self.names[1], group, *row)
                self.propagate(summarised, previous, key)
                previous = TaskRef(key)
                for number, chunk_index in enumerate(chunk_indices):
                    self.determine(chunk_index, previous, number)
            if recurrence.returns_final_state:
                self._add_carry_out(row, previous)
        graph = self.graph(arrays)
        carry_out = self._carry_out(graph) if recurrence.returns_final_state else None
        return self._results(graph), carry_out

    def _add_carry_out(self, row: ChunkIndex, carry_ins: TaskRef) -> None:
        recurrence, like = self.aligned.recurrence, self.aligned.blocks[0]._meta
        key = (self.names[3], *(0 for _ in recurrence.state_shape), *row)
        self.carry_outs[key] = Task(
            key, final_state_block, recurrence, carry_ins, meta_from_array(like, 1, recurrence.dtype)
        )

    def _results(self, graph: HighLevelGraph) -> tuple[da.Array, ...]:
        aligned, name = self.aligned, self.names[2]
        graph = extended(graph, name, self.results, {self.names[1], *self.determine_inputs})
        recurrence = aligned.recurrence
        meta = meta_from_array(aligned.blocks[0]._meta, len(aligned.chunks), recurrence.result_dtype)
        return split_results(da.Array(graph, name, aligned.chunks, meta=meta), recurrence.results, meta)

    def _carry_out(self, graph: HighLevelGraph) -> da.Array:
        aligned, name = self.aligned, self.names[3]
        graph = extended(graph, name, self.carry_outs, {self.names[1]})
        chunks = (*((length,) for length in aligned.recurrence.state_shape), *aligned.rows)
        meta = meta_from_array(aligned.blocks[0]._meta, len(chunks), aligned.recurrence.dtype)
        return da.Array(graph, name, chunks, meta=meta)


def _initial(aligned: AlignedProblem) -> tuple[Callable[[ChunkIndex], List], list[da.Array]]:
    """Return the initial states as a function of the row of chunks, and the Dask arrays of them."""
    state_shape = aligned.recurrence.state_shape
    chunks = (*((length,) for length in state_shape), *aligned.rows)
    shape = tuple(map(sum, chunks))
    states = [
        state if state.ndim == 0 and not isinstance(state, da.Array) else align(state, chunks, shape)
        for state in aligned.initial
    ]

    def of_row(row: ChunkIndex) -> List:
        index = (*(0 for _ in state_shape), *row)
        return List(
            *(
                TaskRef((s.name, *broadcast_index(index[len(index) - s.ndim :], s.numblocks)))
                if isinstance(s, da.Array)
                else s
                for s in states
            )
        )

    return of_row, [state for state in states if isinstance(state, da.Array)]


def extended(graph: HighLevelGraph, name: str, tasks: Layer, dependencies: set[str]) -> HighLevelGraph:
    """Return a graph with one more layer, which depends on these layers."""
    return HighLevelGraph({**graph.layers, name: tasks}, {**graph.dependencies, name: dependencies})


def split_results(array: da.Array, count: int, meta: Any) -> tuple[da.Array, ...]:
    """Return one array for each of the `count` results of the chunks of an array."""
    if count == 1:
        return (array,)
    return tuple(component(array.dask, array.name, array.chunks, number, meta) for number in range(count))


def component(
    graph: HighLevelGraph, layer: str, chunks: Sequence[Sequence[Any]], number: int, meta: Any
) -> da.Array:
    """Return one of the results of each task of a layer, as an array."""
    name = f"state-{number}-{layer}"
    tasks = {
        (name, *chunk_index): Task((name, *chunk_index), _item, TaskRef((layer, *chunk_index)), number)
        for chunk_index in chunk_indices_of(chunks)
    }
    return da.Array(extended(graph, name, tasks, {layer}), name, chunks, meta=meta)


def _item(results: tuple[Any, ...], number: int) -> Any:
    return results[number]
