"""The tasks over chunks that are begun before their carry-ins are known, where they forget them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.contract.recurrence import AlongAxis, Arrays, ChunkInputs, ChunkPosition, Shape
from ...core.contract.speculation import Speculation
from ...engines import backend_of
from .errors import in_chunk
from .phases import Entries, Run, chunk_of, determine_block, precompute_blocks
from .spilling import register


@dataclass(frozen=True)
class Waiting:
    """A chunk that waits for its carry-in.

    Attributes
    ----------
    pack : Pack
        Without its blocks where the chunk was begun.
    begun : Begun, optional
        None where it may not forget.
    shape : tuple of int, optional
        Of its results where it was begun.
    """

    inputs: ChunkInputs
    speculation: Speculation | None = None
    shape: Shape = ()

    def __sizeof__(self) -> int:
        return self.inputs.__sizeof__() + (self.speculation.__sizeof__() if self.speculation else 0)

    @property
    def arrays(self) -> Arrays:
        return self.speculation.results if self.speculation else self.inputs.blocks


register(Waiting, lambda waiting: waiting.arrays)


def speculate_block(inputs: ChunkInputs, recurrence: AlongAxis) -> Waiting:
    """Begin a chunk if it forgets its carry-in, and let go of what is not needed again."""
    return speculate_blocks([inputs], recurrence)[0]


def speculate_blocks(
    inputs_of_chunks: Sequence[ChunkInputs], recurrence: AlongAxis
) -> list[Waiting]:
    """Begin chunks; a GPU's are launched one after the other before the first is waited for."""
    return list(speculate_in_turn(inputs_of_chunks, recurrence))


def speculate_in_turn(
    inputs_of_chunks: Sequence[ChunkInputs], recurrence: AlongAxis
) -> Iterator[Waiting]:
    """The same, each as soon as it is begun."""
    launched = [_launch(inputs, recurrence) for inputs in inputs_of_chunks]
    return (wait() for wait in launched)


def _launch(inputs: ChunkInputs, recurrence: AlongAxis) -> Callable[[], Waiting]:
    backend = backend_of(inputs.blocks, recurrence.method)
    if not recurrence.is_contractive or backend.kernels(recurrence.family).speculate is None:
        return lambda: Waiting(inputs)
    with chunk_of("speculate", recurrence, inputs) as (backend, shape):
        launched = recurrence.speculate(backend, inputs, shape)

    def wait() -> Waiting:
        if launched is None:
            return Waiting(inputs)
        with (
            in_chunk("speculate", inputs.chunk_index, inputs.starts),
            backend.device_of(inputs.blocks),
        ):
            speculation = launched()
        return (
            Waiting(ChunkInputs((), inputs.chunk_index, inputs.starts), speculation, shape)
            if speculation
            else Waiting(inputs)
        )

    return wait


def summarise_block(waiting: Waiting, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """The summary of a chunk, and its shape."""
    return summarise_blocks([waiting], recurrence)[0]


def summarise_blocks(chunks: Sequence[Waiting], recurrence: AlongAxis) -> list[tuple[Any, Shape]]:
    """The summaries of chunks, and their shapes."""
    others = (chunk.inputs for chunk in chunks if not chunk.speculation)
    found = iter(precompute_blocks(others, recurrence))
    return [
        (own.speculation.summary, own.shape) if own.speculation else next(found) for own in chunks
    ]


def correct_block(recurrence: AlongAxis, waiting: Waiting, entries: Entries, number: int) -> Any:
    """The results of a chunk: an array, or a tuple where there are several."""
    inputs, speculation, shape = waiting.inputs, waiting.speculation, waiting.shape
    if speculation is None:
        return determine_block(recurrence, inputs, entries, number)
    backend = backend_of(speculation.results, recurrence.method)
    with (
        in_chunk("determine", inputs.chunk_index, inputs.starts),
        backend.device_of(speculation.results),
    ):
        carry_in = entries.at(number, recurrence, shape)
        results = recurrence.correct(backend, shape, speculation, carry_in)
    return results if recurrence.results > 1 else results[0]


def precompute_from_blocks(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """The summary of a chunk that is read again, and its shape; what was begun is let go."""
    return summarise_block(speculate_block(inputs, recurrence), recurrence)


def determine_from_blocks(
    recurrence: AlongAxis, inputs: ChunkInputs, entries: Entries, number: int
) -> Any:
    """The results of a chunk that was summarised by `precompute_from_blocks`."""
    return correct_block(recurrence, speculate_block(inputs, recurrence), entries, number)


@dataclass(frozen=True)
class SpeculationBatch:
    """A run of speculative chunks.

    Attributes
    ----------
    summaries : list
    waiting : list of Waiting
        On the worker that began them alone: these neither travel nor are spilled. Who needs one
        begins it again.
    """

    summaries: list[Any]
    waiting: list[Waiting]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Run(self.summaries).__reduce_ex__(protocol)


def speculate_persisted(
    recurrence: AlongAxis, chunks: Sequence[ChunkPosition], blocks: list[Any]
) -> SpeculationBatch:
    """Begin chunks that forget their carry-ins, and summarise all.

    Their blocks come one after the other. They are held: the tasks that finish chunks have them.
    """
    count = len(recurrence.varying)
    inputs_of_chunks = [
        ChunkInputs(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks)
    ]
    waiting = speculate_blocks(inputs_of_chunks, recurrence)
    summaries = summarise_blocks(waiting, recurrence)
    return SpeculationBatch(summaries, [w if w.speculation else Waiting(ChunkInputs((), *at))
                                for w, at in zip(waiting, chunks, strict=True)])  # fmt: skip


def correct_persisted(
    recurrence: AlongAxis, at: ChunkPosition, entries: Entries, number: int,
    run: SpeculationBatch | Run | None, chunk_index: int, *blocks: Any,
) -> Any:  # fmt: skip
    """The results of the chunk at a place of a run, or of one that nobody summarised."""
    inputs = ChunkInputs(blocks, *at)
    if isinstance(run, SpeculationBatch):
        waiting = (
            run.waiting[chunk_index] if run.waiting[chunk_index].speculation else Waiting(inputs)
        )
    else:
        waiting = speculate_block(inputs, recurrence)
    return correct_block(recurrence, waiting, entries, number)
