"""Thomas' algorithm as plain numba loops: elimination without pivoting."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def thomas_rows(dl, d, du, b):
    """Systems along the last axis, one after the other."""
    x, c = np.empty_like(b), np.empty_like(b[0])
    last = b.shape[1] - 1
    for row in range(b.shape[0]):
        inverse = b.dtype.type(1) / d[row, 0]
        c[0], x[row, 0] = du[row, 0] * inverse, b[row, 0] * inverse
        for i in range(1, last + 1):
            inverse = b.dtype.type(1) / (d[row, i] - dl[row, i] * c[i - 1])
            c[i] = du[row, i] * inverse
            x[row, i] = (b[row, i] - dl[row, i] * x[row, i - 1]) * inverse
        for i in range(last - 1, -1, -1):
            x[row, i] -= c[i] * x[row, i + 1]
    return x


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})
def thomas_interleaved(dl, d, du, b):
    """Systems along the first axis, all of them side by side."""
    x, c = np.empty_like(b), np.empty_like(b)
    last = b.shape[0] - 1
    for k in range(b.shape[1]):
        inverse = b.dtype.type(1) / d[0, k]
        c[0, k], x[0, k] = du[0, k] * inverse, b[0, k] * inverse
    for i in range(1, last + 1):
        for k in range(b.shape[1]):
            inverse = b.dtype.type(1) / (d[i, k] - dl[i, k] * c[i - 1, k])
            c[i, k] = du[i, k] * inverse
            x[i, k] = (b[i, k] - dl[i, k] * x[i - 1, k]) * inverse
    for i in range(last - 1, -1, -1):
        for k in range(b.shape[1]):
            x[i, k] -= c[i, k] * x[i + 1, k]
    return x


def warm() -> None:
    """Compile before the first clock starts."""
    for dtype in (np.float32, np.float64):
        ones = np.ones((2, 3), dtype)
        thomas_rows(ones, 4 * ones, ones, ones)
        thomas_interleaved(ones, 4 * ones, ones, ones)
