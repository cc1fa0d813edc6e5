"""Checks of ``out``: arrays that the caller gives for results."""

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
    """The arrays to write results to, checked; empty where `out` is None.

    They must be writeable, aligned and C-contiguous, of the result's shape, dtype and kind, and
    share no memory with operands: a kernel may read these again. `count` results come as a tuple,
    one array where None.
    """
    if out is None:
        return ()
    given = out if isinstance(out, tuple) else (out,)
    if isinstance(out, tuple) != (count is not None) or len(given) != (count or 1):
        wanted = f"a tuple of {count}" if count else "one array"
        raise TypeError(f"out must be {wanted}, as the state is; got {type(out).__name__}")
    for array in given:
        _check(array, shape, dtype, operands)
    for number, array in enumerate(given):
        if any(_overlap(array, other) for other in given[:number]):
            raise ValueError("out must be arrays that share no memory; got two that do")
    return given


def _check(
    array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], operands: Sequence[Any]
) -> None:
    kind = next((type(x) for x in operands if is_on_gpu(x)), None)
    got = f"{type(array).__module__}.{type(array).__name__}"
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("out must be a plain array; got a masked array: give its data")
    if kind is None and not isinstance(array, np.ndarray):
        raise TypeError(f"out must be a NumPy array, as the operands are; got {got}")
    if kind is not None and not isinstance(array, kind):
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
    """Whether two arrays may share memory."""
    if not is_on_gpu(array):
        return not is_on_gpu(other) and np.may_share_memory(array, other)
    if not is_on_gpu(other) or not array.size or not other.size:
        return False
    (begin, end), (first, last) = _extent(array), _extent(other)
    return begin < last and first < end


def _extent(array: Any) -> tuple[int, int]:
    begin = end = array.data.ptr
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    for length, stride in zip(array.shape, array.strides, strict=True):
        begin, end = begin + min(0, (length - 1) * stride), end + max(0, (length - 1) * stride)
    return begin, end + array.dtype.itemsize
