"""The programs of a shard of a grid: tiles one after the other, or bands of rows on GPUs.

Tiles follow as the edges before them arrive. Edges between tiles of one shard stay where they are.
Those for other shards are copied to the host while the next tile runs, and sent then.

The first message that a shard waits for is that of the tile which comes first in the order of
antidiagonals. The tiles of this shard that it depends on are done then, so that no two shards wait
for each other.

GPUs of one machine may share one large grid: each computes a run of bands of its rows, and the
kernels run at the same time. Each writes the last row of its bands, column by column, into memory
of the next GPU, whose kernel waits for it. The hosts take no part in that, and no GPU waits for a
whole tile. A kernel is launched after the one whose rows it waits for. Otherwise a worker that
waits for its GPU could hold back the message that starts the kernel for which the GPU waits. Each
worker stores both sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate, product
from typing import Any

from distributed import Client

from ...core.backends import common_backend
from ...core.contract.grid import Bands, Grid
from ...core.contract.kernels import Backend, Edges
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Shape
from ...engines.cuda import sharing
from ..graph.aligned import AlignedProblem
from ..groups.grids import part_of_tile
from ..observability import in_chunk
from ..tasks import chunk_of
from .assignment import BandShard, GridShard, neighbour
from .messages import Exchange

Arguments = tuple[ChunkInputs, Shape, tuple[Any, ...]]
"""The inputs and the shape of a tile, and the array to which a part of a chunk is written."""
READY, LAUNCHED, BEST = "ready", "launched", "best"
"""Names of messages: the memory for rows of the GPU before, the launch of the kernel that writes
them, and the best cell so far."""


@dataclass(frozen=True)
class Tile:
    """A chunk of the grid, or a part of one.

    Attributes
    ----------
    index : tuple of int
        The index among all parts of the grid; the name of the tile's edges in messages.
    chunk : tuple of int
        The index of the chunk.
    slices : tuple of slice
        The part of the chunk.
    is_whole : bool
        Whether the tile is the whole chunk.
    """

    index: ChunkIndex
    chunk: ChunkIndex
    slices: tuple[slice, ...]
    is_whole: bool


class Tiles:
    """A solve of a shard.

    Attributes
    ----------
    ready : heap of tiles that may start
    expected : set of tiles of other shards whose edges have not arrived
    edges : dict, tile -> edges, until the last tile has read them; `readers` counts these tiles
    outbox : deque of (tile, shard, function that waits for exported edges)
    prepared : dict, tile -> arguments that were prepared before its edges arrived
    """

    def __init__(
        self, recurrence: Grid, shard: GridShard,
        inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs], exchange: Exchange,
    ) -> None:  # fmt: skip
        self.recurrence, self.shard, self.inputs_of_chunks = recurrence, shard, inputs_of_chunks
        self.exchange, self.axes = exchange, recurrence.axes
        self.tiles = {tile.index: tile for tile in _tiles_of(shard, recurrence.axes)}
        self.expected = {b for index in self.tiles for b in self._before(index)} - self.tiles.keys()
        self.edges: dict[ChunkIndex, Any] = {}
        self.readers: dict[ChunkIndex, int] = {}
        self.ready: list[tuple[bool, int, ChunkIndex]] = []
        self.outbox: deque[tuple[Tile, int, Callable[[], Any]]] = deque()
        self.results: dict[ChunkIndex, Any] = {}
        self.final_result: Any = None
        self.prepared: dict[ChunkIndex, Arguments] = {}
        self.chunk_numbers = [
            [number for number, lengths in enumerate(parts) for _ in lengths]
            for parts in shard.parts
        ]
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
        for index in list(self.expected):
            if self.exchange.has(self._owner(index), index):
                self._take(index)

    def _take(self, index: ChunkIndex) -> None:
        """Take the edges of a tile of another shard; wait for them."""
        edges = self.exchange.take(self._owner(index), index)
        self.expected.remove(index)
        self._add_edges(index, edges)

    def _owner(self, index: ChunkIndex) -> int:
        """Return the shard of a tile before those of this shard."""
        chunk = list(index)
        for axis, numbers in zip(self.axes, self.chunk_numbers, strict=True):
            chunk[axis] = numbers[index[axis]]
        return self.shard.owners[tuple(chunk)]

    def _add_edges(self, index: ChunkIndex, edges: Edges) -> None:
        """Keep the edges of a tile for those after it, which may be ready now."""
        after = self._after(index)
        self.edges[index], self.readers[index] = edges, len(after)
        for other in after:
            self._push_if_ready(other)

    def _push_if_ready(self, index: ChunkIndex) -> None:
        if all(before in self.edges for before in self._before(index)):
            has_receivers = bool(self._receivers(self.tiles[index]))
            heappush(self.ready, (not has_receivers, *self._order(index)))

    def _order(self, index: ChunkIndex) -> tuple[int, ChunkIndex]:
        return sum(index[axis] for axis in self.axes), index

    def _determine(self, tile: Tile) -> bool:
        """Determine a tile; return whether its device may still be busy."""
        recurrence, inputs = self.recurrence, self.inputs_of_chunks[tile.chunk]
        above, left = (self._pop_edges(tile.index, axis) for axis in self.axes)
        with chunk_of("determine", recurrence, inputs) as (backend, chunk_shape):
            arguments = self.prepared.pop(tile.index) if tile.index in self.prepared else None
            part, shape, out = arguments or self._arguments(tile, backend, chunk_shape)
            results, edges = recurrence.determine(backend, part, shape, above, left, out)
            if results and not out:
                self.results[tile.chunk] = results[0]
            for receiver, axes in self._receivers(tile).items():
                wait = recurrence.start_export(backend, edges, axes)
                self.outbox.append((tile, receiver, wait))
            if self._after(tile.index):
                self._add_edges(tile.index, recurrence.retain_edges(edges))
            if tile.index == self._last and not recurrence.results:
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

    def _before(self, index: ChunkIndex) -> Iterator[ChunkIndex]:
        return (neighbour(index, axis, -1) for axis in self.axes if index[axis])

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

    @property
    def _last(self) -> ChunkIndex:
        """The index of the last part of the grid."""
        index = list(self.shard.last)
        for axis, parts in zip(self.axes, self.shard.parts, strict=True):
            index[axis] = sum(map(len, parts)) - 1
        return tuple(index)


def _tiles_of(shard: GridShard, axes: tuple[int, int]) -> Iterator[Tile]:
    """Yield the parts of all chunks of a shard."""
    offsets = [[0, *accumulate(map(len, parts))] for parts in shard.parts]
    for chunk, _ in shard.chunks:
        parts = [
            list(enumerate(_slices(lengths[chunk[axis]]), offset[chunk[axis]]))
            for axis, lengths, offset in zip(axes, shard.parts, offsets, strict=True)
        ]
        is_whole = all(len(along_axis) == 1 for along_axis in parts)
        for pair in product(*parts):
            index, slices = list(chunk), [slice(None)] * len(chunk)
            for axis, (number, part) in zip(axes, pair, strict=True):
                index[axis], slices[axis] = number, part
            yield Tile(tuple(index), chunk, tuple(slices), is_whole)


def _slices(lengths: tuple[int, ...]) -> list[slice]:
    stops = list(accumulate(lengths))
    return [slice(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)]


def assign_bands(
    aligned: AlignedProblem, addresses: Sequence[str], client: Client
) -> dict[str, BandShard] | None:
    """Return shards for workers whose GPUs can share the grid, or None.

    The workers must run on one machine, with GPUs of one kind.
    """
    recurrence, backend = aligned.recurrence, common_backend(aligned.blocks)
    if len(addresses) < 2 or not recurrence.has_bands(backend, tuple(map(sum, aligned.chunks))):
        return None
    if len({address.rpartition(":")[0] for address in addresses}) > 1:
        return None
    if not _are_connected(client, addresses):
        return None
    rows, columns = map(len, aligned.chunks)
    indices = dict.fromkeys([*((k, 0) for k in range(rows)), *((0, k) for k in range(columns))])
    chunks = tuple(map(aligned.position, indices))
    return {
        address: BandShard(number, len(addresses), chunks)
        for number, address in enumerate(addresses)
    }


def _are_connected(client: Client, addresses: Sequence[str]) -> bool:
    """Return whether each worker can write to the memory of the next one."""
    try:
        offers = client.run(sharing.offer, workers=list(addresses))
        handles, gpus, models = zip(*(offers[address] for address in addresses), strict=True)
        if len(set(gpus)) < len(gpus) or len(set(models)) > 1:
            return False
        for address, handle in zip(addresses, handles[1:], strict=False):
            client.run(sharing.accept, handle, workers=[address])
    except RuntimeError:  # Two workers in one process, or GPUs without a connection.
        return False
    return True


def solve_bands(
    recurrence: Any, shard: BandShard, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange,
) -> Any:  # fmt: skip
    """Return the final result if the shard has the last bands, or None."""
    is_first, is_last = shard.number == 0, shard.number == shard.count - 1
    before, after = shard.number - 1, shard.number + 1
    first = next(iter(inputs_of_chunks.values()))
    backend = common_backend(first.blocks)
    memory, best = None, None
    if not is_first:
        with backend.device_of(first.blocks):
            memory = sharing.take(*recurrence.shared_by_bands)
        exchange.send(before, READY, (memory.handle, memory.tag))
        exchange.take(before, LAUNCHED)
    onward = None if is_last else exchange.take(after, READY)
    with backend.device_of(first.blocks):
        bands = Bands(shard.number, shard.count)
        if memory is not None:
            bands = replace(bands, words=memory.address, tag=memory.tag)
        if onward is not None:
            handle, tag = onward
            bands = replace(bands, onward=sharing.open_shared(handle), onward_tag=tag)
        sequences = [_parts(inputs_of_chunks, axis) for axis in range(2)]
        launched = recurrence.launch_bands(backend, sequences, bands)
    if not is_last:
        exchange.send(after, LAUNCHED, None)
    with in_chunk("determine", first.chunk_index, first.starts), backend.device_of(first.blocks):
        edges_after = exchange.wait(lambda: launched(exchange.has_failed))
    if memory is not None:
        sharing.give_back(memory)
        best = exchange.take(before, BEST)
    edges = edges_after(best)
    if is_last:
        return recurrence.final_result(recurrence.export_edges(edges))
    exchange.send(after, BEST, edges.best)
    return None


def _parts(inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs], axis: int) -> list[Any]:
    """Return the chunks of the sequence along an axis."""
    chunks = sorted(inputs_of_chunks.items())
    return [inputs.blocks[axis].reshape(-1) for index, inputs in chunks if index[1 - axis] == 0]
