"""Systems one after the other, without pivoting: Thomas's method and cyclic reduction.

The symbols a, b, c and k for dl, d, du and the right-hand side, alpha and gamma are those of the
reference, which has them for n = 2**q - 1. Here n is any number: a row outside of a level is x = 0.

All kernels have the parameters ``(operands, layout, rows, start, stop, result)``. `rows` is memory
(4, SCRATCH + 2 * steps). Operands and `result`, of the axes (outer, steps, inner), are 1-d. A kernel returns
a system in which a pivot is 0 or overflows, or -1.

References
----------
X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416: SERICR and PARACR, after R. W. Hockney and C. R. Jesshope.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel

SCRATCH = 64
"""Rows outside of levels."""


@numba.njit(**INNER)
def _is_pivot(number: Any) -> bool:
    """Return whether a number is neither nearly 0 nor inf."""
    size = max(abs(number.real), abs(number.imag))
    return np.finfo(size).tiny <= size < np.inf


def _solve_thomas(operands: Any, layout: Any, rows: Any, start: int, stop: int, result: Any) -> int:
    (dl, d, du, b), c = operands, rows[0]
    (_, steps, inner), strides, singular = layout.shape, layout.strides, -1
    zero, one = np.zeros(1, c.dtype)[0], np.ones(1, c.dtype)[0]
    for system in range(start, stop):
        outer, column = divmod(system, inner)
        first = strides[:, 0] * outer + strides[:, 2] * column
        first_result = outer * steps * inner + column
        ratio, x, nan_seen, is_sound = zero, zero, zero, True
        for i in range(steps):
            lower = dl[first[0] + i * strides[0, 1]] if i > 0 else zero
            upper = du[first[2] + i * strides[2, 1]] if i < steps - 1 else zero
            middle, right = d[first[1] + i * strides[1, 1]], b[first[3] + i * strides[3, 1]]
            nan_seen += (lower - lower) + (upper - upper) + (middle - middle) + (right - right)
            pivot = middle - lower * ratio
            inverse = one / pivot
            ratio, x = upper * inverse, (right - lower * x) * inverse
            is_sound &= _is_pivot(pivot) and x - x == zero
            c[i], result[first_result + i * inner] = ratio, x
        x = zero
        for i in range(steps - 1, -1, -1):
            x = result[first_result + i * inner] - c[i] * x
            result[first_result + i * inner] = x + nan_seen
        if not is_sound and nan_seen == nan_seen:
            singular = system
    return singular


@numba.njit(**INNER)
def _load_system(operands: Any, layout: Any, outer: int, column: int, rows: Any) -> Any:
    """Copy a system to the rows a, b, c, k from row 1 on; return 0, or nan if it contains nan or inf."""
    steps = layout.shape[1]
    zero = nan_seen = np.zeros(1, rows.dtype)[0]
    for which in range(4):
        operand, stride = operands[which], layout.strides[which]
        for i in range(steps):
            index = outer * stride[0] + i * stride[1] + column * stride[2]
            rows[which, i + 1] = operand[index]
    rows[0, 1] = rows[2, steps] = zero
    for which in range(4):
        for i in range(1, steps + 1):
            nan_seen += rows[which, i] - rows[which, i]
    return nan_seen


@numba.njit(**INNER)
def _reduced(rows: Any, i: int, before: int, after: int) -> Any:
    """Return row i without the unknowns of two other rows."""
    alpha, gamma = -rows[0, i] / rows[1, before], -rows[2, i] / rows[1, after]
    b = rows[1, i] + alpha * rows[2, before] + gamma * rows[0, after]
    k = rows[3, i] + alpha * rows[3, before] + gamma * rows[3, after]
    return alpha * rows[0, before], b, gamma * rows[2, after], k


@numba.njit(**INNER)
def _cyclic_reduction(rows: Any, steps: int) -> bool:
    """Solve by SERICR: each level has every other row of the level below, and a row outside before it.

    Unknowns replace k. Return whether all pivots are regular.
    """
    is_sound, start, count, level = True, 1, steps, 0
    while count > 1:
        for which in range(4):
            rows[which, start + count] = which == 1
        for i in range(count // 2):
            row, target = start + 2 * i + 1, start + count + 1 + i
            rows[0, target], rows[1, target], rows[2, target], rows[3, target] = _reduced(
                rows, row, row - 1, row + 1
            )
        for row in range(start, start + count, 2):
            is_sound &= _is_pivot(rows[1, row])
        start, count, level = start + count + 1, count // 2, level + 1
    is_sound &= _is_pivot(rows[1, start])
    rows[3, start] /= rows[1, start]
    while level > 0:
        level -= 1
        count = steps >> level
        before, start = start, start - count - 1
        for i in range(count // 2):
            rows[3, start + 2 * i + 1] = rows[3, before + i]
        for row in range(start, start + count, 2):
            x = rows[3, row] - rows[0, row] * rows[3, row - 1] - rows[2, row] * rows[3, row + 1]
            rows[3, row] = x / rows[1, row]
    return is_sound


@numba.njit(**INNER)
def _parallel_cyclic_reduction(rows: Any, steps: int) -> bool:
    """Solve by PARACR: each level has all rows, between two rows outside.

    Unknowns replace k. Return whether all pivots are regular.
    """
    is_sound, distance = True, 1
    current, reduced = rows[:, : steps + 2], rows[:, steps + 2 : 2 * steps + 4]
    for which in range(4):  # an assignment of slices takes 4 s to compile
        current[which, steps + 1] = reduced[which, 0] = reduced[which, steps + 1] = current[which, 0]
    while distance < steps:
        for i in range(1, steps + 1):
            is_sound &= _is_pivot(current[1, i])
        for i in range(1, steps + 1):
            before, after = max(i - distance, 0), min(i + distance, steps + 1)
            reduced[0, i], reduced[1, i], reduced[2, i], reduced[3, i] = _reduced(current, i, before, after)
        current, reduced, distance = reduced, current, 2 * distance
    for i in range(1, steps + 1):
        is_sound &= _is_pivot(current[1, i])
        rows[3, i] = current[3, i] / current[1, i]
    return is_sound


def _kernel_of(name: str, solve_rows: Any) -> Any:
    def solve(operands: Any, layout: Any, rows: Any, start: int, stop: int, result: Any) -> int:
        (_, steps, inner), singular = layout.shape, -1
        for which in range(4):
            rows[which, 0] = which == 1
        for system in range(start, stop):
            outer, column = divmod(system, inner)
            nan_seen = _load_system(operands, layout, outer, column, rows)
            is_sound = solve_rows(rows, steps)
            for i in range(steps):
                x = rows[3, i + 1] + nan_seen
                is_sound &= x - x == 0
                result[(outer * steps + i) * inner + column] = x
            if not is_sound and nan_seen == nan_seen:
                singular = system
        return singular

    return compile_kernel(solve, name)


solve_thomas = compile_kernel(_solve_thomas)
solve_cyclic_reduction = _kernel_of("levels", _cyclic_reduction)
solve_pcr = _kernel_of("parallel", _parallel_cyclic_reduction)
