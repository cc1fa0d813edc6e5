"""The program of a filter whose chunks take parts of other chunks.

Shards send each other the parts that they need, and meanwhile filter the chunks that need no part
of another shard's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from math import prod
from typing import Any

from ...core.backends import common_backend
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, JoiningFilter, Overlapping, filter_chunk
from ..graph.aligned import AlignedProblem, chunk_at, chunk_indices_of, slices_of
from ..graph.along_axis import ChunkGroup, group_of, joins_chunks, part_of, split
from ..observability import in_chunk
from .shards import Exchange, Owner, SendingShard, Threads

PartKey = tuple[ChunkIndex, Any]
"""The index of a chunk, and what the filter calls a part of it."""
PARTS = "parts"
"""Name of messages."""
# Most bytes that a GPU writes while it filters chunks together; all results are in memory anyway. A
# band-pass of 5 sections, in both directions over chunks of 300,000 steps of 384 columns of int16,
# took 0.81 ms a chunk on an H100 for 2 chunks together, 0.71 for 4, 0.69 for 6 and 0.66 for 12.
TOGETHER = 1 << 33


@dataclass(frozen=True)
class FilterShard(SendingShard):
    """Chunks that one shard filters; other shards need parts, by (chunk index, part).

    `groups`: with the indices of chunks.
    `shapes`, dict, chunk index -> shape of the operand: those that the operand's array declares.
    """

    groups: list[ChunkGroup]
    shapes: Mapping[ChunkIndex, tuple[int, ...]]


def assign_groups(aligned: AlignedProblem, owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, FilterShard]:
    """Return the shards of a filter by the owners of its chunks."""
    recurrence, (x,) = aligned.recurrence, aligned.blocks
    axis = recurrence.axis
    groups: dict[Owner, list[ChunkGroup]] = {}
    for row in chunk_indices_of(chunk_at(x.chunks, axis, (0,))):
        of_row = [owners[chunk_at(row, axis, number)] for number in range(aligned.count)]
        for group in _groups_of_row(recurrence, x, of_row):
            groups.setdefault(of_row[group.chunks[0]], []).append(group.in_row(row, axis))
    numbers = {owner: number for number, owner in enumerate(groups)}
    # By the owner of a part: the parts that each shard needs, in order and once.
    needed: dict[Owner, dict[int, dict[Any, None]]] = {owner: {} for owner in numbers}
    for owner, shard_groups in groups.items():
        for key in (key for group in shard_groups for key in group.parts):
            needed[owners[key[0]]].setdefault(numbers[owner], {})[key] = None
    shards = {}
    for owner, number in numbers.items():
        indices = [index for group in groups[owner] for index in group.chunks]
        shards[owner] = FilterShard(
            number,
            tuple(map(aligned.position, indices)),
            {to: tuple(keys) for to, keys in needed[owner].items() if to != number},
            tuple(k for other, k in numbers.items() if k != number and number in needed[other]),
            groups[owner],
            {index: aligned.shapes(index)[0] for index in indices},
        )
    return shards


def _groups_of_row(recurrence: Overlapping, x: Any, owners: Sequence[Owner]) -> Iterator[ChunkGroup]:
    """Yield groups of the chunks along the axis, which have these owners.

    A shard filters chunks together that need no part of another shard's: the larger a group, the
    fewer samples are read twice.
    """
    axis_filter, axis, lengths = recurrence.axis_filter, recurrence.axis, x.chunks[recurrence.axis]
    chunks = [group_of(axis_filter, lengths, range(k, k + 1), False) for k in range(len(lengths))]
    if not joins_chunks(axis_filter, x):
        yield from chunks
        return
    assert isinstance(axis_filter, JoiningFilter)
    size = prod(x.chunksize) * axis_filter.written_bytes(x, axis, recurrence.dtype)
    most = max(1, TOGETHER // max(1, size))

    def key_of(k: int) -> tuple[Owner, bool]:
        return owners[k], any(owners[number] != owners[k] for number, _ in chunks[k].parts)

    for _, numbers in groupby(range(len(lengths)), key_of):
        first, *others = numbers
        consecutive = range(first, first + 1 + len(others))
        for part in split(consecutive, -(-len(consecutive) // most)):
            yield group_of(axis_filter, lengths, part, True)


def solve_filter(
    recurrence: Overlapping,
    shard: FilterShard,
    inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange,
    threads: Threads,
) -> dict[ChunkIndex, Any]:
    """Return the results of a shard by the indices of their chunks."""
    chunks = _Chunks(recurrence, inputs_of_chunks)
    chunks.check(shard.shapes)
    needed = chain(*shard.receivers.values(), *(group.parts for group in shard.groups))
    computed = dict.fromkeys(key for key in needed if key[0] in inputs_of_chunks)
    parts = dict(zip(computed, threads.map(chunks.part, computed), strict=True))
    inner, outer = list[ChunkGroup](), list[ChunkGroup]()
    for group in shard.groups:
        (inner if parts.keys() >= set(group.parts) else outer).append(group)
    waits = {to: chunks.fetch([parts[key] for key in keys]) for to, keys in shard.receivers.items()}
    results: dict[ChunkIndex, Any] = {}
    if chunks.backend.is_asynchronous:
        results |= chunks.filtered(inner, parts, threads)  # Behind the copies to the host.
        inner = []
    for receiver, wait in waits.items():
        exchange.send(receiver, PARTS, shard.receivers[receiver], exchange.wait(wait))
    exchange.flush()
    results |= chunks.filtered(inner, parts, threads)
    for sender in shard.senders:
        keys, arrays = exchange.take(sender, PARTS)
        parts |= zip(keys, chunks.from_host(arrays), strict=True)
    return results | chunks.filtered(outer, parts, threads)


class _Chunks:
    """The chunks of a shard."""

    def __init__(self, recurrence: Overlapping, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs]) -> None:
        self.recurrence, self.axis_filter = recurrence, recurrence.axis_filter
        self.axis, self.inputs = recurrence.axis, inputs_of_chunks
        self.first = next(iter(inputs_of_chunks.values())).blocks[0]
        self.backend = common_backend((self.first,))

    def check(self, shapes: Mapping[ChunkIndex, tuple[int, ...]]) -> None:
        """Raise unless chunks have the dtype and the shapes that their array declares."""
        for index, inputs in self.inputs.items():
            self.recurrence.check(inputs)
            shape = inputs.blocks[0].shape
            if shape != shapes[index]:
                raise ValueError(
                    f"operands must have chunks of the shapes that their array declares, "
                    f"{shapes[index]}; chunk {index} is {shape}. Pass the right "
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
        self, groups: Sequence[ChunkGroup], parts: Mapping[PartKey, Any], threads: Threads
    ) -> dict[ChunkIndex, Any]:
        """Return the results of the chunks of groups."""
        arrays = threads.map(partial(self._filter, parts), groups)
        chunks = [index for group in groups for index in group.chunks]
        return dict(zip(chunks, chain.from_iterable(arrays), strict=True))

    def _filter(self, parts: Mapping[PartKey, Any], group: ChunkGroup) -> list[Any]:
        recurrence, blocks = self.recurrence, [self.inputs[k].blocks[0] for k in group.chunks]
        x = blocks if group.is_joined else blocks[0]
        needed = [parts[key] for key in group.parts]
        with self.backend.device_of((self.first,)), self._noted("filter", group.chunks[0]):
            result = filter_chunk(self.axis_filter, x, self.axis, recurrence.dtype, group.recipe, needed)
            if not group.is_joined:
                return [result]
            counts, lengths = recurrence.counts, [block.shape[self.axis] for block in blocks]
            if counts is not None:
                lengths = [counts[index[self.axis]] for index in group.chunks]
            return [part_of(result, self.axis, kept) for kept in slices_of(lengths)]

    def _noted(self, phase: str, index: ChunkIndex) -> Any:
        return in_chunk(phase, index, self.inputs[index].starts)
