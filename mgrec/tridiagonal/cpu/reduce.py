"""Reduce partitions to their two interface rows.

Each unknown but the first and the last is eliminated with the largest of all coefficients that
it has in the partition's rows, those of its two ends included. The columns of these unknowns
are 0 in all rows outside the partition: where the whole matrix is not singular they do not
depend on each other, and there is always a pivot other than 0.

References
----------
C. Klein, R. Strzodka, "Tridiagonal GPU solver with scaled partial pivoting at maximum
bandwidth", ICPP 2021, doi:10.1145/3472456.3472484: partitions, their interface rows, and an
elimination that is done a second time rather than stored. There each interface row has an
elimination of its own, from one end to the other, in which the row at the end where it begins
cannot be the pivot: the inner block may then be singular though the matrix is not.
"""

from __future__ import annotations

from typing import Any

from ...engines.cpu.compilation import compile_kernel
from .held import PLACES, advance, copies
from .memory import read, width_of, write
from .numbers import constant, either, magnitude
from .partitions import CELL, FIRST, LAST, fill_places
from .rows import row_at


def _reduce(
    operands: Any, layout: Any, cells: Any, scratch: Any, group: Any, begin: int, end: int
) -> None:
    """The interface rows of the partitions `begin` to `end` of a group.

    Parameters
    ----------
    operands : four arrays, 1-d
    layout : Layout
    cells : array, 1-d
    scratch : Scratch
    group : Partitions
    begin, end : int
    """
    places, zero_one, _ = scratch
    last = group.length - 1
    for task in range(begin, end, width_of(cells)):
        fill_places(task, end, group, layout, places)
        marks = read(zero_one, places, FIRST, 0), read(zero_one, places, LAST, 0)
        nan_seen = constant(marks[0], 0.0)
        least_pivot, held = magnitude(constant(nan_seen, 1.0)), copies(nan_seen)
        for at in range(last + 1):
            row, nan_seen = row_at(operands, places, layout.strides, at, last, marks, nan_seen)
            held, pivot = advance(held, row)
            size = magnitude(pivot[0])
            least_pivot = either(least_pivot, size, size, least_pivot)
        zero = constant(nan_seen, 0.0)
        for k, place in enumerate(PLACES):
            for r in range(2):
                number = either(least_pivot, magnitude(zero), held[r][k], zero) + nan_seen
                write(cells, places, CELL, 5 * r + place, number)


reduce = compile_kernel(_reduce)
