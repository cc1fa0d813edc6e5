"""Casts that keep subnormal numbers, which CuPy's own casts flush to 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from .kinds import is_lazy, is_on_gpu

_LEAST_NORMAL, _LEAST = 0x00800000, 2.0**-149
"""Bits of the least normal number of float32, and the least number."""


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return the array if it has the dtype, otherwise a copy; a Dask array's chunks are cast."""
    if array.dtype == dtype:
        return array
    if not (is_on_gpu(array) and array.dtype.char in "fF" and dtype.char in "dD"):
        return array.astype(dtype)
    if is_lazy(array):
        return array.map_blocks(_widened, dtype, dtype=dtype)
    return _widened(array, dtype)


def _widened(array: Any, dtype: np.dtype[Any]) -> Any:
    """Cast a CuPy array of float32 or complex64 to float64 or complex128."""
    wide = array.astype(dtype)
    _widen(array.real, wide.real)
    if array.dtype.kind == "c":
        _widen(array.imag, wide.imag)
    return wide


def _widen(part: Any, wide: Any) -> None:
    # CuPy compiles its kernels with -ftz=true, so that conversions from float32 flush subnormal
    # numbers. Conversions of integers do not.
    size = part.view(np.uint32) & np.uint32(0x7FFFFFFF)
    tiny = np.copysign(size * _LEAST, wide)
    wide[...] = np.where(size < _LEAST_NORMAL, tiny, wide)
