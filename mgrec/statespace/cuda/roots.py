"""Lower triangular roots of the symmetric parts of covariances on a GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.launches import Launch, run_launches

_THREADS = 128
_KERNEL = """
extern "C" __global__ void root_kernel(const double* P, double* S, long long count, double least) {
  const long long number = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (number >= count) return;
  P += number * N * N;
  S += number * N * N;
  for (int j = 0; j < N; ++j) {
    double column = 0.0;
    for (int i = 0; i < N; ++i) {
      if (i < j) {
        S[i * N + j] = 0.0;
        continue;
      }
      double remainder = 0.5 * (P[i * N + j] + P[j * N + i]);
      for (int k = 0; k < j; ++k) remainder -= S[i * N + k] * S[j * N + k];
      if (i == j) {
        const double scale = N * P[j * N + j];
        if (remainder < -least * scale) column = not_a_number<double>();
        else column = remainder <= 0x1p-50 * scale ? 0.0 : 1.0 / sqrt(remainder);
      }
      S[i * N + j] = remainder * column;
    }
  }
}
"""


def lower_root(covariance: Any, least: float) -> Any:
    """Return what :func:`mgrec.statespace.recurrence.lower_root` does, by one launch.

    Eigenvalues below ``-least``, relative to the variances, are not rounding. CuPy's functions took
    0.5 ms for a matrix (H100).
    """
    import cupy

    size = covariance.shape[-1]
    P = cupy.ascontiguousarray(cast(covariance, np.dtype(np.float64)))
    S = cupy.empty(P.shape, np.float64)
    count = P.size // size**2
    if count:
        arguments = (P, S, np.int64(count), np.float64(least))
        run_launches(Launch(_program(size), "root_kernel", -(-count // _THREADS), _THREADS, arguments))
    return S


@cache
def _program(size: int) -> str:
    definitions = print_definitions(kernel_text("engines/cuda/numeric"), {"N": size})
    return definitions + _KERNEL
