"""The program of a recurrence along an axis whose chunks are divided among shards.

Each shard summarises its chunks, gets the summaries of the chunks before them, propagates in the
order of the recurrence, and determines its results. So results have the bits of a graph with the
same chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from operator import call
from typing import Any

from ...core.contract.recurrence import ChunkIndex, ChunkInputs
from ..graph.aligned import AlignedProblem, chunk_of_row, without_axis
from ..speculation import launch_speculation, wait_for_all
from ..tasks import (
    CarryIns,
    SpeculativeChunk,
    launch_determination,
    launch_summaries,
    propagate_group,
    retain_maps,
)
from .shards import Owner, SendingShard, Threads, chunks_by_owner

Summaries = dict[ChunkIndex, Any]
Gather = Callable[[Summaries], tuple[Summaries, Mapping[ChunkIndex, Any]]]


@dataclass(frozen=True)
class ChainShard(SendingShard):
    """Chunks along an axis; other shards need the summaries of some, by chunk indices."""

    count: int


def assign_chunks(aligned: AlignedProblem, owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, ChainShard]:
    """Return the shards of a recurrence by the owners of its chunks."""
    recurrence, count, chunks = aligned.recurrence, aligned.count, chunks_by_owner(owners)
    axis = recurrence.axis

    def order(chunk_index: ChunkIndex) -> int:
        return int(recurrence.order_of_chunk(chunk_index[axis], count))

    # For each owner and row of chunks: how many summaries, from the first chunk on, it needs.
    needed: dict[tuple[Owner, ChunkIndex], int] = {}
    for chunk_index, owner in owners.items():
        key = owner, without_axis(chunk_index, axis)
        needed[key] = max(needed.get(key, 0), count if recurrence.is_two_sided else order(chunk_index))
    numbers = {owner: number for number, owner in enumerate(chunks)}
    receivers: dict[Owner, dict[int, tuple[ChunkIndex, ...]]] = {owner: {} for owner in chunks}
    for sender, receiver in permutations(chunks, 2):
        sent = tuple(i for i in chunks[sender] if order(i) < needed.get((receiver, without_axis(i, axis)), 0))
        if sent:
            receivers[sender][numbers[receiver]] = sent
    return {
        owner: ChainShard(
            number,
            tuple(map(aligned.position, chunks[owner])),
            receivers[owner],
            tuple(numbers[sender] for sender in chunks if number in receivers[sender]),
            count,
        )
        for owner, number in numbers.items()
    }


@dataclass(frozen=True)
class ChainProgram:
    """The chunks of a recurrence that a shard computes, in rows along the axis.

    `is_known_to_all`: whether all shards compute the final states, not only those with last chunks.
    `wait`: calls a function that waits for the device.
    """

    recurrence: Any
    count: int
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
        # The position of the shard's last chunk in each row: chunks are in their order.
        last = {self._row(index): self._order(index) for index in chunks}

        def propagate(row: ChunkIndex) -> CarryIns:
            before = [summaries[index] for index in self._before(row, last[row])]
            return propagate_group(self.recurrence, before, initial[row])

        rows = self.threads.map(propagate, last)
        carry_ins = dict(zip(last, rows, strict=True))
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

        def launch(index: ChunkIndex) -> Any:
            return launch_speculation(inputs_of_chunks[index], recurrence) or inputs_of_chunks[index]

        chunks = dict(zip(order, wait_for_all(self.threads.map(launch, order), self.wait), strict=True))
        count = self.count if recurrence.needs_last_summary(self.count) else self.count - 1
        needed = [index for index in order if self._order(index) < count]
        waits = self.threads.map_lists(
            lambda part: launch_summaries([chunks[i] for i in part], recurrence), needed
        )
        others = [index for index in order if not isinstance(chunks[index], SpeculativeChunk)]
        for index in others:
            if index not in needed:
                # While the shard waits for others, a device has time for what the chunk needs.
                retain_maps(chunks[index], recurrence)
        wait_for = self.wait if others else call
        summaries = wait_for(lambda: [wait() for wait in waits])
        return chunks, dict(zip(needed, summaries, strict=True))

    def _determine(
        self, chunks: Mapping[ChunkIndex, ChunkInputs], carry_ins: Mapping[ChunkIndex, CarryIns]
    ) -> list[tuple[Any, ...]]:
        """Return the results of all chunks; wait for all, even if one fails.

        Kernels write to memory of the host until they have ended.
        """

        def launch(index: ChunkIndex) -> Callable[[], tuple[Any, ...]]:
            row, number = self._row(index), self._order(index)
            return launch_determination(self.recurrence, chunks[index], carry_ins[row], number)

        launched = self.threads.map(launch, chunks)
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
        return without_axis(index, self.recurrence.axis)

    def _order(self, index: ChunkIndex) -> int:
        """Return the position of a chunk in its row, in the order of the recurrence."""
        return int(self.recurrence.order_of_chunk(index[self.recurrence.axis], self.count))

    def _before(self, row: ChunkIndex, last: int) -> list[ChunkIndex]:
        """Return the chunks of a row whose summaries the shard needs, in order."""
        recurrence, count = self.recurrence, self.count
        is_whole_row = self.is_known_to_all or recurrence.is_two_sided or last == count - 1
        stop = count if is_whole_row and recurrence.needs_last_summary(count) else last
        return [chunk_of_row(row, recurrence.axis, recurrence.order_of_chunk(k, count)) for k in range(stop)]
