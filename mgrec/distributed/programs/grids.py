"""The program of the tiles of a grid that are divided among shards.

Tiles follow as the edges before them arrive. Edges between tiles of one shard stay where they are.
Those for other shards are copied to the host while the next tile runs, and sent then.

The first message that a shard waits for is that of the tile which comes first in the order of
antidiagonals. The tiles of this shard that it depends on are done then, so that no two shards wait
for each other.

A shard that needs the edges of a tile waits for the whole tile. If the edges of a row of tiles go
to another shard, the row is therefore cut into parts, which are sent one by one; and so is a
column. With n parts of equal length two workers, one after the other, take 1 + 1/n times as long
as two at the same time, whatever the other lengths are: the longest part counts alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate, product
from math import lcm
from typing import Any

from ...core.backends import common_backend
from ...core.contract.grid import Grid
from ...core.contract.kernels import Backend, Edges, TileParts
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Shape
from ..graph.aligned import AlignedProblem, neighbour, slices_of
from ..observability import in_chunk
from ..tasks import chunk_of
from .shards import Exchange, Owner, Shard, chunks_by_owner

Lengths = tuple[tuple[int, ...], ...]
"""The lengths of the parts of every chunk along an axis."""
Arguments = tuple[ChunkInputs, Shape, tuple[Any, ...]]
"""The inputs and the shape of a tile, and the array to which a part of a chunk is written."""
# Parts along an axis of a whole grid. Two H200 add up a table of 65,536 x 65,536 in 10.1 ms with 4
# parts, and in 10.7 with 8; in 5.6 and 8.6 if solves are queued: the host must be done with a part
# before the GPU is.
PARTS, PARTS_ON_GPUS = 8, 4


@dataclass(frozen=True)
class GridShard(Shard):
    """Tiles of a grid that one shard computes, and the shards that need their edges.

    `parts`, (Lengths, Lengths): along both axes of the grid, the same for all shards.
    `owners`, dict, chunk index -> int: the shards of the chunks next to the shard's chunks.
    """

    parts: tuple[Lengths, Lengths]
    owners: Mapping[ChunkIndex, int]


def assign_tiles(aligned: AlignedProblem, owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, GridShard]:
    """Return the shards of a grid by the owners of its tiles."""
    chunks = chunks_by_owner(owners)
    numbers = {owner: number for number, owner in enumerate(chunks)}
    shards = {chunk_index: numbers[owner] for chunk_index, owner in owners.items()}
    axes = aligned.recurrence.axes
    parts = tuple(_parts(aligned, shards, axis, other) for axis, other in (axes, axes[::-1]))
    return {
        owner: GridShard(
            numbers[owner],
            tuple(map(aligned.position, chunk_indices)),
            (parts[0], parts[1]),
            {
                beside: shards[beside]
                for index, axis, step in product(chunk_indices, axes, (1, -1))
                if (beside := neighbour(index, axis, step)) in shards
            },
        )
        for owner, chunk_indices in chunks.items()
    }


def _parts(aligned: AlignedProblem, shards: Mapping[ChunkIndex, int], axis: int, other: int) -> Lengths:
    """Return the lengths of parts along `axis`: many if edges along `other` go to other shards."""
    backend = common_backend(aligned.blocks)
    shapes: dict[int, set[tuple[int, ...]]] = {}
    crossed = set()
    for chunk_index, shard in shards.items():
        shape = tuple(lengths[k] for lengths, k in zip(aligned.chunks, chunk_index, strict=True))
        shapes.setdefault(chunk_index[axis], set()).add(shape)
        if shards.get(neighbour(chunk_index, other, 1), shard) != shard:
            crossed.add(chunk_index[axis])
    total, count = sum(aligned.chunks[axis]), PARTS if backend.is_host else PARTS_ON_GPUS
    return tuple(
        lengths_of_parts(length, total, count, _common_part(aligned, backend, shapes[k], axis))
        if k in crossed
        else (length,)
        for k, length in enumerate(aligned.chunks[axis])
    )


def _common_part(
    aligned: AlignedProblem, backend: Backend, shapes: set[tuple[int, ...]], axis: int
) -> TileParts | None:
    """Return the part that tiles of all these shapes allow, or None."""
    allowed = [aligned.recurrence.part(backend, s, axis) for s in sorted(shapes) if all(s)]
    parts = [part for part in allowed if part is not None]
    if not parts or len(parts) < len(allowed):
        return None
    return TileParts(lcm(*(part.unit for part in parts)), max(part.least for part in parts))


def lengths_of_parts(length: int, total: int, parts: int, part: TileParts | None) -> tuple[int, ...]:
    """Return nearly equal lengths, of whole units but for the last: `parts` if length is total."""
    if part is None:
        return (length,)
    least = -(-part.least // part.unit) * part.unit
    count = max(1, min(round(parts * length / max(total, 1)), length // least))
    starts = [length // part.unit * k // count * part.unit for k in range(count)]
    return tuple(stop - start for start, stop in zip(starts, [*starts[1:], length], strict=True))


@dataclass(frozen=True)
class Tile:
    """A chunk of the grid, or a part of one.

    `index`: the index among all parts of the grid; the name of the tile's edges in messages.
    """

    index: ChunkIndex
    chunk: ChunkIndex
    slices: tuple[slice, ...]
    is_whole: bool


class Tiles:
    """A solve of a shard.

    `ready`: heap of tiles that may start.
    `expected`: dict, tile of another shard whose edges have not arrived -> shard.
    `edges`: dict, tile -> edges, until the last tile has read them; `readers` counts these tiles.
    `outbox`: deque of (tile, shard, function that waits for exported edges).
    `prepared`: dict, tile -> arguments that were prepared before its edges arrived.
    """

    def __init__(
        self,
        recurrence: Grid,
        shard: GridShard,
        inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
        exchange: Exchange,
    ) -> None:
        self.recurrence, self.shard, self.inputs_of_chunks = recurrence, shard, inputs_of_chunks
        self.exchange, self.axes = exchange, recurrence.axes
        self.tiles = {tile.index: tile for tile in _tiles_of(shard, recurrence.axes)}
        self.expected = {
            before: shard.owners[neighbour(tile.chunk, axis, -1)]
            for tile, axis in product(self.tiles.values(), self.axes)
            if tile.index[axis] and (before := neighbour(tile.index, axis, -1)) not in self.tiles
        }
        self.edges: dict[ChunkIndex, Any] = {}
        self.readers: dict[ChunkIndex, int] = {}
        self.ready: list[tuple[bool, int, ChunkIndex]] = []
        self.outbox: deque[tuple[Tile, int, Callable[[], Any]]] = deque()
        self.results: dict[ChunkIndex, Any] = {}
        self.final_result: Any = None
        self.prepared: dict[ChunkIndex, Arguments] = {}
        for index in self.tiles:
            self._push_if_ready(index)

    def solve(self) -> tuple[dict[ChunkIndex, Any], Any]:
        """Return the results of all chunks, and the final result of a shard with the last tile.

        There are no results, or there is no final result: it is None then.
        """
        for _ in self.tiles:
            tile = self.tiles[self._next()]
            earlier = len(self.outbox)
            is_asynchronous = self._determine(tile)
            # The device has a tile to run while the edges of those before are sent.
            self._send(earlier if is_asynchronous else len(self.outbox))
        self._send(len(self.outbox))
        return self.results, self.final_result

    def _next(self) -> ChunkIndex:
        """Return a tile whose edges are there, preferably one that other shards wait for."""
        self._take_arrived()
        if not self.ready:
            self._send(len(self.outbox))
            self._take_arrived()
        while not self.ready:
            first = min(self.expected, key=self._order)
            for index in self._after(first):
                # The worker has time for it while it waits.
                if index not in self.prepared:
                    self._prepare(self.tiles[index])
            self._take(first)
            self._take_arrived()
        return heappop(self.ready)[-1]

    def _take_arrived(self) -> None:
        for index, owner in list(self.expected.items()):
            if self.exchange.has(owner, index):
                self._take(index)

    def _take(self, index: ChunkIndex) -> None:
        """Take the edges of a tile of another shard; wait for them."""
        edges, _ = self.exchange.take(self.expected[index], index)
        del self.expected[index]
        self._add_edges(index, edges)

    def _add_edges(self, index: ChunkIndex, edges: Edges) -> None:
        """Keep the edges of a tile for those after it, which may be ready now."""
        after = self._after(index)
        self.edges[index], self.readers[index] = edges, len(after)
        for other in after:
            self._push_if_ready(other)

    def _push_if_ready(self, index: ChunkIndex) -> None:
        if all(neighbour(index, axis, -1) in self.edges for axis in self.axes if index[axis]):
            has_receivers = bool(self._receivers(self.tiles[index]))
            heappush(self.ready, (not has_receivers, *self._order(index)))

    def _order(self, index: ChunkIndex) -> tuple[int, ChunkIndex]:
        return sum(index[axis] for axis in self.axes), index

    def _determine(self, tile: Tile) -> bool:
        """Determine a tile; return whether its device may still be busy."""
        recurrence, inputs = self.recurrence, self.inputs_of_chunks[tile.chunk]
        above, left = (self._pop_edges(tile.index, axis) for axis in self.axes)
        with chunk_of("determine", recurrence, inputs) as (backend, chunk_shape):
            prepared = self.prepared.pop(tile.index, None)
            part, shape, out = prepared or self._arguments(tile, backend, chunk_shape)
            results, edges = recurrence.determine(backend, part, shape, above, left, out)
            if results and not out:
                self.results[tile.chunk] = results[0]
            after, receivers = self._after(tile.index), self._receivers(tile)
            for receiver, axes in receivers.items():
                wait = recurrence.start_export(backend, edges, axes)
                self.outbox.append((tile, receiver, wait))
            if after:
                self._add_edges(tile.index, recurrence.retain_edges(edges))
            if not (recurrence.results or after or receivers):
                self.final_result = recurrence.final_result(recurrence.export_edges(edges))
        return recurrence.is_asynchronous and common_backend(inputs.blocks).is_asynchronous

    def _prepare(self, tile: Tile) -> None:
        inputs = self.inputs_of_chunks[tile.chunk]
        with chunk_of("determine", self.recurrence, inputs) as (backend, shape):
            self.prepared[tile.index] = self._arguments(tile, backend, shape)

    def _arguments(self, tile: Tile, backend: Backend, shape: Shape) -> Arguments:
        """Return the arguments of a tile of a chunk of this shape; a whole chunk has no `out`."""
        inputs, recurrence = self.inputs_of_chunks[tile.chunk], self.recurrence
        if tile.is_whole:
            return inputs, shape, ()
        out: tuple[Any, ...] = ()
        if recurrence.results:
            if tile.chunk not in self.results:
                self.results[tile.chunk] = backend.empty(shape, recurrence.result_dtype)
            out = (self.results[tile.chunk][tile.slices],)
        part, lengths = part_of_tile(recurrence, inputs, shape, tile.slices)
        return part, lengths, out

    def _pop_edges(self, index: ChunkIndex, axis: int) -> Any:
        """Return the edges of the tile before one, or None; the last reader drops them."""
        if index[axis] == 0:
            return None
        before = neighbour(index, axis, -1)
        self.readers[before] -= 1
        return self.edges[before] if self.readers[before] else self.edges.pop(before)

    def _send(self, count: int) -> None:
        """Wait for so many exported edges, and send them."""
        for _ in range(count):
            tile, receiver, export = self.outbox.popleft()
            inputs = self.inputs_of_chunks[tile.chunk]

            with in_chunk("determine", inputs.chunk_index, inputs.starts):
                exported = self.exchange.wait(export)
            self.exchange.send(receiver, tile.index, exported)
            self.exchange.flush()

    def _after(self, index: ChunkIndex) -> list[ChunkIndex]:
        """Return the tiles of this shard that need the edges of a tile."""
        after = (neighbour(index, axis, 1) for axis in self.axes)
        return [other for other in after if other in self.tiles]

    def _receivers(self, tile: Tile) -> dict[int, list[int]]:
        """Return the other shards that need a tile's edges, and along which axes."""
        receivers: dict[int, list[int]] = {}
        for axis in self.axes:
            # Only at the end of a chunk: other parts are followed by a part of the same chunk.
            if neighbour(tile.index, axis, 1) not in self.tiles:
                owner = self.shard.owners.get(neighbour(tile.chunk, axis, 1))
                if owner is not None:
                    receivers.setdefault(owner, []).append(axis)
        return receivers


