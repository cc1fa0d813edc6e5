"""Arrays with a vector or a matrix for each step, whose numbers become the last axis of an operand.

An array of matrices (..., steps, n, n) becomes one of numbers (..., steps, n²). The axis of numbers
is in one chunk, and is not broadcast.
"""

from __future__ import annotations

from math import isnan, prod
from typing import Any

import numpy as np

from .array_types import is_lazy

Shape = tuple[int, ...]


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
        lambda block: block.reshape(*block.shape[: len(shape)], count),
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
