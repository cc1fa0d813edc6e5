"""What a family of recurrences says of itself, and the chunks that it says it of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from distributed.protocol.pickle import dumps, loads

from ....backends import Backend, Summarise
from .spilling import register

Shape = tuple[int, ...]
Where = tuple[tuple[int, ...], tuple[int, ...]]
"""A chunk's place among the chunks, and where it starts."""


@dataclass(frozen=True)
class Pack:
    """The blocks of one chunk, its place among the chunks, and where it starts."""

    blocks: tuple[Any, ...]
    place: tuple[int, ...]
    starts: tuple[int, ...]

    def __sizeof__(self) -> int:
        return sum(block.nbytes for block in self.blocks)


register(Pack)


@dataclass(frozen=True)
class Recipe(ABC):
    """A recurrence without its arrays: what a task must know.

    Attributes
    ----------
    axis : int
    reverse : bool
        The last step acts first.
    dtype, result_dtype, state_dtype : numpy.dtype
        In which a chunk is computed, of its results, and of the states between chunks.
    state_shape : tuple of int
        Axes that the states before the first step have ahead of those of the rows.
    states : int
        Scalars of the state, a row.
    varying : tuple of tuple of bool
        Of each block of a pack: the axes along which it is not broadcast, the last ones of all.
    block_dtypes : tuple of numpy.dtype
        Of each block of a pack, as its array tells.
    method : str
        The kernels of a GPU.
    is_exit_asked : bool
        Somebody asks for the states after the last chunk, which is summarised then as well.
    """

    axis: int
    reverse: bool
    dtype: np.dtype[Any]
    result_dtype: np.dtype[Any]
    state_dtype: np.dtype[Any]
    state_shape: Shape
    states: int
    varying: tuple[tuple[bool, ...], ...]
    block_dtypes: tuple[np.dtype[Any], ...]
    method: str
    is_exit_asked: bool

    @property
    def results(self) -> int:
        """Arrays that a chunk gives."""
        return 1

    @abstractmethod
    def rest(self) -> tuple[Any, ...]:
        """States before the first step, all 0, in the form in which they are given."""

    @abstractmethod
    def enter(self, initial: Sequence[Any], shape: Shape) -> Any:
        """The entry of a first chunk of this shape, from host arrays (state_shape, *rows)."""

    @abstractmethod
    def precompute(self, backend: Backend, pack: Pack, shape: Shape) -> Summarise:
        """Launch the summary of a chunk: numbers and arrays in host memory, no functions."""

    @abstractmethod
    def advance(self, summary: Any, entry: Any) -> Any:
        """The entry of the chunk after, from the summary and the entry of a chunk."""

    @abstractmethod
    def determine(self, backend: Backend, pack: Pack, shape: Shape, entry: Any) -> tuple[Any, ...]:
        """The results of a chunk."""

    def leave(self, exit: Any, shape: Shape) -> np.ndarray:
        """The entry after the last chunk, of this shape, as an array (state_shape, *rows)."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        return read_recipe, (self._written,)

    @cached_property
    def _written(self) -> bytes:
        return dumps((type(self), {each.name: getattr(self, each.name) for each in fields(self)}))

    @cached_property
    def _is_full(self) -> bool:
        """No block is broadcast."""
        return all(map(all, self.varying))

    def check(self, pack: Pack) -> None:
        """Raise unless the blocks are of the dtypes that their arrays tell.

        Kernels are chosen by these. Dask believes what ``map_blocks`` is told.
        """
        for block, dtype in zip(pack.blocks, self.block_dtypes, strict=True):
            if block.dtype != dtype:
                raise TypeError(
                    f"operands must have chunks of the dtype that their array tells, {dtype}; "
                    f"chunk {pack.place} is {block.dtype}. Give map_blocks, or what else made "
                    f"the array, the right dtype or meta"
                )

    def shape(self, pack: Pack) -> Shape:
        """The shape of a chunk's result; unknown sizes are checked here, where they show."""
        ndim, (first, *others) = len(pack.place), (block.shape for block in pack.blocks)
        if self._is_full and len(first) == ndim and all(shape == first for shape in others):
            return first
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


@lru_cache(maxsize=256)
def read_recipe(written: bytes) -> Recipe:
    """A recipe as it was pickled: it is in every task, but read once a process."""
    kind, own = loads(written)
    return kind(**own)
