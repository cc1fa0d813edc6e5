"""Arrays with a vector or a matrix for each step, seen as arrays with one element for each step.

An element is a number of a void dtype that holds all numbers of a step. An array of matrices
(..., steps, n, n) becomes one of elements (..., steps), which chunks, broadcasts and travels like
any other operand of a recurrence.
"""

from __future__ import annotations

from functools import partial
from math import isnan, prod
from typing import Any

import numpy as np

from .array_types import as_native, is_lazy

Shape = tuple[int, ...]


def element_dtype(dtype: np.dtype[Any], shape: Shape) -> np.dtype[Any]:
    """Return the dtype of an element that holds an array of this dtype and shape."""
    return np.dtype((np.void, dtype.itemsize * prod(shape)))


def as_elements(array: Any, ndim: int) -> Any:
    """Return an array whose last `ndim` axes are those of an element; a view where possible.

    The axes of an element of a Dask array are brought into one chunk.
    """
    if ndim == 0:
        return array
    shape = array.shape[-ndim:]
    dtype = element_dtype(array.dtype, shape)
    if not is_lazy(array):
        return _pack(array, shape, dtype)
    axes = range(array.ndim - ndim, array.ndim)
    array = array.rechunk(dict.fromkeys(axes, -1))
    meta = np.empty((0,) * (array.ndim - ndim), dtype)
    return array.map_blocks(
        partial(_pack, shape=shape, dtype=dtype), drop_axis=list(axes), dtype=dtype, meta=meta
    )


def _pack(array: np.ndarray, shape: Shape, dtype: np.dtype[Any]) -> np.ndarray:
    outer = array.shape[: array.ndim - len(shape)]
    if 0 in outer:
        return np.empty(outer, dtype)
    flat = np.ascontiguousarray(array).reshape(*outer, -1)
    return flat.view(dtype).reshape(outer)


def from_elements(elements: Any, dtype: np.dtype[Any], shape: Shape, start: int = 0) -> Any:
    """Return an array of `dtype` whose last axes, of this shape, were part of an element.

    The part begins at number `start`; without it, the array is that of :func:`as_elements`.
    """
    if not is_lazy(elements):
        return unpack(elements, dtype, shape, start)
    axes = range(elements.ndim, elements.ndim + len(shape))
    chunks = (*elements.chunks, *((length,) for length in shape))
    return elements.map_blocks(
        partial(_unpack_chunk, dtype=dtype, shape=shape, start=start),
        new_axis=list(axes) or None,
        chunks=chunks,
        dtype=dtype,
        meta=np.empty((0,) * len(chunks), dtype),
    )


def unpack(elements: np.ndarray, dtype: np.dtype[Any], shape: Shape, start: int = 0) -> np.ndarray:
    """Return :func:`from_elements` of an array in memory, aligned."""
    if elements.size == 0:
        return np.empty((*elements.shape, *shape), dtype)
    flat = as_native(np.ascontiguousarray(elements).reshape(-1).view(dtype))
    numbers = flat.reshape(*elements.shape, -1)[..., start : start + prod(shape)]
    return numbers.reshape(*elements.shape, *shape)


def _unpack_chunk(
    elements: np.ndarray, dtype: np.dtype[Any], shape: Shape, start: int
) -> np.ndarray:
    """Return a part of the elements of a chunk that does not keep the others in memory."""
    return np.ascontiguousarray(unpack(elements, dtype, shape, start))


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
