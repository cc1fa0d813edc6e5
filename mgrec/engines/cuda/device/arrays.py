"""Arrays on the current device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.kinds import is_on_gpu


def device_of(arrays: Iterable[Any]) -> AbstractContextManager[Any]:
    """Make the device of the first CuPy array the current one."""
    return next(array for array in arrays if is_on_gpu(array)).device


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Memory of CuPy's pool on the current device."""
    import cupy

    return cupy.empty(shape, dtype)


def on_device(array: Any) -> Any:
    """An array of a chunk's operands on the current device."""
    import cupy

    if is_on_gpu(array):
        return array
    if array.size == 1:
        device = cupy.cuda.runtime.getDevice()
        return _scalar(array.tobytes(), array.dtype, device).reshape(array.shape)
    return cupy.asarray(array)


@lru_cache(maxsize=256)
def _scalar(value: bytes, dtype: np.dtype[Any], device: int) -> Any:
    """A scalar on the device: kernels only read it, so that all calls may share it.

    Copying it at every call took about 30 microseconds. Any stream may ask for it later, so
    that the first to do so waits until it is there.
    """
    import cupy

    array = cupy.asarray(np.frombuffer(value, dtype))
    cupy.cuda.get_current_stream().synchronize()
    return array


def fetch(array: Any) -> Callable[[], np.ndarray]:
    """Copy an array to the host behind what is launched already; what it returns waits for it.

    One that is in host memory is there already.


    ``array.get()`` would wait for all that is launched before it is called.
    """
    if not is_on_gpu(array):
        return lambda: array
    import cupy
    from cupyx import empty_pinned

    host = empty_pinned(array.shape, array.dtype)
    array.get(out=host, blocking=False)
    copied = cupy.cuda.Event(disable_timing=True)
    copied.record()

    def wait() -> np.ndarray:
        copied.synchronize()
        return host

    return wait


def array_at(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Numbers in memory of the current device that somebody else holds."""
    import cupy

    size = prod(shape) * dtype.itemsize
    memory = cupy.cuda.UnownedMemory(address, size, None, cupy.cuda.runtime.getDevice())
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0))


def packed(words: list[int]) -> np.ndarray:
    """Words of 64 bits as one struct that a kernel takes by value."""
    return np.array(words, np.int64).view(f"V{8 * len(words)}")
