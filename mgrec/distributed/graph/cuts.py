"""A recurrence over Dask arrays cut into chunks: what graphs and plans are built from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan
from operator import getitem
from typing import Any

import dask.array.core as da
from distributed import Future

from ...core.arrays.array_types import is_on_gpu
from ...core.arrays.chunk import has_unknown_sizes
from ...core.contract.recurrence import ChunkIndex, ChunkPosition


@dataclass(frozen=True)
class Cut:
    """Operands in equal chunks, and what a task must know to solve one of them.

    Attributes
    ----------
    recurrence : Recurrence
    blocks : tuple of dask.array.Array
        The operands; at least one.
    chunks : tuple of tuple of int or nan
        Of the results.
    initial : tuple of arrays
        States before the first step, in memory or Dask arrays: the recurrence's state_shape, then
        the rows, broadcast.
    """

    recurrence: Any
    blocks: tuple[da.Array, ...]
    chunks: tuple[tuple[Any, ...], ...]
    initial: tuple[Any, ...]

    @property
    def rows(self) -> tuple[tuple[Any, ...], ...]:
        """The chunks of all axes but that of the recurrence."""
        return self.chunks[: self.recurrence.axis] + self.chunks[self.recurrence.axis + 1 :]

    @property
    def count(self) -> int:
        """Chunks along the axis of the recurrence."""
        return len(self.chunks[self.recurrence.axis])

    @property
    def is_last_asked(self) -> bool:
        """Whether the summary of the last chunk along the axis is needed."""
        is_needed = self.recurrence.is_two_sided and self.count > 1
        return is_needed or self.recurrence.returns_final_state

    @property
    def is_summarised(self) -> bool:
        """Whether the summary of any chunk is needed."""
        return self.count > 1 or self.is_last_asked

    @property
    def is_whole(self) -> bool:
        """Whether every row is whole in its chunk and begins without states."""
        return self.count == 1 and not self.initial and not self.recurrence.returns_final_state

    @property
    def has_unknown_sizes(self) -> bool:
        return has_unknown_sizes(self.chunks)

    @property
    def may_speculate(self) -> bool:
        """Whether some chunk may be begun before its carry-in is known."""
        largest = tuple(max(inf if isnan(n) else n for n in lengths) for lengths in self.chunks)
        is_device = any(is_on_gpu(block._meta) for block in self.blocks)
        return bool(self.recurrence.may_speculate(largest, is_device))

    @cached_property
    def _starts(self) -> list[list[int]]:
        return [starts_of(lengths) for lengths in self.chunks]

    @cached_property
    def _own(self) -> list[tuple[str, int, tuple[int, ...] | None]]:
        """Of each block: its name, the number of axes it lacks, its numblocks if it broadcasts."""
        counts, found = tuple(map(len, self.chunks)), []
        for block in self.blocks:
            offset, numblocks = len(counts) - block.ndim, block.numblocks
            found.append((block.name, offset, None if numblocks == counts[offset:] else numblocks))
        return found

    def at(self, chunk_index: ChunkIndex) -> ChunkPosition:
        """A chunk's place, and the indices of its first step and rows."""
        return chunk_index, tuple(map(getitem, self._starts, chunk_index))

    def keys(self, chunk_index: ChunkIndex) -> list[Any]:
        """Of the blocks of a chunk."""
        return [
            (
                name,
                *(
                    chunk_index[offset:]
                    if numblocks is None
                    else within(chunk_index[offset:], numblocks)
                ),
            )
            for name, offset, numblocks in self._own
        ]

    def shapes(self, chunk_index: ChunkIndex) -> tuple[tuple[int, ...], ...]:
        """Of the blocks of a chunk."""
        return tuple(
            tuple(lengths[k] for lengths, k in zip(block.chunks, key[1:], strict=True))
            for block, key in zip(self.blocks, self.keys(chunk_index), strict=True)
        )

    def futures(self) -> list[Future]:
        """The blocks, where they are held."""
        return [v for block in self.blocks for v in block.dask.layers[block.name].values()]


def within(chunk_index: ChunkIndex, numblocks: tuple[int, ...]) -> ChunkIndex:
    """A chunk's place in an array that is broadcast along axes of one chunk."""
    return tuple(0 if n == 1 else k for k, n in zip(chunk_index, numblocks, strict=True))


def starts_of(lengths: tuple[Any, ...]) -> list[int]:
    """The index of the first step of each chunk; -1 after a chunk of unknown size."""
    starts, start = [], 0
    for length in lengths:
        starts.append(start)
        start = -1 if start < 0 or isnan(length) else start + int(length)
    return starts
