"""LU factors of tridiagonal matrices in host memory, with scaled partial pivoting from both ends.

The unknowns 0 … m-1 are eliminated downwards with the rows 0 … m, and n-1 … m+2 upwards with the
other rows. Two rows in x[m] and x[m+1] remain. This is Gaussian elimination in another order of
the unknowns, with its stability, as two chains of steps that do not wait for each other.

Each step has one pending row, near·x[i] + far·x[i+1], and selects the pivot from it and the next
row.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.stack import stack_empty
from ...engines.cpu.threads import call_in_parts
from ..errors import check_outcomes

# From this number of columns systems are solved side by side: 1,000 took 1.3 ns an unknown, and
# 2.2 to 3 one by one. 16 columns took three times as long side by side, 48 1.1 to 1.6 times.
MIN_COLUMNS = 64
# Threads per system up to which factors are faster. A system of 2**22 takes 3.1 ns an unknown on
# one thread; without factors 9.2 on one thread and 3 to 4 on four.
MAX_THREADS = 4
# Columns of a tile: its pending right-hand sides stay in the L1 cache.
TILE = 256


class LUFactors(NamedTuple):
    """The factors of matrices: arrays (outer, steps, inner).

    The last two have length 1 if no rows were exchanged.
    """

    multiplier: np.ndarray
    inverse: np.ndarray  # of a pivot
    after: np.ndarray  # the first coefficient after a pivot, divided by it
    second: np.ndarray  # the second one
    is_swapped: np.ndarray  # whether the next row is the pivot (uint8)


def factor_matrices(dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> LUFactors:
    """Factor matrices, and overwrite their full diagonals (outer, steps, inner)."""
    dl[:, :1] = du[:, -1:] = 0
    lu = LUFactors._make([*(np.zeros_like(d) for _ in range(4)), np.zeros(d.shape, np.uint8)])
    if d.shape[1] > 1:
        check_outcomes([factor_kernel((dl, d, du), lu, _middle(d.shape[1]), np.ones(1, d.dtype))])
    else:
        check_outcomes(np.flatnonzero(d == 0)[:1].tolist())
        lu = lu._replace(inverse=1 / d)
    if lu.is_swapped.any():
        return lu
    return lu._replace(second=np.zeros((1, 1, 1), d.dtype), is_swapped=np.zeros((1, 1, 1), np.uint8))


def _middle(steps: int) -> int:
    return (steps - 2) // 2


def solve_factored(
    lu: LUFactors, outer: np.ndarray, inner: np.ndarray, b: np.ndarray, x: np.ndarray, threads: int = 1
) -> None:
    """Solve for right-hand sides `b`, and write `x`: arrays (outer, steps, inner), C-contiguous.

    `outer` and `inner` have, for each outer and inner index of `b`, the index in the factors.
    """
    rows, steps, columns = b.shape
    if not b.size:
        return
    if steps == 1:
        x[...] = b * lu.inverse[outer][:, :, inner]
        return
    b, width = writable(b), lu.inverse.shape[2]
    arguments, swaps = (b, x, _middle(steps)), lu.is_swapped.size > 1
    if columns >= MIN_COLUMNS and (width == 1 or np.array_equal(inner, np.arange(width))):
        kernel = partial(solve_columns, lu, swaps, outer, *arguments)
        tasks = rows * -(-columns // TILE)
    else:
        kernel = partial(solve_one_by_one, lu, swaps, (outer, inner), *arguments)
        tasks = rows * columns
    call_in_parts(kernel, tasks, threads)


@numba.njit(**INNER)
def _inverse_size(row: Any) -> Any:
    """Return 1 by the largest coefficient of a row; it scales the comparison of pivots only."""
    size = max(abs(row[0]), abs(row[1]), abs(row[2]))
    return 1 / size if size > 0 else 1.0


@numba.njit(**INNER)
def _pivot_step(factor: Any, index: Any, pending: Any, scale: Any, row: Any, row_scale: Any, one: Any) -> Any:
    """Eliminate an unknown from the pending row and the next row, and store the factors.

    Return the next pending row (near, far), its inverse size, and whether the pivot is 0.
    """
    multiplier, inverse, after, second, is_swapped = factor
    zero = one - one
    swaps = abs(row[0]) * row_scale > abs(pending[0]) * scale
    if swaps:
        pivot, other = row, (pending[0], pending[1], zero)
    else:
        pivot, other = (pending[0], pending[1], zero), row
        scale = row_scale
    # For a pivot of 0 any divisor will do; complex division by 0 would raise.
    divisor = pivot[0] if pivot[0] != zero else one
    m, inv = other[0] / divisor, one / divisor
    multiplier[index], inverse[index], is_swapped[index] = m, inv, swaps
    after[index], second[index] = pivot[1] * inv, pivot[2] * inv
    near, far = other[1] - m * pivot[1], other[2] - m * pivot[2]
    return (near, far), scale, pivot[0] == 0


@numba.njit(**INNER)
def _factor_side(rows: Any, factor: Any, system: Any, start: int, stop: int, one: Any) -> Any:
    """Eliminate the unknowns from `start` to `stop`, upwards or downwards, as `_pivot_step`.

    `rows` are the diagonals that contain the unknown before, the row's own and the one after it.
    """
    (near, d, far), (o, k), step = rows, system, 1 if start <= stop else -1
    pending = d[o, start, k], far[o, start, k]
    scale = _inverse_size((near[o, start, k], d[o, start, k], far[o, start, k]))
    is_singular = False
    for i in range(start, stop, step):
        row = near[o, i + step, k], d[o, i + step, k], far[o, i + step, k]
        pending, scale, is_zero = _pivot_step(factor, (o, i, k), pending, scale, row, _inverse_size(row), one)
        is_singular |= is_zero
    return pending, scale, is_singular


def _factor(diagonals: Any, factor: Any, middle: int, ones: Any) -> int:
    """Write the parts `factor` of every matrix; return the index of a singular one, or -1.

    `diagonals` are full, with two steps or more. The first dl and the last du are 0. `middle` is
    the first of the two unknowns that remain. `ones` is 1 in the dtype: an integer would widen
    float32.
    """
    (dl, d, du), one = diagonals, ones[0]
    outer, steps, inner = d.shape
    for o in range(outer):
        for k in range(inner):
            system = o, k
            down, scale, is_singular = _factor_side((dl, d, du), factor, system, 0, middle, one)
            up, scale_up, is_singular_up = _factor_side(
                (du, d, dl), factor, system, steps - 1, middle + 1, one
            )
            # Two rows in x[middle] and x[middle + 1] remain: one more step, and a last pivot.
            row = up[1], up[0], one - one
            remaining, _, is_zero = _pivot_step(factor, (o, middle, k), down, scale, row, scale_up, one)
            if is_singular or is_singular_up or is_zero or remaining[0] == 0:
                return o * inner + k
            factor.inverse[o, middle + 1, k] = one / remaining[0]
    return -1


@numba.njit(**INNER)
def _eliminate(pending: Any, new: Any, multiplier: Any, inverse: Any, is_swapped: Any) -> Any:
    """Return the right-hand side of a pivot, divided by it, and the next pending one."""
    pivot, other = (new, pending) if is_swapped else (pending, new)
    return pivot * inverse, other - multiplier * pivot


@numba.njit(**INNER)
def _eliminate_row(factor: Any, swaps: bool, index: Any, pending: Any, new: Any) -> Any:
    """Do `_eliminate` with the factors at an index."""
    multiplier, inverse, _, _, is_swapped = factor
    return _eliminate(pending, new, multiplier[index], inverse[index], swaps and is_swapped[index])


@numba.njit(**INNER)
def _substitute_row(factor: Any, swaps: bool, index: Any, x: Any, following: Any, second: Any) -> Any:
    """Return an unknown, from its right-hand side and the next two unknowns."""
    _, _, after, after_next, _ = factor
    x = x - after[index] * following
    return x - after_next[index] * second if swaps else x


def _solve_one_by_one(
    factor: Any, swaps: bool, indices: Any, b: Any, x: Any, middle: int, start: int, stop: int
) -> None:
    """Solve the systems `start` to `stop` one after the other, each from both ends.

    `indices` are the outer and the inner index in the factors; see `solve_factored`.
    """
    last = b.shape[1] - 1
    for task in range(start, stop):
        o, k = divmod(task, b.shape[2])
        p, q = indices[0][o], indices[1][k]
        down, up = b[o, 0, k], b[o, last, k]
        for i in range(last - 1 - middle):
            j = last - i
            x[o, j, k], up = _eliminate_row(factor, swaps, (p, j, q), up, b[o, j - 1, k])
            if i < middle:
                x[o, i, k], down = _eliminate_row(factor, swaps, (p, i, q), down, b[o, i + 1, k])
        down, other = _eliminate_row(factor, swaps, (p, middle, q), down, up)
        up = other * factor.inverse[p, middle + 1, q]
        down = down - factor.after[p, middle, q] * up
        x[o, middle, k], x[o, middle + 1, k] = down, up
        before, beyond = up, down
        for i in range(last - 1 - middle):
            j, h = middle + 2 + i, middle - 1 - i
            beyond, up = up, _substitute_row(factor, swaps, (p, j, q), x[o, j, k], up, beyond)
            x[o, j, k] = up
            if h >= 0:
                before, down = down, _substitute_row(factor, swaps, (p, h, q), x[o, h, k], down, before)
                x[o, h, k] = down


@numba.njit(**INNER)
def _eliminate_columns(
    factor: Any, index: Any, swaps: bool, is_same: bool, new: Any, pending: Any, out: Any
) -> None:
    """Advance the pending right-hand sides of columns by a step; write those of the pivots."""
    o, i, k = index
    multiplier, inverse, _, _, is_swapped = factor
    if is_same:
        m, inv, is_other = multiplier[o, i, 0], inverse[o, i, 0], swaps and is_swapped[o, i, 0]
        for lane in range(out.size):
            out[lane], pending[lane] = _eliminate(pending[lane], new[lane], m, inv, is_other)
        return
    ms, invs = multiplier[o, i, k : k + out.size], inverse[o, i, k : k + out.size]
    if not swaps:
        for lane in range(out.size):
            out[lane], pending[lane] = _eliminate(pending[lane], new[lane], ms[lane], invs[lane], False)
        return
    choices = is_swapped[o, i, k : k + out.size]
    for lane in range(out.size):
        row = _eliminate(pending[lane], new[lane], ms[lane], invs[lane], choices[lane])
        out[lane], pending[lane] = row


@numba.njit(**INNER)
def _subtract(x: Any, part: Any, index: Any, is_same: bool, unknowns: Any) -> None:
    """Subtract the terms of unknowns, with their coefficients in a part of the factors."""
    o, i, k = index
    if is_same:
        number = part[o, i, 0]
        for lane in range(x.size):
            x[lane] -= number * unknowns[lane]
        return
    numbers = part[o, i, k : k + x.size]
    for lane in range(x.size):
        x[lane] -= numbers[lane] * unknowns[lane]


def _solve_columns(
    factor: Any, swaps: bool, indices: Any, b: Any, x: Any, middle: int, start: int, stop: int
) -> None:
    """Solve the tiles `start` to `stop` of systems side by side.

    The inner axis of the factors has length 1, or is that of `b`. `indices` are the outer indices
    in the factors.
    """
    steps, inner = b.shape[1], b.shape[2]
    is_same, tiles = factor.inverse.shape[2] == 1, -(-inner // TILE)
    down_buffer, up_buffer = stack_empty(TILE, b.dtype), stack_empty(TILE, b.dtype)
    for task in range(start, stop):
        o, tile = divmod(task, tiles)
        p, k = indices[o], tile * TILE
        end = min(k + TILE, inner)
        down, up = down_buffer[: end - k], up_buffer[: end - k]
        for lane in range(end - k):
            down[lane], up[lane] = b[o, 0, k + lane], b[o, steps - 1, k + lane]
        for i in range(middle):
            index, new, out = (p, i, k), b[o, i + 1, k:end], x[o, i, k:end]
            _eliminate_columns(factor, index, swaps, is_same, new, down, out)
        for i in range(steps - 1, middle + 1, -1):
            index, new, out = (p, i, k), b[o, i - 1, k:end], x[o, i, k:end]
            _eliminate_columns(factor, index, swaps, is_same, new, up, out)
        one, other = x[o, middle, k:end], x[o, middle + 1, k:end]
        _eliminate_columns(factor, (p, middle, k), swaps, is_same, up, down, one)
        for lane in range(end - k):
            other[lane] = down[lane] * factor.inverse[p, middle + 1, 0 if is_same else k + lane]
        _subtract(one, factor.after, (p, middle, k), is_same, other)
        for n in range(steps - 2):
            # Upwards from the middle, and then downwards.
            i, step = (middle - 1 - n, 1) if n < middle else (n + 2, -1)
            current = x[o, i, k:end]
            _subtract(current, factor.after, (p, i, k), is_same, x[o, i + step, k:end])
            if swaps:
                _subtract(current, factor.second, (p, i, k), is_same, x[o, i + 2 * step, k:end])


factor_kernel = compile_kernel(_factor, allocates=False)
solve_one_by_one = compile_kernel(_solve_one_by_one, allocates=False)
solve_columns = compile_kernel(_solve_columns, allocates=False)
