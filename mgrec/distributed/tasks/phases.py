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

from ...core.arrays.kinds import is_on_gpu, to_host
from ...core.contract.grid import Grid
from ...core.contract.kernels import Backend, Summarise
from ...core.contract.recurrence import AlongAxis, Pack, Recurrence, Shape, Where
from ...core.contract.sweeps import Swept
from ...engines import CPU, backend_of
from .errors import in_chunk
from .limits import check_chunk
from .spilling import register

register(Pack, lambda pack: pack.blocks)

# Rows whose summaries may wait on a GPU at once, a few scalars each: 16 MB or so.
ROWS = 1 << 18


class Together:
    """A dataclass of many small arrays, which travel as one frame.

    A frame an array, 129 entries took 1.5 ms to write and to read, and so 0.45.
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
    """Entries of a group's chunks, and of the chunk after the group.

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
        """The entry of one chunk of the group, which has this shape."""
        state = self.states[number]
        return recurrence.enter(state, shape) if self.is_initial and not number else state

    def leave(self, recurrence: AlongAxis) -> np.ndarray:
        """The states after the last chunk, which was summarised."""
        assert self.shape is not None
        return recurrence.leave(self.states[-1], self.shape)


@contextmanager
def chunk_of(phase: str, recurrence: Recurrence, pack: Pack) -> Iterator[tuple[Backend, Shape]]:
    """A backend on the device of a chunk, and the shape of the chunk's result."""
    backend = backend_of(pack.blocks, recurrence.method)
    with in_chunk(phase, pack.place, pack.starts), backend.device_of(pack.blocks):
        recurrence.check(pack)
        shape = recurrence.shape(pack)
        for block in pack.blocks[: min(1, recurrence.results)]:
            check_chunk(block, shape, recurrence.dtype, pack.place)
        yield backend, shape


def pack_blocks(*values: Any, recurrence: AlongAxis, count: int) -> Pack:
    """Take the blocks of one chunk together."""
    places = values[count:]
    return Pack(values[:count], tuple(p for p, _ in places), tuple(s for _, s in places))


def precompute_block(pack: Pack, recurrence: AlongAxis) -> tuple[Any, Shape]:
    """Reduce a chunk to its summary; the chunk's shape goes along."""
    return precompute_blocks([pack], recurrence)[0]


def precompute_blocks(packs: Iterable[Pack], recurrence: AlongAxis) -> list[tuple[Any, Shape]]:
    """Reduce chunks to their summaries; the chunks' shapes go along.

    Chunks of a GPU are launched one after the other before the first is waited for: it
    would stand still while Python turns to the next. Copies that a launch makes of its
    operands are there until it is waited for, so that such a chunk is at once.
    """
    summaries: list[tuple[Any, Shape]] = []
    launched: list[tuple[Shape, Summarise]] = []
    rows = 0
    for pack in packs:
        launched.append(_launch(pack, recurrence))
        shape = launched[-1][0]
        rows += prod(shape[: recurrence.axis] + shape[recurrence.axis + 1 :])
        if rows > ROWS or not _is_as_it_is(pack, recurrence):
            summaries += _finished(launched)
            rows = 0
    return summaries + _finished(launched)


def _finished(launched: list[tuple[Shape, Summarise]]) -> list[tuple[Any, Shape]]:
    """Wait for chunks that were launched, and let go of them."""
    found = [(summarise(), shape) for shape, summarise in launched]
    launched.clear()
    return found


def _is_as_it_is(pack: Pack, recurrence: AlongAxis) -> bool:
    """Whether the blocks are read where they are, without a cast and in their order."""
    return all(b.dtype == recurrence.dtype and b.flags.c_contiguous for b in pack.blocks)


def _launch(pack: Pack, recurrence: AlongAxis) -> tuple[Shape, Summarise]:
    """The shape of a chunk, and what waits for its summary."""
    with chunk_of("precompute", recurrence, pack) as (backend, shape):
        summarise = recurrence.precompute(backend, pack, shape)

    def wait() -> Any:
        with in_chunk("precompute", pack.place, pack.starts), backend.device_of(pack.blocks):
            return summarise()

    return shape, wait


