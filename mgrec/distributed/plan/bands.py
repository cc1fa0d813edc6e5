"""One large grid shared by GPUs of one machine: each computes a run of bands of its rows.

The kernels run at the same time. Each writes the last row of its bands, column by column, into
memory of the next GPU, whose kernel waits for it. The hosts take no part in that, and no GPU waits
for a whole tile. A kernel is launched after the one whose rows it waits for. Otherwise a worker
that waits for its GPU could hold back the message that starts the kernel for which the GPU waits.
Each worker stores both sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distributed import Client

from ...core.backends import common_backend
from ...core.contract.grid import Bands
from ...core.contract.recurrence import ChunkIndex, ChunkInputs
from ...engines.cuda import sharing
from ..graph.aligned import AlignedProblem
from ..observability import in_chunk
from .assignment import BandShard
from .messages import Exchange, Program

READY, LAUNCHED, BEST = "ready", "launched", "best"
"""Names of messages: the memory for rows of the GPU before, the launch of the kernel that writes
them, and the best cell so far."""


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
    recurrence: Any,
    shard: BandShard,
    inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs],
    exchange: Exchange,
) -> Program[tuple[dict[ChunkIndex, Any], Any]]:
    """Return no results, and the final result if the shard has the last bands."""
    is_first, is_last = shard.number == 0, shard.number == shard.count - 1
    first = next(iter(inputs_of_chunks.values()))
    backend = common_backend(first.blocks)
    memory, best = None, None
    if not is_first:
        with backend.device_of(first.blocks):
            memory = sharing.take(*recurrence.shared_by_bands)
        exchange.send(shard.number - 1, READY, (memory.handle, memory.tag))
        yield (LAUNCHED,)
        exchange.take(LAUNCHED)
    if not is_last and not exchange.has(READY):
        yield (READY,)
    with backend.device_of(first.blocks):
        bands = Bands(shard.number, shard.count)
        if memory is not None:
            bands = replace(bands, words=memory.address, tag=memory.tag)
        if not is_last:
            handle, tag = exchange.take(READY)
            bands = replace(bands, onward=sharing.open_shared(handle), onward_tag=tag)
        sequences = [_parts(inputs_of_chunks, axis) for axis in range(2)]
        launched = recurrence.launch_bands(backend, sequences, bands)
    if not is_last:
        exchange.send(shard.number + 1, LAUNCHED, None)

    def wait() -> Any:
        with (
            in_chunk("determine", first.chunk_index, first.starts),
            backend.device_of(first.blocks),
        ):
            return launched(lambda: exchange.is_abandoned)

    edges_after: Callable[[Any], Any] = yield wait
    if memory is not None:
        sharing.give_back(memory)
        if not exchange.has(BEST):
            yield (BEST,)
        best = exchange.take(BEST)
    edges = edges_after(best)
    if not is_last:
        exchange.send(shard.number + 1, BEST, edges.best)
        return {}, None
    return {}, recurrence.final_result(recurrence.export_edges(edges))


def _parts(inputs_of_chunks: Mapping[ChunkIndex, ChunkInputs], axis: int) -> list[Any]:
    """Return the chunks of the sequence along an axis."""
    chunks = sorted(inputs_of_chunks.items())
    return [inputs.blocks[axis].reshape(-1) for index, inputs in chunks if index[1 - axis] == 0]
