"""The program of a shard: the part of a solve that one worker computes.

Along an axis, shards send each other the summaries of their chunks. Each shard propagates from all
summaries before its own chunks, in the order of the recurrence, so that results have the bits of
the graph's.

Chunks of a filter take parts of other chunks. Shards send each other the parts that they need, and
meanwhile filter the chunks that need no part of another shard's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ...core.backends import common_backend
from ...core.contract.grid import Grid
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Overlapping, filter_chunk
from ..graph.along_axis import part_of
from ..groups.chains import Chain, Summaries, Threads
from ..observability import in_chunk
from .assignment import BandShard, ChainShard, FilterShard, Shard, ShardGroup
from .grids import Tiles, solve_bands
from .messages import Exchange, Request, result_name

PartKey = tuple[ChunkIndex, Any]
"""The index of a chunk, and what the filter calls a part of it."""
Blocks = Mapping[ChunkIndex, list[Any]]
PARTS, SUMMARIES = "parts", "summaries"
"""Names of messages."""


def solve_filter(
    recurrence: Overlapping, shard: FilterShard, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange, threads: Threads,
) -> dict[ChunkIndex, Any]:  # fmt: skip
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
        exchange.send(receiver, PARTS, shard.receivers[receiver], exchange.wait(wait))
    results |= chunks.filtered(inner, parts, threads)
    for sender in shard.senders:
        keys, arrays = exchange.take_with_arrays(sender, PARTS)
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

    def fetch(self, parts: Sequence[Any]) -> Callable[[], Any]:
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


def solve_chain(
    request: Request, name: str, shard: ChainShard,
    inputs_of_chunks: dict[ChunkIndex, ChunkInputs], exchange: Exchange, threads: Threads,
) -> tuple[dict[Any, Any], Any]:  # fmt: skip
    """Return the results of a shard by their keys, and the final states by rows of chunks."""
    recurrence: Any = request.recurrence
    chain = Chain(
        recurrence, shard.count, request.needs_last_summary, threads=threads, wait=exchange.wait
    )

    def gather(summaries: Summaries) -> tuple[Summaries, Mapping[ChunkIndex, Any]]:
        for receiver, indices in shard.receivers.items():
            exchange.send(receiver, SUMMARIES, {index: summaries[index] for index in indices})
        for sender in shard.senders:
            summaries |= exchange.take(sender, SUMMARIES)
        return summaries, request.initial

    results, carry_ins = chain.solve(inputs_of_chunks, gather)
    if request.parts:
        return _parts(request, name, results, threads), None
    by_key = {
        (result_name(name, k), *index): array
        for index, arrays in results.items()
        for k, array in enumerate(arrays if recurrence.results > 1 else [arrays])
    }
    return by_key, chain.final_states(carry_ins) or None


def _parts(
    request: Request, name: str, results: Mapping[ChunkIndex, Any], threads: Threads
) -> dict[Any, Any]:
    """Return the parts of the results of chunks by their keys."""
    parts = request.parts

    def parts_of(results: list[Any]) -> list[list[Any]]:
        arrays = []
        for result in results:
            first = (next(iter(result.values())) if isinstance(result, dict) else result,)
            with common_backend(first).device_of(first):
                arrays.append([part.of_chunk(result) for part in parts])
        return arrays

    arrays_of_chunks = threads.map(parts_of, list(results.values()))
    return {
        (result_name(name, k), *part.chunk_index(index)): array
        for index, arrays in zip(results, arrays_of_chunks, strict=True)
        for k, (part, array) in enumerate(zip(parts, arrays, strict=True))
    }


def solve_shard(
    request: Request, name: str, shard: Shard, blocks: Blocks, exchange: Exchange, threads: Threads
) -> tuple[dict[Any, Any], Any]:
    """Return the results of a shard by their keys, and its answer to the client.

    The answer along an axis is the final states by rows of chunks, or None. Over a grid without
    results it is the result of the last tile or band, or None.
    """
    recurrence, starts = request.recurrence, dict(shard.chunks)
    inputs_of_chunks = {
        index: ChunkInputs(tuple(arrays), index, starts[index], {})
        for index, arrays in blocks.items()
    }
    del blocks
    if isinstance(shard, ChainShard):
        return solve_chain(request, name, shard, inputs_of_chunks, exchange, threads)
    if isinstance(shard, BandShard):
        return {}, solve_bands(recurrence, shard, inputs_of_chunks, exchange)
    answer = None
    if isinstance(shard, FilterShard):
        assert isinstance(recurrence, Overlapping)
        results = solve_filter(recurrence, shard, inputs_of_chunks, exchange, threads)
    else:
        assert isinstance(recurrence, Grid)
        results, answer = Tiles(recurrence, shard, inputs_of_chunks, exchange).solve()
    return {(result_name(name, 0), *index): array for index, array in results.items()}, answer
