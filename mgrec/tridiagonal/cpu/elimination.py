"""Elimination with scaled partial pivoting over a partition, and its two pending rows.

A row is a tuple of coefficients, that of the unknown to be eliminated first, and its right-hand
side. Its numbers have the type of :mod:`mgrec.engines.cpu.vectors`.

After x[1] … x[i-1] are eliminated from the rows 0 … i, two rows are pending::

    (near, far, before, first, rhs):
        near·x[i] + far·x[i+1] + before·x[-1] + first·x[0] = rhs

Partial pivoting bounds near and far, but not before and first: each step may add those of one
pending row to the other. For tridiag(-1, 1, 1), whose condition number is 2.2, they are Fibonacci
numbers. The two rows become equal up to rounding, and 300 unknowns had an error of 15,000 times
their size. If one coefficient exceeds LIMIT, its unknown is therefore eliminated from the other
row, and rows that have grown are scaled down. One row then contains the unknowns before, the
other those that follow, and neither grows any more.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INNER
from ...engines.cpu.memory import gather
from ...engines.cpu.vectors import constant, eliminated, is_any_larger, larger, magnitude, scale_of, select

# Of 2,774 random and periodic systems one in a hundred had more than 5 times the error of gtsv
# with 2 to 8, 9 times with 32, 29 times with 128.
LIMIT = 8.0

# Positions in an interface row of the numbers of a pending row: last, after, before, first, rhs.
CELL_POSITIONS = (2, 3, 0, 1, 4)


@numba.njit(**INNER)
def order_by_pivot(one: Any, other: Any) -> Any:
    """Return two rows, the one with the larger leading coefficient first."""
    x, y = magnitude(other[0]), magnitude(one[0])
    return select(x, y, other, one), select(x, y, one, other)


@numba.njit(**INNER)
def largest(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the largest absolute value of four numbers."""
    return larger(larger(magnitude(a), magnitude(b)), larger(magnitude(c), magnitude(d)))


@numba.njit(**INNER)
def cell_number(number: Any, least_pivot: Any, nan_seen: Any) -> Any:
    """Return a number of an interface row: 0 if a pivot is 0, nan if a row contains nan or inf."""
    zero = constant(number, 0.0)
    return select(least_pivot, magnitude(zero), number, zero) + nan_seen


@numba.njit(**INNER)
def scale_row(row: Any) -> Any:
    """Return a row times a power of two, its largest coefficient 1 or more and below 4.

    Scaling makes partial pivoting *scaled*: no row becomes the pivot because it is multiplied by
    1e300. Return also 0, or nan if the row contains nan or inf.
    """
    dl, d, du, b = row
    scale = scale_of(larger(magnitude(dl), larger(magnitude(d), magnitude(du))))
    dl, d, du = dl * scale, d * scale, du * scale
    # Coefficients are below 4 now: the sum overflows only if b does.
    total = (dl + d) + (du + b)
    return (dl, d, du, b * scale), total - total


@numba.njit(**INNER)
def load_row(operands: Any, offsets: Any, strides: Any, row: int, last: int, marks: Any) -> Any:
    """Return what `scale_row` returns for a row (dl, d, du, b) of a partition.

    `offsets` are the positions of row 0 in each 1-d operand; `last` is the partition's last row.
    `marks` are 1 if row 0 is the first of the whole system, and if `last` is the last: their dl and
    du are not read.
    """
    dl = gather(operands[0], offsets, 0, row * strides[0, 1])
    d = gather(operands[1], offsets, 1, row * strides[1, 1])
    du = gather(operands[2], offsets, 2, row * strides[2, 1])
    b = gather(operands[3], offsets, 3, row * strides[3, 1])
    zero = constant(d, 0.0)
    if row == 0:
        dl = select(magnitude(marks[0]), magnitude(zero), zero, dl)
    if row == last:
        du = select(magnitude(marks[1]), magnitude(zero), zero, du)
    return scale_row((dl, d, du, b))


