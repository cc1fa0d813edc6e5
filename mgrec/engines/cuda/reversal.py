"""Copies of contiguous rows in reverse, in words of 16 bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .device import MULTIPROCESSORS
from .launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from .tracing.cpp import ctype

_THREADS, _BLOCKS = 256, 16 * MULTIPROCESSORS
_KERNEL = """
struct alignas(16) Word {{ {unsigned} v[{length}][{parts}]; }};
extern "C" __global__ void __launch_bounds__({threads}) reverse_kernel(
    const Word* from, Word* to, long long words, long long count) {{
  const long long stride = gridDim.x * (long long)blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += stride) {{
    const long long row = i / words;
    const Word earlier = from[row * words + words - 1 - (i - row * words)];
    Word word;
#pragma unroll
    for (int r = 0; r < {length}; ++r)
#pragma unroll
      for (int p = 0; p < {parts}; ++p) word.v[r][p] = earlier.v[{length} - 1 - r][p];
    to[i] = word;
  }}
}}
"""


def can_reverse(array: Any) -> bool:
    """Return whether the rows of a CuPy array are words of 16 bytes."""
    row_bytes = array.shape[-1] * array.itemsize if array.ndim else 0
    is_laid_out = array.flags.c_contiguous and array.data.ptr % 16 == 0
    has_words = row_bytes and row_bytes % 16 == 0 and array.itemsize in (2, 4, 8, 16)
    return bool(has_words and is_laid_out)


def reverse(array: Any, result: Any) -> None:
    """Write the rows of an array in reverse. CuPy took 0.33 ms for 2^26 float32 on an H100."""
    import cupy

    launch = prepare_reversal(array.shape, array.dtype, cupy.cuda.runtime.getDevice())
    launch(array.data.ptr, result.data.ptr)


def prepare_reversal(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: int
) -> Callable[[int, int], None]:
    """Return ``reverse(source, target)`` for rows at these addresses, multiples of 16."""
    launch = _prepare(dtype.itemsize, device)
    words, count = (n * dtype.itemsize // 16 for n in (shape[-1], prod(shape)))
    return lambda source, target: launch([source, target, words, count])


@lru_cache(maxsize=64)
def _prepare(itemsize: int, device: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (Slot(0), Slot(1), Slot(2, (), number, None), Slot(3, (), number, None))
    size = min(itemsize, 8)  # A complex128 has two parts of 8 bytes.
    text = _KERNEL.format(
        unsigned=ctype(np.dtype(f"u{size}")), length=16 // itemsize, parts=itemsize // size,
        threads=_THREADS,
    )  # fmt: skip
    launch = Launch(text, "reverse_kernel", _BLOCKS, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
