"""Factor tridiagonal matrices from both ends, with scaled partial pivoting.

The unknowns 0 … m-1 are eliminated downwards with the rows 0 … m, and n-1 … m+2 upwards with the
others; two rows in x[m] and x[m+1] are left. That is Gaussian elimination in another order of the
unknowns, with its stability, and two chains of steps that do not wait for each other.

A step holds one row, near·x[i] + far·x[i+1], and chooses the pivot of it and the next row.
"""

from __future__ import annotations

from typing import Any

import numba

from ....engines.cpu.compilation import INNER, compile_kernel


@numba.njit(**INNER)
def _inverse_size(before: Any, own: Any, after: Any) -> Any:
    """1 by the largest of a row's coefficients, to compare pivots: none of them is divided."""
    size = max(abs(before), abs(own), abs(after))
    return 1 / size if size > 0 else 1.0


@numba.njit(**INNER)
def _pivoted(factor: Any, at: Any, held: Any, size: Any, row: Any, own: Any, one: Any) -> Any:
    """Eliminate an unknown from the held row and another one, and write down how.

    Returns
    -------
    held : (near, far)
    size : number
        Its inverse size.
    is_singular : bool
    """
    multiplier, inverse, after, second, is_swapped = factor
    zero = one - one
    swaps = abs(row[0]) * own > abs(held[0]) * size
    if swaps:
        pivot, other = row, (held[0], held[1], zero)
    else:
        pivot, other = (held[0], held[1], zero), row
        size = own
    # Of a pivot of 0 any divisor will do, and complex numbers are not divided by 0.
    divisor = pivot[0] if pivot[0] != zero else one
    m, inv = other[0] / divisor, one / divisor
    multiplier[at], inverse[at], is_swapped[at] = m, inv, swaps
    after[at], second[at] = pivot[1] * inv, pivot[2] * inv
    near, far = other[1] - m * pivot[1], other[2] - m * pivot[2]
    return (near, far), size, pivot[0] == 0


def _factor(diagonals: Any, factor: Any, middle: int, ones: Any) -> int:
    """Factor every matrix.

    Parameters
    ----------
    diagonals : three arrays (outer, steps, inner)
        dl, d and du, full; the first of dl and the last of du are 0. Two steps or more.
    factor : five arrays (outer, steps, inner)
        Written: multipliers, inverse pivots, what follows a pivot and what follows that, divided
        by it, and where the next row is the pivot (uint8).
    middle : int
        The first of the two unknowns that are left.
    ones : array (1,)
        1 in the dtype: an integer beside it would widen float32.

    Returns
    -------
    int
        A matrix that is singular, or -1.
    """
    (dl, d, du), one = diagonals, ones[0]
    outer, steps, inner = d.shape
    for o in range(outer):
        for k in range(inner):
            down = d[o, 0, k], du[o, 0, k]
            size = _inverse_size(dl[o, 0, k], d[o, 0, k], du[o, 0, k])
            is_singular = False
            for i in range(middle):
                row = dl[o, i + 1, k], d[o, i + 1, k], du[o, i + 1, k]
                own = _inverse_size(row[0], row[1], row[2])
                down, size, is_zero = _pivoted(factor, (o, i, k), down, size, row, own, one)
                is_singular |= is_zero
            last = steps - 1
            up = d[o, last, k], dl[o, last, k]
            size_up = _inverse_size(dl[o, last, k], d[o, last, k], du[o, last, k])
            for i in range(last, middle + 1, -1):
                row = du[o, i - 1, k], d[o, i - 1, k], dl[o, i - 1, k]
                own = _inverse_size(row[0], row[1], row[2])
                up, size_up, is_zero = _pivoted(factor, (o, i, k), up, size_up, row, own, one)
                is_singular |= is_zero
            # What is left for x[middle] and x[middle + 1]: one more step, and a last pivot.
            row = up[1], up[0], one - one
            left, _, is_zero = _pivoted(factor, (o, middle, k), down, size, row, size_up, one)
            if is_singular or is_zero or left[0] == 0:
                return o * inner + k
            factor[1][o, middle + 1, k] = one / left[0]
    return -1


factor = compile_kernel(_factor)
