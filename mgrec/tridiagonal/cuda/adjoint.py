"""Gradients of whole contiguous systems by windows, which read shifted diagonals where they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...engines.cuda.device import MULTIPROCESSORS, raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ...engines.cuda.tracing.cpp import ctype
from .window import UNCAPTURED, start_windows, tries_of

_THREADS, _BLOCKS = 256, 16 * MULTIPROCESSORS
_KERNEL = """
typedef {number} T;
constexpr int N = 16 / sizeof(T);
struct alignas(16) Word {{ T v[N]; }};
extern "C" __global__ void __launch_bounds__({threads}) products_kernel(
    const T* solution, const T* x, T* of_dl, T* of_d, T* of_du, long long count, long long steps) {{
  const long long stride = gridDim.x * (long long)blockDim.x * N;
  long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * N;
  for (; first < count; first += stride) {{
    const bool is_whole = first + N <= count;
    long long step = first % steps;
    Word factor, below, middle, above;
    if (is_whole) factor = *reinterpret_cast<const Word*>(solution + first);
#pragma unroll
    for (int r = 0; r < N; ++r) {{
      const long long k = first + r;
      if (k >= count) break;
      const T minus = -(is_whole ? factor.v[r] : solution[k]);
      below.v[r] = step > 0 ? minus * x[k - 1] : T(0);
      middle.v[r] = minus * x[k];
      above.v[r] = step < steps - 1 ? minus * x[k + 1] : T(0);
      if (++step == steps) step = 0;
      if (!is_whole) of_dl[k] = below.v[r], of_d[k] = middle.v[r], of_du[k] = above.v[r];
    }}
    if (!is_whole) break;
    *reinterpret_cast<Word*>(of_dl + first) = below;
    *reinterpret_cast<Word*>(of_d + first) = middle;
    *reinterpret_cast<Word*>(of_du + first) = above;
  }}
}}
"""


def differentiate(grad: Any, x: Any, diagonals: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the gradients of b, dl, d and du of whole real systems along the last axis.

    None for other arrays, and if the transposed system needs pivoting or is not finite: nothing is
    known of it then. Its diagonals below and above are du and dl, shifted by one entry in memory.
    Windows ignore the entries that are those of another system, and do not read those outside.
    """
    import cupy

    arrays = (grad, x, *diagonals)
    shape, dtype, device = x.shape, x.dtype, cupy.cuda.runtime.getDevice()
    for array in arrays:
        if (
            type(array) is not type(x) or array.shape != shape or array.dtype != dtype
            or not array.flags.c_contiguous or array.data.device_id != device
        ):  # fmt: skip
            return None
    if dtype.char not in "fd" or not x.size:
        return None
    raise_if_capturing(*UNCAPTURED)
    layout = prod(shape[:-1]), shape[-1], 1
    tries = tries_of(layout, dtype, (layout,) * 4, False, device)
    results = tuple([cupy.empty(shape, dtype) for _ in range(4)])
    of_b, *of_diagonals = [result.data.ptr for result in results]
    dl, d, du = (diagonal.data.ptr for diagonal in diagonals)
    operands = (du - dtype.itemsize, d, dl + dtype.itemsize, grad.data.ptr)
    wait = start_windows(tries, operands, of_b)
    try:
        # While the windows run: they seldom fail.
        if tries:
            _prepare(dtype, device)([of_b, x.data.ptr, *of_diagonals, x.size, shape[-1]])
    finally:
        is_solved = wait()
    return results if is_solved else None


@lru_cache(maxsize=16)
def _prepare(dtype: np.dtype[Any], device: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (*map(Slot, range(5)), *(Slot(k, (), number, None) for k in (5, 6)))
    text = _KERNEL.format(number=ctype(dtype), threads=_THREADS)
    launch = Launch(text, "products_kernel", _BLOCKS, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
