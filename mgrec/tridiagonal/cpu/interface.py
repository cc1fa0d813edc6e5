"""The interface rows of the parts of a line, partitions or chunks: a small banded system.

The rows of part k stand on (last[k-1], first[k], last[k], first[k+1]): two diagonals below and
two above the main one. The unknowns are eliminated in this order, with partial pivoting over
all rows that have them, as LAPACK's gbtrf does; two rows on (last[k], first[k+1]) are held
after part k.

`cells` are those of :func:`.partitions.cells_of`, flat: 10 numbers a part, parts + 1 a system.
"""

from __future__ import annotations

from typing import Any

import numba

from ...engines.cpu.compilation import INNER, compile_kernel
from .held import PLACES, advance_part, copies
from .memory import keep, one_at
from .numbers import constant, either, is_any_larger, larger, magnitude, scale_of
from .rows import ordered


@numba.njit(**INNER)
def _row(cells: Any, at: int, least_pivot: Any, nan_seen: Any) -> Any:
    """A row of a part, scaled: (before, first, last, after, rhs).

    Returns
    -------
    row : five numbers
    least_pivot : number
        0 where it was, or where all coefficients are 0.
    nan_seen : number
        nan where it was, or where the row holds nan or inf.
    """
    before, first, last = one_at(cells, at), one_at(cells, at + 1), one_at(cells, at + 2)
    after, rhs = one_at(cells, at + 3), one_at(cells, at + 4)
    size = larger(magnitude(before), magnitude(first))
    size = larger(size, larger(magnitude(last), magnitude(after)))
    scale = scale_of(size)
    row = before * scale, first * scale, last * scale, after * scale, rhs * scale
    total = (row[0] + row[1]) + (row[2] + row[3]) + rhs
    return row, either(least_pivot, size, size, least_pivot), nan_seen + (total - total)


@numba.njit(**INNER)
def _advance(cells: Any, at: int, held: Any, least_pivot: Any, nan_seen: Any) -> Any:
    """Eliminate the two unknowns before the part whose cell is `at`."""
    one, least_pivot, nan_seen = _row(cells, at, least_pivot, nan_seen)
    other, least_pivot, nan_seen = _row(cells, at + 5, least_pivot, nan_seen)
    held, pivot, second = advance_part(held, one, other)
    size, size_second = magnitude(pivot[0]), magnitude(second[0])
    size = either(size, size_second, size_second, size)
    return held, pivot, second, either(least_pivot, size, size, least_pivot), nan_seen


def _merge(cells: Any, parts: int) -> None:
    """The interface rows of whole chunks, from those of their partitions, to the first cell."""
    for start in range(0, cells.size, 10 * (parts + 1)):
        nan_seen = constant(one_at(cells, start), 0.0)
        least_pivot, held = magnitude(constant(nan_seen, 1.0)), copies(nan_seen)
        for at in range(start, start + 10 * parts, 10):
            held, _, _, least_pivot, nan_seen = _advance(cells, at, held, least_pivot, nan_seen)
        zero = constant(nan_seen, 0.0)
        for k, place in enumerate(PLACES):
            for r in range(2):
                number = either(least_pivot, magnitude(zero), held[r][k], zero) + nan_seen
                keep(cells, start + 5 * r + place, number)


@numba.njit(**INNER)
def _factor(cells: Any, start: int, stop: int, known: Any, is_whole: bool) -> Any:
    """Replace the rows of all parts by pivots, with what is known in their right-hand sides."""
    before, first = known[0], known[1]
    total = (before + first) + (known[2] + known[3])
    nan_seen, least_pivot = total - total, magnitude(constant(before, 1.0))
    zero = constant(before, 0.0)
    held = copies(before)
    if is_whole:
        held = held[0], (zero, zero, zero, zero, zero)
    for at in range(start, stop, 10):
        held, pivot, second, least_pivot, nan_seen = _advance(
            cells, at, held, least_pivot, nan_seen
        )
        for k in range(4):
            keep(cells, at + k, pivot[k])
        keep(cells, at + 4, pivot[6] - pivot[4] * before - pivot[5] * first)
        for k in range(3):
            keep(cells, at + 5 + k, second[k])
        keep(cells, at + 9, second[5] - second[3] * before - second[4] * first)
    last, after = known[2], known[3]
    if is_whole:
        row, _ = ordered(held[0], held[1])
        last, size = row[4] / row[0], magnitude(row[0])
        least_pivot = either(least_pivot, size, size, least_pivot)
    return last, after, least_pivot, nan_seen


@numba.njit(**INNER)
def _substitute_back(
    cells: Any, start: int, stop: int, last: Any, after: Any, nan_seen: Any
) -> None:
    """Put the two values at each cut where the right-hand sides of the part after it were."""
    for at in range(stop - 10, start - 10, -10):
        keep(cells, at + 14, last + nan_seen)
        keep(cells, at + 19, after + nan_seen)
        rest = one_at(cells, at + 9) - one_at(cells, at + 6) * last
        first = (rest - one_at(cells, at + 7) * after) / one_at(cells, at + 5)
        rest = one_at(cells, at + 4) - one_at(cells, at + 1) * first
        rest = rest - one_at(cells, at + 2) * last - one_at(cells, at + 3) * after
        last, after = rest / one_at(cells, at), first
    keep(cells, start + 4, last + nan_seen)
    keep(cells, start + 9, after + nan_seen)


def _solve(cells: Any, known: Any, is_whole: bool, parts: int, begin: int, end: int) -> int:
    """The values at all cuts of the systems `begin` to `end`, or nan.

    Parameters
    ----------
    cells : array, 1-d
    known : array, 1-d
        Of each system the x before it, its first, its last and the x after it.
    is_whole : bool
        The lines are whole: nothing is before and after them, and what `known` holds of their
        ends does not count.
    parts, begin, end : int

    Returns
    -------
    int
        A system that is singular, or -1.
    """
    found = -1
    for system in range(begin, end):
        start = 10 * system * (parts + 1)
        stop, k = start + 10 * parts, 4 * system
        given = one_at(known, k), one_at(known, k + 1), one_at(known, k + 2), one_at(known, k + 3)
        last, after, least_pivot, nan_seen = _factor(cells, start, stop, given, is_whole)
        _substitute_back(cells, start, stop, last, after, nan_seen)
        if not is_whole:
            # What was given, without the rounding errors of the way back.
            keep(cells, start + 4, given[0] + nan_seen)
            keep(cells, start + 9, given[1] + nan_seen)
        # The product is nan in both parts where one part was.
        size, zero = magnitude(nan_seen * nan_seen), magnitude(constant(nan_seen, 0.0))
        is_sound = is_any_larger(magnitude(constant(nan_seen, 1.0)), size)
        if is_sound and not is_any_larger(least_pivot, zero):
            found = system
    return found


merge = compile_kernel(_merge)
solve = compile_kernel(_solve)
