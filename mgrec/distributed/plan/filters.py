"""The program of a shard of a filter along an axis: its chunks take parts of other chunks.

Shards send each other the parts of chunks that they need. Meanwhile they filter the chunks that
need no part of another shard's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...core.backends import common_backend
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Overlapping
from ..graph.along_axis import part_of
from ..observability import in_chunk
from .assignment import FilterShard, ShardGroup
from .messages import Exchange, Program, Wait

if TYPE_CHECKING:
    from .shards import Threads

PartKey = tuple[ChunkIndex, Any]
"""The index of a chunk, and what the filter calls a part of it."""


def solve_filter(
    recurrence: Overlapping,
    shard: FilterShard,
    inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange,
    threads: Threads,
) -> Program[dict[ChunkIndex, Any]]:
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
            result = self.axis_filter.apply(x, self.axis, recurrence.dtype, group.recipe, needed)
            if not group.is_joined:
                return [result]
            return [part_of(result, self.axis, kept) for kept in group.kept]

    def _noted(self, phase: str, index: ChunkIndex) -> Any:
        return in_chunk(phase, index, self.inputs[index].starts)


def _map(threads: Threads, function: Callable[[Any], Any], values: Any) -> list[Any]:
    """Return what a function returns for each value, on all threads."""
    return threads.map(lambda part: list(map(function, part)), list(values))
