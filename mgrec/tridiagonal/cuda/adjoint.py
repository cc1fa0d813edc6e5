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
  const long long stride = gridDim.x * (long long)blockDim.x * N, moved = stride % steps;
  long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * N, place = first % steps;
  for (; first < count; first += stride) {{
    const bool is_whole = first + N <= count;
    long long step = place;
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
      if (is_whole) continue;
      if (of_dl) of_dl[k] = below.v[r];
      if (of_d) of_d[k] = middle.v[r];
      if (of_du) of_du[k] = above.v[r];
    }}
    place += moved;
    if (place >= steps) place -= steps;
    if (!is_whole) break;
    if (of_dl) *reinterpret_cast<Word*>(of_dl + first) = below;
    if (of_d) *reinterpret_cast<Word*>(of_d + first) = middle;
    if (of_du) *reinterpret_cast<Word*>(of_du + first) = above;
  }}
}}
"""


def differentiate(
    shape: tuple[int, ...], dtype: np.dtype[Any], device: int, addresses: Sequence[int],
    results: Sequence[int],
) -> bool:  # fmt: skip
    """Write the gradients of real contiguous systems along the last axis.

    `addresses` are those of the gradient of x, of x, dl, d and du, all of one shape and dtype on
    the current device; `results` are those of the gradients of dl, d, du and b, or 0 for those of
    diagonals that are not wanted. Return False if the
    transposed system needs pivoting or is not finite: the results have no meaning then.

    The diagonals below and above of the transposed system are du and dl, shifted by one entry in
    memory. Windows ignore the entries that are those of another system, and do not read those
    outside.
    """
    raise_if_capturing(*UNCAPTURED)
    grad, x, dl, d, du = addresses
    *of_diagonals, of_b = results
    steps, size = shape[-1], prod(shape)
    layout = size // steps, steps, 1
    tries = tries_of(layout, dtype, (layout,) * 4, False, device)
    wait = start_windows(tries, (du - dtype.itemsize, d, dl + dtype.itemsize, grad), of_b)
    try:
        # While the windows run: they seldom fail.
        if tries and any(of_diagonals):
            _prepare(dtype, device)([of_b, x, *of_diagonals, size, steps])
    finally:
        is_solved = wait()
    return is_solved


@lru_cache(maxsize=16)
def _prepare(dtype: np.dtype[Any], device: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (*map(Slot, range(5)), *(Slot(k, (), number, None) for k in (5, 6)))
    text = _KERNEL.format(number=ctype(dtype), threads=_THREADS)
    launch = Launch(text, "products_kernel", _BLOCKS, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
