"""A row of Gaussian elimination with partial pivoting, as in LAPACK's gtsv.

Rows are first scaled by powers of two, which rounds nothing: none becomes the pivot for being
multiplied by 1e300.
"""

from __future__ import annotations

from typing import Any

import numba

from ....engines.cpu.compilation import INNER
from ..memory import width_of
from ..numbers import constant, either, magnitude
from ..rows import scaled
from .elimination import Method, kernel_of
from .tiles import HALVES


@numba.njit(**INNER)
def _start(zero: Any) -> Any:
    """Before the first row, 1·x = 0.

    Held are a row in the unknown before and in its own, its right-hand side; the smallest
    pivot; nan where nan was seen.
    """
    one = constant(zero, 1.0)
    return one, zero, zero, one, zero


@numba.njit(**INNER)
def _eliminate(row: Any, held: Any) -> Any:
    """Eliminate the unknown before a row from it and the held row; keep what determines it."""
    p, u, rhs, least_pivot, nan_seen = held
    row, nan_seen = scaled(row, nan_seen)
    size, size_held, held_row = magnitude(row[0]), magnitude(p), (p, u, constant(p, 0.0), rhs)
    pivot = either(size, size_held, row, held_row)
    other = either(size, size_held, held_row, row)
    least_pivot = either(magnitude(least_pivot), magnitude(pivot[0]), pivot[0], least_pivot)
    inverse = constant(p, 1.0) / pivot[0]
    m = other[0] * inverse
    p, u, rhs = other[1] - m * pivot[1], other[2] - m * pivot[2], other[3] - m * pivot[3]
    kept = pivot[1] * inverse, pivot[2] * inverse, pivot[3] * inverse
    return (p, u, rhs, least_pivot, nan_seen), kept


@numba.njit(**INNER)
def _finish(held: Any) -> Any:
    """Keep the last unknown. The flag is the smallest pivot; nan where nan was seen."""
    p, _, rhs, least_pivot, nan_seen = held
    zero = constant(p, 0.0)
    least_pivot = either(magnitude(least_pivot), magnitude(p), p, least_pivot)
    return (zero, zero, rhs / p), magnitude(least_pivot) + magnitude(nan_seen), nan_seen


@numba.njit(**INNER)
def _substitute(kept: Any, unknowns: Any) -> Any:
    x, after, nan_seen = unknowns
    return kept[2] - kept[1] * after - kept[0] * x, x, nan_seen


@numba.njit(**INNER)
def _check(view: Any, work: Any, least: Any) -> int:
    singular = -1
    for lane in range(HALVES * width_of(work.tile)):
        if work.flags[lane] < least:
            singular = max(singular, work.systems[lane])
    return singular


solve = kernel_of(Method("pivoting", _start, _eliminate, _finish, _substitute, _check))
