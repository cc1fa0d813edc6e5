"""Copies of arrays whose last two axes are exchanged in memory.

CuPy copies such arrays number by number, at a twelfth of the bandwidth of an H100.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, Slot

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SIDE, _THREADS = 32, 256
_GRIDS = Slot(0, (4,), np.dtype(np.int64), None)
_KERNEL = """
extern "C" __global__ void __launch_bounds__(256) transpose_kernel(const Grids grids) {
  transpose(grids);
}
"""


def contiguous(array: Any) -> Any:
    """Return the array, C-contiguous; copied only if necessary."""
    import cupy

    if not is_transposed(array):
        return cupy.ascontiguousarray(array)
    copy = cupy.empty(array.shape, array.dtype)
    _transpose(array, copy)
    return copy


def assign(target: Any, source: Any) -> None:
    """Write a C-contiguous array into another one of its shape and dtype."""
    if is_transposed(target):
        _transpose(source.swapaxes(-1, -2), target.swapaxes(-1, -2))
    else:
        target[...] = source


def is_transposed(array: Any) -> bool:
    """Return whether the array is C-contiguous with its last two axes exchanged."""
    is_matrix = array.ndim >= 2 and min(array.shape[-2:]) > 1 and array.dtype.itemsize in _WORDS
    return is_matrix and bool(array.swapaxes(-1, -2).flags.c_contiguous)


def _transpose(source: Any, target: Any) -> None:
    """Copy a transposed array into a C-contiguous one."""
    if source.size:
        *_, rows, columns = source.shape
        words = pack_words([source.data.ptr, target.data.ptr, rows, columns])
        prepare_copy(source.shape, source.dtype.itemsize)((words,))


def prepare_copy(shape: tuple[int, ...], itemsize: int) -> PreparedLaunches:
    """Return the launch that copies transposed arrays of a shape; it takes the kernel's struct."""
    import cupy

    return _prepare_copy(shape, itemsize, cupy.cuda.runtime.getDevice())


@lru_cache(maxsize=256)
def _prepare_copy(shape: tuple[int, ...], itemsize: int, device_id: int) -> PreparedLaunches:
    *batch, rows, columns = shape
    blocks = prod(batch) * -(-rows // _SIDE) * -(-columns // _SIDE)
    return PreparedLaunches(
        Launch(print_copy(itemsize), "transpose_kernel", blocks, _THREADS, (_GRIDS,))
    )


def print_copy(itemsize: int) -> str:
    """Return the program for numbers of so many bytes."""
    text = f"#define DEVICE __device__\ntypedef {_WORDS[itemsize]} Word;\n"
    return text + kernel_text("engines/cuda/memory/transpose") + _KERNEL
