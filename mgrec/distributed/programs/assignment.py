"""The shard of a worker: which chunks it computes, and by which program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

from distributed import Client

from ...core.arrays.elements import Part
from ...core.backends import common_backend
from ...core.contract.grid import Banded, Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex, ChunkInputs, Overlapping
from ..graph.aligned import AlignedProblem, chunk_indices_of
from .bands import BandShard, assign_bands, solve_bands
from .chains import ChainProgram, ChainShard, Summaries, assign_chunks
from .grids import GridShard, Tiles, assign_tiles
from .halos import FilterShard, assign_groups, solve_filter
from .shards import Exchange, Shard, Threads

SUMMARIES = "summaries"
"""Name of messages."""


@dataclass(frozen=True)
class Request:
    """The arguments of a solve of a shard, except for its operands.

    `initial`: dict, row of chunks -> list of arrays.
    `parts`: what becomes of each result along an axis; empty for the result itself.
    """

    recurrence: AlongAxis | Overlapping | Grid
    initial: Mapping[ChunkIndex, list[Any]] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


def assign(aligned: AlignedProblem, where: Mapping[Any, Any], client: Client) -> Mapping[str, Shard]:
    """Assign every chunk to the worker that stores most of its operands: shards by addresses.

    `where` has the workers of each block. A block may belong to a whole row or column of tiles.
    Among equals the worker of the earlier operand gets the tile, such that the tiles of a row are
    together. Of workers that store the same, the worker of the chunk before gets the chunk until it
    has its share of all, and otherwise the worker with the fewest. GPUs that can share a large
    alignment get bands of rows.
    """
    chunk_indices = [*chunk_indices_of(aligned.chunks)]
    candidates = [_candidates_for(aligned, index, where) for index in chunk_indices]
    counts = Counter(address for address, *others in candidates if not others)
    most = -(-len(candidates) // len({address for each in candidates for address in each}))
    workers, before = dict[ChunkIndex, str](), ""
    for index, addresses in zip(chunk_indices, candidates, strict=True):
        workers[index] = min(addresses, key=lambda to: (counts[to] >= most, to != before, counts[to]))
        before = workers[index]
        counts[before] += len(addresses) > 1
    if isinstance(aligned.recurrence, Overlapping):
        return assign_groups(aligned, workers)
    if not isinstance(aligned.recurrence, Grid):
        return assign_chunks(aligned, workers)
    shards = assign_tiles(aligned, workers)
    return assign_bands(aligned, list(shards), client) or shards


def _candidates_for(aligned: AlignedProblem, chunk_index: ChunkIndex, where: Mapping[Any, Any]) -> list[str]:
    """Return the workers that store most of a chunk's operands, by address."""
    sizes: dict[str, list[int]] = {}
    shapes = aligned.shapes(chunk_index)
    blocks = zip(aligned.blocks, aligned.keys(chunk_index), shapes, strict=True)
    for number, (block, key, shape) in enumerate(blocks):
        for address in where[key]:
            operands = sizes.setdefault(address, [0] * len(aligned.blocks))
            operands[number] = prod(shape) * block.dtype.itemsize
    if not sizes:
        raise RuntimeError(f"operands of a plan must be in memory; those of chunk {chunk_index} are not")
    most = max(sizes.values(), key=lambda of_operands: (sum(of_operands), of_operands))
    return sorted(address for address, of_operands in sizes.items() if of_operands == most)


def solve_shard(
    request: Request,
    shard: Shard,
    blocks: Mapping[ChunkIndex, list[Any]],
    exchange: Exchange,
    threads: Threads,
) -> tuple[Mapping[ChunkIndex, Sequence[Any]], Any]:
    """Return the results of each chunk of a shard, and its answer to the client.

    The answer along an axis is the final states by rows of chunks, or None. Over a grid without
    results it is the result of the last tile or band, or None.
    """
    recurrence, starts, answer = request.recurrence, dict(shard.chunks), None
    inputs_of_chunks = {
        index: ChunkInputs(tuple(arrays), index, starts[index], {}) for index, arrays in blocks.items()
    }
    del blocks
    if isinstance(shard, ChainShard):
        return _solve_chain(request, shard, inputs_of_chunks, exchange, threads)
    if isinstance(shard, BandShard):
        assert isinstance(recurrence, Banded)
        return {}, solve_bands(recurrence, shard, inputs_of_chunks, exchange)
    if isinstance(shard, FilterShard):
        assert isinstance(recurrence, Overlapping)
        results = solve_filter(recurrence, shard, inputs_of_chunks, exchange, threads)
    else:
        assert isinstance(recurrence, Grid) and isinstance(shard, GridShard)
        results, answer = Tiles(recurrence, shard, inputs_of_chunks, exchange).solve()
    return {index: (array,) for index, array in results.items()}, answer


def _solve_chain(
    request: Request,
    shard: ChainShard,
    inputs_of_chunks: dict[ChunkIndex, ChunkInputs],
    exchange: Exchange,
    threads: Threads,
) -> tuple[Mapping[ChunkIndex, Sequence[Any]], Any]:
    """Return the results of each chunk or their parts, and the final states by rows of chunks."""
    recurrence: Any = request.recurrence
    chain = ChainProgram(recurrence, shard.count, threads=threads, wait=exchange.wait)

    def gather(summaries: Summaries) -> tuple[Summaries, Mapping[ChunkIndex, Any]]:
        for receiver, indices in shard.receivers.items():
            exchange.send(receiver, SUMMARIES, {index: summaries[index] for index in indices})
        for sender in shard.senders:
            summaries |= exchange.take(sender, SUMMARIES)[0]
        return summaries, request.initial

    results, carry_ins = chain.solve(inputs_of_chunks, gather)
    if request.parts:
        parts = threads.map(partial(_parts_of, request.parts), results.values())
        return dict(zip(results, parts, strict=True)), None
    return results, chain.final_states(carry_ins) or None


def _parts_of(parts: Sequence[Part], results: tuple[Any]) -> list[Any]:
    """Return the parts of the result of a chunk."""
    (result,) = results
    first = (next(iter(result.values())) if isinstance(result, dict) else result,)
    with common_backend(first).device_of(first):
        return [part.of_chunk(result) for part in parts]