def propagate_group(recurrence: AlongAxis, summaries: list[Any], before: Any) -> Entries:
    """The entries of a group of chunks.

    Parameters
    ----------
    recurrence : AlongAxis
    summaries : list of (summary, shape)
        In the order of the recurrence; along a line those of a whole row of chunks.
    before : list of arrays, or Entries
        The initial states, or what the group before returned.
    """
    is_initial = not isinstance(before, Entries)
    first = tuple(map(to_host, before)) if is_initial else before.states[-1]
    if not summaries:
        return Entries([first], is_initial)
    entry = recurrence.enter(first, summaries[0][1]) if is_initial else first
    kernels = CPU.kernels(recurrence.family)
    states = recurrence.propagate(kernels, [summary for summary, _ in summaries], entry)
    return Entries(states, shape=summaries[-1][1])


def propagate_packs(recurrence: AlongAxis, packs: list[Pack], before: Any) -> Entries:
    """The entries of a group of small chunks, which are summarised here."""
    return propagate_group(recurrence, precompute_blocks(packs, recurrence), before)


def determine_block(recurrence: AlongAxis, pack: Pack, entries: Entries, number: int) -> Any:
    """The results of a chunk: an array, or a tuple where there are several."""
    with chunk_of("determine", recurrence, pack) as (backend, shape):
        entry = entries.at(number, recurrence, shape)
        results, _ = recurrence.determine(backend, pack, shape, entry)
    return results if recurrence.results > 1 else results[0]


def determine_whole(*values: Any, recurrence: AlongAxis, count: int) -> Any:
    """The results of a chunk of whole rows, from its blocks."""
    pack = pack_blocks(*values, recurrence=recurrence, count=count)
    with chunk_of("determine", recurrence, pack) as (backend, shape):
        results, _ = recurrence.determine(backend, pack, shape, None)
    return results if recurrence.results > 1 else results[0]


def precompute_held(recurrence: AlongAxis, chunks: Sequence[Where], blocks: list[Any]) -> Run:
    """The summaries of a run of chunks, from all their blocks one after the other."""
    count = len(recurrence.varying)
    packs = (Pack(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks))
    return Run(precompute_blocks(packs, recurrence))


def propagate_held(
    recurrence: AlongAxis, order: Sequence[tuple[int, int]], runs: list[Run], before: Any
) -> Entries:
    """The entries of a group of chunks; `order` tells the run and place of each summary."""
    summaries = [runs[run].summaries[place] for run, place in order]
    return propagate_group(recurrence, summaries, before)


def determine_held(
    recurrence: AlongAxis, at: Where, entries: Entries, number: int, *blocks: Any
) -> Any:
    """The results of a chunk, from its blocks."""
    return determine_block(recurrence, Pack(blocks, *at), entries, number)


def exit_block(recurrence: AlongAxis, entries: Entries, like: Any) -> Any:
    """The states after the last chunk of a row of chunks, as an array of the kind of `like`."""
    exit = entries.leave(recurrence)
    return np.asarray(exit, like=like) if is_on_gpu(like) else exit


def determine_tile(recurrence: Grid, at: Where, above: Any, left: Any, *blocks: Any) -> Any:
    """The result and the edges of a tile, or its edges where it has no result."""
    pack = Pack(blocks, *at)
    with chunk_of("determine", recurrence, pack) as (backend, shape):
        results, edges = recurrence.determine(backend, pack, shape, above, left)
        edges = recurrence.hand_on(edges)
    return (*results, edges) if results else edges


def leave_grid(recurrence: Grid, edges: Any) -> Any:
    """What the last tile tells of the whole."""
    return recurrence.leave(edges)


def hold_tile(
    recurrence: Swept, at: Where, around: tuple[bool, ...], *blocks: Any
) -> tuple[Any, Any]:
    """The state of a tile before the first sweep, and its sides."""
    pack = Pack(blocks, *at)
    with chunk_of("determine", recurrence, pack) as (backend, shape):
        return recurrence.hold(backend, pack, shape, around)


def sweep_tile(
    recurrence: Swept, at: Where, is_last: bool, before: Any, around: Any, done: Any
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
