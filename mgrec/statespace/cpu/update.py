"""The update of a state by an observation, which the kernels of both passes share.

With the Cholesky factor L of the variance F = Z·P·Z' + H of an observation, X = P·Z'·L⁻ᵀ and
w = L⁻¹·v, the update is a + X·w and P − X·X'. Rows of missing observations are left out.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from ...engines.cpu.compilation import INNER

LOG_2_PI = math.log(2 * math.pi)
_CLOSE = 4 * 2.0**-52
STEADY = 16
"""Steps over which a matrix in a steady state must stay close. A change of a quarter of a rounding
a step is too large."""


@numba.njit(**INNER)
def locate(strides: Any, x: int, step: int, y: int, places: Any) -> None:
    """Write the places of a step in flat arrays."""
    for k in range(len(places)):
        places[k] = strides[k, 0] * x + strides[k, 1] * step + strides[k, 2] * y


@numba.njit(**INNER)
def observe(
    endog: Any, y: int, design: Any, z: int, intercept: Any, d: int, a: Any, observed: Any, v: Any
) -> int:
    """Write the indices of observed entries, and their differences to the prediction `a`.

    `y`, `z` and `d` are the places of the step in the flat arrays. Return the number of entries.
    """
    n, count = len(a), 0
    for i in range(len(v)):
        value = endog[y + i]
        if not math.isnan(value):
            predicted = intercept[d + i]
            for j in range(n):
                predicted += design[z + i * n + j] * a[j]
            v[count], observed[count] = value - predicted, i
            count += 1
    return count


@numba.njit(**INNER)
def factor(
    design: Any, z: int, obs_cov: Any, h: int, P: Any, observed: Any, m: int, L: Any, X: Any
) -> None:
    """Write the factors L (m, m) and X (n, m) of the update of a state of covariance P."""
    n, p = len(P), len(L)
    for k in range(m):
        row = z + observed[k] * n
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += P[i, j] * design[row + j]
            X[i, k] = total
    for k in range(m):
        row = z + observed[k] * n
        for c in range(k + 1):
            total = 0.5 * (
                obs_cov[h + observed[k] * p + observed[c]]
                + obs_cov[h + observed[c] * p + observed[k]]
            )
            for i in range(n):
                total += design[row + i] * X[i, c]
            for j in range(c):
                total -= L[k, j] * L[c, j]
            L[k, c] = math.sqrt(total) if k == c else total / L[c, c]
    for i in range(n):
        for k in range(m):
            total = X[i, k]
            for j in range(k):
                total -= X[i, j] * L[k, j]
            X[i, k] = total / L[k, k]


@numba.njit(**INNER)
def whiten(L: Any, m: int, v: Any) -> float:
    """Replace v by L⁻¹·v; return its square."""
    square = 0.0
    for k in range(m):
        total = v[k]
        for j in range(k):
            total -= L[k, j] * v[j]
        v[k] = total / L[k, k]
        square += v[k] * v[k]
    return square


@numba.njit(**INNER)
def log_determinant(L: Any, m: int) -> float:
    """Return the logarithm of the determinant of L·L', plus m·log(2π)."""
    total = m * LOG_2_PI
    for k in range(m):
        total += 2 * math.log(L[k, k])
    return total


@numba.njit(**INNER)
def is_close(P: Any, Q: Any) -> bool:
    """Return whether two covariances differ by a few roundings, of the deviations of each entry.

    States may have units of any size. nan and inf are not close to anything.
    """
    for i in range(len(P)):
        for j in range(i + 1):
            change = abs(P[i, j] - Q[i, j])
            # One root of the product could overflow.
            size = math.sqrt(P[i, i]) * math.sqrt(P[j, j])
            if not (change < math.inf and change <= _CLOSE * size):
                return False
    return True


@numba.njit(**INNER)
def count_close(P: Any, kept: Any, count: int) -> int:
    """Return for how many steps P has been close to `kept`, which becomes P if it is not."""
    if is_close(P, kept):
        return count + 1
    assign(kept, P)
    return 0


@numba.njit(**INNER)
def assign(target: Any, source: Any) -> None:
    """Copy a matrix. An assignment to a slice takes numba half a second to compile."""
    for i in range(len(target)):
        for j in range(len(target)):
            target[i, j] = source[i, j]


@numba.njit(**INNER)
def clear(matrix: Any) -> None:
    """Set a matrix to 0."""
    for i in range(len(matrix)):
        for j in range(len(matrix)):
            matrix[i, j] = 0.0


@numba.njit(**INNER)
def largest(A: Any) -> float:
    """Return the largest size of an entry, or nan if one is nan."""
    size = 0.0
    for i in range(len(A)):
        for j in range(len(A)):
            # Not nan: this comparison is False.
            if not abs(A[i, j]) <= size:
                size = abs(A[i, j])
    return size


@numba.njit(**INNER)
def forget(A: Any, size: float, least: float) -> bool:
    """Set a matrix to 0 if its largest entry is below `least`; return whether it is 0.

    Entries would end as subnormal numbers, which take ten times as long.
    """
    if size < least:
        clear(A)
        return True
    return False


@numba.njit(**INNER)
def load(numbers: Any, place: int, vector: Any, matrix: Any) -> None:
    """Read a vector and a matrix from a flat array."""
    n = len(vector)
    for i in range(n):
        vector[i] = numbers[place + i]
        for j in range(n):
            matrix[i, j] = numbers[place + n + i * n + j]


@numba.njit(**INNER)
def store(numbers: Any, place: int, vector: Any, matrix: Any) -> None:
    """Write a vector and a matrix to a flat array."""
    n = len(vector)
    for i in range(n):
        numbers[place + i] = vector[i]
        for j in range(n):
            numbers[place + n + i * n + j] = matrix[i, j]


@numba.njit(**INNER)
def multiply_add(vector: Any, X: Any, v: Any, m: int, result: Any) -> None:
    """Write vector + X·v, of the first m columns."""
    for i in range(len(vector)):
        total = vector[i]
        for k in range(m):
            total += X[i, k] * v[k]
        result[i] = total
