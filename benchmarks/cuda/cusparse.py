"""cuSPARSE's tridiagonal solvers, by the library that CuPy has loaded."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np

_LETTERS = {"f": "S", "d": "D", "F": "C", "D": "Z"}


@cache
def _library() -> ctypes.CDLL:
    cupy.cuda.device.get_cusparse_handle()
    maps = Path("/proc/self/maps").read_text().split()
    return ctypes.CDLL(next(word for word in maps if "libcusparse.so" in word))


def _call(name: str, *arguments: Any) -> None:
    function = getattr(_library(), name)
    handle = ctypes.c_void_p(cupy.cuda.device.get_cusparse_handle())
    status = function(handle, *arguments)
    if status != 0:
        raise RuntimeError(f"{name} returned status {status}")


def _pointers(*arrays: Any) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.data.ptr) for array in arrays]


def _prepared(name: str, before: list[Any], arrays: Any, after: list[Any]) -> Callable[[], None]:
    """A solver with its buffer; arrays are overwritten where the solver does so."""
    name = f"cusparse{_LETTERS[np.dtype(arrays[0].dtype).char]}{name}"
    size = ctypes.c_size_t()
    _call(f"{name}_bufferSizeExt", *before, *_pointers(*arrays), *after, ctypes.byref(size))
    buffer = cupy.empty(max(1, size.value), np.uint8)

    def run() -> None:
        _call(name, *before, *_pointers(*arrays), *after, *_pointers(buffer))

    return run


def gtsv2(dl: Any, d: Any, du: Any, x: Any, pivots: bool = True) -> Callable[[], None]:
    """One system; x holds the right-hand side, and the solution afterwards."""
    n = ctypes.c_int(d.size)
    name = "gtsv2" if pivots else "gtsv2_nopivot"
    return _prepared(name, [n, ctypes.c_int(1)], (dl, d, du, x), [n])


def strided_batch(dl: Any, d: Any, du: Any, x: Any) -> Callable[[], None]:
    """Systems along the last axis, without pivoting."""
    count, n = map(ctypes.c_int, d.shape)
    return _prepared("gtsv2StridedBatch", [n], (dl, d, du, x), [count, n])


def interleaved_batch(dl: Any, d: Any, du: Any, x: Any, algorithm: int) -> Callable[[], None]:
    """Systems along the first axis: 0 Thomas, 1 LU with pivoting, 2 QR. All is overwritten."""
    n, count = map(ctypes.c_int, d.shape)
    before = [ctypes.c_int(algorithm), n]
    return _prepared("gtsvInterleavedBatch", before, (dl, d, du, x), [count])
