"""Gradients of the coefficients of linear recurrences, from the adjoint recurrence."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.narrow import is_narrow
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import MULTIPROCESSORS
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ...engines.cuda.tracing.cpp import ctype, print_definitions

_THREADS, _BLOCKS = 256, 16 * MULTIPROCESSORS
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
  const long long stride = gridDim.x * (long long)blockDim.x * N, moved = stride % row;
  long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * N;
  long long place = first % row;  // in its row
  for (; first < count; first += stride) {{
    const bool is_whole = first + N <= count;
    long long next = place;
    Word factor, product;
    if (is_whole) factor = *reinterpret_cast<const Word*>(adjoint + first);
#pragma unroll
    for (int r = 0; r < N; ++r) {{
      const long long k = first + r;
      if (k >= count) break;
      Stored value = is_whole ? factor.v[r] : adjoint[k];
      if (k >= begin && k < begin + inners) adjoint[k] = value = grad[k];
      if (!of_s) continue;
      const bool is_bare = next >= bare && next < bare + inners;
      product.v[r] = is_bare ? Stored(T(0)) : Stored(T(value) * T(w[k + shift]));
      if (++next == row) next = 0;
      if (!is_whole) of_s[k] = product.v[r];
    }}
    if (is_whole && of_s) *reinterpret_cast<Word*>(of_s + first) = product;
    place += moved;
    if (place >= row) place -= row;
  }}
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
    launch = _prepare(dtype, device)
    launch([grad, adjoint, w, of_s, prod(shape), shape[1], shape[2], int(reverse)])


@lru_cache(maxsize=16)
def _prepare(dtype: np.dtype[Any], device: int) -> LaunchByAddress:
    return LaunchByAddress(PreparedLaunches(describe(dtype)))


def describe(dtype: np.dtype[Any]) -> Launch:
    """Return the launch for arrays of a dtype."""
    headers = kernel_text("engines/cuda/scalar/numeric", "engines/cuda/scalar/half")
    number = np.dtype(np.float32) if is_narrow(dtype) else dtype
    text = print_definitions(headers, {"THREADS": _THREADS})
    text += _KERNEL.format(stored=ctype(dtype), number=ctype(number))
    word = np.dtype(np.int64)
    arguments = (*map(Slot, range(4)), *(Slot(k, (), word, None) for k in range(4, 8)))
    return Launch(text, "products_kernel", _BLOCKS, _THREADS, arguments)
