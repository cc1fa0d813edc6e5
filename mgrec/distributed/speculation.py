"""The tasks over chunks that are determined speculatively, before their carry-ins are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

from ..core.backends import common_backend
from ..core.contract.kernels import Speculation
from ..core.contract.recurrence import AlongAxis, Arrays, ChunkInputs, ChunkPosition, Shape
from .memory import register
from .observability import in_chunk
from .tasks import CarryIns, SummaryBatch, chunk_of, inputs_of_batch, launch_determination, precompute_blocks


@dataclass(frozen=True)
class PendingChunk:
    """A chunk that needs its carry-in.

    Attributes
    ----------
    inputs : ChunkInputs
        Without its blocks if there is a speculation.
    speculation : Speculation, optional
        None if the chunk depends on its carry-in.
    shape : tuple of int
        Shape of the results, if there is a speculation.
    """

    inputs: ChunkInputs
    speculation: Speculation | None = None
    shape: Shape = ()

    def __sizeof__(self) -> int:
        return self.inputs.__sizeof__() + (self.speculation.__sizeof__() if self.speculation else 0)

    @property
    def arrays(self) -> Arrays:
        return self.speculation.results if self.speculation else self.inputs.blocks


register(PendingChunk, lambda chunk: chunk.arrays)


def speculate_block(inputs: ChunkInputs, recurrence: AlongAxis) -> PendingChunk:
    """Determine a chunk speculatively if it does not depend on its carry-in."""
    return next(speculate_blocks([inputs], recurrence))


def speculate_blocks(
    inputs_of_chunks: Sequence[ChunkInputs], recurrence: AlongAxis
) -> Iterator[PendingChunk]:
    """Launch all chunks, then wait for one after the other: their order is that of the inputs."""
    waits = [launch_speculation(inputs, recurrence) for inputs in inputs_of_chunks]
    return (
        wait() if wait else PendingChunk(inputs) for wait, inputs in zip(waits, inputs_of_chunks, strict=True)
    )


def launch_speculation(inputs: ChunkInputs, recurrence: AlongAxis) -> Callable[[], PendingChunk] | None:
    """Launch the speculation on a chunk, and return a function that waits for it; or None."""
    backend = common_backend(inputs.blocks, recurrence.method)
    if not recurrence.is_contractive or backend.kernels(recurrence.family).speculate is None:
        return None
    with chunk_of("speculate", recurrence, inputs) as (backend, shape):
        launched = recurrence.speculate(backend, inputs, shape)
    if launched is None:
        return None

    def wait() -> PendingChunk:
        with in_chunk("speculate", inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
            speculation = launched()
        if not speculation:
            return PendingChunk(inputs)
        return PendingChunk(ChunkInputs((), inputs.chunk_index, inputs.starts), speculation, shape)

    return wait


def summarise_block(chunk: PendingChunk, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Return the summary of a chunk, and its shape."""
    return summarise_blocks([chunk], recurrence)[0]


def summarise_blocks(chunks: Sequence[PendingChunk], recurrence: AlongAxis) -> list[tuple[Any, Shape]]:
    """Return the summaries of chunks, and their shapes."""
    others = (chunk.inputs for chunk in chunks if not chunk.speculation)
    precomputed = iter(precompute_blocks(others, recurrence))
    return [
        (chunk.speculation.summary, chunk.shape) if chunk.speculation else next(precomputed)
        for chunk in chunks
    ]


def correct_block(recurrence: AlongAxis, chunk: PendingChunk, carry_ins: CarryIns, number: int) -> Any:
    """Return the result of a chunk: an array, or a tuple if there are several."""
    return launch_correction(recurrence, chunk, carry_ins, number)()


def launch_correction(
    recurrence: AlongAxis, chunk: PendingChunk, carry_ins: CarryIns, number: int
) -> Callable[[], Any]:
    """Launch a chunk; the returned function waits if it must, and returns the result."""
    inputs, speculation, shape = chunk.inputs, chunk.speculation, chunk.shape
    if speculation is None:
        return launch_determination(recurrence, inputs, carry_ins, number)
    backend = common_backend(speculation.results, recurrence.method)
    with in_chunk("determine", inputs.chunk_index, inputs.starts), backend.device_of(speculation.results):
        carry_in = carry_ins.carry_in(number, recurrence, shape)
        results = recurrence.correct(backend, shape, speculation, carry_in)
    return lambda: results if recurrence.results > 1 else results[0]


def precompute_from_blocks(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Return the summary and shape of a chunk that is loaded twice; drop its speculation."""
    return summarise_block(speculate_block(inputs, recurrence), recurrence)


def determine_from_blocks(
    recurrence: AlongAxis, inputs: ChunkInputs, carry_ins: CarryIns, number: int
) -> Any:
    """Return the result of a chunk that `precompute_from_blocks` summarised."""
    return correct_block(recurrence, speculate_block(inputs, recurrence), carry_ins, number)


@dataclass(frozen=True)
class SpeculationBatch:
    """The summaries of a batch of chunks, and the chunks themselves.

    The chunks stay on their worker: they are neither sent nor spilled. On another worker the batch
    is a `SummaryBatch`, and tasks speculate again.
    """

    summaries: list[Any]
    chunks: list[PendingChunk]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return SummaryBatch(self.summaries).__reduce_ex__(protocol)


def speculate_persisted(
    recurrence: AlongAxis, positions: Sequence[ChunkPosition], blocks: list[Any]
) -> SpeculationBatch:
    """Speculate on a batch of chunks and summarise all, from their blocks, chunk by chunk.

    The batch keeps no blocks: the tasks that correct chunks get them again.
    """
    inputs_of_chunks = list(inputs_of_batch(recurrence, positions, blocks))
    chunks = list(speculate_blocks(inputs_of_chunks, recurrence))
    summaries = summarise_blocks(chunks, recurrence)
    return SpeculationBatch(
        summaries,
        [
            chunk if chunk.speculation else PendingChunk(ChunkInputs((), *position))
            for chunk, position in zip(chunks, positions, strict=True)
        ],
    )


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
        chunk = batch.chunks[index] if batch.chunks[index].speculation else PendingChunk(inputs)
    else:
        chunk = speculate_block(inputs, recurrence)
    return correct_block(recurrence, chunk, carry_ins, number)
