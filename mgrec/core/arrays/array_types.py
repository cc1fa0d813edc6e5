"""NumPy, CuPy and Dask arrays: their types and devices, native forms, casts and chunks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np


def is_on_gpu(array: Any) -> bool:
    """Return whether an array, or each chunk of a Dask array, is a CuPy array."""
    array_type: Any = type(array)
    if array_type is np.ndarray:
        return False
    if _has(array_type, "_meta"):
        return is_on_gpu(array._meta)
    return _has(array_type, "__cuda_array_interface__")


def is_lazy(array: object) -> bool:
    """Return whether an array is a Dask array."""
    array_type: Any = type(array)
    return array_type is not np.ndarray and _has(array_type, "dask")


def to_host(array: Any) -> np.ndarray:
    """Return the array in host memory."""
    return np.asarray(array.get() if is_on_gpu(array) else array)


def is_writeable(array: Any) -> bool:
    """Return whether an array may be written to; True for arrays on a GPU."""
    return is_on_gpu(array) or bool(array.flags.writeable)


@cache
def _has(array_type: Any, name: str) -> bool:
    # A CuPy array takes a microsecond to raise AttributeError; its type is cached.
    return hasattr(array_type, name)


def is_capturing() -> bool:
    """Return whether the current stream is being captured into a CUDA graph."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())


def raise_if_capturing(what: str, why: str) -> None:
    """Raise RuntimeError if the current stream is being captured into a CUDA graph.

    Call it before an operation that a graph cannot repeat.
    """
    if is_capturing():
        raise RuntimeError(
            f"{what} cannot be captured into a CUDA graph, since {why}; call it outside of the "
            f"capture"
        )


def check_same_device(named: Sequence[tuple[str, Any]], rows: Sequence[tuple[str, Any]]) -> None:
    """Raise unless all arrays are in host memory, or all on one GPU.

    Host scalars and 0-d arrays may be combined with any array, and so may `rows`, initial states in
    host memory.
    """
    on_gpu = [(name, array) for name, array in (*named, *rows) if is_on_gpu(array)]
    if not on_gpu:
        return
    for name, array in ((n, a) for n, a in named if hasattr(a, "dtype")):
        if not is_on_gpu(array) and array.ndim > 0:
            raise TypeError(
                f"arrays must all be on a GPU or all in host memory; got {on_gpu[0][0]} on a GPU "
                f"and {name} in host memory: move one with cupy.asarray({name}) or "
                f"cupy.asnumpy({on_gpu[0][0]}), a Dask array with map_blocks"
            )
    devices = {array.device.id: name for name, array in on_gpu if hasattr(array, "device")}
    if len(devices) > 1:
        got = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise ValueError(f"arrays must be on one device; got {got}")


def as_native(array: Any) -> Any:
    """Return the array, or an aligned copy in native byte order.

    numba would run code for native arrays on other arrays. It distinguishes arrays in tuples only
    by the number of their dtype, and all arrays once it has compiled for a subclass or an unaligned
    array. The chunks of a Dask array are converted, but not aligned:
    :class:`mgrec.core.contract.recurrence.ChunkInputs` aligns them.

    Examples
    --------
    >>> as_native(np.array([1, 2], ">i4")).dtype.isnative
    True
    """
    if type(array) is np.ndarray:
        dtype = array.dtype
        if dtype.isnative and array.flags.aligned:
            return array
        return array.astype(dtype.newbyteorder("="))
    if isinstance(array, np.ndarray) and not is_on_gpu(array):
        return as_native(np.asarray(array))
    if is_lazy(array) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


_LEAST_NORMAL_BITS, _LEAST = 0x00800000, 2.0**-149
"""Bits of the least normal number of float32; the least positive number."""


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return the array if it has the dtype, otherwise a copy; a Dask array's chunks are cast.

    Subnormal numbers are kept, which CuPy's own casts flush to 0.
    """
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
    # CuPy compiles with -ftz=true: conversions from float32 flush subnormal numbers, those of
    # integers do not.
    magnitude_bits = part.view(np.uint32) & np.uint32(0x7FFFFFFF)
    tiny = np.copysign(magnitude_bits * _LEAST, wide)
    wide[...] = np.where(magnitude_bits < _LEAST_NORMAL_BITS, tiny, wide)


def without_empty_chunks(x: Any) -> Any:
    """Return the same array without empty chunks.

    If chunks are empty, Dask (2026.7) slices, joins and broadcasts to wrong shapes, or to graphs
    with missing keys.
    """
    chunks = getattr(x, "chunks", None) or ()  # None for a DataArray in memory
    if all(all(lengths) for lengths in chunks):
        return x
    return x.rechunk(tuple(tuple(filter(None, lengths)) or (0,) for lengths in chunks))


def chunked_like(result: Any, x: Any) -> Any:
    """Return a result with the chunks of x, if x is a Dask array."""
    chunks = getattr(x, "chunks", None)
    return result if chunks in (None, getattr(result, "chunks", None)) else result.rechunk(chunks)
