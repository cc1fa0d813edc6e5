"""Validation of ``out``, the arrays for results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kinds import is_on_gpu


def check_out(
    out: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    operands: Sequence[Any],
    count: int | None = None,
) -> tuple[Any, ...]:
    """Return the validated arrays for results; an empty tuple if `out` is None.

    They must be writeable, aligned and C-contiguous, have the shape, the dtype and the array type
    of the result, and share no memory with operands, which a kernel may read again. `count` is the
    length of the tuple of results, or None for a single array.
    """
    if out is None:
        return ()
    arrays = out if isinstance(out, tuple) else (out,)
    if isinstance(out, tuple) != (count is not None) or len(arrays) != (count or 1):
        wanted = f"a tuple of {count}" if count else "one array"
        raise TypeError(f"out must be {wanted}, as the state is; got {type(out).__name__}")
    for array in arrays:
        _check(array, shape, dtype, operands)
    for number, array in enumerate(arrays):
        if any(_overlap(array, other) for other in arrays[:number]):
            raise ValueError("out must be arrays that share no memory; got two that do")
    return arrays


def _check(
    array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], operands: Sequence[Any]
) -> None:
    array_type = next((type(x) for x in operands if is_on_gpu(x)), None)
    got = f"{type(array).__module__}.{type(array).__name__}"
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("out must be a plain array; got a masked array: pass its data")
    if array_type is None and not isinstance(array, np.ndarray):
        raise TypeError(f"out must be a NumPy array, as the operands are; got {got}")
    if array_type is not None and not isinstance(array, array_type):
        raise TypeError(f"out must be a CuPy array, as the operands are; got {got}")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {dtype}; got {array.shape} and {array.dtype}"
        )
    if not array.flags.c_contiguous or not getattr(array.flags, "writeable", True):
        raise ValueError("out must be C-contiguous and writeable; got an array that is not")
    if not getattr(array.flags, "aligned", True):
        raise ValueError("out must be aligned; got an array at an address that is not")
    if any(_overlap(array, operand) for operand in operands):
        raise ValueError("out must not share memory with an operand; got an array that does")


def _overlap(array: Any, other: Any) -> bool:
    """Return whether two arrays may share memory."""
    if not is_on_gpu(array):
        return not is_on_gpu(other) and np.may_share_memory(array, other)
    if not is_on_gpu(other) or not array.size or not other.size:
        return False
    (start, stop), (other_start, other_stop) = _extent(array), _extent(other)
    return start < other_stop and other_start < stop


def _extent(array: Any) -> tuple[int, int]:
    start = stop = array.data.ptr
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    for length, stride in zip(array.shape, array.strides, strict=True):
        extent = (length - 1) * stride
        start, stop = start + min(0, extent), stop + max(0, extent)
    return start, stop + array.dtype.itemsize
