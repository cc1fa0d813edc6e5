"""The update of a state by an observation, which the kernels of both passes share.

With the Cholesky factor L of the variance F = Z·P·Z' + H of an observation, X = P·Z'·L⁻ᵀ and
w = L⁻¹·v, the update is a + X·w and P − X·X'. Rows of missing observations are left out. So are
rows of F whose pivot is rounding: their entries have no variance, given the entries before them.

`states` and `entries` are the sizes of a state and of an observation: see
:mod:`mgrec.engines.cpu.columns`. Matrices of the model are vectors (:mod:`mgrec.engines.cpu.pointers`)
that begin at the current step.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from ...engines.cpu.compilation import SIZED
from ...engines.cpu.pointers import count_up, length
from ..recurrence import INVALID, NOT_ROUNDING, ROUNDING

LOG_2_PI = math.log(2 * math.pi)
_CLOSE = 4 * 2.0**-52
STEADY = 16
"""Steps over which a matrix in a steady state must stay close. A change of a quarter of a rounding
a step is too large."""


@numba.njit(**SIZED)
def observe(
    states: Any, entries: Any, endog: Any, Z: Any, intercept: Any, a: Any, observed: Any, v: Any
) -> int:
    """Write the indices of observed entries, and their differences to the prediction `a`.

    Return the number of these entries.
    """
    n, count = length(states), 0
    for i in count_up(0, length(entries)):
        value = endog[i]
        if not math.isnan(value):
            predicted = intercept[i]
            for j in count_up(0, n):
                predicted += Z[i * n + j] * a[j]
            v[count], observed[count] = value - predicted, i
            count += 1
    return count


@numba.njit(**SIZED)
def observe_all(states: Any, entries: Any, endog: Any, Z: Any, intercept: Any, a: Any, v: Any) -> bool:
    """Write the differences of all entries to the prediction; return whether none is missing."""
    n, is_full = length(states), True
    for i in count_up(0, length(entries)):
        predicted = intercept[i]
        for j in count_up(0, n):
            predicted += Z[i * n + j] * a[j]
        v[i] = endog[i] - predicted
        is_full = is_full and not math.isnan(endog[i])
    return is_full


@numba.njit(**SIZED)
def has_variance(
    states: Any, Z: Any, row: int, noise: float, P: Any, variance: float, remainder: float
) -> bool:
    """Return whether the variance of an entry, given those before it, is more than rounding.

    `variance` is that before the elimination, and `row` the index of the entry in Z. Without
    noise it is rounding of terms that n·Σ Z²·P bounds. A negative variance that is no rounding
    counts, so that results are nan.
    """
    scale, n = 0.0, length(states)
    # Differences: those of inf are nan, which is no rounding.
    if noise != 0.0:
        if not remainder - NOT_ROUNDING * variance <= 0.0:
            return True
        for i in count_up(0, n):
            scale += Z[row + i] * Z[row + i] * abs(P[i, i])
        return remainder < -INVALID * (abs(noise) + n * scale)
    for i in count_up(0, n):
        scale += Z[row + i] * Z[row + i] * P[i, i]
    return not remainder - ROUNDING * n * scale <= 0.0


@numba.njit(**SIZED)
def has_exact_observation(entries: Any, H: Any, observed: Any, m: int, work: Any) -> bool:
    """Return whether an entry has no noise of its own, given the noise of those before it."""
    p = length(entries)
    for k in count_up(0, m):
        noise = H[observed[k] * (p + 1)]
        for c in count_up(0, k + 1):
            total = 0.5 * (H[observed[k] * p + observed[c]] + H[observed[c] * p + observed[k]])
            for j in count_up(0, c):
                total -= work[k, j] * work[c, j]
            if c == k and total <= NOT_ROUNDING * noise:
                return True
            work[k, c] = math.sqrt(total) if c == k else total / work[c, c]
    return False


@numba.njit(**SIZED)
def factor(
    states: Any, entries: Any, Z: Any, H: Any, P: Any, observed: Any, v: Any, m: int, L: Any, X: Any
) -> int:
    """Write the factors L (m, m) and X (n, m) of the update of a state of covariance P.

    Entries without a variance of their own are removed from `observed` and `v`, as if they were
    missing. Return the number of the others.
    """
    n, p, count = length(states), length(entries), 0
    for k in count_up(0, m):
        observed[count], v[count] = observed[k], v[k]
        row = observed[k] * n
        for i in count_up(0, n):
            total = 0.0
            for j in count_up(0, n):
                total += P[i, j] * Z[row + j]
            X[i, count] = total
        variance = 0.0
        for c in count_up(0, count + 1):
            total = 0.5 * (H[observed[count] * p + observed[c]] + H[observed[c] * p + observed[count]])
            for i in count_up(0, n):
                total += Z[row + i] * X[i, c]
            variance = total
            for j in count_up(0, c):
                total -= L[count, j] * L[c, j]
            L[count, c] = total if c == count else total / L[c, c]
        noise, remainder = H[observed[count] * (p + 1)], L[count, count]
        if has_variance(states, Z, row, noise, P, variance, remainder):
            L[count, count] = math.sqrt(remainder)
            count += 1
    for i in count_up(0, n):
        for k in count_up(0, count):
            total = X[i, k]
            for j in count_up(0, k):
                total -= X[i, j] * L[k, j]
            X[i, k] = total / L[k, k]
    return count


@numba.njit(**SIZED)
def whiten(states: Any, L: Any, m: int, v: Any) -> float:
    """Replace v by L⁻¹·v; return its square."""
    square = 0.0
    for k in count_up(0, m):
        total = v[k]
        for j in count_up(0, k):
            total -= L[k, j] * v[j]
        v[k] = total / L[k, k]
        square += v[k] * v[k]
    return square


@numba.njit(**SIZED)
def log_determinant(states: Any, L: Any, m: int) -> float:
    """Return the logarithm of the determinant of L·L', plus m·log(2π)."""
    total = m * LOG_2_PI
    for k in count_up(0, m):
        total += 2 * math.log(L[k, k])
    return total