@numba.njit(**INNER)
def initial_pending(like: Any) -> Any:
    """Return the pending rows before row 0: before - x[-1] = 0 and first - x[0] = 0.

    They let the rows 0 and 1 be eliminated as all others, and give a chunk of one row two rows.
    """
    zero, one = constant(like, 0.0), constant(like, 1.0)
    return (zero - one, zero, one, zero, zero), (zero, zero - one, zero, one, zero)


@numba.njit(**INNER)
def advance(pending: Any, row: Any) -> Any:
    """Eliminate x[i] from the two pending rows and row i + 1, (dl, d, du, b).

    Return the next two pending rows and the pivot row: (coefficients of x[i], x[i+1], x[i+2],
    before, first; rhs).
    """
    dl, d, du, b = row
    zero = constant(d, 0.0)
    upper, lower = pending
    one = (upper[0], upper[1], zero, upper[2], upper[3], upper[4])
    pivot, one = order_by_pivot(one, (lower[0], lower[1], zero, lower[2], lower[3], lower[4]))
    pivot, other = order_by_pivot(pivot, (dl, d, du, zero, zero, b))
    return _bound_growth(eliminated(one, pivot), eliminated(other, pivot)), pivot


@numba.njit(**INNER)
def advance_part(pending: Any, row: Any, other: Any) -> Any:
    """Eliminate last[k-1] and first[k] from two pending rows and the interface rows of part k.

    The pending rows contain last[k-1] and first[k] in place of x[i] and x[i+1]. Return the next two
    pending rows, the pivot row (coefficients of last[k-1], first[k], last[k], first[k+1], before,
    first; rhs), and the second pivot row, which is without last[k-1].
    """
    (a, b), zero = pending, constant(row[0], 0.0)
    pivot, one = order_by_pivot(
        (row[0], row[1], row[2], row[3], zero, zero, row[4]),
        (other[0], other[1], other[2], other[3], zero, zero, other[4]),
    )
    pivot, upper = order_by_pivot(pivot, (a[0], a[1], zero, zero, a[2], a[3], a[4]))
    pivot, lower = order_by_pivot(pivot, (b[0], b[1], zero, zero, b[2], b[3], b[4]))
    second, upper = order_by_pivot(eliminated(upper, pivot), eliminated(lower, pivot))
    second, lower = order_by_pivot(second, eliminated(one, pivot))
    return _bound_growth(eliminated(upper, second), eliminated(lower, second)), pivot, second


@numba.njit(**INNER)
def _bound_growth(one: Any, other: Any) -> Any:
    """Return two pending rows; if before or first exceeds LIMIT, one of them without it."""
    size = larger(magnitude(one[2]), magnitude(one[3]))
    size_other = larger(magnitude(other[2]), magnitude(other[3]))
    most, limit = larger(size, size_other), constant(size, LIMIT)
    if not is_any_larger(most, limit):
        return one, other
    big, small = select(size_other, size, other, one), select(size_other, size, one, other)
    x, y, zero = magnitude(big[2]), magnitude(big[3]), constant(big[0], 0.0)
    # (the larger one of before and first; near, far, the smaller one, rhs)
    leading, second = select(x, y, big[2], big[3]), select(x, y, big[3], big[2])
    pivot = leading, big[0], big[1], second, big[4]
    leading, second = select(x, y, small[2], small[3]), select(x, y, small[3], small[2])
    near, far, second, rhs = eliminated((leading, small[0], small[1], second, small[4]), pivot)
    small = near, far, select(x, y, zero, second), select(x, y, second, zero), rhs
    big, small = _scale_down(big), _scale_down(small)
    return select(most, limit, big, one), select(most, limit, small, other)


@numba.njit(**INNER)
def _scale_down(row: Any) -> Any:
    size = largest(row[0], row[1], row[2], row[3])
    scale = scale_of(larger(size, constant(size, 1.0)))
    return row[0] * scale, row[1] * scale, row[2] * scale, row[3] * scale, row[4] * scale
