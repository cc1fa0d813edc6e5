"""Kinds of arrays that the programs run on, and how they are chosen and timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from ..harness.command import Options

OPTIONS: Options = {"--array": {"choices": ("numpy", "cupy", "dask"), "default": "numpy"}}


def placed(array: np.ndarray, kind: str, axis: int, parts: int) -> Any:
    """The array as one of a kind; Dask's has so many chunks along an axis."""
    if kind == "dask":
        chunks = [-1] * array.ndim
        chunks[axis] = -(-array.shape[axis] // parts)
        return da.from_array(array, chunks=tuple(chunks))
    if kind == "cupy":
        import cupy

        return cupy.asarray(array)
    return array


def to_host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def repeat(u: Any, ways: list[Callable[[Any], Any]]) -> tuple[np.ndarray, float]:
    """Apply functions one after the other; the result in host memory, and the seconds of one."""
    begin = time.perf_counter()
    for way in ways:
        u = way(u)
        u = u.persist() if isinstance(u, da.Array) else u
    result = to_host(u)
    return result, (time.perf_counter() - begin) / len(ways)
