"""The tasks over chunks that are determined speculatively, before their carry-ins are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import call
from typing import Any, SupportsIndex

from ..core.backends import Backend, common_backend
from ..core.contract.recurrence import AlongAxis, ChunkInputs, ChunkPosition, Shape
from .observability import in_chunk
from .tasks import (
    CarryIns,
    SpeculativeChunk,
    SummaryBatch,
    chunk_of,
    determine_block,
    inputs_of_batch,
    precompute_block,
    precompute_blocks,
)


def speculate_block(inputs: ChunkInputs, recurrence: AlongAxis) -> ChunkInputs:
    """Return a speculative chunk; the same inputs if the chunk depends on its carry-in."""
    return speculate_blocks([inputs], recurrence)[0]


def speculate_blocks(inputs_of_chunks: Sequence[ChunkInputs], recurrence: AlongAxis) -> list[ChunkInputs]:
    """Launch all chunks, then wait for one after the other: their order is that of the inputs."""
    return wait_for_all([launch_speculation(inputs, recurrence) or inputs for inputs in inputs_of_chunks])


def wait_for_all(launched: Sequence[Any], wait: Callable[[Callable[[], Any]], Any] = call) -> list[Any]:
    """Call functions of a list with `wait`, one after the other, and the functions that they return."""
    while any(map(callable, launched)):
        launched = [wait(each) if callable(each) else each for each in launched]
    return list(launched)


def launch_speculation(
    inputs: ChunkInputs, recurrence: AlongAxis
) -> Callable[[], ChunkInputs | Callable[[], Any]] | None:
    """Launch the speculation on a chunk, and return a function that waits for it; or None.

    What that returns may be another one, to be called when the functions of all chunks are.
    """
    backend = common_backend(inputs.blocks, recurrence.method)
    if not recurrence.is_contractive or backend.kernels(recurrence.family).speculate is None:
        return None
    with chunk_of("speculate", recurrence, inputs) as (backend, shape):
        launched = recurrence.speculate(backend, inputs, shape)
    return None if launched is None else partial(_wait_for, launched, backend, inputs, shape)


# A function that refers to itself would keep the inputs until the collector of cycles runs.
def _wait_for(
    launched: Callable[[], Any], backend: Backend, inputs: ChunkInputs, shape: Shape
) -> ChunkInputs | Callable[[], Any]:
    with in_chunk("speculate", inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
        speculation = launched()
    if not speculation:
        return inputs
    if callable(speculation):
        return partial(_wait_for, speculation, backend, inputs, shape)
    position = inputs.chunk_index, inputs.starts
    return SpeculativeChunk((), *position, speculation=speculation, shape=shape)


def precompute_from_blocks(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Return the summary and shape of a chunk that is loaded twice; drop its speculation."""
    return precompute_block(speculate_block(inputs, recurrence), recurrence)


def determine_from_blocks(
    recurrence: AlongAxis, inputs: ChunkInputs, carry_ins: CarryIns, number: int
) -> Any:
    """Return the result of a chunk that `precompute_from_blocks` summarised."""
    return determine_block(recurrence, speculate_block(inputs, recurrence), carry_ins, number)


@dataclass(frozen=True)
class SpeculationBatch:
    """The summaries of a batch of chunks, and the speculative chunks: None for others.

    The chunks stay on their worker: they are neither sent nor spilled. On another worker the batch
    is a `SummaryBatch`, and tasks speculate again.
    """

    summaries: list[Any]
    chunks: list[SpeculativeChunk | None]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return SummaryBatch(self.summaries).__reduce_ex__(protocol)


def speculate_persisted(
    recurrence: AlongAxis, positions: Sequence[ChunkPosition], blocks: list[Any]
) -> SpeculationBatch:
    """Speculate on a batch of chunks and summarise all, from their blocks, chunk by chunk."""
    chunks = speculate_blocks(list(inputs_of_batch(recurrence, positions, blocks)), recurrence)
    summaries = precompute_blocks(chunks, recurrence)
    return SpeculationBatch(summaries, [x if isinstance(x, SpeculativeChunk) else None for x in chunks])


def correct_persisted(
    recurrence: AlongAxis,
    position: ChunkPosition,
    carry_ins: CarryIns,
    number: int,
    batch: SpeculationBatch | SummaryBatch | None,
    index: int,
    *blocks: Any,
) -> Any:
    """Return the result of chunk number `index` of a batch, or of one without a summary."""
    inputs = ChunkInputs(blocks, *position)
    if isinstance(batch, SpeculationBatch):
        chunk = batch.chunks[index] or inputs
    else:
        chunk = speculate_block(inputs, recurrence)
    return determine_block(recurrence, chunk, carry_ins, number)
