"""How a plan assigns chunks to the workers that store their operands: one shard a worker.

A worker that needs the edges of a tile waits for the whole tile. If the edges of a row of tiles go
to another worker, the row is therefore cut into parts, which are sent one by one; and so is a
column. With n parts of equal length two workers, one after the other, take 1 + 1/n times as long
as one beside the other, whatever the other lengths are: the longest part counts alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product
from math import lcm, prod
from typing import Any, TypeVar

from ...core.backends import common_backend
from ...core.contract.grid import Grid
from ...core.contract.kernels import Backend, Part
from ...core.contract.recurrence import ChunkIndex, ChunkPosition, Overlapping
from ..graph.aligned import AlignedProblem, chunk_indices_of
from ..graph.along_axis import Group, chunk_at, group_of, joins_chunks, kept_of, split
from ..groups.chains import row_of
from ..groups.grids import lengths_of_parts

Lengths = tuple[tuple[int, ...], ...]
"""The lengths of the parts of every chunk along an axis."""
Address = TypeVar("Address", bound=Hashable)

# Most bytes that a GPU writes while it filters chunks together; all results are in memory anyway. A
# band-pass of 5 sections, in both directions over chunks of 300,000 steps of 384 columns of int16,
# took 0.81 ms a chunk on an H100 for 2 chunks together, 0.71 for 4, 0.69 for 6 and 0.66 for 12.
TOGETHER = 1 << 33


@dataclass(frozen=True)
class ChainShard:
    """Chunks along an axis that one worker solves, and where it sends and gets summaries.

    Attributes
    ----------
    number : int
    chunks : tuple of (chunk index, starts)
    count : int
        Number of chunks along the axis of the recurrence.
    receivers : dict, number of a shard -> chunk indices
        The shards that need summaries of this one, and of which chunks.
    senders : tuple of int
        The shards whose summaries this one needs.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    count: int
    receivers: Mapping[int, tuple[ChunkIndex, ...]]
    senders: tuple[int, ...]


@dataclass(frozen=True)
class GridShard:
    """Tiles of a grid that one worker computes, and the shards that need their edges.

    Attributes
    ----------
    number : int
    chunks : tuple of (chunk index, starts)
    parts : (Lengths, Lengths)
        Along both axes of the grid, the same for all shards.
    owners : dict, chunk index -> int
        The shards of the chunks beside the shard's chunks.
    last : tuple of int
        The index of the last chunk of the grid.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    parts: tuple[Lengths, Lengths]
    owners: Mapping[ChunkIndex, int]
    last: ChunkIndex


@dataclass(frozen=True)
class BandShard:
    """A run of bands of a grid that GPUs of one machine share; see ``grids.py``.

    Attributes
    ----------
    number, count : int
    chunks : tuple of (chunk index, starts)
        Those of the first row and of the first column: they have all operands.
    """

    number: int
    count: int
    chunks: tuple[ChunkPosition, ...]


@dataclass(frozen=True)
class ShardGroup:
    """Chunks that a filter takes together, and the parts of other chunks that it takes."""

    chunks: tuple[ChunkIndex, ...]
    parts: tuple[tuple[ChunkIndex, Any], ...]
    recipe: Any
    kept: tuple[slice, ...]
    """The place of each chunk among the results of the group."""
    is_joined: bool


@dataclass(frozen=True)
class FilterShard:
    """Chunks that one worker filters, and where it sends and gets parts of chunks.

    Attributes
    ----------
    number : int
    chunks : tuple of (chunk index, starts)
    shapes : dict, chunk index -> shape of the operand
    groups : tuple of ShardGroup
    parts : tuple of (chunk index, part)
        The parts of the shard's chunks that any shard needs.
    receivers : dict, number of a shard -> tuple of (chunk index, part)
        The shards that need parts of this one.
    senders : tuple of int
        The shards whose parts this one needs.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    shapes: Mapping[ChunkIndex, tuple[int, ...]]
    groups: tuple[ShardGroup, ...]
    parts: tuple[tuple[ChunkIndex, Any], ...]
    receivers: Mapping[int, tuple[tuple[ChunkIndex, Any], ...]]
    senders: tuple[int, ...]


Shard = ChainShard | GridShard | BandShard | FilterShard


def assign(
    aligned: AlignedProblem, where: Mapping[Any, Any]
) -> Mapping[str, ChainShard | GridShard | FilterShard]:
    """Assign every chunk to the worker that stores most of its operands: shards by addresses.

    `where` has the workers of each block. A block may belong to a whole row or column of tiles.
    Among equals the worker of the earlier operand gets the tile, such that the tiles of a row are
    together, then the first by address.
    """
    chunk_indices = chunk_indices_of(aligned.chunks)
    workers = {index: _worker_of(aligned, index, where) for index in chunk_indices}
    if isinstance(aligned.recurrence, Overlapping):
        return _assign_groups(aligned, workers)
    is_grid = isinstance(aligned.recurrence, Grid)
    return (assign_tiles if is_grid else _assign_chunks)(aligned, workers)


