"""The tasks of the graph: pure functions of blocks in memory, the same for every family.

What a family of recurrences must say of itself is a recipe (recipes.py): graphs of packed chunks,
graphs of held chunks and plans know nothing else of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np

from ....arrays.kinds import is_on_gpu
from ....backends import Backend, Summarise, backend_of, to_host
from .errors import in_chunk
from .limits import check_chunk
from .recipes import Pack, Recipe, Shape, Where

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

    def at(self, number: int, recipe: Recipe, shape: Shape) -> Any:
        """The entry of one chunk of the group, which has this shape."""
        state = self.states[number]
        return recipe.enter(state, shape) if self.is_initial and not number else state

    def leave(self, recipe: Recipe) -> np.ndarray:
        """The states after the last chunk, which was summarised."""
        assert self.shape is not None
        return recipe.leave(self.states[-1], self.shape)


@contextmanager
def _chunk(phase: str, recipe: Recipe, pack: Pack) -> Iterator[tuple[Backend, Shape]]:
    """A backend on the device of a chunk, and the shape of the chunk's result."""
    backend = backend_of(pack.blocks, recipe.method)
    with in_chunk(phase, pack.place, pack.starts), backend.device_of(pack.blocks):
        recipe.check(pack)
        shape = recipe.shape(pack)
        for block in pack.blocks[:1]:
            check_chunk(block, shape, recipe.dtype, pack.place)
        yield backend, shape


def pack_blocks(*values: Any, recipe: Recipe, count: int) -> Pack:
    """Take the blocks of one chunk together."""
    places = values[count:]
    return Pack(values[:count], tuple(p for p, _ in places), tuple(s for _, s in places))


def precompute_block(pack: Pack, recipe: Recipe) -> tuple[Any, Shape]:
    """Reduce a chunk to its summary; the chunk's shape goes along."""
    return precompute_blocks([pack], recipe)[0]


def precompute_blocks(packs: Iterable[Pack], recipe: Recipe) -> list[tuple[Any, Shape]]:
    """Reduce chunks to their summaries; the chunks' shapes go along.

    Chunks of a GPU are launched one after the other before the first is waited for: it
    would stand still while Python turns to the next. Copies that a launch makes of its
    operands are there until it is waited for, so that such a chunk is at once.
    """
    summaries: list[tuple[Any, Shape]] = []
    launched: list[tuple[Shape, Summarise]] = []
    rows = 0
    for pack in packs:
        launched.append(_launch(pack, recipe))
        shape = launched[-1][0]
        rows += prod(shape[: recipe.axis] + shape[recipe.axis + 1 :])
        if rows > ROWS or not _is_as_it_is(pack, recipe):
            summaries += _finished(launched)
            rows = 0
    return summaries + _finished(launched)


def _finished(launched: list[tuple[Shape, Summarise]]) -> list[tuple[Any, Shape]]:
    """Wait for chunks that were launched, and let go of them."""
    found = [(summarise(), shape) for shape, summarise in launched]
    launched.clear()
    return found


def _is_as_it_is(pack: Pack, recipe: Recipe) -> bool:
    """Whether the blocks are read where they are, without a cast and in their order."""
    return all(b.dtype == recipe.dtype and b.flags.c_contiguous for b in pack.blocks)


def _launch(pack: Pack, recipe: Recipe) -> tuple[Shape, Summarise]:
    """The shape of a chunk, and what waits for its summary."""
    with _chunk("precompute", recipe, pack) as (backend, shape):
        summarise = recipe.precompute(backend, pack, shape)

    def wait() -> Any:
        with in_chunk("precompute", pack.place, pack.starts), backend.device_of(pack.blocks):
            return summarise()

    return shape, wait


def propagate_group(recipe: Recipe, summaries: list[Any], before: Any) -> Entries:
    """The entries of a group of chunks.

    Parameters
    ----------
    recipe : Recipe
    summaries : list of (summary, shape)
        In the order of the recurrence.
    before : list of arrays, or Entries
        The initial states, or what the group before returned.
    """
    is_initial = not isinstance(before, Entries)
    states = [tuple(map(to_host, before)) if is_initial else before.states[-1]]
    entries = Entries(states, is_initial, summaries[-1][1] if summaries else None)
    for number, (summary, shape) in enumerate(summaries):
        states.append(recipe.advance(summary, entries.at(number, recipe, shape)))
    return entries


def determine_block(recipe: Recipe, pack: Pack, entries: Entries, number: int) -> Any:
    """The results of a chunk: an array, or a tuple where there are several."""
    with _chunk("determine", recipe, pack) as (backend, shape):
        entry = entries.at(number, recipe, shape)
        results = recipe.determine(backend, pack, shape, entry)
    return results if recipe.results > 1 else results[0]


def precompute_held(recipe: Recipe, chunks: Sequence[Where], blocks: list[Any]) -> Run:
    """The summaries of a run of chunks, from all their blocks one after the other."""
    count = len(recipe.varying)
    packs = (Pack(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks))
    return Run(precompute_blocks(packs, recipe))


def propagate_held(
    recipe: Recipe, order: Sequence[tuple[int, int]], runs: list[Run], before: Any
) -> Entries:
    """The entries of a group of chunks; `order` tells the run and place of each summary."""
    summaries = [runs[run].summaries[place] for run, place in order]
    return propagate_group(recipe, summaries, before)


def determine_held(recipe: Recipe, at: Where, entries: Entries, number: int, *blocks: Any) -> Any:
    """The results of a chunk, from its blocks."""
    return determine_block(recipe, Pack(blocks, *at), entries, number)


def exit_block(recipe: Recipe, entries: Entries, like: Any) -> Any:
    """The states after the last chunk of a row of chunks, as an array of the kind of `like`."""
    exit = entries.leave(recipe)
    return np.asarray(exit, like=like) if is_on_gpu(like) else exit
