"""Layout of arrays of any shape as (outer, steps, inner), which kernels require."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..algebra.coefficient import Coefficient
from .chunk import Chunk, CoefficientOperand
from .kinds import is_lazy, is_on_gpu


def lay_out(recurrence: Any, operands: Sequence[Any], shape: tuple[int, ...], first: int) -> Chunk:
    """Return the operands of one chunk as a :class:`Chunk`.

    `shape` is the shape of its result, and `first` the index of its first step along the whole
    axis.
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
    """Return (outer, steps, inner) of a shape."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _canonical(array: Any, shape: tuple[int, ...], axis: int, layout: tuple[int, int, int]) -> Any:
    if array.shape == shape:
        return contiguous(array).reshape(layout)
    if array.ndim == 0:
        return array.reshape(1, 1, 1)
    full_shape = (1,) * (len(shape) - array.ndim) + array.shape
    target: list[int] = []
    full: list[int] = []
    for axes, length in zip(
        (slice(axis), slice(axis, axis + 1), slice(axis + 1, None)), layout, strict=True
    ):
        is_broadcast = all(size == 1 for size in full_shape[axes])
        target.append(1 if is_broadcast else length)
        full += full_shape[axes] if is_broadcast else shape[axes]
    array = array.reshape(full_shape)
    if list(full_shape) != full:
        # Axes of which only some are broadcast cannot be merged, and are expanded.
        array = np.broadcast_to(array, full)
    return contiguous(array).reshape(target)


def contiguous(array: Any) -> Any:
    """Return the array, or a copy in C order on the same device."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def shape_of(value: Any) -> tuple[Any, ...]:
    """Return the shape of an array or a number, without computing a Dask array."""
    shape = getattr(value, "shape", None)
    return np.shape(value) if shape is None else shape


def moved_axis(array: Any, source: int, destination: int) -> Any:
    """Return an array with one axis moved."""
    order = [k for k in range(array.ndim) if k != source % array.ndim]
    order.insert(destination % array.ndim, source % array.ndim)
    return array.transpose(order)


def reversed_copy(array: Any, axis: int) -> Any:
    """Return a reversed copy along an axis; a Dask array stays lazy."""
    view = array[(slice(None),) * axis + (slice(None, None, -1),)]
    return view if is_lazy(array) else view.copy(order="C")


def lay_out_carry_in(state: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Broadcast a state and reshape it to (outer, inner)."""
    outer, _, inner = canonical_shape(shape, axis)
    if state.ndim == 0 and not is_on_gpu(state):
        return np.full((outer, inner), state)
    rows = shape[:axis] + shape[axis + 1 :]
    full = state if state.shape == rows else np.broadcast_to(state, rows)
    return full.reshape(outer, inner)


def is_one(laid_out: Any, operand: Any) -> bool:
    """Return whether an operand was not copied for its layout; True for numbers."""
    if is_on_gpu(operand):
        return bool(laid_out.data.ptr == operand.data.ptr)
    return operand.ndim == 0 or bool(laid_out.ctypes.data == operand.ctypes.data)


def as_result(computed: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a computed array in its final shape and dtype."""
    if computed.dtype == dtype:
        return computed if computed.shape == shape else computed.reshape(shape)
    # Results overflow to inf in float16 without a warning, as in kernels of other dtypes.
    with np.errstate(over="ignore"):
        return computed.reshape(shape).astype(dtype)


def has_unknown_sizes(chunks: Iterable[Iterable[Any]]) -> bool:
    """Return whether some sizes of chunks, or of a shape, are unknown.

    Examples
    --------
    >>> has_unknown_sizes(((2, 3), (float("nan"), 5)))
    True
    """
    return any(math.isnan(length) for lengths in chunks for length in lengths)
