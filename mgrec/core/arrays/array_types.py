"""NumPy, CuPy and Dask arrays: their types and devices, native forms, casts and chunks.

Arrays of float16 and bfloat16, the dtypes of two bytes, are computed in float32. bfloat16 is the
dtype of ``ml_dtypes``, which need not be installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from ..backends import CPU, backend_of


def is_lazy(array: object) -> bool:
    """Return whether an array is a Dask array."""
    array_type: Any = type(array)
    return array_type is not np.ndarray and _is_lazy_type(array_type)


def to_host(array: Any) -> np.ndarray:
    """Return the array in host memory."""
    return backend_of(array).to_host(array)


@cache
def _is_lazy_type(array_type: Any) -> bool:
    # A CuPy array takes a microsecond to raise AttributeError; its type is cached.
    return hasattr(array_type, "dask")


Named = Sequence[tuple[str, Any]]


def in_one_memory(data: Named, parameters: Named = (), states: Named = ()) -> list[Any]:
    """Return the parameters of a call in the memory of its data.

    `data`, sequence of (name, array): arrays that are all in host memory or all on one GPU.
    `parameters`, sequence of (name, array): coefficients, matrices and marks. NumPy arrays are
      copied to the GPU that has the data.
    `states`, sequence of (name, array): initial states. Kernels read those in host memory.

    Raise TypeError if data are in host memory and other arrays on a GPU. Numbers and 0-d arrays may
    be combined with any array. Raise ValueError if arrays are on several GPUs. Raise RuntimeError
    if a parameter is copied while a CUDA graph is captured.
    """
    moved = [array for _, array in parameters]
    first = next((x for x in (*data, *parameters, *states) if backend_of(x[1]) is not CPU), None)
    if first is None:
        return moved
    name, like = first
    backend = backend_of(like)
    is_moved = [_is_host_array(array) and not is_lazy(array) for array in moved]
    others = [pair for pair, skip in zip(parameters, is_moved, strict=True) if not skip]
    for other, array in (*data, *others):
        if _is_host_array(array):
            raise TypeError(
                f"arrays must all be {backend.place} or all in host memory; got {name} "
                f"{backend.place} and {other} {CPU.place}: move one with "
                f"{backend.library}.asarray({other}) or {backend.library}.asnumpy({name}), a Dask "
                f"array with map_blocks"
            )
    devices = {
        backend.device_number(array): name
        for name, array in (*data, *parameters, *states)
        if backend_of(array) is backend and not hasattr(type(array), "_meta")
    }
    if len(devices) > 1:
        got = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise ValueError(f"arrays must be on one device; got {got}")
    if any(is_moved):
        backend.raise_if_capturing("a call with parameters in host memory", "they are copied once")
    with nullcontext() if is_lazy(like) else backend.device_of([like]):
        return [
            backend.from_host(array, like) if skip else array
            for array, skip in zip(moved, is_moved, strict=True)
        ]


def _is_host_array(value: Any) -> bool:
    """Return whether a value is an array in host memory, or of chunks there, with axes."""
    return hasattr(value, "dtype") and backend_of(value) is CPU and value.ndim > 0


def as_native(array: Any) -> Any:
    """Return the array, or an aligned copy in native byte order.

    numba would run code for native arrays on other arrays. It distinguishes arrays in tuples only
    by the number of their dtype, and all arrays once it has compiled for a subclass or an unaligned
    array. The chunks of a Dask array are converted, but not aligned:
    :class:`mgrec.core.contract.recurrence.ChunkInputs` aligns them.

    >>> as_native(np.array([1, 2], ">i4")).dtype.isnative
    True
    """
    if type(array) is np.ndarray:
        dtype = array.dtype
        if dtype.isnative and array.flags.aligned:
            return array
        return array.astype(dtype.newbyteorder("="))
    if isinstance(array, np.ndarray) and backend_of(array) is CPU:
        return as_native(np.asarray(array))
    if is_lazy(array) and not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def cast(array: Any, dtype: np.dtype[Any]) -> Any:
    """Return the array if it has the dtype, otherwise a copy; a Dask array's chunks are cast.

    Subnormal numbers are kept.
    """
    if array.dtype == dtype:
        return array
    backend = backend_of(array)
    if is_lazy(array) and not backend.is_host:
        return array.map_blocks(backend.cast, dtype, dtype=dtype)
    return backend.cast(array, dtype)


def without_empty_chunks(x: Any) -> Any:
    """Return the same array without empty chunks.

    If chunks are empty, Dask (2026.7) slices, joins and broadcasts to wrong shapes, or to graphs
    with missing keys.
    """
    chunks = getattr(x, "chunks", None) or ()  # None for a DataArray in memory
    if all(map(all, chunks)):
        return x
    return x.rechunk(tuple(tuple(filter(None, lengths)) or (0,) for lengths in chunks))


def chunked_like(result: Any, x: Any) -> Any:
    """Return a result with the chunks of x, if x is a Dask array."""
    chunks = getattr(x, "chunks", None)
    return result if chunks in (None, getattr(result, "chunks", None)) else result.rechunk(chunks)


WIDE = np.dtype(np.float32)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is that of bfloat16."""
    char: str = dtype.char
    return char == "E" and dtype.itemsize == 2


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of a dtype are computed in float32.

    >>> is_narrow(np.dtype("float16")), is_narrow(np.dtype("float32"))
    (True, False)
    """
    return dtype.char == "e" or is_bfloat16(dtype)


def computed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the computation for results of a dtype."""
    return WIDE if is_narrow(dtype) else dtype


def widened(array: Any) -> Any:
    """Return an array of float16 or bfloat16 in float32, for kernels without these dtypes."""
    return cast(array, WIDE) if is_narrow(array.dtype) else array


def result_type(values: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype that NumPy promotes dtypes, and numbers of Python, to.

    Bools alone are promoted to int64, as in sums. Integers and numbers do not promote bfloat16, as
    in torch and jax; NumPy has no rule for them.
    """
    if not any(isinstance(value, np.dtype) and is_bfloat16(value) for value in values):
        dtype = np.result_type(*values)
        return np.dtype(np.int64) if dtype.kind == "b" else dtype
    others = [value for value in values if not _is_weak(value)]
    return np.result_type(WIDE, *others) if others else bfloat16()


def _is_weak(value: Any) -> bool:
    if isinstance(value, np.dtype):
        return value.kind in "biu" or is_bfloat16(value)
    return isinstance(value, (int, float))


@cache
def has_bfloat16() -> bool:
    """Return whether ``ml_dtypes`` is installed."""
    return importlib.util.find_spec("ml_dtypes") is not None


def bfloat16() -> np.dtype[Any]:
    """Return the dtype of bfloat16; needs ``ml_dtypes``."""
    from ml_dtypes import bfloat16  # type: ignore[import-not-found, unused-ignore]

    return np.dtype(bfloat16)
