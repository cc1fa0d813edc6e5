"""The two rows that an elimination along a line holds, and how they stay apart.

After x[1] … x[i-1] are eliminated from the rows 0 … i two rows are held::

    (near, far, before, first, rhs):
        near·x[i] + far·x[i+1] + before·x[-1] + first·x[0] = rhs

Partial pivoting bounds near and far, but not before and first: each step may add one held
row's to the other's. With tridiag(-1, 1, 1), whose condition number is 2.2, they are Fibonacci
numbers: the two rows come to say the same up to rounding, and 300 unknowns had an error of
15,000 times their size. So where one of them passes LIMIT, the unknown that it belongs to is
eliminated from the other row, and rows that have grown are scaled down. Then one row is about
the unknowns before, the other about those that follow, and neither grows any more.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INNER
from .numbers import constant, either, eliminated, is_any_larger, larger, magnitude, scale_of
from .rows import ordered

# Of 2,774 random and periodic systems one in a hundred had more than 5 times the error of gtsv
# with 2 to 8, 9 times with 32, 29 times with 128.
LIMIT = 8.0

# Where the numbers of a held row go that is an interface row: last, after, before, first, rhs.
PLACES = (2, 3, 0, 1, 4)


@numba.njit(**INNER)
def copies(like: Any) -> Any:
    """What is held before row 0: before - x[-1] = 0 and first - x[0] = 0.

    So the rows 0 and 1 come in as all others do, and a chunk of one row has two rows, too.
    """
    zero, one = constant(like, 0.0), constant(like, 1.0)
    return (zero - one, zero, one, zero, zero), (zero, zero - one, zero, one, zero)


@numba.njit(**INNER)
def advance(held: Any, row: Any) -> Any:
    """Eliminate x[i] from the two held rows and row i + 1, (dl, d, du, b).

    Returns
    -------
    held : the two rows held next
    pivot : (coefficients of x[i], x[i+1], x[i+2], before, first; rhs)
    """
    dl, d, du, b = row
    zero = constant(d, 0.0)
    upper, lower = held
    one = (upper[0], upper[1], zero, upper[2], upper[3], upper[4])
    pivot, one = ordered(one, (lower[0], lower[1], zero, lower[2], lower[3], lower[4]))
    pivot, other = ordered(pivot, (dl, d, du, zero, zero, b))
    return parted(eliminated(one, pivot), eliminated(other, pivot)), pivot


@numba.njit(**INNER)
def advance_part(held: Any, one: Any, other: Any) -> Any:
    """Eliminate last[k-1] and first[k] from two held rows and the interface rows of part k.

    The rows that are held stand on last[k-1] and first[k] for x[i] and x[i+1].

    Returns
    -------
    held : the two rows held next
    pivot : (coefficients of last[k-1], first[k], last[k], first[k+1], before, first; rhs)
    second : the same, without last[k-1]
    """
    pivot, one = ordered(_beside(one), _beside(other))
    pivot, upper = ordered(pivot, _widened(held[0]))
    pivot, lower = ordered(pivot, _widened(held[1]))
    second, upper = ordered(eliminated(upper, pivot), eliminated(lower, pivot))
    second, lower = ordered(second, eliminated(one, pivot))
    return parted(eliminated(upper, second), eliminated(lower, second)), pivot, second


@numba.njit(**INNER)
def _beside(row: Any) -> Any:
    zero = constant(row[0], 0.0)
    return row[0], row[1], row[2], row[3], zero, zero, row[4]


@numba.njit(**INNER)
def _widened(held: Any) -> Any:
    zero = constant(held[0], 0.0)
    return held[0], held[1], zero, zero, held[2], held[3], held[4]


@numba.njit(**INNER)
def parted(one: Any, other: Any) -> Any:
    """Two held rows; where before or first has grown, one of them without that unknown."""
    size = larger(magnitude(one[2]), magnitude(one[3]))
    size_other = larger(magnitude(other[2]), magnitude(other[3]))
    largest, limit = larger(size, size_other), constant(size, LIMIT)
    if not is_any_larger(largest, limit):
        return one, other
    big, small = either(size_other, size, other, one), either(size_other, size, one, other)
    x, y, zero = magnitude(big[2]), magnitude(big[3]), constant(big[0], 0.0)
    # (before or first, whichever is larger; near, far, the other of the two, rhs)
    lead, rest = either(x, y, big[2], big[3]), either(x, y, big[3], big[2])
    pivot = lead, big[0], big[1], rest, big[4]
    lead, rest = either(x, y, small[2], small[3]), either(x, y, small[3], small[2])
    near, far, rest, rhs = eliminated((lead, small[0], small[1], rest, small[4]), pivot)
    small = near, far, either(x, y, zero, rest), either(x, y, rest, zero), rhs
    big, small = _made_small(big), _made_small(small)
    return either(largest, limit, big, one), either(largest, limit, small, other)


@numba.njit(**INNER)
def _made_small(row: Any) -> Any:
    size = larger(magnitude(row[0]), magnitude(row[1]))
    size = larger(size, larger(magnitude(row[2]), magnitude(row[3])))
    scale = scale_of(larger(size, constant(size, 1.0)))
    return row[0] * scale, row[1] * scale, row[2] * scale, row[3] * scale, row[4] * scale