@numba.njit(**SIZED)
def is_close(states: Any, P: Any, Q: Any) -> bool:
    """Return whether two covariances differ by a few roundings, of the deviations of each entry.

    States may have units of any size. nan and inf are not close to anything.
    """
    for i in count_up(0, length(states)):
        for j in count_up(0, i + 1):
            change = abs(P[i, j] - Q[i, j])
            # One root of the product could overflow.
            size = math.sqrt(P[i, i]) * math.sqrt(P[j, j])
            if not (change < math.inf and change <= _CLOSE * size):
                return False
    return True


@numba.njit(**SIZED)
def count_close(states: Any, P: Any, kept: Any, count: int) -> int:
    """Return for how many steps P has been close to `kept`, which becomes P if it is not."""
    if is_close(states, P, kept):
        return count + 1
    assign(states, kept, P)
    return 0


@numba.njit(**SIZED)
def product(states: Any, A: Any, B: Any, C: Any) -> None:
    """Write C = A·B."""
    n = length(states)
    for i in count_up(0, n):
        for j in count_up(0, n):
            total = 0.0
            for k in count_up(0, n):
                total += A[i, k] * B[k, j]
            C[i, j] = total


@numba.njit(**SIZED)
def assign(states: Any, target: Any, source: Any) -> None:
    """Copy a matrix. An assignment to a slice takes numba half a second to compile."""
    for i in count_up(0, length(states)):
        for j in count_up(0, length(states)):
            target[i, j] = source[i, j]


@numba.njit(**SIZED)
def copy(states: Any, target: Any, source: Any) -> None:
    """Copy a vector."""
    for i in count_up(0, length(states)):
        target[i] = source[i]


@numba.njit(**SIZED)
def clear(states: Any, matrix: Any) -> None:
    """Set a matrix to 0."""
    for i in count_up(0, length(states)):
        for j in count_up(0, length(states)):
            matrix[i, j] = 0.0


@numba.njit(**SIZED)
def largest(states: Any, A: Any) -> float:
    """Return the largest size of an entry, or nan if one is nan."""
    size = 0.0
    for i in count_up(0, length(states)):
        for j in count_up(0, length(states)):
            # Not nan: this comparison is False.
            if not abs(A[i, j]) <= size:
                size = abs(A[i, j])
    return size


@numba.njit(**SIZED)
def forget(states: Any, A: Any, size: float, least: float) -> bool:
    """Set a matrix to 0 if its largest entry is below `least`; return whether it is 0.

    Entries would end as subnormal numbers, which take ten times as long.
    """
    if size < least:
        clear(states, A)
        return True
    return False


@numba.njit(**SIZED)
def load(states: Any, numbers: Any, vector: Any, matrix: Any) -> None:
    """Read a vector and the matrix after it."""
    n = length(states)
    for i in count_up(0, n):
        vector[i] = numbers[i]
        for j in count_up(0, n):
            matrix[i, j] = numbers[n + i * n + j]


@numba.njit(**SIZED)
def store(states: Any, numbers: Any, vector: Any, matrix: Any) -> None:
    """Write a vector, and a matrix after it."""
    n = length(states)
    for i in count_up(0, n):
        numbers[i] = vector[i]
        for j in count_up(0, n):
            numbers[n + i * n + j] = matrix[i, j]


@numba.njit(**SIZED)
def multiply_add(states: Any, vector: Any, X: Any, v: Any, m: int, result: Any) -> None:
    """Write vector + X·v, of the first m columns."""
    for i in count_up(0, length(states)):
        total = vector[i]
        for k in count_up(0, m):
            total += X[i, k] * v[k]
        result[i] = total