def _worker_of(aligned: AlignedProblem, chunk_index: ChunkIndex, where: Mapping[Any, Any]) -> str:
    sizes: dict[str, list[int]] = {}
    shapes = aligned.shapes(chunk_index)
    blocks = zip(aligned.blocks, aligned.keys(chunk_index), shapes, strict=True)
    for number, (block, key, shape) in enumerate(blocks):
        for address in where[key]:
            operands = sizes.setdefault(address, [0] * len(aligned.blocks))
            operands[number] = prod(shape) * block.dtype.itemsize
    if not sizes:
        raise RuntimeError(
            f"operands of a plan must be in memory; those of chunk {chunk_index} are not"
        )
    return max(sorted(sizes), key=lambda address: (sum(sizes[address]), sizes[address]))


def operand_sizes(
    aligned: AlignedProblem, chunk_indices: Mapping[str, Sequence[ChunkIndex]]
) -> dict[str, int]:
    """Return the bytes of the operands of each worker's chunks, by addresses."""
    sizes = {}
    for address, indices in chunk_indices.items():
        blocks = {
            key: prod(shape) * block.dtype.itemsize
            for index in indices
            for key, shape, block in zip(
                aligned.keys(index), aligned.shapes(index), aligned.blocks, strict=True
            )
        }
        sizes[address] = sum(blocks.values())
    return sizes


def _chunks_by_worker(workers: Mapping[ChunkIndex, Address]) -> dict[Address, list[ChunkIndex]]:
    chunks: dict[Address, list[ChunkIndex]] = {}
    for chunk_index, worker in workers.items():
        chunks.setdefault(worker, []).append(chunk_index)
    return chunks


def _assign_chunks(
    aligned: AlignedProblem, workers: Mapping[ChunkIndex, str]
) -> dict[str, ChainShard]:
    recurrence, count, chunks = aligned.recurrence, aligned.count, _chunks_by_worker(workers)
    axis = recurrence.axis

    def order(chunk_index: ChunkIndex) -> int:
        return count - 1 - chunk_index[axis] if recurrence.reverse else chunk_index[axis]

    # For each worker and row of chunks: how many summaries, from the first chunk on, it needs.
    needed: dict[str, dict[ChunkIndex, int]] = {address: {} for address in chunks}
    for chunk_index, address in workers.items():
        row, rows = row_of(chunk_index, axis), needed[address]
        summaries = count if recurrence.is_two_sided else order(chunk_index)
        rows[row] = max(rows.get(row, 0), summaries)
    numbers = {address: number for number, address in enumerate(chunks)}
    receivers: dict[str, dict[int, tuple[ChunkIndex, ...]]] = {address: {} for address in chunks}
    for sender, receiver in permutations(chunks, 2):
        rows = needed[receiver]
        sent = tuple(i for i in chunks[sender] if order(i) < rows.get(row_of(i, axis), 0))
        if sent:
            receivers[sender][numbers[receiver]] = sent
    return {
        address: ChainShard(
            number,
            tuple(map(aligned.position, chunks[address])),
            count,
            receivers[address],
            tuple(numbers[sender] for sender in chunks if number in receivers[sender]),
        )
        for address, number in numbers.items()
    }


def _assign_groups(
    aligned: AlignedProblem, workers: Mapping[ChunkIndex, str]
) -> dict[str, FilterShard]:
    """Assign each group of chunks to the worker that has its chunks."""
    recurrence, (x,) = aligned.recurrence, aligned.blocks
    axis, counts = recurrence.axis, aligned.chunks[recurrence.axis]
    groups_by_worker: dict[str, list[ShardGroup]] = {}
    for row in (index for index in chunk_indices_of(x.chunks) if not index[axis]):
        owners = [workers[chunk_at(row, axis, number)] for number in range(len(counts))]
        for group in _groups_of_row(recurrence, x, owners):
            members = tuple(chunk_at(row, axis, number) for number in group.chunks)
            parts, kept = tuple(group.part_indices(row, axis)), tuple(kept_of(group, counts))
            shard_group = ShardGroup(members, parts, group.recipe, kept, group.is_joined)
            groups_by_worker.setdefault(owners[group.chunks.start], []).append(shard_group)
    numbers = {worker: number for number, worker in enumerate(groups_by_worker)}
    # By the worker that has a part: the parts that each worker needs, in order and once.
    needed: dict[str, dict[int, dict[Any, None]]] = {worker: {} for worker in numbers}
    for worker, shard_groups in groups_by_worker.items():
        for key in (key for group in shard_groups for key in group.parts):
            needed[workers[key[0]]].setdefault(numbers[worker], {})[key] = None
    shards = {}
    for worker, number in numbers.items():
        members = tuple(index for group in groups_by_worker[worker] for index in group.chunks)
        shards[worker] = FilterShard(
            number,
            tuple(map(aligned.position, members)),
            {index: aligned.shapes(index)[0] for index in members},
            tuple(groups_by_worker[worker]),
            tuple(dict.fromkeys(key for keys in needed[worker].values() for key in keys)),
            {to: tuple(keys) for to, keys in needed[worker].items() if to != number},
            tuple(k for other, k in numbers.items() if k != number and number in needed[other]),
        )
    return shards