def _tiles_of(shard: GridShard, axes: tuple[int, int]) -> Iterator[Tile]:
    """Yield the parts of all chunks of a shard."""
    offsets = [[0, *accumulate(map(len, parts))] for parts in shard.parts]
    for chunk, _ in shard.chunks:
        parts = [
            list(enumerate(slices_of(lengths[chunk[axis]]), offset[chunk[axis]]))
            for axis, lengths, offset in zip(axes, shard.parts, offsets, strict=True)
        ]
        is_whole = all(len(along_axis) == 1 for along_axis in parts)
        for pair in product(*parts):
            index, slices = list(chunk), [slice(None)] * len(chunk)
            for axis, (number, part) in zip(axes, pair, strict=True):
                index[axis], slices[axis] = number, part
            yield Tile(tuple(index), chunk, tuple(slices), is_whole)


def part_of_tile(
    recurrence: Grid, inputs: ChunkInputs, shape: Shape, slices: Sequence[slice]
) -> tuple[ChunkInputs, Shape]:
    """Return the inputs and the shape of a part of a tile, by slices of its axes."""
    blocks = tuple(
        block[
            tuple(
                part if is_varying else slice(None)
                for part, is_varying in zip(slices[len(shape) - block.ndim :], varying, strict=True)
            )
        ]
        for block, varying in zip(inputs.blocks, recurrence.varying, strict=True)
    )
    starts, lengths = list(inputs.starts), list(shape)
    for axis in recurrence.axes:
        part = slices[axis]
        starts[axis] += part.start
        lengths[axis] = part.stop - part.start
    return replace(inputs, blocks=blocks, starts=tuple(starts)), tuple(lengths)
