"""The tasks of the graph: pure functions of blocks in memory, the same for every family.

Of a family they know its contract (families/family.py) and nothing else, in graphs of packed
chunks, in graphs of held chunks and in plans.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import is_on_gpu, to_host
from ...core.contract.grid import Grid
from ...core.contract.kernels import Backend, Summarise
from ...core.contract.recurrence import AlongAxis, ChunkInputs, ChunkPosition, Recurrence, Shape
from ...core.contract.sweeps import Swept
from ...engines import CPU, backend_of
from .errors import in_chunk
from .limits import check_chunk
from .spilling import register

register(ChunkInputs, lambda inputs: inputs.blocks)

# Rows whose summaries may wait on a GPU at once, a few scalars each: 16 MB or so.
ROWS = 1 << 18


class Together:
    """A dataclass of many small arrays, which travel as one frame.

    A frame an array, 129 carry-ins took 1.5 ms to write and to read, and so 0.45.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        own = [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]
        written = pickle.dumps(own, protocol)
        return _of, (type(self), pickle.PickleBuffer(written) if protocol >= 5 else written)


def _of(kind: type, written: bytes) -> Any:
    return kind(*pickle.loads(written))


@dataclass(frozen=True)
class Run(Together):
    """The summaries of a run of chunks, each with the shape of its chunk."""

    summaries: list[Any]


@dataclass(frozen=True)
class Entries(Together):
    """Carry-ins of a group's chunks, and of the chunk after the group.

    Attributes
    ----------
    states : list
    is_initial : bool
        The first one is the initial states as they were given.
    shape : tuple of int, optional
        Of the last chunk of the group that was summarised.
    """

    states: list[Any]
    is_initial: bool = False
    shape: Shape | None = None

    def at(self, number: int, recurrence: AlongAxis, shape: Shape) -> Any:
        """The carry-in of one chunk of the group, which has this shape."""
        state = self.states[number]
        return recurrence.first_carry_in(state, shape) if self.is_initial and not number else state

    def final_state(self, recurrence: AlongAxis) -> np.ndarray:
        """The states after the last chunk, which was summarised."""
        assert self.shape is not None
        return recurrence.final_state(self.states[-1], self.shape)


@contextmanager
def chunk_of(
    phase: str, recurrence: Recurrence, inputs: ChunkInputs
) -> Iterator[tuple[Backend, Shape]]:
    """A backend on the device of a chunk, and the shape of the chunk's result."""
    backend = backend_of(inputs.blocks, recurrence.method)
    with in_chunk(phase, inputs.chunk_index, inputs.starts), backend.device_of(inputs.blocks):
        recurrence.check(inputs)
        shape = recurrence.shape(inputs)
        for block in inputs.blocks[: min(1, recurrence.results)]:
            check_chunk(block, shape, recurrence.dtype, inputs.chunk_index)
        yield backend, shape


def inputs_of_blocks(*values: Any, recurrence: AlongAxis, count: int) -> ChunkInputs:
    """Take the blocks of one chunk together."""
    chunk_indices = values[count:]
    return ChunkInputs(
        values[:count], tuple(p for p, _ in chunk_indices), tuple(s for _, s in chunk_indices)
    )


