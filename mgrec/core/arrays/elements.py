"""Arrays with a vector or a matrix for each step, whose numbers become the last axis of an operand.

An array of matrices (..., steps, n, n) becomes one of numbers (..., steps, n²). The axis of numbers
is in one chunk, and is not broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan, prod
from typing import Any

import numpy as np

from .array_types import cast, is_lazy
from .chunk import as_contiguous

Shape = tuple[int, ...]
_PARTIAL_SUMS = 1024


def merge_numbers(array: Any, ndim: int) -> Any:
    """Return an array whose last `ndim` axes are one axis of numbers, in one chunk."""
    shape, numbers = array.shape[: array.ndim - ndim], array.shape[array.ndim - ndim :]
    count = prod(numbers)
    if not is_lazy(array):
        return array.reshape(*shape, count)
    axes = range(array.ndim - ndim, array.ndim)
    array = array.rechunk(dict.fromkeys(axes, -1))
    if ndim == 1:
        return array
    return array.map_blocks(
        partial(merge_numbers, ndim=ndim),
        drop_axis=list(axes),
        new_axis=[len(shape)],
        chunks=(*array.chunks[: len(shape)], (count,)),
        dtype=array.dtype,
        meta=np.empty_like(array._meta, shape=(0,) * (len(shape) + 1)),
    )


def part_of_numbers(array: Any, shape: Shape, start: int = 0) -> Any:
    """Return an array whose last axes have this shape, from the numbers that begin at `start`."""
    if not is_lazy(array):
        return array[..., start : start + prod(shape)].reshape(*array.shape[:-1], *shape)
    last = array.ndim - 1
    chunks = (*array.chunks[:-1], *((length,) for length in shape))

    def part(block: Any) -> Any:
        # A copy: a part would keep all numbers of the chunk in memory.
        return part_of_numbers(block, shape, start).copy()

    return array.map_blocks(
        part,
        drop_axis=last,
        new_axis=list(range(last, len(chunks))) or None,
        chunks=chunks,
        dtype=array.dtype,
        meta=np.empty_like(array._meta, shape=(0,) * len(chunks)),
    )


@dataclass(frozen=True)
class Part:
    """Numbers of each step of a result, as an array of their own.

    `shape`: last axes of the array. None: the part is the whole result.
    `dtype`: dtype of the array. None: that of the result.
    `sum_axis`: axis of the steps, if the array is the sum over the steps.
    """

    shape: Shape | None = None
    start: int = 0
    dtype: np.dtype[Any] | None = None
    sum_axis: int | None = None

    def of(self, result: Any) -> Any:
        """Return the part of a result."""
        if self.shape is None:
            return result
        part = part_of_numbers(result, self.shape, self.start)
        part = part if self.sum_axis is None else part.sum(axis=self.sum_axis)
        return part if self.dtype is None else cast(part, self.dtype)

    def of_chunk(self, block: Any) -> Any:
        """Return the part of a chunk of a result, with an axis of length 1 for a sum.

        The chunk may be a dict that has an array for each part, by the first of its numbers.
        """
        if self.shape is None:
            return block
        is_split = isinstance(block, dict)
        part = (
            part_of_numbers(block[self.start], self.shape)
            if is_split
            else part_of_numbers(block, self.shape, self.start)
        )
        if self.sum_axis is not None:
            return _sum_of_steps(as_contiguous(part), self.sum_axis)
        # A copy: a part would keep all numbers of the chunk in memory.
        return cast(part if is_split else part.copy(), self.dtype or part.dtype)

    def chunks(self, chunks: Sequence[Sequence[int]]) -> tuple[Sequence[int], ...]:
        """Return the chunks of the array that `of_chunk` returns the blocks of."""
        if self.shape is None:
            return tuple(chunks)
        lengths = list(chunks[:-1])
        if self.sum_axis is not None:
            lengths[self.sum_axis] = (1,) * len(lengths[self.sum_axis])
        return *lengths, *((length,) for length in self.shape)

    def meta(self, meta: Any) -> Any:
        """Return an empty array of the type, the dtype and the axes of that array."""
        if self.shape is None:
            return meta
        shape = (0,) * (meta.ndim - 1 + len(self.shape))
        return np.empty_like(meta, self.dtype or meta.dtype, shape=shape)

    def chunk_index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index of the part of a chunk."""
        return index if self.shape is None else (*index[:-1], *(0,) * len(self.shape))


def _sum_of_steps(array: Any, axis: int) -> Any:
    """Return the sums along an axis, of length 1 then, in two stages.

    CuPy computes a sum by one block of threads: 10^7 contiguous numbers take 0.3 ms, and others 9.
    """
    size = array.shape[axis] // _PARTIAL_SUMS
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    index, stop = (slice(None),) * axis, size * _PARTIAL_SUMS
    whole, last = array[(*index, slice(stop))], array[(*index, slice(stop, None))]
    partial = whole.reshape(*before, _PARTIAL_SUMS, size, *after).sum(axis=axis + 1)
    return partial.sum(axis=axis, keepdims=True) + last.sum(axis=axis, keepdims=True)


def broadcast_shape(shapes: dict[str, tuple[Any, ...]], what: str) -> tuple[Any, ...]:
    """Return the common shape of the steps and rows of operands; nan matches any length.

    `what` names these axes, for the message.
    """
    ndim = max(map(len, shapes.values()))
    result: list[Any] = []
    for k in range(-ndim, 0):
        lengths = {shape[k] for shape in shapes.values() if len(shape) >= -k and shape[k] != 1}
        known = {length for length in lengths if not isnan(length)}
        if len(known) > 1:
            got = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
            raise ValueError(f"{what} must broadcast; got {got}")
        result.append(np.nan if len(known) < len(lengths) else known.pop() if known else 1)
    return tuple(result)
