"""Rows of tridiagonal systems: how they are read, scaled, chosen as pivots and eliminated.

A row is a tuple of its coefficients, that of the unknown to be eliminated first, and of its
right-hand side. Its numbers are those of :mod:`.numbers`.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INNER
from .memory import read
from .numbers import constant, either, larger, magnitude, scale_of


@numba.njit(**INNER)
def ordered(one: Any, other: Any) -> Any:
    """Two rows, the one with the larger leading coefficient first."""
    x, y = magnitude(other[0]), magnitude(one[0])
    return either(x, y, other, one), either(x, y, one, other)


@numba.njit(**INNER)
def scaled(row: Any, nan_seen: Any) -> Any:
    """A row times a power of two, its largest coefficient 1 or more and below 4.

    Rows that are first brought to one size make partial pivoting *scaled*: none becomes the
    pivot for being multiplied by 1e300.

    Returns
    -------
    row : four numbers
    nan_seen : number
        As it was, or nan where the row holds nan or inf.
    """
    dl, d, du, b = row
    scale = scale_of(larger(magnitude(dl), larger(magnitude(d), magnitude(du))))
    dl, d, du = dl * scale, d * scale, du * scale
    # Coefficients are below 4 now: the sum overflows only where b has.
    total = (dl + d) + (du + b)
    return (dl, d, du, b * scale), nan_seen + (total - total)


@numba.njit(**INNER)
def row_at(
    operands: Any, places: Any, strides: Any, at: int, last: int, marks: Any, nan_seen: Any
) -> Any:
    """Row `at` of a partition, scaled.

    Parameters
    ----------
    operands : four arrays, 1-d
    places : array (at least_pivot 4, lanes) of int64
        Where row 0 lies in each operand.
    strides : array (4, 3) of int64
    at, last : int
        `last` is the partition's last row.
    marks : two numbers
        1 where row 0 is the first of the whole system, and where `last` is the last: what
        these hold for an x before and an x after is not read.
    nan_seen : number

    Returns
    -------
    row : four numbers
        dl, d, du and b.
    nan_seen : number
        As it was, or nan where the row holds nan or inf.
    """
    dl = read(operands[0], places, 0, at * strides[0, 1])
    d = read(operands[1], places, 1, at * strides[1, 1])
    du = read(operands[2], places, 2, at * strides[2, 1])
    b = read(operands[3], places, 3, at * strides[3, 1])
    zero = constant(d, 0.0)
    if at == 0:
        dl = either(magnitude(marks[0]), magnitude(zero), zero, dl)
    if at == last:
        du = either(magnitude(marks[1]), magnitude(zero), zero, du)
    return scaled((dl, d, du, b), nan_seen)
