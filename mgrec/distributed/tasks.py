"""The tasks over chunks along an axis (precompute, propagate, determine) and over tiles of grids.

They know families by their contract only, in lazy graphs, graphs of persisted chunks and plans.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.array_types import to_host
from ..core.backends import CPU, backend_of, common_backend
from ..core.contract.grid import Grid, Swept, Traceback
from ..core.contract.kernels import Backend, Edges, Speculation, Summary
from ..core.contract.recurrence import AlongAxis, ChunkInputs, ChunkPosition, Recurrence, Shape
from .memory import check_chunk, register
from .observability import in_chunk

# Rows whose summaries may be pending on a GPU at once, a few scalars each: 16 MB or so.
ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class SpeculativeChunk(ChunkInputs):
    """A chunk that is determined from a provisional carry-in. It has no blocks."""

    speculation: Speculation
    shape: Shape

    def __reduce__(self) -> Any:
        build = partial(SpeculativeChunk, speculation=self.speculation, shape=self.shape)
        return build, (self.blocks, self.chunk_index, self.starts)

    def __sizeof__(self) -> int:
        return self.speculation.__sizeof__()


register(ChunkInputs, lambda inputs: inputs.blocks)
register(SpeculativeChunk, lambda chunk: chunk.speculation.results)


class OneFrame:
    """A dataclass of many small arrays, which is sent as one frame.

    With a frame for each array, 129 carry-ins took 1.5 ms to write and to read; now 0.45.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        values = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
        pickled = pickle.dumps(values, protocol)
        return _load, (type(self), pickle.PickleBuffer(pickled) if protocol >= 5 else pickled)


def _load(cls: type, pickled: bytes) -> Any:
    return cls(*pickle.loads(pickled))


@dataclass(frozen=True)
class SummaryBatch(OneFrame):
    """The summaries of a batch of chunks, each with the shape of its chunk."""

    summaries: list[Summary]


@dataclass(frozen=True)
class CarryIns(OneFrame):
    """Carry-ins of a group's chunks, and of the chunk after the group.

    `is_initial`: the first one is the initial states of the call, as arrays.
    `shape`: shape of the last chunk of the group that was summarised.
    """

    states: list[Any]
    is_initial: bool = False
    shape: Shape | None = None

    def carry_in(self, number: int, recurrence: AlongAxis, shape: Shape) -> Any:
        """Return the carry-in of one chunk of the group, which has this shape."""
        state = self.states[number]
        return recurrence.first_carry_in(state, shape) if self.is_initial and not number else state

    def final_state(self, recurrence: AlongAxis) -> np.ndarray:
        """Return the states after the last chunk, which was summarised."""
        assert self.shape is not None
        return recurrence.final_state(self.states[-1], self.shape)


