"""The program of a recurrence along an axis whose chunks are divided among shards.

Each shard summarises its chunks, gets the summaries of the chunks before them, propagates in the
order of the recurrence, and determines its results. So results have the bits of a graph with the
same chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from operator import call
from typing import Any

from ...core.contract.recurrence import ChunkIndex, ChunkInputs, ChunkPosition
from ..graph.aligned import AlignedProblem
from ..speculation import launch_speculation
from ..tasks import (
    CarryIns,
    SpeculativeChunk,
    launch_determination,
    launch_summaries,
    propagate_group,
    retain_maps,
)
from .shards import Owner, Threads, chunks_by_owner

Summaries = dict[ChunkIndex, Any]
Gather = Callable[[Summaries], tuple[Summaries, Mapping[ChunkIndex, Any]]]


def row_of(chunk_index: ChunkIndex, axis: int) -> ChunkIndex:
    """Return the row of chunks along the axis to which a chunk belongs."""
    return chunk_index[:axis] + chunk_index[axis + 1 :]


@dataclass(frozen=True)
class ChainShard:
    """Chunks along an axis that one shard solves, and where it sends and gets summaries.

    Attributes
    ----------
    number : int
    chunks : tuple of (chunk index, starts)
    count : int
        Number of chunks along the axis of the recurrence.
    receivers : dict, number of a shard -> chunk indices
        The shards that need summaries of this one, and of which chunks.
    senders : tuple of int
        The shards whose summaries this one needs.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    count: int
    receivers: Mapping[int, tuple[ChunkIndex, ...]]
    senders: tuple[int, ...]


def assign_chunks(aligned: AlignedProblem, owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, ChainShard]:
    """Return the shards of a recurrence by the owners of its chunks."""
    recurrence, count, chunks = aligned.recurrence, aligned.count, chunks_by_owner(owners)
    axis = recurrence.axis

    def order(chunk_index: ChunkIndex) -> int:
        return count - 1 - chunk_index[axis] if recurrence.reverse else chunk_index[axis]

    # For each owner and row of chunks: how many summaries, from the first chunk on, it needs.
    needed: dict[Owner, dict[ChunkIndex, int]] = {owner: {} for owner in chunks}
    for chunk_index, owner in owners.items():
        row, rows = row_of(chunk_index, axis), needed[owner]
        summaries = count if recurrence.is_two_sided else order(chunk_index)
        rows[row] = max(rows.get(row, 0), summaries)
    numbers = {owner: number for number, owner in enumerate(chunks)}
    receivers: dict[Owner, dict[int, tuple[ChunkIndex, ...]]] = {owner: {} for owner in chunks}
    for sender, receiver in permutations(chunks, 2):
        rows = needed[receiver]
        sent = tuple(i for i in chunks[sender] if order(i) < rows.get(row_of(i, axis), 0))
        if sent:
            receivers[sender][numbers[receiver]] = sent
    return {
        owner: ChainShard(
            number,
            tuple(map(aligned.position, chunks[owner])),
            count,
            receivers[owner],
            tuple(numbers[sender] for sender in chunks if number in receivers[sender]),
        )
        for owner, number in numbers.items()
    }


@dataclass(frozen=True)
class ChainProgram:
    """The chunks of a recurrence that a shard computes, in rows along the axis.

    Attributes
    ----------
    recurrence : AlongAxis
    count : int
        Number of chunks in a row.
    has_last_summary : bool
        Whether the last chunk of a row is summarised, too.
    is_known_to_all : bool
        Whether all shards compute the final states, not only those with last chunks.
    threads : Threads
    wait : callable
        Calls a function that waits for the device.
    """

    recurrence: Any
    count: int
    has_last_summary: bool
    is_known_to_all: bool = False
    threads: Threads = field(default_factory=Threads)
    wait: Callable[[Callable[[], Any]], Any] = call

    def solve(
        self, inputs_of_chunks: dict[ChunkIndex, ChunkInputs], gather: Gather
    ) -> tuple[dict[ChunkIndex, tuple[Any, ...]], dict[ChunkIndex, CarryIns]]:
        """Return the results of the chunks, and the carry-ins of their rows.

        Parameters
        ----------
        inputs_of_chunks : dict
            It is emptied: chunks that are solved speculatively need no operands any more.
        gather : callable
            Takes the summaries of the shard's chunks; returns all that the shard needs, and the
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
    ) -> tuple[dict[ChunkIndex, ChunkInputs], dict[ChunkIndex, Any]]:
        """Solve contractive chunks speculatively; return the summaries that shards need."""
        recurrence, order = self.recurrence, sorted(inputs_of_chunks, key=self._order)
        launched = self.threads.map(
            lambda part: [launch_speculation(inputs_of_chunks[i], recurrence) for i in part], order
        )
        chunks = {
            index: self.wait(wait) if wait else inputs_of_chunks[index]
            for index, wait in zip(order, launched, strict=True)
        }
        needed = [i for i in order if self.has_last_summary or not self._is_last(i)]
        waits = self.threads.map(lambda part: launch_summaries([chunks[i] for i in part], recurrence), needed)
        others = [index for index in order if not isinstance(chunks[index], SpeculativeChunk)]
        for index in others:
            if index not in needed:
                # While the shard waits for others, a device has time for what the chunk needs.
                retain_maps(chunks[index], recurrence)
        wait = self.wait if others else call
        summaries = wait(lambda: [wait() for wait in waits])
        return chunks, dict(zip(needed, summaries, strict=True))

    def _determine(
        self, chunks: Mapping[ChunkIndex, ChunkInputs], carry_ins: Mapping[ChunkIndex, CarryIns]
    ) -> list[tuple[Any, ...]]:
        """Return the results of all chunks; wait for all, even if one fails.

        Kernels write to memory of the host until they have ended.
        """

        def launch(part: list[ChunkIndex]) -> list[Callable[[], Any]]:
            return [
                launch_determination(self.recurrence, chunks[k], carry_ins[self._row(k)], self._order(k))
                for k in part
            ]

        launched = self.threads.map(launch, list(chunks))
        results, errors = list[tuple[Any, ...]](), list[Exception]()

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
        """Return the last chunk of the shard in each row."""
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
        """Return the chunks of a row whose summaries the shard needs, in order.

        Those before its last chunk; all for final states, or if the recurrence is two-sided.
        """
        is_whole_row = self.is_known_to_all or self.recurrence.is_two_sided or self._is_last(last)
        needs_all = is_whole_row and self.has_last_summary
        count = self.count if needs_all else self._order(last)
        return [self._chunk_index(row, order) for order in range(count)]
