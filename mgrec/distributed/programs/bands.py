"""The program of GPUs of one machine that share one large grid.

Each GPU computes a run of bands of the rows, and the kernels run at the same time. Each writes the
last row of its bands, column by column, into memory of the next GPU, whose kernel waits for it. The
hosts take no part in that, and no GPU waits for a whole tile. A kernel is launched after the one
whose rows it waits for. Otherwise a worker that waits for its GPU could hold back the message that
starts the kernel for which the GPU waits. Each worker stores both sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client

from ...core.backends import common_backend
from ...core.contract.grid import Banded, Bands
from ...core.contract.recurrence import ChunkIndex, ChunkInputs
from ...engines.cuda import sharing
from ..graph.aligned import AlignedProblem
from ..observability import in_chunk
from .shards import Shard

READY, LAUNCHED, BEST = "ready", "launched", "best"
"""Names of messages: the memory for rows of the GPU before, the launch of the kernel that writes
them, and the best cell so far."""


@dataclass(frozen=True)
class BandShard(Shard):
    """A run of bands of a grid that GPUs of one machine share.

    Its chunks are those of the first row and of the first column: they have all operands.
    """

    count: int


def assign_bands(
    aligned: AlignedProblem, addresses: Sequence[str], client: Client
) -> dict[str, BandShard] | None:
    """Return shards for workers whose GPUs can share the grid, or None."""
    recurrence, backend = aligned.recurrence, common_backend(aligned.blocks)
    if len(addresses) < 2 or not isinstance(recurrence, Banded):
        return None
    hosts, shape = {address.rpartition(":")[0] for address in addresses}, tuple(map(sum, aligned.chunks))
    if len(hosts) > 1 or not recurrence.has_bands(backend, shape) or not _are_connected(client, addresses):
        return None
    rows, columns = map(len, aligned.chunks)
    indices = dict.fromkeys([*((k, 0) for k in range(rows)), *((0, k) for k in range(columns))])
    chunks = tuple(map(aligned.position, indices))
    return {address: BandShard(number, chunks, len(addresses)) for number, address in enumerate(addresses)}


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
    recurrence: Banded, shard: BandShard, inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs], exchange: Any
) -> Any:
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
    onward = None if is_last else exchange.take(after, READY)[0]
    with backend.device_of(first.blocks):
        bands = Bands(shard.number, shard.count)
        if memory is not None:
            bands = replace(bands, words=memory.address, tag=memory.tag)
        if onward is not None:
            handle, tag = onward
            bands = replace(bands, onward=sharing.open_shared(handle), onward_tag=tag)
        sequences = [_sequence(inputs_of_chunks, axis) for axis in range(2)]
        launched = recurrence.launch_bands(backend, sequences, bands)
    if not is_last:
        exchange.send(after, LAUNCHED, None)
    with in_chunk("determine", first.chunk_index, first.starts), backend.device_of(first.blocks):
        if not is_first:
            try:
                # The kernel before has ended then. While it runs, its worker may be lost.
                best, _ = exchange.take(before, BEST)
            except BaseException:
                with suppress(RuntimeError):
                    exchange.wait(lambda: launched(True))
                raise
        edges_after = exchange.wait(lambda: launched(False))
    if memory is not None:
        sharing.give_back(memory)
    edges = edges_after(best)
    if is_last:
        return recurrence.final_result(recurrence.export_edges(edges))
    exchange.send(after, BEST, edges.best)
    return None


def _sequence(inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs], axis: int) -> list[Any]:
    """Return the chunks of the sequence along an axis."""
    chunks = sorted(inputs_of_chunks.items())
    return [inputs.blocks[axis].reshape(-1) for index, inputs in chunks if index[1 - axis] == 0]
