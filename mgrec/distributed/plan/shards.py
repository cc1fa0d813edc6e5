"""The program of a shard: what one worker computes of a solve.

Along an axis, shards give each other the summaries of their chunks. Each folds all summaries
before its own chunks, in the order of the recurrence, so that results have the bits of the
graph's.

Where a recurrence is contractive, the carry-out of a chunk is the same for every finite carry-in.
So the carry-in of the chunk after it is known as soon as a chunk is solved speculatively, and a
shard corrects chunks while its device is still busy. When the summaries of other shards arrive
only its first chunk is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.contract.grid import Grid
from ...core.contract.recurrence import ChunkIndex, ChunkInputs
from ..tasks.phases import Entries, propagate_group
from ..tasks.speculation import Waiting, correct_block, speculate_in_turn, summarise_blocks
from .exchange import Exchange, Program
from .grids import GridShard
from .messages import ChainShard, Request, name_of, row_of
from .tiles import solve_tiles

Blocks = Mapping[ChunkIndex, list[Any]]


@dataclass(frozen=True)
class Threads:
    """Threads for the chunks of a shard: one works where it is called, more in a pool."""

    count: int
    pool: Executor | None

    def map(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of several values on all threads."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


def solve_shard(
    request: Request,
    name: str,
    shard: ChainShard | GridShard,
    blocks: Blocks,
    exchange: Exchange,
    threads: Threads,
) -> Program[tuple[dict[Any, Any], Any]]:
    """Return the results of a shard by their keys, and its answer to the client.

    The answer along an axis is the final states by rows of chunks; of a grid without results it
    is the carry-out of the last tile, or None.
    """
    starts = dict(shard.chunks)
    inputs_of_chunks = {
        chunk_index: ChunkInputs(tuple(own), chunk_index, starts[chunk_index])
        for chunk_index, own in blocks.items()
    }
    del blocks
    if isinstance(shard, GridShard):
        assert isinstance(request.recurrence, Grid)
        tiles, answer = yield from solve_tiles(
            request.recurrence, shard, inputs_of_chunks, exchange
        )
        return {
            (name_of(name, 0), *chunk_index): array for chunk_index, array in tiles.items()
        }, answer
    return (yield from _Chain(request, name, shard, exchange, threads).solve(inputs_of_chunks))


@dataclass(frozen=True)
class _Chain:
    """The chunks of a shard along the axis of their recurrence."""

    request: Request
    name: str
    shard: ChainShard
    exchange: Exchange
    threads: Threads
    predicted: dict[ChunkIndex, tuple[Any, Any]] = field(default_factory=dict)
    """Carry-ins that were predicted, and the results that were corrected by them."""

    @property
    def recurrence(self) -> Any:
        return self.request.recurrence

    def solve(
        self, inputs_of_chunks: dict[ChunkIndex, ChunkInputs]
    ) -> Program[tuple[dict[Any, Any], Any]]:
        waiting, summaries = self._summarise(inputs_of_chunks)
        # Chunks that were solved speculatively no longer need their operands.
        inputs_of_chunks.clear()
        self.exchange.publish(self.shard, summaries)
        for chunk_index in waiting if self.shard.senders else ():
            self._predict(chunk_index, waiting)
        summaries |= yield from self.exchange.collect(self.shard)
        return self._determine(waiting, summaries)

    def _summarise(
        self, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs]
    ) -> tuple[dict[ChunkIndex, Waiting], Any]:
        """Solve contractive chunks speculatively; return the summaries that a shard needs."""
        recurrence, needs_last = self.recurrence, self.request.needs_last
        order = sorted(inputs_of_chunks, key=self._turn)
        needed = {
            chunk_index
            for chunk_index in order
            if needs_last or not self._is_last(self._turn(chunk_index))
        }

        def start(part: list[ChunkIndex]) -> list[tuple[Waiting, Any]]:
            launched = speculate_in_turn(
                [inputs_of_chunks[chunk_index] for chunk_index in part], recurrence
            )
            waiting: dict[ChunkIndex, Waiting] = {}
            for k, (chunk_index, chunk) in enumerate(zip(part, launched, strict=True)):
                waiting[chunk_index] = chunk
                # Not at the last one, whose summary others wait for.
                if 0 < k < len(part) - 1:
                    self._predict(part[k - 1], waiting)
            own = [chunk_index for chunk_index in part if chunk_index in needed]
            found = summarise_blocks([waiting[chunk_index] for chunk_index in own], recurrence)
            summaries = dict(zip(own, found, strict=True))
            return [(waiting[chunk_index], summaries.get(chunk_index)) for chunk_index in part]

        started = dict(zip(order, self.threads.map(start, order), strict=True))
        waiting = {chunk_index: chunk for chunk_index, (chunk, _) in started.items()}
        return waiting, {
            chunk_index: started[chunk_index][1] for chunk_index in order if chunk_index in needed
        }

    def _predict(self, chunk_index: ChunkIndex, waiting: Mapping[ChunkIndex, Waiting]) -> None:
        """Correct a chunk that was solved speculatively, if the chunk before it was, too."""
        recurrence, chunk, turn = self.recurrence, waiting[chunk_index], self._turn(chunk_index)
        if (
            chunk.speculation is None
            or chunk_index in self.predicted
            or not recurrence.has_fixed_carry_out
        ):
            return
        if turn == 0:
            initial = self.request.initial[row_of(chunk_index, recurrence.axis)]
            entries = propagate_group(recurrence, [], initial)
        else:
            before = waiting.get(self._chunk_index(row_of(chunk_index, recurrence.axis), turn - 1))
            if before is None or before.speculation is None:
                return
            summary = before.speculation.summary, before.shape
            states = propagate_group(recurrence, [summary], recurrence.zero_state()).states
            entries = Entries(states[1:])
        carry_in = entries.at(0, recurrence, chunk.shape)
        self.predicted[chunk_index] = carry_in, correct_block(recurrence, chunk, entries, 0)

    def _correct(self, chunk_index: ChunkIndex, chunk: Waiting, entries: Entries) -> Any:
        """The results of a chunk: those by its predicted carry-in, if that has the same bits."""
        carry_in, results = self.predicted.pop(chunk_index, (None, None))
        if carry_in is not None:
            exact = entries.at(self._turn(chunk_index), self.recurrence, chunk.shape)
            if _have_same_bits(carry_in, exact):
                return results
        return correct_block(self.recurrence, chunk, entries, self._turn(chunk_index))

    def _determine(self, waiting: Mapping[ChunkIndex, Waiting], summaries: Any) -> Any:
        recurrence = self.recurrence
        rows: dict[ChunkIndex, int] = {}
        for chunk_index in waiting:
            row = row_of(chunk_index, recurrence.axis)
            rows[row] = max(rows.get(row, 0), self._turn(chunk_index))

        def propagate(part: list[ChunkIndex]) -> list[Entries]:
            before = (
                [summaries[chunk_index] for chunk_index in self._before(row, rows[row])]
                for row in part
            )
            states = (self.request.initial[row] for row in part)
            pairs = zip(before, states, strict=True)
            return [propagate_group(recurrence, *pair) for pair in pairs]

        def determine(part: list[ChunkIndex]) -> list[Any]:
            entries = (carry_ins[row_of(chunk_index, recurrence.axis)] for chunk_index in part)
            pairs = zip(part, entries, strict=True)
            return [
                self._correct(chunk_index, waiting[chunk_index], carry_in)
                for chunk_index, carry_in in pairs
            ]

        carry_ins = dict(zip(rows, self.threads.map(propagate, list(rows)), strict=True))
        results = self.threads.map(determine, list(waiting))
        keyed = {
            (name_of(self.name, k), *chunk_index): array
            for chunk_index, arrays in zip(waiting, results, strict=True)
            for k, array in enumerate(arrays if recurrence.results > 1 else [arrays])
        }
        ended = [row for row in rows if recurrence.returns_final_state and self._is_last(rows[row])]
        return keyed, {row: carry_ins[row].final_state(recurrence) for row in ended} or None

    def _is_last(self, turn: int) -> bool:
        return turn == self.shard.count - 1

    def _turn(self, chunk_index: ChunkIndex) -> int:
        """The position of a chunk in its row, in the order of the recurrence."""
        k = chunk_index[self.recurrence.axis]
        return self.shard.count - 1 - k if self.recurrence.reverse else k

    def _chunk_index(self, row: ChunkIndex, turn: int) -> ChunkIndex:
        axis = self.recurrence.axis
        k = self.shard.count - 1 - turn if self.recurrence.reverse else turn
        return (*row[:axis], k, *row[axis:])

    def _before(self, row: ChunkIndex, last: int) -> list[ChunkIndex]:
        """The chunks of a row whose summaries this worker needs, in order.

        Those before its last one; all for the final states, or of a two-sided recurrence.
        """
        is_all = self.recurrence.is_two_sided or self._is_last(last)
        count = self.shard.count if is_all and self.request.needs_last else last
        return [self._chunk_index(row, turn) for turn in range(count)]


def _have_same_bits(first: Any, second: Any) -> bool:
    """Whether two carry-ins have the same bits."""
    pairs = zip(first, second, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
