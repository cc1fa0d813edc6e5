"""LU factors of tridiagonal matrices in host memory, with scaled partial pivoting from both ends.

The unknowns 0 … m-1 are eliminated downwards with the rows 0 … m, and n-1 … m+2 upwards with the
other rows. Two rows in x[m] and x[m+1] remain. This is Gaussian elimination in another order of
the unknowns, with its stability, as two chains of steps that do not wait for each other.

Each step has one pending row, near·x[i] + far·x[i+1], and selects the pivot from it and the next
row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.stack import stack_empty
from ...engines.cpu.threads import call_in_parts
from ..errors import SingularSystemError

# From this number of columns systems are solved side by side: 1,000 took 1.3 ns an unknown, and
# 2.2 to 3 one by one. 16 columns took three times as long side by side, 48 1.1 to 1.6 times.
MIN_COLUMNS = 64
# Threads per system up to which factors are faster. A system of 2**22 takes 3.1 ns an unknown on
# one thread; without factors 9.2 on one thread and 3 to 4 on four.
MAX_THREADS = 4
# Columns of a tile: its pending right-hand sides stay in the L1 cache.
TILE = 256


@dataclass(frozen=True)
class LUFactors:
    """The factors of matrices: arrays (outer, steps, inner).

    These are multipliers, inverse pivots, the first and the second coefficient after a pivot, both
    divided by it, and whether the next row is the pivot (uint8). The last two have length 1 if no
    rows were exchanged: `is_swapped` is then False.
    """

    parts: tuple[np.ndarray, ...]
    is_swapped: bool

    @property
    def is_finite(self) -> bool:
        return all(bool(np.isfinite(part).all()) for part in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


def factor_matrices(dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> LUFactors:
    """Factor matrices, and overwrite their full diagonals (outer, steps, inner).

    Raise SingularSystemError if a matrix is singular.
    """
    dl[:, :1] = du[:, -1:] = 0
    parts = (*(np.zeros_like(d) for _ in range(4)), np.zeros(d.shape, np.uint8))
    singular = -1
    if d.shape[1] > 1:
        singular = factor_kernel((dl, d, du), parts, _middle(d.shape[1]), np.ones(1, d.dtype))
    elif not d.all():
        singular = int((d.reshape(-1) == 0).argmax())
    if singular >= 0:
        raise SingularSystemError(singular)
    if d.shape[1] == 1:
        parts = (parts[0], 1 / d, *parts[2:])
    is_swapped = bool(parts[4].any())
    if not is_swapped:
        parts = (*parts[:3], *(np.zeros((1, 1, 1), part.dtype) for part in parts[3:]))
    return LUFactors(parts, is_swapped)


def _middle(steps: int) -> int:
    return (steps - 2) // 2


def is_faster(systems: int, threads: int) -> bool:
    """Return whether a solve with factors is faster than one without, on so many threads."""
    return threads <= MAX_THREADS * systems


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
        x[...] = b * lu.parts[1][outer][:, :, inner]
        return
    b, width = writable(b), lu.parts[0].shape[2]
    arguments = b, x, _middle(steps)
    if columns >= MIN_COLUMNS and (width == 1 or np.array_equal(inner, np.arange(width))):
        kernel = partial(solve_columns, lu.parts, lu.is_swapped, outer, *arguments)
        tasks = rows * -(-columns // TILE)
    else:
        kernel = partial(solve_one_by_one, lu.parts, lu.is_swapped, (outer, inner), *arguments)
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
            factor[1][o, middle + 1, k] = one / remaining[0]
    return -1


@numba.njit(**INNER)
def _swap_if(is_swapped: Any, pending: Any, new: Any) -> Any:
    """Return the right-hand sides of the pivot row and of the other row."""
    return (new, pending) if is_swapped else (pending, new)


@numba.njit(**INNER)
def _eliminate_system(factor: Any, swaps: bool, matrix: Any, b: Any, x: Any, system: Any, middle: int) -> Any:
    """Store the right-hand sides of all pivots in x; return those of the two rows that remain."""
    multiplier, inverse, _, _, is_swapped = factor
    (p, q), (o, k), last = matrix, system, b.shape[1] - 1
    down, up = b[o, 0, k], b[o, last, k]
    for i in range(last - 1 - middle):
        j = last - i
        pivot, other = up, b[o, j - 1, k]
        if swaps:
            pivot, other = _swap_if(is_swapped[p, j, q], pivot, other)
        x[o, j, k] = pivot * inverse[p, j, q]
        up = other - multiplier[p, j, q] * pivot
        if i < middle:
            pivot, other = down, b[o, i + 1, k]
            if swaps:
                pivot, other = _swap_if(is_swapped[p, i, q], pivot, other)
            x[o, i, k] = pivot * inverse[p, i, q]
            down = other - multiplier[p, i, q] * pivot
    return down, up


@numba.njit(**INNER)
def _substitute_system(factor: Any, swaps: bool, matrix: Any, x: Any, system: Any, middle: int) -> None:
    """Substitute back from the two unknowns in the middle, on both sides."""
    _, _, after, second, _ = factor
    (p, q), (o, k) = matrix, system
    down, up = x[o, middle, k], x[o, middle + 1, k]
    before, beyond = up, down
    for i in range(x.shape[1] - 2 - middle):
        j, h = middle + 2 + i, middle - 1 - i
        value = x[o, j, k] - after[p, j, q] * up
        if swaps:
            value = value - second[p, j, q] * beyond
        x[o, j, k], up, beyond = value, value, up
        if h >= 0:
            value = x[o, h, k] - after[p, h, q] * down
            if swaps:
                value = value - second[p, h, q] * before
            x[o, h, k], down, before = value, value, down


def _solve_one_by_one(
    factor: Any, swaps: bool, indices: Any, b: Any, x: Any, middle: int, start: int, stop: int
) -> None:
    """Solve the systems `start` to `stop` one after the other, each from both ends.

    `indices` are the outer and the inner index in the factors; see `solve_factored`.
    """
    multiplier, inverse, after, _, is_swapped = factor
    for task in range(start, stop):
        o, k = system = divmod(task, b.shape[2])
        p, q = matrix = indices[0][o], indices[1][k]
        pivot, other = _eliminate_system(factor, swaps, matrix, b, x, system, middle)
        if swaps:
            pivot, other = _swap_if(is_swapped[p, middle, q], pivot, other)
        other = (other - multiplier[p, middle, q] * pivot) * inverse[p, middle + 1, q]
        pivot = pivot * inverse[p, middle, q] - after[p, middle, q] * other
        x[o, middle, k], x[o, middle + 1, k] = pivot, other
        _substitute_system(factor, swaps, matrix, x, system, middle)


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
            pivot = new[lane] if is_other else pending[lane]
            other = pending[lane] if is_other else new[lane]
            out[lane], pending[lane] = pivot * inv, other - m * pivot
        return
    ms, invs = multiplier[o, i, k : k + out.size], inverse[o, i, k : k + out.size]
    if not swaps:
        for lane in range(out.size):
            pivot = pending[lane]
            out[lane], pending[lane] = pivot * invs[lane], new[lane] - ms[lane] * pivot
        return
    choices = is_swapped[o, i, k : k + out.size]
    for lane in range(out.size):
        pivot, other = pending[lane], new[lane]
        pivot, other = (other, pivot) if choices[lane] else (pivot, other)
        out[lane], pending[lane] = pivot * invs[lane], other - ms[lane] * pivot


@numba.njit(**INNER)
def _substitute_columns(
    factor: Any, index: Any, swaps: bool, is_same: bool, x: Any, following: Any, second: Any
) -> None:
    """Subtract the terms of the next two unknowns from the columns of a step."""
    o, i, k = index
    if is_same:
        one = factor[2][o, i, 0]
        other = factor[3][o, i, 0] if swaps else one - one
        for lane in range(x.size):
            x[lane] -= one * following[lane]
        if swaps:
            for lane in range(x.size):
                x[lane] -= other * second[lane]
        return
    ones = factor[2][o, i, k : k + x.size]
    for lane in range(x.size):
        x[lane] -= ones[lane] * following[lane]
    if swaps:
        others = factor[3][o, i, k : k + x.size]
        for lane in range(x.size):
            x[lane] -= others[lane] * second[lane]


def _solve_columns(
    factor: Any, swaps: bool, indices: Any, b: Any, x: Any, middle: int, start: int, stop: int
) -> None:
    """Solve the tiles `start` to `stop` of systems side by side.

    The inner axis of the factors has length 1, or is that of `b`. `indices` are the outer indices
    in the factors.
    """
    steps, inner = b.shape[1], b.shape[2]
    is_same, tiles = factor[0].shape[2] == 1, -(-inner // TILE)
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
            other[lane] = down[lane] * factor[1][p, middle + 1, 0 if is_same else k + lane]
        _substitute_columns(factor, (p, middle, k), False, is_same, one, other, other)
        for i in range(middle - 1, -1, -1):
            current, one, other = x[o, i, k:end], x[o, i + 1, k:end], x[o, i + 2, k:end]
            _substitute_columns(factor, (p, i, k), swaps, is_same, current, one, other)
        for i in range(middle + 2, steps):
            current, one, other = x[o, i, k:end], x[o, i - 1, k:end], x[o, i - 2, k:end]
            _substitute_columns(factor, (p, i, k), swaps, is_same, current, one, other)


factor_kernel = compile_kernel(_factor, allocates=False)
solve_one_by_one = compile_kernel(_solve_one_by_one, allocates=False)
solve_columns = compile_kernel(_solve_columns, allocates=False)
