"""Substitute the values at the cuts into the partitions.

The elimination of :mod:`.reduce` is done again, bit for bit, and its pivots stay in a buffer of
a partition's length. With x[-1], x[0], x[n-1] and x[n] known, x[n-2] … x[1] follow backwards.
"""

from __future__ import annotations

from typing import Any

from ...engines.cpu.compilation import compile_kernel
from .held import advance, copies
from .memory import keep, read, recall, width_of, write
from .numbers import constant
from .partitions import CELL, FIRST, LAST, RESULT, fill_places
from .rows import row_at


def _substitute(
    operands: Any,
    layout: Any,
    cells: Any,
    scratch: Any,
    group: Any,
    begin: int,
    end: int,
    result: Any,
) -> None:
    """The unknowns of the partitions `begin` to `end` of a group.

    Parameters
    ----------
    operands, layout, cells, scratch, group, begin, end
        As of `reduce`.
    result : array, 1-d
        Its axes are (outer, steps, inner), contiguous.
    """
    places, zero_one, pivots = scratch
    width, last, inner = width_of(cells), group.length - 1, layout.shape[2]
    for task in range(begin, end, width):
        fill_places(task, end, group, layout, places)
        marks = read(zero_one, places, FIRST, 0), read(zero_one, places, LAST, 0)
        before, first = read(cells, places, CELL, 4), read(cells, places, CELL, 9)
        near, far = read(cells, places, CELL, 14), read(cells, places, CELL, 19)
        one, held = constant(near, 1.0), copies(near)
        for at in range(last + 1):
            # What holds nan or inf has nan at its cuts already.
            row, _ = row_at(operands, places, layout.strides, at, last, marks, one)
            held, pivot = advance(held, row)
            rhs = pivot[5] - pivot[3] * before - pivot[4] * first
            # A division here, beside the elimination, keeps it out of the way back.
            keep(pivots, 4 * at * width, one / pivot[0])
            keep(pivots, (4 * at + 1) * width, pivot[1])
            keep(pivots, (4 * at + 2) * width, pivot[2])
            keep(pivots, (4 * at + 3) * width, rhs)
        write(result, places, RESULT, last * inner, near)
        for at in range(last, 1, -1):
            rest = recall(pivots, (4 * at + 3) * width) - recall(pivots, (4 * at + 2) * width) * far
            rest = rest - recall(pivots, (4 * at + 1) * width) * near
            near, far = rest * recall(pivots, 4 * at * width), near
            write(result, places, RESULT, (at - 1) * inner, near)
        write(result, places, RESULT, 0, first)


substitute = compile_kernel(_substitute)
