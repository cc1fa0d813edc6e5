"""Array types: NumPy, CuPy or Dask, all in host memory or all on one GPU."""

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


def is_lazy(array: Any) -> bool:
    """Return whether an array is a Dask array."""
    array_type: Any = type(array)
    return array_type is not np.ndarray and _has(array_type, "dask")


def to_host(array: Any) -> np.ndarray:
    """Return the array in host memory, where carry-ins are."""
    return np.asarray(array.get() if is_on_gpu(array) else array)


def is_writeable(array: Any) -> bool:
    """Return whether an array may be written to, as all arrays of a GPU may."""
    return is_on_gpu(array) or bool(array.flags.writeable)


@cache
def _has(array_type: Any, name: str) -> bool:
    # Of the type, because a CuPy array takes a microsecond to raise AttributeError.
    return hasattr(array_type, name)


def is_capturing() -> bool:
    """Return whether the current stream is being captured into a CUDA graph."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())


def refuse_capture(what: str, why: str) -> None:
    """Raise RuntimeError if the current stream is being captured into a CUDA graph.

    Call it before an operation that a graph cannot repeat.
    """
    if is_capturing():
        raise RuntimeError(
            f"{what} cannot be captured into a CUDA graph, since {why}; call it outside of the "
            f"capture"
        )


def check_together(named: Sequence[tuple[str, Any]], rows: Sequence[tuple[str, Any]]) -> None:
    """Raise unless all arrays are in host memory, or all on one GPU.

    Host scalars and 0-d arrays may be combined with any array, and so may `rows`, which are initial
    states in host memory.
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
