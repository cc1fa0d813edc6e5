"""The program of a shard: the part of a solve that one worker computes.

Along an axis, shards send each other the summaries of their chunks. Each shard propagates from all
summaries before its own chunks, in the order of the recurrence, so that results have the bits of
the graph's.

If a recurrence is contractive, the carry-out of a chunk is the same for every finite carry-in. So
the carry-in of the next chunk is known as soon as a chunk is solved speculatively, and a shard
corrects chunks while its device is still busy. When the summaries of other shards arrive, only
its first chunk remains.

Chunks of a filter take parts of other chunks. Shards send each other the parts that they need, and
meanwhile filter the chunks that need no part of another shard's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ...core.backends import common_backend
from ...core.contract.grid import Grid
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Overlapping, filter_chunk
from ..graph.along_axis import part_of
from ..observability import in_chunk
from ..speculation import PendingChunk, correct_block, launch_correction, launch_speculation
from ..tasks import CarryIns, launch_summaries, propagate_group
from .assignment import BandShard, ChainShard, FilterShard, GridShard, Shard, ShardGroup, row_of
from .grids import solve_bands, solve_tiles
from .messages import Exchange, Program, Request, Wait, result_name

PartKey = tuple[ChunkIndex, Any]
"""The index of a chunk, and what the filter calls a part of it."""
Blocks = Mapping[ChunkIndex, list[Any]]


def solve_filter(
    recurrence: Overlapping, shard: FilterShard, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange, threads: Threads,
) -> Program[dict[ChunkIndex, Any]]:  # fmt: skip
    """Return the results of a shard by the indices of their chunks.

    A GPU filters the chunks that need no part of another shard while parts are on their way.
    """
    chunks = _Chunks(recurrence, inputs_of_chunks)
    chunks.check(shard.shapes)
    parts = dict(zip(shard.parts, _map(threads, chunks.part, shard.parts), strict=True))
    inner, outer = list[ShardGroup](), list[ShardGroup]()
    for group in shard.groups:
        (inner if parts.keys() >= set(group.parts) else outer).append(group)
    waits = {to: chunks.fetch([parts[key] for key in keys]) for to, keys in shard.receivers.items()}
    results: dict[ChunkIndex, Any] = {}
    if chunks.backend.is_asynchronous:
        results |= chunks.filtered(inner, parts, threads)  # Behind the copies to the host.
        inner = []
    for receiver, wait in waits.items():
        exchange.send(receiver, shard.number, shard.receivers[receiver], (yield wait))
    if waits:
        yield ()  # The messages go out first.
    results |= chunks.filtered(inner, parts, threads)
    if shard.senders:
        yield shard.senders
        for sender in shard.senders:
            keys, arrays = exchange.take_with_arrays(sender)
            parts |= zip(keys, chunks.from_host(arrays), strict=True)
    return results | chunks.filtered(outer, parts, threads)


class _Chunks:
    """The chunks of a shard."""

    def __init__(
        self, recurrence: Overlapping, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs]
    ) -> None:
        self.recurrence, self.axis_filter = recurrence, recurrence.axis_filter
        self.axis, self.inputs = recurrence.axis, inputs_of_chunks
        self.first = next(iter(inputs_of_chunks.values())).blocks[0]
        self.backend = common_backend((self.first,))

    def check(self, shapes: Mapping[ChunkIndex, tuple[int, ...]]) -> None:
        """Raise unless chunks have the dtype and the shapes that their array declares."""
        for index, inputs in self.inputs.items():
            self.recurrence.check(inputs)
            if inputs.blocks[0].shape != shapes[index]:
                raise ValueError(
                    f"operands must have chunks of the shapes that their array declares, "
                    f"{shapes[index]}; chunk {index} is {inputs.blocks[0].shape}. Pass the right "
                    f"chunks to map_blocks, or to the function that made the array"
                )

    def part(self, key: PartKey) -> Any:
        """Return a part of a chunk."""
        index, part = key
        with self.backend.device_of((self.first,)), self._noted("parts", index):
            return self.axis_filter.part(self.inputs[index].blocks[0], self.axis, part)

    def fetch(self, parts: Sequence[Any]) -> Wait:
        """Start a copy of parts to host memory; the returned function waits for it."""
        with self.backend.device_of((self.first,)):
            waits = [self.backend.fetch(part) for part in parts]
        return lambda: [wait() for wait in waits]

    def from_host(self, parts: Sequence[Any]) -> list[Any]:
        """Return parts of other shards in the memory of this one."""
        with self.backend.device_of((self.first,)):
            return [self.backend.from_host(part, self.first) for part in parts]

    def filtered(
        self, groups: Sequence[ShardGroup], parts: Mapping[PartKey, Any], threads: Threads
    ) -> dict[ChunkIndex, Any]:
        """Return the results of the chunks of groups."""
        arrays = _map(threads, partial(self._filter, parts), groups)
        chunks = [index for group in groups for index in group.chunks]
        return dict(zip(chunks, chain.from_iterable(arrays), strict=True))

    def _filter(self, parts: Mapping[PartKey, Any], group: ShardGroup) -> list[Any]:
        recurrence, blocks = self.recurrence, [self.inputs[k].blocks[0] for k in group.chunks]
        x = blocks if group.is_joined else blocks[0]
        needed = [parts[key] for key in group.parts]
        with self.backend.device_of((self.first,)), self._noted("filter", group.chunks[0]):
            result = filter_chunk(
                self.axis_filter, x, self.axis, recurrence.dtype, group.recipe, needed
            )
            if not group.is_joined:
                return [result]
            return [part_of(result, self.axis, kept) for kept in group.kept]

    def _noted(self, phase: str, index: ChunkIndex) -> Any:
        return in_chunk(phase, index, self.inputs[index].starts)


def _map(threads: Threads, function: Callable[[Any], Any], values: Any) -> list[Any]:
    """Return what a function returns for each value, on all threads."""
    return threads.map(lambda part: list(map(function, part)), list(values))


@dataclass(frozen=True)
class Threads:
    """Threads for the chunks of a shard: a pool, or without one the thread of the caller."""

    count: int
    pool: Executor | None

    def map(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of a list of values on all threads, each with a part of the list."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


def solve_shard(
    request: Request, name: str, shard: Shard, blocks: Blocks, exchange: Exchange, threads: Threads
) -> Program[tuple[dict[Any, Any], Any]]:
    """Return the results of a shard by their keys, and its answer to the client.

    The answer along an axis is the final states by rows of chunks, or None. Over a grid without
    results it is the result of the last tile or band, or None.
    """
    starts = dict(shard.chunks)
    inputs_of_chunks = {
        index: ChunkInputs(tuple(arrays), index, starts[index], {})
        for index, arrays in blocks.items()
    }
    del blocks
    if isinstance(shard, BandShard):
        return (yield from solve_bands(request.recurrence, shard, inputs_of_chunks, exchange))
    if isinstance(shard, FilterShard):
        assert isinstance(request.recurrence, Overlapping)
        filtered = yield from solve_filter(
            request.recurrence, shard, inputs_of_chunks, exchange, threads
        )
        return {(result_name(name, 0), *index): array for index, array in filtered.items()}, None
    if isinstance(shard, GridShard):
        assert isinstance(request.recurrence, Grid)
        tiles, answer = yield from solve_tiles(
            request.recurrence, shard, inputs_of_chunks, exchange
        )
        return {(result_name(name, 0), *index): array for index, array in tiles.items()}, answer
    return (yield from _Chain(request, name, shard, exchange, threads).solve(inputs_of_chunks))


@dataclass(frozen=True)
class _Chain:
    """A solve of chunks along the axis of their recurrence."""

    request: Request
    name: str
    shard: ChainShard
    exchange: Exchange
    threads: Threads
    predicted: dict[ChunkIndex, tuple[Any, Any]] = field(default_factory=dict)
    """Predicted carry-ins, and the results that were corrected with them."""

    @property
    def recurrence(self) -> Any:
        return self.request.recurrence

    def solve(
        self, inputs_of_chunks: dict[ChunkIndex, ChunkInputs]
    ) -> Program[tuple[dict[Any, Any], Any]]:
        chunks, summaries = yield from self._summarise(inputs_of_chunks)
        # Chunks that were solved speculatively no longer need their operands.
        inputs_of_chunks.clear()
        for receiver, indices in self.shard.receivers.items():
            sent = {index: summaries[index] for index in indices}
            self.exchange.send(receiver, self.shard.number, sent)
        if self.shard.receivers:
            yield ()  # The messages go out first.
        if self.shard.senders:
            for index in chunks:
                self._predict(index, chunks)
            yield self.shard.senders
        for sender in self.shard.senders:
            summaries |= self.exchange.take(sender)
        carry_ins, launched = self._launch(chunks, summaries)

        determined = yield from self._results(launched)
        if self.request.parts:
            return self._parts(chunks, determined), None
        by_key = {
            (result_name(self.name, k), *index): array
            for index, arrays in zip(chunks, determined, strict=True)
            for k, array in enumerate(arrays if self.recurrence.results > 1 else [arrays])
        }
        return by_key, self._final_states(chunks, carry_ins)

    def _parts(self, chunks: Iterable[ChunkIndex], results: list[Any]) -> dict[Any, Any]:
        """Return the parts of the results of chunks by their keys."""
        parts = self.request.parts

        def parts_of(results: list[Any]) -> list[list[Any]]:
            arrays = []
            for result in results:
                first = (next(iter(result.values())) if isinstance(result, dict) else result,)
                with common_backend(first).device_of(first):
                    arrays.append([part.of_chunk(result) for part in parts])
            return arrays

        return {
            (result_name(self.name, k), *part.chunk_index(index)): array
            for index, arrays in zip(chunks, self.threads.map(parts_of, results), strict=True)
            for k, (part, array) in enumerate(zip(parts, arrays, strict=True))
        }

    def _summarise(
        self, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs]
    ) -> Program[tuple[dict[ChunkIndex, PendingChunk], dict[ChunkIndex, Any]]]:
        """Solve contractive chunks speculatively; return the summaries that shards need."""
        recurrence, order = self.recurrence, sorted(inputs_of_chunks, key=self._order)
        chunks: dict[ChunkIndex, PendingChunk] = {}
        for k, wait in enumerate(
            self.threads.map(
                lambda part: [launch_speculation(inputs_of_chunks[i], recurrence) for i in part],
                order,
            )
        ):
            if wait is None:
                chunks[order[k]] = PendingChunk(inputs_of_chunks[order[k]])
                continue
            chunks[order[k]] = yield wait
            # Not after the last one: other shards wait for its summary.
            if 0 < k < len(order) - 1 and self.threads.pool is None:
                self._predict(order[k], chunks)
        needed = [i for i in order if self.request.needs_last_summary or not self._is_last(i)]
        others = [index for index in needed if not chunks[index].speculation]
        waits = self.threads.map(
            lambda part: launch_summaries([chunks[i].inputs for i in part], recurrence), others
        )

        def precomputed() -> list[Any]:
            return [wait() for wait in waits]

        summaries = {
            index: (speculation.summary, chunks[index].shape)
            for index in needed
            if (speculation := chunks[index].speculation) is not None
        }
        if others:
            summaries |= zip(others, (yield precomputed), strict=True)
        return chunks, summaries

    def _predict(self, index: ChunkIndex, chunks: Mapping[ChunkIndex, PendingChunk]) -> None:
        """Correct a speculative chunk if the chunk before it is speculative, too."""
        recurrence, chunk, order = self.recurrence, chunks[index], self._order(index)
        if (
            chunk.speculation is None
            or index in self.predicted
            or not recurrence.has_fixed_carry_out
        ):
            return
        row = row_of(index, recurrence.axis)
        if order == 0:
            carry_ins = propagate_group(recurrence, [], self.request.initial[row])
        else:
            before = chunks.get(self._chunk_index(row, order - 1))
            if before is None or before.speculation is None:
                return
            summary = before.speculation.summary, before.shape
            states = propagate_group(recurrence, [summary], recurrence.zero_state()).states
            carry_ins = CarryIns(states[1:])
        carry_in = carry_ins.carry_in(0, recurrence, chunk.shape)
        self.predicted[index] = carry_in, correct_block(recurrence, chunk, carry_ins, 0)

    def _launch_correction(
        self, index: ChunkIndex, chunk: PendingChunk, carry_ins: CarryIns
    ) -> Callable[[], Any]:
        """Launch a chunk, unless its predicted carry-in has the same bits."""
        order = self._order(index)
        predicted, results = self.predicted.pop(index, (None, None))
        if predicted is not None:
            carry_in = carry_ins.carry_in(order, self.recurrence, chunk.shape)
            if _have_same_bits(predicted, carry_in):
                return lambda: results
        return launch_correction(self.recurrence, chunk, carry_ins, order)

    def _launch(
        self, chunks: Mapping[ChunkIndex, PendingChunk], summaries: Mapping[ChunkIndex, Any]
    ) -> tuple[dict[ChunkIndex, CarryIns], list[Callable[[], Any]]]:
        """Propagate, and launch all chunks; return the carry-ins by rows of chunks, and waits."""
        recurrence, axis = self.recurrence, self.recurrence.axis

        def propagate(rows: list[ChunkIndex]) -> list[CarryIns]:
            return [
                propagate_group(
                    recurrence,
                    [summaries[index] for index in self._before(row, last_of_row[row])],
                    self.request.initial[row],
                )
                for row in rows
            ]

        def launch(part: list[ChunkIndex]) -> list[Callable[[], Any]]:
            return [
                self._launch_correction(index, chunks[index], carry_ins[row_of(index, axis)])
                for index in part
            ]

        last_of_row = self._last_of_row(chunks)
        carry_ins = dict(
            zip(last_of_row, self.threads.map(propagate, list(last_of_row)), strict=True)
        )
        return carry_ins, self.threads.map(launch, list(chunks))

    def _results(self, launched: list[Callable[[], Any]]) -> Program[list[Any]]:
        """Wait for all chunks, even if one fails or the solve is abandoned.

        Kernels write to memory of the host until they have ended.
        """
        results, errors = list[Any](), list[Exception]()

        def wait_for_all() -> list[Any]:
            for wait in launched[len(results) :]:
                try:
                    results.append(wait())
                except Exception as error:
                    results.append(None)
                    errors.append(error)
            if errors:
                raise errors[0]
            return results

        if self.recurrence.is_asynchronous:
            return wait_for_all()
        try:
            return (yield wait_for_all)
        except GeneratorExit:
            with suppress(Exception):
                wait_for_all()
            raise

    def _last_of_row(self, chunks: Iterable[ChunkIndex]) -> dict[ChunkIndex, ChunkIndex]:
        """Return the last chunk of the shard in each row of chunks."""
        last: dict[ChunkIndex, ChunkIndex] = {}
        for index in chunks:
            row = row_of(index, self.recurrence.axis)
            last[row] = max(last.get(row, index), index, key=self._order)
        return last

    def _final_states(
        self, chunks: Iterable[ChunkIndex], carry_ins: Mapping[ChunkIndex, CarryIns]
    ) -> dict[ChunkIndex, Any] | None:
        final_states = {
            row: carry_ins[row].final_state(self.recurrence)
            for row, last in self._last_of_row(chunks).items()
            if self.recurrence.returns_final_state and self._is_last(last)
        }
        return final_states or None

    def _is_last(self, index: ChunkIndex) -> bool:
        return self._order(index) == self.shard.count - 1

    def _order(self, index: ChunkIndex) -> int:
        """Return the position of a chunk in its row, in the order of the recurrence."""
        k = index[self.recurrence.axis]
        return self.shard.count - 1 - k if self.recurrence.reverse else k

    def _chunk_index(self, row: ChunkIndex, order: int) -> ChunkIndex:
        axis = self.recurrence.axis
        k = self.shard.count - 1 - order if self.recurrence.reverse else order
        return (*row[:axis], k, *row[axis:])

    def _before(self, row: ChunkIndex, last: ChunkIndex) -> list[ChunkIndex]:
        """Return the chunks of a row whose summaries this worker needs, in order.

        Those before its last chunk; all for final states, or if the recurrence is two-sided.
        """
        is_whole_row = self.recurrence.is_two_sided or self._is_last(last)
        needs_all = is_whole_row and self.request.needs_last_summary
        count = self.shard.count if needs_all else self._order(last)
        return [self._chunk_index(row, order) for order in range(count)]


def _have_same_bits(first: Any, second: Any) -> bool:
    """Return whether two carry-ins have the same bits."""
    pairs = zip(first, second, strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
