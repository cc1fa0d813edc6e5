"""A row of Gaussian elimination without pivoting: the method of L. H. Thomas (1949)."""

from __future__ import annotations

from typing import Any

import numba

from ....engines.cpu.compilation import INNER
from ..memory import width_of
from ..numbers import constant, magnitude
from .elimination import Method, kernel_of
from .tiles import HALVES, LINES, RESULT


@numba.njit(**INNER)
def _start(zero: Any) -> Any:
    """Held are du and the right-hand side, divided by the pivot; nan where one was inf or nan."""
    return zero, zero, zero, zero, zero


@numba.njit(**INNER)
def _eliminate(row: Any, held: Any) -> Any:
    """Divide a row by its pivot; keep what the one before it has."""
    c, r, unsound, _, _ = held
    kept = c, r, unsound
    dl, d, du, b = row
    pivot = d - dl * c
    inverse = constant(d, 1.0) / pivot
    c, r = du * inverse, (b - dl * r) * inverse
    unsound = unsound + (pivot - pivot)
    return (c, r, unsound, unsound, unsound), kept


@numba.njit(**INNER)
def _finish(held: Any) -> Any:
    """Keep the last row. The flag is 0 where the unknowns are found, else nan."""
    c, r, unsound, _, _ = held
    # A pivot of 0, nan and inf in b, dl and du all leave nan or inf in the last right-hand side;
    # a pivot of inf leaves nothing there.
    total = (r - r) + unsound
    return (c, r, unsound), magnitude(total), constant(c, 0.0)


@numba.njit(**INNER)
def _substitute(kept: Any, unknowns: Any) -> Any:
    x, _, nan_seen = unknowns
    return kept[1] - kept[0] * x, x, nan_seen


@numba.njit(**INNER)
def _check(view: Any, work: Any, least: Any) -> int:
    """Fill flagged systems that hold nan or inf with nan; one that does not, or -1."""
    singular, lanes = -1, width_of(work.tile)
    for lane in range(HALVES * lanes):
        if work.flags[lane] == 0:
            continue
        first = lane // lanes * LINES * lanes + lane % lanes
        total = _nan_seen(view, work.places, first, lanes)
        if total == total:
            singular = max(singular, work.systems[lane])
        for row in range(view.steps):
            view.result[work.places[first + RESULT * lanes] + row * view.inner] = total
    return singular


@numba.njit(**INNER)
def _nan_seen(view: Any, places: Any, first: int, lanes: int) -> Any:
    """nan where a system holds nan or inf, else 0."""
    number = view.operands[RESULT - 1][places[first + (RESULT - 1) * lanes]]
    total = number - number
    for k in range(RESULT):
        # Not the first dl, nor the last du.
        for row in range(k == 0, view.steps - (k == 2)):
            number = view.operands[k][places[first + k * lanes] + row * view.strides[3 * k + 1]]
            total += number - number
    return total


solve = kernel_of(Method("thomas", _start, _eliminate, _finish, _substitute, _check))
