"""Kinds of arrays: NumPy, CuPy or Dask, all in host memory or all on one GPU."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np


def is_on_gpu(array: Any) -> bool:
    """Whether an array, or every chunk of a Dask array, is CuPy's."""
    kind: Any = type(array)
    if kind is np.ndarray:
        return False
    if _has(kind, "_meta"):
        return is_on_gpu(array._meta)
    return _has(kind, "__cuda_array_interface__")


def is_lazy(array: Any) -> bool:
    """Whether an array is Dask's."""
    kind: Any = type(array)
    return kind is not np.ndarray and _has(kind, "dask")


def to_host(array: Any) -> np.ndarray:
    """The array in host memory, where entries are."""
    return np.asarray(array.get() if is_on_gpu(array) else array)


def is_writeable(array: Any) -> bool:
    """Whether an array may be written into: all of a GPU's may."""
    return is_on_gpu(array) or bool(array.flags.writeable)


@cache
def _has(kind: Any, name: str) -> bool:
    # Of the type: a CuPy array takes a microsecond to raise AttributeError.
    return hasattr(kind, name)


def is_capturing() -> bool:
    """Whether the current stream is being captured into a CUDA graph."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and bool(cupy.cuda.get_current_stream().is_capturing())


def refuse_capture(what: str, why: str) -> None:
    """Raise where the current stream is being captured, for what a graph could not repeat.

    Raises
    ------
    RuntimeError
    """
    if is_capturing():
        raise RuntimeError(
            f"{what} cannot be captured into a CUDA graph, since {why}; solve it outside the "
            f"capture"
        )


def check_together(named: Sequence[tuple[str, Any]], rows: Sequence[tuple[str, Any]]) -> None:
    """Raise unless all arrays are in host memory, or all on one GPU.

    Host scalars, 0-d arrays among them, go with any array, and so do `rows`, initial states in
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
        places = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise ValueError(f"arrays must be on one device; got {places}")
