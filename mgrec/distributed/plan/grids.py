"""How a plan assigns the tiles of a grid to workers, and cuts those that others wait for.

A worker that waits for the edges of a tile waits for all of it. So a row of tiles whose edges go
to another worker is cut into parts, which are handed on one by one, and so is a column. With n
parts of equal length two workers, one after the other, take 1 + 1/n times as long as one beside
the other, whatever else the lengths are: the longest part counts alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import lcm, prod
from typing import Any, TypeVar

from ...core.contract.kernels import Backend, Part
from ...core.contract.recurrence import ChunkIndex, ChunkPosition
from ...engines import backend_of
from ..graph.cuts import Cut
from ..graph.rows import rows_of

Lengths = tuple[tuple[int, ...], ...]
"""Of the parts of every chunk along an axis."""
Address = TypeVar("Address", bound=Hashable)

# Parts along an axis of a whole grid. An H200 adds up a table of 2^31 cells in 5 ms, its host
# launches a part and hands on its edge in 0.4: it must be done with a part before the GPU is.
PARTS = 8


@dataclass(frozen=True)
class GridShard:
    """Tiles of a grid that one worker computes, and the shards of the chunks next to them.

    Attributes
    ----------
    number : int
        Of the shard.
    chunks : tuple of (place, starts)
    parts : (Lengths, Lengths)
        Along both axes of the grid, the same for all shards.
    owners : dict, place -> int
        The shards of the chunks, and of those above, below and to both sides of them.
    last : tuple of int
        The place of the last chunk of the grid.
    senders, receivers : tuple of int
        The shards whose edges it waits for, and those that wait for its own.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    parts: tuple[Lengths, Lengths]
    owners: Mapping[ChunkIndex, int]
    last: ChunkIndex
    senders: tuple[int, ...]
    receivers: tuple[int, ...]


def holders_of_chunks(cut: Cut, where: Mapping[Any, Any]) -> dict[ChunkIndex, str]:
    """The worker of every chunk: that which holds most of its operands.

    A block may belong to a whole row or column of tiles. Among equals the holder of the earlier
    operand has the tile, such that the tiles of a row are together, then the first by address.
    """
    return {chunk_index: _holder(cut, chunk_index, where) for chunk_index in rows_of(cut.chunks)}


def _holder(cut: Cut, chunk_index: ChunkIndex, where: Mapping[Any, Any]) -> str:
    held: dict[str, list[int]] = {}
    about = zip(cut.blocks, cut.keys(chunk_index), cut.shapes(chunk_index), strict=True)
    for number, (block, key, shape) in enumerate(about):
        size = prod(shape) * block.dtype.itemsize
        for address in where[key]:
            held.setdefault(address, [0] * len(cut.blocks))[number] = size
    if not held:
        raise RuntimeError(
            f"operands of a plan must be in memory; those of chunk {chunk_index} are not"
        )
    return max(sorted(held), key=lambda address: (sum(held[address]), held[address]))


def assign_tiles(cut: Cut, holders: Mapping[ChunkIndex, Address]) -> dict[Address, GridShard]:
    """Return the shards by the holders of their tiles."""
    owned: dict[Address, list[ChunkIndex]] = {}
    for chunk_index, holder in holders.items():
        owned.setdefault(holder, []).append(chunk_index)
    numbers = {holder: number for number, holder in enumerate(owned)}
    owners = {chunk_index: numbers[holder] for chunk_index, holder in holders.items()}
    axes, count = cut.recurrence.axes, tuple(map(len, cut.chunks))
    parts = tuple(_parts(cut, owners, axis, other) for axis, other in (axes, axes[::-1]))
    return {
        holder: GridShard(
            numbers[holder],
            tuple(map(cut.at, chunk_indices)),
            (parts[0], parts[1]),
            {
                near: owners[near]
                for chunk_index in chunk_indices
                for near in _near(chunk_index, axes, owners)
            },
            tuple(n - 1 for n in count),
            *(_others(chunk_indices, axes, step, owners) for step in (-1, 1)),
        )
        for holder, chunk_indices in owned.items()
    }


def beside(chunk_index: ChunkIndex, axis: int, distance: int) -> ChunkIndex:
    """The place so many tiles further along an axis."""
    return (*chunk_index[:axis], chunk_index[axis] + distance, *chunk_index[axis + 1 :])


def _others(
    chunk_indices: list[ChunkIndex],
    axes: tuple[int, int],
    step: int,
    owners: Mapping[ChunkIndex, int],
) -> tuple[int, ...]:
    """The other shards of chunks before (-1) or after (1) those of one shard."""
    near = (beside(chunk_index, axis, step) for chunk_index in chunk_indices for axis in axes)
    return tuple(sorted({owners[n] for n in near if n in owners} - {owners[chunk_indices[0]]}))


def _near(
    chunk_index: ChunkIndex, axes: tuple[int, int], owners: Mapping[ChunkIndex, int]
) -> Iterator[ChunkIndex]:
    """A chunk and those around it."""
    yield chunk_index
    for axis in axes:
        for near in (beside(chunk_index, axis, -1), beside(chunk_index, axis, 1)):
            if near in owners:
                yield near


def _parts(cut: Cut, owners: Mapping[ChunkIndex, int], axis: int, other: int) -> Lengths:
    """The lengths of parts along an axis, of chunks whose edges along the other go elsewhere."""
    backend = backend_of(block._meta for block in cut.blocks)
    shapes: dict[int, set[tuple[int, ...]]] = {}
    crossed = set()
    for chunk_index, owner in owners.items():
        shape = tuple(lengths[k] for lengths, k in zip(cut.chunks, chunk_index, strict=True))
        shapes.setdefault(chunk_index[axis], set()).add(shape)
        if owners.get(beside(chunk_index, other, 1), owner) != owner:
            crossed.add(chunk_index[axis])
    total = sum(cut.chunks[axis])
    return tuple(
        _lengths(length, total, _part(cut, backend, shapes[k], axis)) if k in crossed else (length,)
        for k, length in enumerate(cut.chunks[axis])
    )


def _part(cut: Cut, backend: Backend, shapes: set[tuple[int, ...]], axis: int) -> Part | None:
    """What all tiles of these shapes allow."""
    found = [cut.recurrence.part(backend, shape, axis) for shape in sorted(shapes) if all(shape)]
    parts = [part for part in found if part is not None]
    if not parts or len(parts) < len(found):
        return None
    return Part(lcm(*(part.unit for part in parts)), max(part.least for part in parts))


def _lengths(length: int, total: int, part: Part | None) -> tuple[int, ...]:
    """Nearly equal lengths, of whole units but for the last."""
    if part is None:
        return (length,)
    least = -(-part.least // part.unit) * part.unit
    count = max(1, min(round(PARTS * length / max(total, 1)), length // least))
    begins = [length // part.unit * k // count * part.unit for k in range(count)]
    return tuple(end - begin for begin, end in zip(begins, [*begins[1:], length], strict=True))
