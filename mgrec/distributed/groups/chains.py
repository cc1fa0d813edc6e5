"""The program of a recurrence along an axis whose chunks are divided among ranks.

Each rank summarises its chunks, gets the summaries of the chunks before them, propagates in the
order of the recurrence, and determines its results. So results have the bits of a graph with the
same chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import accumulate
from operator import call
from typing import Any

from ...core.arrays.array_types import to_host
from ...core.backends import backend_of
from ...core.contract.grid import Grid
from ...core.contract.problem import Problem
from ...core.contract.recurrence import ChunkIndex, ChunkInputs
from ..speculation import PendingChunk, launch_correction, launch_speculation
from ..tasks import CarryIns, launch_summaries, propagate_group
from . import grids
from .calls import GroupCall

Summaries = dict[ChunkIndex, Any]
Gather = Callable[[Summaries], tuple[Summaries, Mapping[ChunkIndex, Any]]]


def row_of(chunk_index: ChunkIndex, axis: int) -> ChunkIndex:
    """Return the row of chunks along the axis to which a chunk belongs."""
    return chunk_index[:axis] + chunk_index[axis + 1 :]


@dataclass(frozen=True)
class Threads:
    """Threads for the chunks of a rank: a pool, or without one the thread of the caller."""

    count: int = 1
    pool: Executor | None = None

    def map(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of a list of values on all threads, each with a part of the list."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


@dataclass(frozen=True)
class Chain:
    """The chunks of a recurrence that a rank computes, in rows along the axis.

    Attributes
    ----------
    recurrence : AlongAxis
    count : int
        Number of chunks in a row.
    has_last_summary : bool
        Whether the last chunk of a row is summarised, too.
    is_known_to_all : bool
        Whether all ranks compute the final states, not only those with last chunks.
    threads : Threads
    wait : callable
        Calls a function that waits for the device.
    """

    recurrence: Any
    count: int
    has_last_summary: bool
    is_known_to_all: bool = False
    threads: Threads = Threads()
    wait: Callable[[Callable[[], Any]], Any] = call

    def solve(
        self, inputs_of_chunks: dict[ChunkIndex, ChunkInputs], gather: Gather
    ) -> tuple[dict[ChunkIndex, Any], dict[ChunkIndex, CarryIns]]:
        """Return the results of the chunks, and the carry-ins of their rows.

        Parameters
        ----------
        inputs_of_chunks : dict
            It is emptied: chunks that are solved speculatively need no operands any more.
        gather : callable
            Takes the summaries of the rank's chunks; returns all that the rank needs, and the
            initial states by rows.
        """
        chunks, summaries = self._summarise(inputs_of_chunks)
        inputs_of_chunks.clear()
        summaries, initial = gather(summaries)
        last_of_row = self._last_of_row(chunks)

        def propagate(rows: list[ChunkIndex]) -> list[CarryIns]:
            return [
                propagate_group(
                    self.recurrence,
                    [summaries[index] for index in self._before(row, last_of_row[row])],
                    initial[row],
                )
                for row in rows
            ]

        rows = self.threads.map(propagate, list(last_of_row))
        carry_ins = dict(zip(last_of_row, rows, strict=True))
        return dict(zip(chunks, self._determine(chunks, carry_ins), strict=True)), carry_ins

    def final_states(self, carry_ins: Mapping[ChunkIndex, CarryIns]) -> dict[ChunkIndex, Any]:
        """Return the final states of the rows whose carry-ins include them."""
        return {
            row: own.final_state(self.recurrence)
            for row, own in carry_ins.items()
            if self.recurrence.returns_final_state and len(own.states) > self.count
        }

    def _summarise(
        self, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs]
    ) -> tuple[dict[ChunkIndex, PendingChunk], dict[ChunkIndex, Any]]:
        """Solve contractive chunks speculatively; return the summaries that ranks need."""
        recurrence, order = self.recurrence, sorted(inputs_of_chunks, key=self._order)
        launched = self.threads.map(
            lambda part: [launch_speculation(inputs_of_chunks[i], recurrence) for i in part], order
        )
        chunks = {
            index: self.wait(wait) if wait else PendingChunk(inputs_of_chunks[index])
            for index, wait in zip(order, launched, strict=True)
        }
        needed = [i for i in order if self.has_last_summary or not self._is_last(i)]
        others = [index for index in needed if not chunks[index].speculation]
        waits = self.threads.map(
            lambda part: launch_summaries([chunks[i].inputs for i in part], recurrence), others
        )
        summaries = {
            index: (speculation.summary, chunks[index].shape)
            for index in needed
            if (speculation := chunks[index].speculation) is not None
        }
        if others:
            precomputed = self.wait(lambda: [wait() for wait in waits])
            summaries |= zip(others, precomputed, strict=True)
        return chunks, summaries

    def _determine(
        self, chunks: Mapping[ChunkIndex, PendingChunk], carry_ins: Mapping[ChunkIndex, CarryIns]
    ) -> list[Any]:
        """Return the results of all chunks; wait for all, even if one fails.

        Kernels write to memory of the host until they have ended.
        """

        def launch(part: list[ChunkIndex]) -> list[Callable[[], Any]]:
            return [
                launch_correction(
                    self.recurrence, chunks[k], carry_ins[self._row(k)], self._order(k)
                )
                for k in part
            ]

        launched = self.threads.map(launch, list(chunks))
        results, errors = list[Any](), list[Exception]()

        def wait_for_all() -> None:
            for wait in launched:
                try:
                    results.append(wait())
                except Exception as error:
                    errors.append(error)

        if self.recurrence.is_asynchronous:
            wait_for_all()
        else:
            self.wait(wait_for_all)
        if errors:
            raise errors[0]
        return results

    def _row(self, index: ChunkIndex) -> ChunkIndex:
        return row_of(index, self.recurrence.axis)

    def _last_of_row(self, chunks: Iterable[ChunkIndex]) -> dict[ChunkIndex, ChunkIndex]:
        """Return the last chunk of the rank in each row."""
        last: dict[ChunkIndex, ChunkIndex] = {}
        for index in chunks:
            row = self._row(index)
            last[row] = max(last.get(row, index), index, key=self._order)
        return last

    def _is_last(self, index: ChunkIndex) -> bool:
        return self._order(index) == self.count - 1

    def _order(self, index: ChunkIndex) -> int:
        """Return the position of a chunk in its row, in the order of the recurrence."""
        k = index[self.recurrence.axis]
        return self.count - 1 - k if self.recurrence.reverse else k

    def _chunk_index(self, row: ChunkIndex, order: int) -> ChunkIndex:
        axis = self.recurrence.axis
        k = self.count - 1 - order if self.recurrence.reverse else order
        return (*row[:axis], k, *row[axis:])

    def _before(self, row: ChunkIndex, last: ChunkIndex) -> list[ChunkIndex]:
        """Return the chunks of a row whose summaries the rank needs, in order.

        Those before its last chunk; all for final states, or if the recurrence is two-sided.
        """
        is_whole_row = self.is_known_to_all or self.recurrence.is_two_sided or self._is_last(last)
        needs_all = is_whole_row and self.has_last_summary
        count = self.count if needs_all else self._order(last)
        return [self._chunk_index(row, order) for order in range(count)]


def solve(problem: Problem, call: GroupCall) -> Any:
    """Return what a public function returns for the part of this rank, which is one chunk."""
    _check(problem)
    if isinstance(problem.recurrence, Grid):
        return grids.solve(problem, call)
    recurrence, inputs = _divided(problem, call)
    returns_final_state = recurrence.returns_final_state
    has_last_summary = recurrence.is_two_sided or returns_final_state
    chain = Chain(recurrence, call.group.size, has_last_summary, is_known_to_all=True)
    first = call.group.size - 1 if recurrence.reverse else 0
    row = row_of(inputs.chunk_index, recurrence.axis)

    def gather(summaries: Summaries) -> tuple[Summaries, Mapping[ChunkIndex, Any]]:
        initial = [*map(to_host, problem.initial)] if call.group.rank == first else None
        message = summaries, initial
        messages = call.all_gather("the summaries", _options(problem), message)
        everything = {k: summary for own, _ in messages for k, summary in own.items()}
        return everything, {row: messages[first][1]}

    results, carry_ins = chain.solve({inputs.chunk_index: inputs}, gather)
    result, final_state = results[inputs.chunk_index], None
    if returns_final_state:
        like = problem.operands[0]
        final_state = backend_of(like).from_host(chain.final_states(carry_ins)[row], like)
    return problem.to_return_value(result if recurrence.results > 1 else (result,), final_state)


def _check(problem: Problem) -> None:
    """Raise unless a group can solve a problem."""
    if problem.is_lazy:
        raise TypeError("group must be None for Dask arrays: their chunks are on Dask's workers")
    if problem.out is not None:
        raise TypeError("out must be None with a group: results are new arrays")


def _divided(problem: Problem, call: GroupCall) -> tuple[Any, ChunkInputs]:
    """Return the recurrence of all ranks, and the part of this rank as a chunk of it."""
    recurrence, axis, shape = problem.recurrence, problem.recurrence.axis, problem.shape
    index, starts = [0] * len(shape), [0] * len(shape)
    index[axis] = call.group.rank
    if recurrence.indexed_by:
        lengths = call.all_gather("the lengths", {}, shape[axis], is_last=False)
        chunks = [(length,) for length in shape]
        chunks[axis] = tuple(lengths)
        recurrence.check_chunks(chunks)
        recurrence = recurrence.of_length(sum(lengths))
        starts[axis] = [0, *accumulate(lengths)][call.group.rank]
    return recurrence, ChunkInputs(problem.operands, tuple(index), tuple(starts), {})


def _options(problem: Problem) -> dict[str, Any]:
    """Return values that must be the same on all ranks, by names for messages."""
    recurrence, axis = problem.recurrence, problem.recurrence.axis
    return {
        "axis": axis,
        "reverse": recurrence.reverse,
        "method": recurrence.method,
        "the dtype of the result": recurrence.result_dtype.name,
        "the shape of the result without the axis": _without(problem.shape, axis),
        "the recurrence": f"{type(recurrence).__name__} of {recurrence.states} states",
        "whether the final states are returned": recurrence.returns_final_state,
    }


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return *shape[:axis], *shape[axis + 1 :]
