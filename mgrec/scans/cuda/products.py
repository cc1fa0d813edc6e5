"""Gradients of the coefficients of linear recurrences, from the adjoint recurrence."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import is_narrow
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import ctype, print_definitions
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot

_THREADS = 256
_KERNEL = """
typedef {stored} Stored;
typedef {number} T;
constexpr int N = 16 / sizeof(Stored);
struct alignas(16) Word {{ Stored v[N]; }};
extern "C" __global__ void __launch_bounds__(THREADS) products_kernel(
    const Stored* grad, Stored* adjoint, const Stored* w, Stored* of_s, long long count,
    long long steps, long long inners, long long reverse) {{
  // Elements of a row without a state before them, and those that the recurrence begins with.
  const long long row = steps * inners, bare = reverse ? row - inners : 0;
  const long long begin = reverse ? 0 : count - inners, shift = reverse ? inners : -inners;
  const long long first = (blockIdx.x * (long long)THREADS + threadIdx.x) * N;
  if (first >= count) return;
  const int length = count - first < N ? int(count - first) : N;
  Word factor = {{}}, product;
  if (length == N) factor = *reinterpret_cast<const Word*>(adjoint + first);
  else
    for (int r = 0; r < length; ++r) factor.v[r] = adjoint[first + r];
  if (first + N > begin && first < begin + inners)
    for (int r = 0; r < length; ++r)
      if (first + r >= begin && first + r < begin + inners)
        adjoint[first + r] = factor.v[r] = grad[first + r];
  if (!of_s) return;
  // The place in its row: a division of 64 bits would take as long as the loads.
  long long place = first;
  if (row < count) place = count >> 32 ? first % row : unsigned(first) % unsigned(row);
#pragma unroll
  for (int r = 0; r < N; ++r) {{
    const bool is_bare = (place >= bare && place < bare + inners) || r >= length;
    product.v[r] = is_bare ? Stored(T(0)) : Stored(T(factor.v[r]) * T(w[first + r + shift]));
    if (++place == row) place = 0;
  }}
  if (length == N) *reinterpret_cast<Word*>(of_s + first) = product;
  else
    for (int r = 0; r < length; ++r) of_s[first + r] = product.v[r];
}}
"""


def multiply_by_states(
    shape: tuple[int, int, int], dtype: np.dtype[Any], device: int, reverse: bool, grad: int,
    adjoint: int, w: int, of_s: int,
) -> None:  # fmt: skip
    """Write the gradients of the coefficients, of contiguous arrays (outer, steps, inner).

    Arguments are addresses on the current device: of the gradient of w, of the adjoint, of w, and
    of the result, or 0. The adjoint recurrence of all rows begins with the gradient at the last
    step of w (at the first one with `reverse`); the kernel copies it to the adjoint of the last
    row (of the first one).
    """
    blocks = -(-prod(shape) * dtype.itemsize // (16 * _THREADS))
    launch = _prepare(dtype, device, blocks)
    launch([grad, adjoint, w, of_s, prod(shape), shape[1], shape[2], int(reverse)])


@lru_cache(maxsize=256)
def _prepare(dtype: np.dtype[Any], device: int, blocks: int) -> LaunchByAddress:
    return LaunchByAddress(PreparedLaunches(describe(dtype, blocks)))


def describe(dtype: np.dtype[Any], blocks: int = 1) -> Launch:
    """Return the launch for arrays of a dtype."""
    headers = kernel_text("engines/cuda/scalar/numeric", "engines/cuda/scalar/half")
    number = np.dtype(np.float32) if is_narrow(dtype) else dtype
    text = print_definitions(headers, {"THREADS": _THREADS})
    text += _KERNEL.format(stored=ctype(dtype), number=ctype(number))
    word = np.dtype(np.int64)
    arguments = (*map(Slot, range(4)), *(Slot(k, (), word, None) for k in range(4, 8)))
    return Launch(text, "products_kernel", blocks, _THREADS, arguments)
