"""The tasks of a filter's graph: pure functions of blocks in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends import backend_of
from ..backends.cpu import filters as cpu
from ..phases.cascade import Cascade
from ..phases.chunk import Chunk
from ..phases.kinds import is_on_gpu
from .filters import lay_out_signal, lay_out_states


@dataclass(frozen=True)
class FilterRecipe:
    """A filter without its data: what a task must know."""

    cascade: Cascade
    axis: int
    dtype: np.dtype[Any]
    state_dtype: np.dtype[Any]

    def chunk(self, block: Any) -> Chunk:
        return lay_out_signal(block, self.axis, self.dtype)


@dataclass(frozen=True)
class FilterEntries:
    """Entries of a group's chunks, and of the chunk after the group.

    Attributes
    ----------
    states : tuple of arrays (states, outer, inner)
    is_initial : bool
        The first one is what the caller gave: to be broadcast, or None for 0.
    shape : tuple of int, optional
        Of the last chunk that was asked.
    """

    states: tuple[Any, ...]
    is_initial: bool
    shape: tuple[int, ...] | None = None

    def at(self, number: int, recipe: FilterRecipe, shape: tuple[int, ...]) -> np.ndarray:
        """The entry of one chunk of the group, which has this shape."""
        state: np.ndarray = self.states[number]
        if number or not self.is_initial:
            return state
        return lay_out_states(recipe, state, shape)


def precompute_block(block: Any, recipe: FilterRecipe) -> tuple[Any, tuple[int, ...]]:
    """Reduce a chunk to its summary; the chunk's shape goes along."""
    backend = backend_of((block,))
    with backend.device_of((block,)):
        return backend.precompute_filter(recipe.cascade, recipe.chunk(block)), block.shape


def propagate_group(recipe: FilterRecipe, summaries: list[Any], before: Any) -> FilterEntries:
    """The entries of a group of chunks, from the summaries of the chunks before each."""
    is_initial = not isinstance(before, FilterEntries)
    entries = FilterEntries((before if is_initial else before.states[-1],), is_initial)
    for number, (summary, shape) in enumerate(summaries):
        after = cpu.propagate_filter(summary, entries.at(number, recipe, shape))
        entries = FilterEntries((*entries.states, after), is_initial, shape)
    return entries


def determine_block(recipe: FilterRecipe, block: Any, entries: FilterEntries, number: int) -> Any:
    """The outputs of a chunk."""
    backend = backend_of((block,))
    with backend.device_of((block,)):
        chunk = recipe.chunk(block)
        result = backend.empty(chunk.shape, recipe.dtype)
        entry = entries.at(number, recipe, block.shape)
        backend.determine_filter(recipe.cascade, chunk, entry, result)
        return result.reshape(block.shape)


def exit_block(recipe: FilterRecipe, entries: FilterEntries, like: Any) -> Any:
    """The states after the last chunk of a row of chunks, as (states, other axes).

    An array of the kind of `like`, which is that of the chunks.
    """
    exit, shape = entries.states[-1], entries.shape
    if shape is None:
        raise ValueError("a row of chunks has no chunk")
    rows = shape[: recipe.axis] + shape[recipe.axis + 1 :]
    with np.errstate(over="ignore"):
        exit = exit.reshape(len(exit), *rows).astype(recipe.dtype)
    return np.asarray(exit, like=like) if is_on_gpu(like) else exit
