"""Arrays of any shape as the (outer, steps, inner) of the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..algebra.coefficient import Coefficient
from .chunk import Chunk, CoefficientOperand
from .kinds import is_lazy, is_on_gpu


def lay_out(recurrence: Any, operands: Sequence[Any], shape: tuple[int, ...], first: int) -> Chunk:
    """Operands of one chunk as a :class:`Chunk`.

    `shape` is that of its result, `first` the index of its first step along the whole axis.
    """
    layout = canonical_shape(shape, recurrence.axis)

    def canonical(array: Any) -> Any:
        return _canonical(array, shape, recurrence.axis, layout)

    def laid_out(operand: Any) -> Any:
        if isinstance(operand, Coefficient):
            arrays = tuple(map(canonical, operand.arrays))
            return CoefficientOperand(operand.function, first, arrays)
        return canonical(operand)

    laid_out_operands = tuple(map(laid_out, operands))
    return Chunk(laid_out_operands, layout, recurrence.dtype, recurrence.reverse)


def canonical_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """(outer, steps, inner) of a shape."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _canonical(array: Any, shape: tuple[int, ...], axis: int, layout: tuple[int, int, int]) -> Any:
    if array.shape == shape:
        return contiguous(array).reshape(layout)
    if array.ndim == 0:
        return array.reshape(1, 1, 1)
    own = (1,) * (len(shape) - array.ndim) + array.shape
    target: list[int] = []
    full: list[int] = []
    for axes, length in zip(
        (slice(axis), slice(axis, axis + 1), slice(axis + 1, None)), layout, strict=True
    ):
        is_broadcast = all(size == 1 for size in own[axes])
        target.append(1 if is_broadcast else length)
        full += own[axes] if is_broadcast else shape[axes]
    array = array.reshape(own)
    if list(own) != full:
        # Axes of which only some are broadcast cannot be merged: they are expanded.
        array = np.broadcast_to(array, full)
    return contiguous(array).reshape(target)


def contiguous(array: Any) -> Any:
    """The array, or a copy of it in C order, where it is."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def shape_of(value: Any) -> tuple[Any, ...]:
    """The shape of an array or a number, also of a Dask array, lazily."""
    shape = getattr(value, "shape", None)
    return np.shape(value) if shape is None else shape


def moved_axis(array: Any, source: int, destination: int) -> Any:
    """An array with one axis in another place."""
    order = [k for k in range(array.ndim) if k != source % array.ndim]
    order.insert(destination % array.ndim, source % array.ndim)
    return array.transpose(order)


def reversed_copy(array: Any, axis: int) -> Any:
    """An array in the other order of an axis, in memory of its own; a Dask array stays lazy."""
    turned = array[(slice(None),) * axis + (slice(None, None, -1),)]
    return turned if is_lazy(array) else turned.copy(order="C")


def lay_out_entry(state: Any, shape: tuple[int, ...], axis: int) -> Any:
    """A state, broadcast and reshaped to (outer, inner)."""
    outer, _, inner = canonical_shape(shape, axis)
    if state.ndim == 0 and not is_on_gpu(state):
        return np.full((outer, inner), state)
    rows = shape[:axis] + shape[axis + 1 :]
    full = state if state.shape == rows else np.broadcast_to(state, rows)
    return full.reshape(outer, inner)


def is_one(laid_out: Any, given: Any) -> bool:
    """Whether an operand was not copied when it was laid out; numbers count as if they were not."""
    if is_on_gpu(given):
        return bool(laid_out.data.ptr == given.data.ptr)
    return given.ndim == 0 or bool(laid_out.ctypes.data == given.ctypes.data)


def as_result(computed: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """A computed array in its final shape and dtype."""
    if computed.dtype == dtype:
        return computed if computed.shape == shape else computed.reshape(shape)
    # float16 overflows to inf without a warning, as kernels do in other dtypes.
    with np.errstate(over="ignore"):
        return computed.reshape(shape).astype(dtype)


def has_unknown_sizes(chunks: Iterable[Iterable[Any]]) -> bool:
    """Whether some sizes of chunks, or of a shape, are unknown.

    Examples
    --------
    >>> has_unknown_sizes(((2, 3), (float("nan"), 5)))
    True
    """
    return any(math.isnan(length) for lengths in chunks for length in lengths)
