"""The tasks of the graph: pure functions of blocks in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends import backend_of, cpu, to_host
from ..phases.affine import AffineSummary
from ..phases.chunk import Chunk
from ..phases.coefficient import Coefficient
from ..phases.door import Problem
from ..phases.layout import as_result, lay_out, lay_out_entry
from ..phases.summary import ComposedMaps
from .errors import in_chunk
from .limits import check_chunk
from .spilling import register

Where = tuple[tuple[int, ...], tuple[int, ...]]
"""A chunk's place among the chunks, and where it starts."""


@dataclass(frozen=True)
class Recipe:
    """A problem without its arrays: what a task must know.

    Attributes
    ----------
    problem : Problem
        Its arrays and its shape left out.
    operands : tuple
        Of each operand: the number of its block in a pack, a 0-d array, or
        ``(function, slots)`` of a coefficient.
    varying : tuple of tuple of bool
        Of each block: the axes along which it is not broadcast, the last ones of all.
    method : str
    """

    problem: Problem
    operands: tuple[Any, ...]
    varying: tuple[tuple[bool, ...], ...]
    method: str

    @classmethod
    def of(
        cls,
        problem: Problem,
        operands: tuple[Any, ...],
        varying: tuple[tuple[bool, ...], ...],
        method: str,
    ) -> Recipe:
        return cls(replace(problem, operands=(), initial=(), shape=()), operands, varying, method)

    def shape(self, pack: Pack) -> tuple[int, ...]:
        """The shape of a chunk's result; unknown sizes are checked here, where they show."""
        ndim = len(pack.place)
        lengths: list[set[int]] = [set() for _ in range(ndim)]
        for block, varying in zip(pack.blocks, self.varying, strict=True):
            for k, length, is_varying in zip(
                range(ndim - block.ndim, ndim), block.shape, varying, strict=True
            ):
                if is_varying:
                    lengths[k].add(length)
        if any(len(found) > 1 for found in lengths):
            shapes = " and ".join(str(block.shape) for block in pack.blocks)
            raise ValueError(
                f"operands must have chunks of the same sizes; chunk {pack.place} got {shapes}"
            )
        return tuple(found.pop() if found else 1 for found in lengths)

    def chunk(self, pack: Pack) -> tuple[Chunk, tuple[int, ...]]:
        """The chunk laid out for a backend, and the shape of its result."""

        def fill(slot: Any) -> Any:
            if isinstance(slot, int):
                return pack.blocks[slot]
            if isinstance(slot, tuple):
                function, slots = slot
                return Coefficient.of(function, *map(fill, slots))
            return slot

        shape = self.shape(pack)
        for block in pack.blocks[:1]:
            check_chunk(block, shape, self.problem.dtype, pack.place)
        operands = tuple(map(fill, self.operands))
        return lay_out(self.problem, operands, shape, pack.starts[self.problem.axis]), shape


@dataclass(frozen=True)
class Pack:
    """The blocks of one chunk, its place among the chunks, and where it starts."""

    blocks: tuple[Any, ...]
    place: tuple[int, ...]
    starts: tuple[int, ...]

    def __sizeof__(self) -> int:
        return sum(block.nbytes for block in self.blocks)


register(Pack)


def pack_blocks(*values: Any, recipe: Recipe, count: int) -> Pack:
    """Take the blocks of one chunk together."""
    places = values[count:]
    return Pack(values[:count], tuple(p for p, _ in places), tuple(s for _, s in places))


@dataclass(frozen=True)
class Entries:
    """Entries of a group's chunks, and of the chunk after the group.

    Attributes
    ----------
    states : tuple of tuple of arrays (outer, inner)
    is_initial : bool
        The first ones are the initial states as they were given.
    """

    states: tuple[tuple[Any, ...], ...]
    is_initial: bool = False

    def at(self, number: int, recipe: Recipe, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """The entry of one chunk of the group, which has this shape."""
        if number or not self.is_initial:
            return self.states[number]
        axis = recipe.problem.axis
        laid_out = (lay_out_entry(state, shape, axis) for state in self.states[0])
        return tuple(map(np.ascontiguousarray, laid_out))


def precompute_block(pack: Pack, recipe: Recipe) -> tuple[Any, tuple[int, ...]]:
    """Reduce a chunk to its summary; the chunk's shape goes along."""
    backend = backend_of(pack.blocks)
    with in_chunk("precompute", pack.place, pack.starts), backend.device_of(pack.blocks):
        chunk, shape = recipe.chunk(pack)
        return without_code(backend.precompute(recipe.problem.transfer_map, chunk)), shape


def without_code(summary: Any) -> Any:
    """A summary as it crosses a chunk boundary: numbers alone, no functions."""
    return summary.maps if isinstance(summary, ComposedMaps) else summary


def with_code(summary: Any, recipe: Recipe) -> Any:
    """What :func:`without_code` left out is in the recipe of every task."""
    is_whole = isinstance(summary, AffineSummary)
    return summary if is_whole else ComposedMaps(recipe.problem.transfer_map, summary)


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
    first = tuple(map(to_host, before)) if is_initial else before.states[-1]
    entries = Entries((first,), is_initial)
    for number, (summary, shape) in enumerate(summaries):
        after = cpu.propagate(with_code(summary, recipe), entries.at(number, recipe, shape))
        entries = Entries((*entries.states, after), is_initial)
    return entries


def precompute_held(recipe: Recipe, chunks: Sequence[Where], blocks: list[Any]) -> list[Any]:
    """The summaries of a run of chunks, from all their blocks one after the other."""
    count = len(recipe.varying)
    packs = (Pack(tuple(blocks[k * count :][:count]), *at) for k, at in enumerate(chunks))
    return [precompute_block(pack, recipe) for pack in packs]


def propagate_held(
    recipe: Recipe, order: Sequence[tuple[int, int]], runs: list[list[Any]], before: Any
) -> Entries:
    """The entries of a group of chunks; `order` tells the run and place of each summary."""
    return propagate_group(recipe, [runs[run][place] for run, place in order], before)


def determine_held(recipe: Recipe, at: Where, entries: Entries, number: int, *blocks: Any) -> Any:
    """The results of a chunk, from its blocks."""
    return determine_block(recipe, Pack(blocks, *at), entries, number)


def determine_block(recipe: Recipe, pack: Pack, entries: Entries, number: int) -> Any:
    """The results of a chunk: one array, or a tuple of one a scalar of the state."""
    problem, backend = recipe.problem, backend_of(pack.blocks, recipe.method)
    with in_chunk("determine", pack.place, pack.starts), backend.device_of(pack.blocks):
        chunk, shape = recipe.chunk(pack)
        entry = entries.at(number, recipe, shape)
        results = tuple(backend.empty(chunk.shape, problem.dtype) for _ in entry)
        backend.determine(problem.transfer_map, chunk, entry, results)
        arrays = tuple(as_result(result, shape, problem.result_dtype) for result in results)
    return arrays if problem.is_several else arrays[0]