def precompute_block(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Reduce a chunk to its summary; the chunk's shape goes along."""
    return precompute_blocks([inputs], recurrence)[0]


def precompute_blocks(
    inputs_of_chunks: Iterable[ChunkInputs], recurrence: AlongAxis
) -> list[tuple[Any, Shape]]:
    """Reduce chunks to their summaries; the chunks' shapes go along.

    Chunks of a GPU are launched one after the other before the first is waited for: it
    would stand still while Python turns to the next. Copies that a launch makes of its
    operands are there until it is waited for, so that such a chunk is at once.
    """
    summaries: list[tuple[Any, Shape]] = []
    launched: list[tuple[Shape, Summarise]] = []
    rows = 0
    for inputs in inputs_of_chunks:
        launched.append(_launch(inputs, recurrence))
        shape = launched[-1][0]
        rows += prod(shape[: recurrence.axis] + shape[recurrence.axis + 1 :])
        if rows > ROWS or not _is_as_it_is(inputs, recurrence):
            summaries += _finished(launched)
            rows = 0
    return summaries + _finished(launched)


def _finished(launched: list[tuple[Shape, Summarise]]) -> list[tuple[Any, Shape]]:
    """Wait for chunks that were launched, and let go of them."""
    found = [(summarise(), shape) for shape, summarise in launched]
    launched.clear()
    return found


def _is_as_it_is(inputs: ChunkInputs, recurrence: AlongAxis) -> bool:
    """Whether the blocks are read where they are, without a cast and in their order."""
    return all(b.dtype == recurrence.dtype and b.flags.c_contiguous for b in inputs.blocks)


def _launch(inputs: ChunkInputs, recurrence: AlongAxis) -> tuple[Shape, Summarise]:
    """The shape of a chunk, and what waits for its summary."""
    with chunk_of("precompute", recurrence, inputs) as (backend, shape):
        summarise = recurrence.precompute(backend, inputs, shape)

    def wait() -> Any:
        with (
            in_chunk("precompute", inputs.chunk_index, inputs.starts),
            backend.device_of(inputs.blocks),
        ):
            return summarise()

    return shape, wait


def propagate_group(recurrence: AlongAxis, summaries: list[Any], before: Any) -> Entries:
    """The carry-ins of a group of chunks.

    Parameters
    ----------
    recurrence : AlongAxis
    summaries : list of (summary, shape)
        In the order of the recurrence; along a line those of a whole row of chunks.
    before : list of arrays, or Carry-ins
        The initial states, or what the group before returned.
    """
    is_initial = not isinstance(before, Entries)
    first = tuple(map(to_host, before)) if is_initial else before.states[-1]
    if not summaries:
        return Entries([first], is_initial)
    carry_in = recurrence.first_carry_in(first, summaries[0][1]) if is_initial else first
    kernels = CPU.kernels(recurrence.family)
    states = recurrence.propagate(kernels, [summary for summary, _ in summaries], carry_in)
    return Entries(states, shape=summaries[-1][1])


def propagate_inputs(
    recurrence: AlongAxis, inputs_of_chunks: list[ChunkInputs], before: Any
) -> Entries:
    """The carry-ins of a group of small chunks, which are summarised here."""
    return propagate_group(recurrence, precompute_blocks(inputs_of_chunks, recurrence), before)


def determine_block(
    recurrence: AlongAxis, inputs: ChunkInputs, entries: Entries, number: int
) -> Any:
    """The results of a chunk: an array, or a tuple where there are several."""
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        carry_in = entries.at(number, recurrence, shape)
        results, _ = recurrence.determine(backend, inputs, shape, carry_in)
    return results if recurrence.results > 1 else results[0]


def determine_whole(*values: Any, recurrence: AlongAxis, count: int) -> Any:
    """The results of a chunk of whole rows, from its blocks."""
    inputs = inputs_of_blocks(*values, recurrence=recurrence, count=count)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        results, _ = recurrence.determine(backend, inputs, shape, None)
    return results if recurrence.results > 1 else results[0]


def precompute_persisted(
    recurrence: AlongAxis, chunks: Sequence[ChunkPosition], blocks: list[Any]
) -> Run:
    """The summaries of a run of chunks, from all their blocks one after the other."""
    count = len(recurrence.varying)
    inputs_of_chunks = (
        ChunkInputs(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks)
    )
    return Run(precompute_blocks(inputs_of_chunks, recurrence))


def propagate_persisted(
    recurrence: AlongAxis, order: Sequence[tuple[int, int]], runs: list[Run], before: Any
) -> Entries:
    """The carry-ins of a group of chunks; `order` tells the run and place of each summary."""
    summaries = [runs[run].summaries[chunk_index] for run, chunk_index in order]
    return propagate_group(recurrence, summaries, before)


def determine_persisted(
    recurrence: AlongAxis, at: ChunkPosition, entries: Entries, number: int, *blocks: Any
) -> Any:
    """The results of a chunk, from its blocks."""
    return determine_block(recurrence, ChunkInputs(blocks, *at), entries, number)


def final_state_block(recurrence: AlongAxis, entries: Entries, like: Any) -> Any:
    """The states after the last chunk of a row of chunks, as an array of the kind of `like`."""
    carry_out = entries.final_state(recurrence)
    return np.asarray(carry_out, like=like) if is_on_gpu(like) else carry_out


def determine_tile(recurrence: Grid, at: ChunkPosition, above: Any, left: Any, *blocks: Any) -> Any:
    """The result and the edges of a tile, or its edges where it has no result."""
    inputs = ChunkInputs(blocks, *at)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        results, edges = recurrence.determine(backend, inputs, shape, above, left)
        edges = recurrence.export_edges(edges)
    return (*results, edges) if results else edges


def final_result_block(recurrence: Grid, edges: Any) -> Any:
    """What the last tile tells of the whole."""
    return recurrence.final_result(edges)


def start_tile(
    recurrence: Swept, at: ChunkPosition, around: tuple[bool, ...], *blocks: Any
) -> tuple[Any, Any]:
    """The state of a tile before the first sweep, and its sides."""
    inputs = ChunkInputs(blocks, *at)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        return recurrence.start_tile(backend, inputs, shape, around)


def sweep_tile(
    recurrence: Swept, at: ChunkPosition, is_last: bool, before: Any, around: Any, done: Any
) -> tuple[Any, Any]:
    """The state of a tile after one more sweep, and its sides; `before`: those before it."""
    with in_chunk("determine", *at):
        return recurrence.sweep(before[0], tuple(around), is_last, done)


def write_tile(recurrence: Swept, last: Any) -> Any:
    """A tile after the last sweep."""
    return recurrence.tile(last[0])


def are_done(recurrence: Swept, before: Any, sides: list[Any]) -> Any:
    """Whether tiles need no more sweeps."""
    return recurrence.is_done(before, sides)
