"""Gradients of whole contiguous systems by windows, which read shifted diagonals where they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.device import raise_if_capturing
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from .window import UNCAPTURED, start_windows, tries_of

_THREADS = 256
_KERNEL = """
typedef {number} T;
constexpr int N = 16 / sizeof(T);
struct alignas(16) Word {{ T v[N]; }};
DEVICE inline void store(T* to, const Word& word, int length) {{
  if (!to) return;
  if (length == N) *reinterpret_cast<Word*>(to) = word;
  else
    for (int r = 0; r < length; ++r) to[r] = word.v[r];
}}
extern "C" __global__ void __launch_bounds__(THREADS) products_kernel(
    const T* solution, const T* x, T* of_dl, T* of_d, T* of_du, long long count, long long steps) {{
  const long long first = (blockIdx.x * (long long)THREADS + threadIdx.x) * N;
  if (first >= count) return;
  const int length = count - first < N ? int(count - first) : N;
  Word factor = {{}}, below, middle, above;
  if (length == N) factor = *reinterpret_cast<const Word*>(solution + first);
  else
    for (int r = 0; r < length; ++r) factor.v[r] = solution[first + r];
  // A division of 64 bits would take as long as the loads.
  long long step = first;
  if (steps < count) step = count >> 32 ? first % steps : unsigned(first) % unsigned(steps);
#pragma unroll
  for (int r = 0; r < N; ++r) {{
    const long long k = first + r;
    const bool is_there = r < length, has_before = step > 0, has_after = step < steps - 1;
    const T minus = -factor.v[r];
    below.v[r] = is_there && has_before ? minus * x[k - 1] : T(0);
    middle.v[r] = is_there ? minus * x[k] : T(0);
    above.v[r] = is_there && has_after ? minus * x[k + 1] : T(0);
    if (++step == steps) step = 0;
  }}
  store(of_dl ? of_dl + first : of_dl, below, length);
  store(of_d ? of_d + first : of_d, middle, length);
  store(of_du ? of_du + first : of_du, above, length);
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
            blocks = -(-size * dtype.itemsize // (16 * _THREADS))
            _prepare(dtype, device, blocks)([of_b, x, *of_diagonals, size, steps])
    finally:
        is_solved = wait()
    return is_solved


@lru_cache(maxsize=256)
def _prepare(dtype: np.dtype[Any], device: int, blocks: int) -> LaunchByAddress:
    number = np.dtype(np.int64)
    arguments = (*map(Slot, range(5)), *(Slot(k, (), number, None) for k in (5, 6)))
    text = print_definitions(kernel_text("engines/cuda/scalar/numeric"), {"THREADS": _THREADS})
    text += _KERNEL.format(number=ctype(dtype))
    launch = Launch(text, "products_kernel", blocks, _THREADS, arguments)
    return LaunchByAddress(PreparedLaunches(launch))
