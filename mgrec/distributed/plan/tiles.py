"""The tiles of a shard of a grid, one after the other, as the edges before them come in.

Edges between tiles of one shard stay where they are. Those for other shards are copied to the
host while the next tile runs, and sent then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from ...core.arrays.array_types import is_on_gpu
from ...core.contract.grid import Grid
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Shape
from ..tasks.errors import in_chunk
from ..tasks.phases import chunk_of
from .exchange import Exchange, Program
from .grids import GridShard, beside


@dataclass(frozen=True)
class Tile:
    """A chunk of the grid, or a part of one.

    Attributes
    ----------
    place : tuple of int
        Among all parts of the grid; the name of the tile's edges in messages.
    chunk : tuple of int
    within : (slice, slice)
        Along both axes, inside of the chunk.
    """

    chunk_index: ChunkIndex
    chunk: ChunkIndex
    within: tuple[slice, slice]


def solve_tiles(
    recurrence: Grid,
    shard: GridShard,
    inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange,
) -> Program[tuple[dict[ChunkIndex, Any], Any]]:
    """Determine all tiles of a shard.

    Parameters
    ----------
    recurrence : Grid
    shard : GridShard
    packs : dict, place -> Pack
        The chunks of the shard.
    exchange : Exchange
        Of this solve.

    Returns
    -------
    results : dict, place -> array
        Of every chunk; empty where a grid has no results.
    carry_out : numpy.ndarray or None
        What the last tile tells of the whole, where a grid has no results and this shard has it.

    Notes
    -----
    The first message that is waited for is that of the tile which comes first in the order of
    antidiagonals. What it needs of this shard is done then, so that no two shards wait for each
    other.
    """
    return (yield from _Solve(recurrence, shard, inputs_of_chunks, exchange).run())


class _Solve:
    """A solve of a shard: tiles that may begin, that wait for others, and edges to be sent."""

    def __init__(
        self,
        recurrence: Grid,
        shard: GridShard,
        inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
        exchange: Exchange,
    ) -> None:
        self.recurrence, self.shard, self.inputs_of_chunks = recurrence, shard, inputs_of_chunks
        self.exchange, self.axes = exchange, recurrence.axes
        self.tiles = {tile.chunk_index: tile for tile in _tiles(shard, recurrence.axes)}
        self.lacking = {chunk_index: set(self._before(chunk_index)) for chunk_index in self.tiles}
        self.edges: dict[ChunkIndex, Any] = {}
        self.users = dict.fromkeys(self.tiles, 0)
        self.ready: list[tuple[tuple[bool, int, ChunkIndex], ChunkIndex]] = []
        self.asked: dict[ChunkIndex, list[ChunkIndex]] = {}
        self.outbox: deque[tuple[Tile, int, Callable[[], Any]]] = deque()
        self.results: dict[ChunkIndex, Any] = {}
        self.carry_out: Any = None
        self.laid_out: dict[ChunkIndex, tuple[ChunkInputs, Shape, tuple[Any, ...]]] = {}
        for chunk_index in self.tiles:
            for before in self.lacking[chunk_index]:
                self.users[before] = self.users.get(before, 0) + 1
                if before not in self.tiles:
                    self.asked.setdefault(before, []).append(chunk_index)
            self._look(chunk_index)

    def run(self) -> Program[tuple[dict[ChunkIndex, Any], Any]]:
        for _ in self.tiles:
            tile = self.tiles[(yield from self._next())]
            early = list(self.outbox)
            is_asynchronous = self._determine(tile)
            # The device has a tile to run while the edges of those before are sent.
            self._send(len(early) if is_asynchronous else len(self.outbox))
        self._send(len(self.outbox))
        return self.results, self.carry_out

    def _next(self) -> Program[ChunkIndex]:
        """A tile whose edges are there, first one whose edges others wait for."""
        yield from self._look_for_edges()
        if not self.ready:
            self._send(len(self.outbox))
            yield from self._look_for_edges()
        while not self.ready:
            first = min(self.asked, key=self._turn)
            for chunk_index in self.asked[first]:
                self._lay_out(self.tiles[chunk_index])
            yield from self._receive(first)
            yield from self._look_for_edges()
        return heappop(self.ready)[1]

    def _look_for_edges(self) -> Program[None]:
        for name in [name for name in self.asked if self.exchange.has(name)]:
            yield from self._receive(name)

    def _receive(self, name: ChunkIndex) -> Program[None]:
        self.edges[name] = yield from self.exchange.receive(name)
        for chunk_index in self.asked.pop(name):
            self.lacking[chunk_index].remove(name)
            self._look(chunk_index)

    def _look(self, chunk_index: ChunkIndex) -> None:
        """See whether a tile may begin."""
        if not self.lacking[chunk_index]:
            heappush(self.ready, (self._rank(chunk_index), chunk_index))

    def _rank(self, chunk_index: ChunkIndex) -> tuple[bool, int, ChunkIndex]:
        return not self._receivers(chunk_index), *self._turn(chunk_index)

    def _turn(self, chunk_index: ChunkIndex) -> tuple[int, ChunkIndex]:
        return sum(chunk_index[axis] for axis in self.axes), chunk_index

    def _determine(self, tile: Tile) -> bool:
        """Determine a tile; whether its device may be at it yet."""
        recurrence, inputs = self.recurrence, self.inputs_of_chunks[tile.chunk]
        above, left = (self._take(tile.chunk_index, axis) for axis in self.axes)
        with chunk_of("determine", recurrence, inputs) as (backend, shape):
            is_laid_out = tile.chunk_index in self.laid_out
            part, own, out = (
                self.laid_out.pop(tile.chunk_index)
                if is_laid_out
                else self._parts(tile, backend, shape)
            )
            results, edges = recurrence.determine(backend, part, own, above, left, out)
            if results and not out:
                self.results[tile.chunk] = results[0]
            for receiver, axes in self._receivers(tile.chunk_index).items():
                speculation = recurrence.start_export(backend, edges, axes)
                self.outbox.append((tile, receiver, speculation))
            self._keep(tile, edges)
        return recurrence.is_asynchronous and any(map(is_on_gpu, inputs.blocks))

    def _lay_out(self, tile: Tile) -> None:
        """Take the parts of a tile before its edges are there: who waits has time for it."""
        if tile.chunk_index not in self.laid_out:
            with chunk_of("determine", self.recurrence, self.inputs_of_chunks[tile.chunk]) as known:
                self.laid_out[tile.chunk_index] = self._parts(tile, *known)

    def _parts(
        self, tile: Tile, backend: Backend, shape: Shape
    ) -> tuple[ChunkInputs, Shape, tuple[Any, ...]]:
        """The pack and the shape of a tile, and where it writes."""
        out = self._out(tile, backend, shape)
        return *_part(self.recurrence, self.inputs_of_chunks[tile.chunk], tile, shape), out

    def _take(self, chunk_index: ChunkIndex, axis: int) -> Any:
        """The edges of the tile before one; None at the border."""
        if chunk_index[axis] == 0:
            return None
        before = beside(chunk_index, axis, -1)
        self.users[before] -= 1
        return self.edges[before] if self.users[before] else self.edges.pop(before)

    def _out(self, tile: Tile, backend: Backend, shape: Shape) -> tuple[Any, ...]:
        """Where a part of a chunk writes; a whole chunk has an array of its own."""
        recurrence = self.recurrence
        if not recurrence.results or _is_whole(tile, recurrence.axes, shape):
            return ()
        if tile.chunk not in self.results:
            self.results[tile.chunk] = backend.empty(shape, recurrence.result_dtype)
        return (self.results[tile.chunk][_at(tile, recurrence.axes, len(shape))],)

    def _keep(self, tile: Tile, edges: Any) -> None:
        """Hold the edges for tiles of this shard, and what the last tile tells."""
        if self.users[tile.chunk_index]:
            self.edges[tile.chunk_index] = self.recurrence.retain_edges(edges)
            for axis in self.axes:
                after = beside(tile.chunk_index, axis, 1)
                if after in self.tiles:
                    self.lacking[after].remove(tile.chunk_index)
                    self._look(after)
        if tile.chunk_index == self._last and not self.recurrence.results:
            self.carry_out = self.recurrence.final_result(self.recurrence.export_edges(edges))

    def _send(self, count: int) -> None:
        """Send so many edges, when they are on the host."""
        for _ in range(count):
            tile, receiver, wait = self.outbox.popleft()
            with in_chunk("determine", tile.chunk, self.inputs_of_chunks[tile.chunk].starts):
                edges = wait()
            self.exchange.send(receiver, tile.chunk_index, edges)

    def _before(self, chunk_index: ChunkIndex) -> Iterator[ChunkIndex]:
        return (beside(chunk_index, axis, -1) for axis in self.axes if chunk_index[axis])

    def _receivers(self, chunk_index: ChunkIndex) -> dict[int, list[int]]:
        """The other shards that wait for a tile, and along which axes."""
        found: dict[int, list[int]] = {}
        chunk = self.tiles[chunk_index].chunk
        for axis in self.axes:
            if beside(chunk_index, axis, 1) not in self.tiles:
                # At the end of its chunk: a part of one is followed by the next part.
                owner = self.shard.owners.get(beside(chunk, axis, 1))
                if owner is not None:
                    found.setdefault(owner, []).append(axis)
        return found

    @property
    def _last(self) -> ChunkIndex:
        """The place of the last part of the grid."""
        chunk_index = list(self.shard.last)
        for axis, parts in zip(self.axes, self.shard.parts, strict=True):
            chunk_index[axis] = sum(map(len, parts)) - 1
        return tuple(chunk_index)


def _tiles(shard: GridShard, axes: tuple[int, int]) -> Iterator[Tile]:
    """The parts of all chunks of a shard."""
    down, right = axes
    firsts = [[0, *accumulate(map(len, parts))] for parts in shard.parts]
    for chunk, _ in shard.chunks:
        rows, columns = (
            list(enumerate(_slices(parts[chunk[axis]]), first[chunk[axis]]))
            for axis, parts, first in zip(axes, shard.parts, firsts, strict=True)
        )
        for i, own_rows in rows:
            for j, own_columns in columns:
                chunk_index = list(chunk)
                chunk_index[down], chunk_index[right] = i, j
                yield Tile(tuple(chunk_index), chunk, (own_rows, own_columns))


def _slices(lengths: tuple[int, ...]) -> list[slice]:
    ends = list(accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def _is_whole(tile: Tile, axes: tuple[int, int], shape: Shape) -> bool:
    return all(
        (own.start, own.stop) == (0, shape[axis])
        for own, axis in zip(tile.within, axes, strict=True)
    )


def _at(tile: Tile, axes: tuple[int, int], ndim: int) -> tuple[slice, ...]:
    """The part of an array of the chunk."""
    where = [slice(None)] * ndim
    for axis, own in zip(axes, tile.within, strict=True):
        where[axis] = own
    return tuple(where)


def _part(
    recurrence: Grid, inputs: ChunkInputs, tile: Tile, shape: Shape
) -> tuple[ChunkInputs, Shape]:
    """The pack and the shape of a tile."""
    if _is_whole(tile, recurrence.axes, shape):
        return inputs, shape
    where = _at(tile, recurrence.axes, len(shape))
    blocks = tuple(
        block[
            tuple(
                own if is_varying else slice(None)
                for own, is_varying in zip(where[len(shape) - block.ndim :], varying, strict=True)
            )
        ]
        for block, varying in zip(inputs.blocks, recurrence.varying, strict=True)
    )
    starts, lengths = list(inputs.starts), list(shape)
    for axis, own in zip(recurrence.axes, tile.within, strict=True):
        starts[axis] += own.start
        lengths[axis] = own.stop - own.start
    return replace(inputs, blocks=blocks, starts=tuple(starts)), tuple(lengths)
