"""Cyclic reduction: neighbours are eliminated from rows, level by level, system by system.

The symbols a, b, c and k for dl, d, du and the right-hand side, alpha and gamma are those of the
source, which has them for n = 2**q - 1. Here n is any number: a row without a right neighbour has
c = 0. Neither method pivots.

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

from ....engines.cpu.compilation import INNER, compile_kernel


@numba.njit(**INNER)
def _is_pivot(number: Any) -> bool:
    """Whether it can be divided by: neither nearly 0 nor inf."""
    size = max(abs(number.real), abs(number.imag))
    return np.finfo(size).tiny <= size < np.inf


@numba.njit(**INNER)
def _read(operands: Any, layout: Any, outer: int, column: int, rows: Any) -> Any:
    """Copy a system to the rows a, b, c, k; 0, or nan where it holds nan or inf."""
    steps = layout.shape[1]
    for which in range(4):
        operand, stride = operands[which], layout.strides[which]
        for i in range(steps):
            at = outer * stride[0] + i * stride[1] + column * stride[2]
            rows[which, i] = operand[at]
    zero = np.zeros(1, rows.dtype)[0]
    rows[0, 0] = rows[2, steps - 1] = nan_seen = zero
    for which in range(4):
        for i in range(steps):
            nan_seen += rows[which, i] - rows[which, i]
    return nan_seen


@numba.njit(**INNER)
def _reduced(rows: Any, i: int, before: int, after: int) -> Any:
    """Row i without the unknowns of two other rows, or of one where `after` is -1."""
    alpha = -rows[0, i] / rows[1, before]
    a, b = alpha * rows[0, before], rows[1, i] + alpha * rows[2, before]
    c, k = rows[2, i], rows[3, i] + alpha * rows[3, before]
    if after >= 0:
        gamma = -c / rows[1, after]
        b, c = b + gamma * rows[0, after], gamma * rows[2, after]
        k += gamma * rows[3, after]
    return a, b, c, k


@numba.njit(**INNER)
def _keep(rows: Any, i: int, row: Any) -> None:
    rows[0, i], rows[1, i], rows[2, i], rows[3, i] = row


@numba.njit(**INNER)
def _solve_in_levels(rows: Any, steps: int) -> bool:
    """SERICR: each level keeps every other row; the unknowns replace k. Whether all pivots do."""
    is_sound, start, count = True, 0, steps
    while count > 1:
        for i in range(count // 2):
            at = start + 2 * i + 1
            after = at + 1 if at + 1 < start + count else -1
            _keep(rows, start + count + i, _reduced(rows, at, at - 1, after))
        for at in range(start, start + count, 2):
            is_sound &= _is_pivot(rows[1, at])
        start, count = start + count, count // 2
    is_sound &= _is_pivot(rows[1, start])
    rows[3, start] /= rows[1, start]
    while start > 0:
        level = _count_before(steps, count)
        before, start, count = start, start - level, level
        for i in range(count // 2):
            rows[3, start + 2 * i + 1] = rows[3, before + i]
        for i in range(0, count, 2):
            at = start + i
            x = rows[3, at]
            if i > 0:
                x -= rows[0, at] * rows[3, at - 1]
            if i < count - 1:
                x -= rows[2, at] * rows[3, at + 1]
            rows[3, at] = x / rows[1, at]
    return is_sound


@numba.njit(**INNER)
def _count_before(steps: int, count: int) -> int:
    """Rows of the level that is reduced to so many."""
    while steps // 2 != count:
        steps //= 2
    return steps


@numba.njit(**INNER)
def _solve_in_parallel(rows: Any, steps: int) -> bool:
    """PARACR: every row is reduced on every level; the unknowns replace k."""
    is_sound, distance = True, 1
    own, other = rows[:, :steps], rows[:, steps : 2 * steps]
    while distance < steps:
        for i in range(steps):
            is_sound &= _is_pivot(own[1, i])
        for i in range(steps):
            before, after = i - distance, i + distance if i + distance < steps else -1
            if before >= 0:
                _keep(other, i, _reduced(own, i, before, after))
            else:
                # Nothing is before these: a is 0, and `i` stands for the row itself.
                a = own[0, i]
                _, b, c, k = _reduced(own, i, i, after)
                _keep(other, i, (a, b, c, k))
        own, other, distance = other, own, 2 * distance
    for i in range(steps):
        is_sound &= _is_pivot(own[1, i])
        rows[3, i] = own[3, i] / own[1, i]
    return is_sound


def _kernel_of(name: str, solve_rows: Any) -> Any:
    """A kernel ``(operands, layout, rows, begin, end, result) -> a system without pivots, or -1``.

    `rows` is an array (4, 2 * steps) to write in; the others are those of :mod:`.line`.
    """

    def solve(operands: Any, layout: Any, rows: Any, begin: int, end: int, result: Any) -> int:
        (_, steps, inner), found = layout.shape, -1
        for system in range(begin, end):
            outer, column = divmod(system, inner)
            nan_seen = _read(operands, layout, outer, column, rows)
            is_sound = solve_rows(rows, steps)
            for i in range(steps):
                x = rows[3, i] + nan_seen
                is_sound &= x - x == 0
                result[(outer * steps + i) * inner + column] = x
            if not is_sound and nan_seen == nan_seen:
                found = system
        return found

    return compile_kernel(solve, name)


solve_in_levels = _kernel_of("levels", _solve_in_levels)
solve_in_parallel = _kernel_of("parallel", _solve_in_parallel)