def _groups_of_row(recurrence: Overlapping, x: Any, owners: Sequence[str]) -> Iterator[Group]:
    """Yield groups of the chunks along the axis, whose workers are `owners`.

    A worker filters chunks together that need no part of another worker's: the larger a group, the
    fewer samples are read twice.
    """
    axis_filter, axis, lengths = recurrence.axis_filter, recurrence.axis, x.chunks[recurrence.axis]
    chunks = [group_of(axis_filter, lengths, range(k, k + 1), False) for k in range(len(lengths))]
    if not joins_chunks(axis_filter, x):
        yield from chunks
        return
    size = prod(x.chunksize) * axis_filter.written_bytes(x, axis, recurrence.dtype)
    most = max(1, TOGETHER // max(1, size))

    def key_of(k: int) -> tuple[str, bool]:
        return owners[k], any(owners[number] != owners[k] for number, _ in chunks[k].parts)

    for _, numbers in groupby(range(len(lengths)), key_of):
        first, *others = numbers
        consecutive = range(first, first + 1 + len(others))
        for part in split(consecutive, -(-len(consecutive) // most)):
            yield group_of(axis_filter, lengths, part, True)


def assign_tiles(
    aligned: AlignedProblem, workers: Mapping[ChunkIndex, Address]
) -> dict[Address, GridShard]:
    """Return the shards of a grid by the workers of their tiles."""
    chunks = _chunks_by_worker(workers)
    numbers = {worker: number for number, worker in enumerate(chunks)}
    owners = {chunk_index: numbers[worker] for chunk_index, worker in workers.items()}
    axes, last = aligned.recurrence.axes, tuple(len(lengths) - 1 for lengths in aligned.chunks)
    parts = tuple(_parts(aligned, owners, axis, other) for axis, other in (axes, axes[::-1]))
    return {
        worker: GridShard(
            numbers[worker],
            tuple(map(aligned.position, chunk_indices)),
            (parts[0], parts[1]),
            {beside: owners[beside] for beside in _beside(chunk_indices, axes) if beside in owners},
            last,
        )
        for worker, chunk_indices in chunks.items()
    }


def neighbour(chunk_index: ChunkIndex, axis: int, step: int) -> ChunkIndex:
    """Return the index so many tiles further along an axis."""
    return (*chunk_index[:axis], chunk_index[axis] + step, *chunk_index[axis + 1 :])


def _beside(chunk_indices: list[ChunkIndex], axes: tuple[int, int]) -> Iterator[ChunkIndex]:
    for chunk_index, axis, step in product(chunk_indices, axes, (1, -1)):
        yield neighbour(chunk_index, axis, step)


def _parts(
    aligned: AlignedProblem, owners: Mapping[ChunkIndex, int], axis: int, other: int
) -> Lengths:
    """Return the lengths of parts along `axis`: many if edges along `other` go to other workers."""
    backend = common_backend(aligned.blocks)
    shapes: dict[int, set[tuple[int, ...]]] = {}
    crossed = set()
    for chunk_index, owner in owners.items():
        shape = tuple(lengths[k] for lengths, k in zip(aligned.chunks, chunk_index, strict=True))
        shapes.setdefault(chunk_index[axis], set()).add(shape)
        if owners.get(neighbour(chunk_index, other, 1), owner) != owner:
            crossed.add(chunk_index[axis])
    total = sum(aligned.chunks[axis])
    return tuple(
        lengths_of_parts(length, total, _common_part(aligned, backend, shapes[k], axis))
        if k in crossed
        else (length,)
        for k, length in enumerate(aligned.chunks[axis])
    )


def _common_part(
    aligned: AlignedProblem, backend: Backend, shapes: set[tuple[int, ...]], axis: int
) -> Part | None:
    """Return the part that tiles of all these shapes allow, or None."""
    allowed = [aligned.recurrence.part(backend, s, axis) for s in sorted(shapes) if all(s)]
    parts = [part for part in allowed if part is not None]
    if not parts or len(parts) < len(allowed):
        return None
    return Part(lcm(*(part.unit for part in parts)), max(part.least for part in parts))
