"""The square-root form of the update of a state, which the kernels of both passes share.

A covariance is S·S', with a lower triangular S whose diagonal is not negative. Reflections of
columns, which keep A·A' of an array A, make arrays triangular:

    [R  Z·S]  →  [L  0]        [T·U  Q]  →  [S  0]  of the next step,
    [0   S ]     [X  U],  and

where R·R' is the covariance of the noise of an observation and Q·Q' that of the noise of states.
The filtered state has the root U; L and X are those of :mod:`.update`. No covariance is a
difference, and none is inverted.

The smoother needs the reflections themselves. Rows of a unit matrix below these arrays become, in
the same columns, K and V with X = S·K and U = S·V, and F and G with T·U = S·F' and F·F' + G·G' = 1.
"""

from __future__ import annotations

import math
from typing import Any

import numba

from ...engines.cpu.compilation import INLINED
from ..roots import ROUNDING

_SMALLEST = 1e-301
"""Square of a row that becomes 0. Those of smaller ones lose digits."""

_NEGLIGIBLE = 1e-40
"""Part of the square of a row. Reflections from subnormal numbers would not be orthogonal."""


@numba.njit(**INLINED)
def triangularise(array: Any, rows: int, all_rows: int, columns: int) -> None:
    """Make the first rows lower triangular by reflections of columns, also in all other rows.

    A row that adds nothing to those before it has a column of zeros in the first rows.
    """
    free = 0
    for i in range(rows):
        sigma = 0.0
        for j in range(free + 1, columns):
            sigma += array[i, j] * array[i, j]
        alpha = array[i, free]
        square = alpha * alpha + sigma
        if square < _SMALLEST:
            for j in range(free, columns):
                array[i, j] = 0.0
            continue
        if sigma <= _NEGLIGIBLE * square:
            sigma = 0.0
            for j in range(free + 1, columns):
                array[i, j] = 0.0
        # The reflection 1 − v·v'·scale, which leads to a positive entry (Golub and van Loan).
        norm = math.sqrt(square)
        v = alpha - norm if alpha <= 0.0 else -sigma / (alpha + norm)
        scale = 2.0 / (v * v + sigma) if v != 0.0 else 0.0
        for k in range(i + 1, all_rows):
            total = v * array[k, free]
            for j in range(free + 1, columns):
                total += array[i, j] * array[k, j]
            total *= scale
            array[k, free] -= total * v
            for j in range(free + 1, columns):
                array[k, j] -= total * array[i, j]
        array[i, free] = norm
        for j in range(free + 1, columns):
            array[i, j] = 0.0
        free += 1
    if free < rows:
        _move_to_diagonal(array, rows, all_rows, free)


@numba.njit(**INLINED)
def _move_to_diagonal(array: Any, rows: int, all_rows: int, count: int) -> None:
    """Move the last non-zero entry of a row to the diagonal, by exchanges of columns."""
    last = count - 1
    for i in range(rows - 1, -1, -1):
        is_first = last >= 0 and array[i, last] != 0.0
        for k in range(i):
            is_first = is_first and array[k, last] == 0.0
        if is_first:
            for k in range(all_rows):
                array[k, last], array[k, i] = array[k, i], array[k, last]
            last -= 1


@numba.njit(**INLINED)
def update_root(
    states: Any, entries: Any, design: Any, z: int, root: Any, h: int, S: Any, observed: Any,
    m: int, array: Any, with_unit: bool, L: Any, X: Any, U: Any,
) -> None:  # fmt: skip
    """Write the factors L and X of the update of a state of root S, and the root U after it.

    With `with_unit`, the rows of `array` from m + n on have K in their first m columns, and then V.
    """
    n, p = len(states), len(entries)
    for k in range(m):
        for j in range(p):
            array[k, j] = root[h + observed[k] * p + j]
    if m < p:
        # m columns, so that no column is left over.
        triangularise(array, m, m, p)
    for k in range(m):
        for j in range(n):
            total = 0.0
            for i in range(j, n):
                total += design[z + observed[k] * n + i] * S[i, j]
            array[k, m + j] = total
    all_rows = m + 2 * n if with_unit else m + n
    for i in range(all_rows - m):
        for j in range(m):
            array[m + i, j] = 0.0
        for j in range(n):
            array[m + i, m + j] = S[i, j] if i < n else (1.0 if i == n + j else 0.0)
    triangularise(array, m + n, all_rows, m + n)
    for k in range(m):
        size = 0.0
        for j in range(k + 1):
            L[k, j] = array[k, j]
            size += array[k, j] * array[k, j]
        # An entry without a variance of its own: results are nan.
        if L[k, k] * L[k, k] <= ROUNDING * ROUNDING * size:
            L[k, k] = 0.0
    for i in range(n):
        for k in range(m):
            X[i, k] = array[m + i, k]
        size = remainder = 0.0
        for j in range(n):
            U[i, j] = array[m + i, m + j]
            size += S[i, j] * S[i, j]
            remainder += U[i, j] * U[i, j]
        # An observation without noise: what remains is rounding.
        if remainder <= ROUNDING * ROUNDING * size:
            for j in range(n):
                U[i, j] = 0.0


@numba.njit(**INLINED)
def predict_root(
    states: Any,
    transition: Any,
    t: int,
    root: Any,
    q: int,
    U: Any,
    array: Any,
    with_unit: bool,
    S: Any,
) -> None:
    """Write the root S of the state after a transition from the root U.

    With `with_unit`, the rows of `array` from n on have F in their first n columns, and then G.
    """
    n = len(states)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(j, n):
                total += transition[t + i * n + k] * U[k, j]
            array[i, j], array[i, n + j] = total, root[q + i * n + j]
    all_rows = 2 * n if with_unit else n
    for i in range(n, all_rows):
        for j in range(n):
            array[i, j], array[i, n + j] = 1.0 if i == n + j else 0.0, 0.0
    triangularise(array, n, all_rows, 2 * n)
    for i in range(n):
        for j in range(n):
            S[i, j] = array[i, j]


@numba.njit(**INLINED)
def is_same(states: Any, A: Any, B: Any) -> bool:
    """Return whether two matrices are the same, bit for bit."""
    for i in range(len(states)):
        for j in range(len(states)):
            if A[i, j] != B[i, j]:
                return False
    return True


@numba.njit(**INLINED)
def square(states: Any, S: Any, P: Any) -> None:
    """Write P = S·S'."""
    n = len(states)
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += S[i, k] * S[j, k]
            P[i, j] = P[j, i] = total


@numba.njit(**INLINED)
def product(
    states: Any, A: Any, row: int, column: int, B: Any, from_row: int, from_column: int, C: Any
) -> None:
    """Write the product C of a part of A and a part of B."""
    n = len(states)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += A[row + i, column + k] * B[from_row + k, from_column + j]
            C[i, j] = total
