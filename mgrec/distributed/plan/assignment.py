"""The shard of a worker: which chunks it computes, and by which program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ...core.backends import common_backend
from ...core.contract.grid import Grid
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, Overlapping
from ..graph.aligned import AlignedProblem, chunk_indices_of
from ..programs.bands import BandShard, solve_bands
from ..programs.chains import Chain, ChainShard, Summaries, assign_chunks
from ..programs.grids import GridShard, Tiles, assign_tiles
from ..programs.halos import FilterShard, assign_groups, solve_filter
from ..programs.shards import Threads
from .messages import PlanExchange, Request, Shard, result_name

Blocks = Mapping[ChunkIndex, list[Any]]
SUMMARIES = "summaries"
"""Name of messages."""


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
        return assign_groups(aligned, workers)
    is_grid = isinstance(aligned.recurrence, Grid)
    return (assign_tiles if is_grid else assign_chunks)(aligned, workers)


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


def solve_chain(
    request: Request, name: str, shard: ChainShard,
    inputs_of_chunks: dict[ChunkIndex, ChunkInputs], exchange: PlanExchange, threads: Threads,
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
            summaries |= exchange.take(sender, SUMMARIES)[0]
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
    request: Request,
    name: str,
    shard: Shard,
    blocks: Blocks,
    exchange: PlanExchange,
    threads: Threads,
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