@contextmanager
def chunk_of(phase: str, recurrence: Recurrence, inputs: ChunkInputs) -> Iterator[tuple[Backend, Shape]]:
    """Check a chunk and enter its device; yield the backend and the shape of the result."""
    backend = common_backend(inputs.blocks, recurrence.method)
    with in_chunk(phase, inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
        recurrence.check(inputs)
        shape = recurrence.shape(inputs)
        for block in inputs.blocks[: min(1, recurrence.results)]:
            check_chunk(block, shape, recurrence.dtype, inputs.chunk_index)
        yield backend, shape


def inputs_of_blocks(*values: Any, recurrence: AlongAxis, count: int) -> ChunkInputs:
    """Return the inputs of one chunk, from its blocks and its index and start along each axis."""
    pairs = values[count:]
    return ChunkInputs(values[:count], tuple(index for index, _ in pairs), tuple(start for _, start in pairs))


def inputs_of_batch(
    recurrence: AlongAxis, positions: Sequence[ChunkPosition], blocks: list[Any]
) -> Iterator[ChunkInputs]:
    """Yield the inputs of a batch of chunks, from all their blocks, chunk by chunk."""
    count = len(recurrence.varying)
    for k, position in enumerate(positions):
        yield ChunkInputs(tuple(blocks[k * count :][:count]), *position)


def precompute_block(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Return the summary of a chunk, and the chunk's shape."""
    return precompute_blocks([inputs], recurrence)[0]


def precompute_blocks(
    inputs_of_chunks: Iterable[ChunkInputs], recurrence: AlongAxis
) -> list[tuple[Any, Shape]]:
    """Return the summaries of chunks, with the chunks' shapes.

    All chunks of a GPU are launched before the first wait, so that the GPU is busy while Python
    turns to the next one. Speculative chunks have their summaries.
    """
    return [wait() for wait in launch_summaries(inputs_of_chunks, recurrence)]


def launch_summaries(
    inputs_of_chunks: Iterable[ChunkInputs], recurrence: AlongAxis
) -> list[Callable[[], tuple[Any, Shape]]]:
    """Launch the summaries of chunks; return the functions that wait for them.

    A launch that copies its operands keeps the copies until its wait: such a chunk is waited for
    at once.
    """
    waits: list[Callable[[], tuple[Any, Shape]]] = []
    pending, rows = 0, 0
    for inputs in inputs_of_chunks:
        if isinstance(inputs, SpeculativeChunk):
            waits.append(partial(_same, (inputs.speculation.summary, inputs.shape)))
            continue
        shape, wait = _launch(inputs, recurrence)
        waits.append(wait)
        rows += prod(shape[: recurrence.axis] + shape[recurrence.axis + 1 :])
        if rows > ROWS or not _is_read_in_place(inputs, recurrence):
            for k in range(pending, len(waits)):
                waits[k] = partial(_same, waits[k]())
            pending, rows = len(waits), 0
    return waits


def retain_maps(inputs: ChunkInputs, recurrence: AlongAxis) -> None:
    """Launch what determines a chunk without a summary, and does not depend on its carry-in."""
    backend = common_backend(inputs.blocks, recurrence.method)
    if backend.kernels(recurrence.family).retain_maps is not None:
        with chunk_of("precompute", recurrence, inputs) as (_, shape):
            recurrence.retain_maps(backend, inputs, shape)


def _same(value: Any) -> Any:
    return value


def _is_read_in_place(inputs: ChunkInputs, recurrence: AlongAxis) -> bool:
    """Return whether kernels read the blocks without a cast or a copy."""
    return all(b.dtype == recurrence.dtype and b.flags.c_contiguous for b in inputs.blocks)


def _launch(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Shape, Callable[[], tuple[Any, Shape]]]:
    """Return the shape of a chunk, and a function that waits for its summary."""
    with chunk_of("precompute", recurrence, inputs) as (backend, shape):
        summarise = recurrence.summarise(backend, inputs, shape)

    def wait() -> tuple[Any, Shape]:
        with in_chunk("precompute", inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
            return summarise(), shape

    return shape, wait


def propagate_group(recurrence: AlongAxis, summaries: list[Summary], previous: Any) -> CarryIns:
    """Return the carry-ins of a group of chunks.

    `summaries`, list of (summary, shape): in the order of the recurrence; those of all chunks of a
      row if it is two-sided.
    `previous`: the initial states, or the carry-ins of the group before.
    """
    is_initial = not isinstance(previous, CarryIns)
    first = tuple(map(to_host, previous)) if is_initial else previous.states[-1]
    if not summaries:
        return CarryIns([first], is_initial)
    carry_in = recurrence.first_carry_in(first, summaries[0][1]) if is_initial else first
    kernels = CPU.kernels(recurrence.family)
    states = recurrence.carry_ins(kernels, [summary for summary, _ in summaries], carry_in)
    return CarryIns(states, shape=summaries[-1][1])


def propagate_inputs(recurrence: AlongAxis, inputs_of_chunks: list[ChunkInputs], previous: Any) -> CarryIns:
    """Summarise a group of small chunks, and return their carry-ins."""
    return propagate_group(recurrence, precompute_blocks(inputs_of_chunks, recurrence), previous)


def determine_block(
    recurrence: AlongAxis, inputs: ChunkInputs, carry_ins: CarryIns | None = None, number: int = 0
) -> Any:
    """Return the result of a chunk: an array, or a tuple if there are several."""
    results = launch_determination(recurrence, inputs, carry_ins, number)()
    return results if recurrence.results > 1 else results[0]


def launch_determination(
    recurrence: AlongAxis, inputs: ChunkInputs, carry_ins: CarryIns | None, number: int
) -> Callable[[], tuple[Any, ...]]:
    """Launch a chunk; the returned function waits if it must, and returns the results."""
    if isinstance(inputs, SpeculativeChunk):
        assert carry_ins is not None
        return _launch_correction(recurrence, inputs, carry_ins, number)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        carry_in = carry_ins and carry_ins.carry_in(number, recurrence, shape)
        launched = recurrence.launch(backend, inputs, shape, carry_in)

    def wait() -> tuple[Any, ...]:
        with in_chunk("determine", inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
            return launched()

    return wait


def _launch_correction(
    recurrence: AlongAxis, chunk: SpeculativeChunk, carry_ins: CarryIns, number: int
) -> Callable[[], tuple[Any, ...]]:
    """Launch the correction of a speculative chunk."""
    speculation, shape = chunk.speculation, chunk.shape
    backend = common_backend(speculation.results, recurrence.method)
    with in_chunk("determine", chunk.chunk_index, chunk.starts), backend.device_of(speculation.results):
        carry_in = carry_ins.carry_in(number, recurrence, shape)
        results = recurrence.correct(backend, shape, speculation, carry_in)
    return lambda: results


def determine_whole(*values: Any, recurrence: AlongAxis, count: int) -> Any:
    """Return the result of a chunk of whole rows, from its blocks."""
    return determine_block(recurrence, inputs_of_blocks(*values, recurrence=recurrence, count=count))


def precompute_persisted(
    recurrence: AlongAxis, positions: Sequence[ChunkPosition], blocks: list[Any]
) -> SummaryBatch:
    """Return the summaries of a batch of chunks, from all their blocks, chunk by chunk."""
    return SummaryBatch(precompute_blocks(inputs_of_batch(recurrence, positions, blocks), recurrence))


def propagate_persisted(
    recurrence: AlongAxis, order: Sequence[tuple[int, int]], batches: list[SummaryBatch], previous: Any
) -> CarryIns:
    """Return the carry-ins of a group; `order` has each chunk's batch and its place in there."""
    summaries = [batches[batch].summaries[number] for batch, number in order]
    return propagate_group(recurrence, summaries, previous)


def determine_persisted(
    recurrence: AlongAxis, position: ChunkPosition, carry_ins: CarryIns, number: int, *blocks: Any
) -> Any:
    """Return the result of a chunk, from its blocks."""
    return determine_block(recurrence, ChunkInputs(blocks, *position), carry_ins, number)


def final_state_block(recurrence: AlongAxis, carry_ins: CarryIns, like: Any) -> Any:
    """Return the states after the last chunk of a row, as an array of the type of `like`."""
    carry_out = carry_ins.final_state(recurrence)
    return backend_of(like).from_host(carry_out, like)


def determine_tile(
    recurrence: Grid, position: ChunkPosition, above: Edges | None, left: Edges | None, *blocks: Any
) -> Any:
    """Return the result and the edges of a tile, or only its edges if it has no result."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        results, edges = recurrence.determine(backend, inputs, shape, above, left)
        edges = recurrence.export_edges(edges)
    return (*results, edges) if results else edges


def start_tile(
    recurrence: Swept, position: ChunkPosition, around: tuple[bool, ...], *blocks: Any
) -> tuple[Any, Any]:
    """Return the state of a tile before the first sweep, and its sides."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        return recurrence.start_tile(backend, inputs, shape, around)


def sweep_tile(
    recurrence: Swept, position: ChunkPosition, is_last: bool, previous: Any, around: Any, done: Any
) -> tuple[Any, Any]:
    """Return the state of a tile after one more sweep, and its sides, from the `previous` pair."""
    with in_chunk("determine", *position):
        return recurrence.sweep(previous[0], tuple(around), is_last, done)


def write_tile(recurrence: Swept, last: Any) -> Any:
    """Return a tile from its state and sides after the last sweep."""
    return recurrence.tile(last[0])


def start_path(recurrence: Traceback, last: Edges) -> Any:
    """Return the path before the first tile of the traceback, and no piece of it."""
    return recurrence.start_path(last), None


def follow_path(
    recurrence: Traceback,
    position: ChunkPosition,
    previous: Sequence[Any],
    above: Edges | None,
    left: Edges | None,
    *blocks: Any,
) -> tuple[Any, Any]:
    """Return the path where it leaves a tile, and its piece in the tile."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("traceback", recurrence, inputs) as (backend, _):
        return recurrence.follow(backend, inputs, above, left, [path for path, _ in previous])


def join_path(recurrence: Traceback, last: Edges, paths: Sequence[Any]) -> Any:
    """Return the result, from the edges of the last tile and the path and piece of every tile."""
    return recurrence.join(last, paths[0][0], [piece for _, piece in paths])
