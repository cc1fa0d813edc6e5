"""The reduced system: the interface rows of the parts of a system, partitions or chunks.

The rows of part k contain last[k-1], first[k], last[k] and first[k+1]: a banded system with two
diagonals below and two above the main one. The unknowns are eliminated in this order, with
partial pivoting over all rows that contain them, as in LAPACK's gbtrf. After part k two rows in
last[k] and first[k+1] are pending.

`cells` are those of :func:`.partitions.empty_cells`, flat: 10 numbers a part, parts + 1 a system.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from .elimination import (
    CELL_POSITIONS,
    advance_part,
    cell_number,
    initial_pending,
    largest,
    order_by_pivot,
)
from .memory import load_scalar, row_loader, store
from .vectors import constant, is_any_larger, magnitude, scale_of, select

_load_four, _load_five = row_loader(4, is_scalar=True), row_loader(5, is_scalar=True)


@numba.njit(**INNER)
def _load_row(cells: Any, index: int, least_pivot: Any, nan_seen: Any) -> Any:
    """Return a scaled row of a part: (before, first, last, after, rhs).

    `least_pivot` is returned as 0 if all coefficients are 0, `nan_seen` as nan if the row contains
    nan or inf.
    """
    before, first, last, after, rhs = _load_five(cells, index, 1)
    size = largest(before, first, last, after)
    scale = scale_of(size)
    row = before * scale, first * scale, last * scale, after * scale, rhs * scale
    total = (row[0] + row[1]) + (row[2] + row[3]) + rhs
    return row, select(least_pivot, size, size, least_pivot), nan_seen + (total - total)


@numba.njit(**INNER)
def _advance(cells: Any, index: int, pending: Any, least_pivot: Any, nan_seen: Any) -> Any:
    """Eliminate the two unknowns before the part whose cell is at `index`."""
    one, least_pivot, nan_seen = _load_row(cells, index, least_pivot, nan_seen)
    other, least_pivot, nan_seen = _load_row(cells, index + 5, least_pivot, nan_seen)
    pending, pivot, second = advance_part(pending, one, other)
    size, size_second = magnitude(pivot[0]), magnitude(second[0])
    size = select(size, size_second, size_second, size)
    return pending, pivot, second, select(least_pivot, size, size, least_pivot), nan_seen


def _merge(cells: Any, parts: int) -> None:
    """Write the interface rows of whole chunks, from those of their parts, to the first cell."""
    for start in range(0, cells.size, 10 * (parts + 1)):
        nan_seen = constant(load_scalar(cells, start), 0.0)
        least_pivot, pending = magnitude(constant(nan_seen, 1.0)), initial_pending(nan_seen)
        for index in range(start, start + 10 * parts, 10):
            pending, _, _, least_pivot, nan_seen = _advance(
                cells, index, pending, least_pivot, nan_seen
            )
        for k, position in enumerate(CELL_POSITIONS):
            for r in range(2):
                number = cell_number(pending[r][k], least_pivot, nan_seen)
                store(cells, start + 5 * r + position, number)


@numba.njit(**INNER)
def _factor(cells: Any, start: int, stop: int, known: Any, is_whole: bool) -> Any:
    """Replace the rows of all parts by pivots; move known unknowns to their right-hand sides."""
    before, first = known[0], known[1]
    total = (before + first) + (known[2] + known[3])
    nan_seen, least_pivot = total - total, magnitude(constant(before, 1.0))
    zero = constant(before, 0.0)
    pending = initial_pending(before)
    if is_whole:
        pending = pending[0], (zero, zero, zero, zero, zero)
    for index in range(start, stop, 10):
        pending, pivot, second, least_pivot, nan_seen = _advance(
            cells, index, pending, least_pivot, nan_seen
        )
        for k in range(4):
            store(cells, index + k, pivot[k])
        store(cells, index + 4, pivot[6] - pivot[4] * before - pivot[5] * first)
        for k in range(3):
            store(cells, index + 5 + k, second[k])
        store(cells, index + 9, second[5] - second[3] * before - second[4] * first)
    last, after = known[2], known[3]
    if is_whole:
        row, _ = order_by_pivot(pending[0], pending[1])
        last, size = row[4] / row[0], magnitude(row[0])
        least_pivot = select(least_pivot, size, size, least_pivot)
    return last, after, least_pivot, nan_seen


@numba.njit(**INNER)
def _substitute_back(
    cells: Any, start: int, stop: int, last: Any, after: Any, nan_seen: Any
) -> None:
    """Write the two values at each cut in place of the right-hand sides of the part after it."""
    for index in range(stop - 10, start - 10, -10):
        store(cells, index + 14, last + nan_seen)
        store(cells, index + 19, after + nan_seen)
        pivot, second = _load_five(cells, index, 1), _load_five(cells, index + 5, 1)
        first = (second[4] - second[1] * last - second[2] * after) / second[0]
        rhs = pivot[4] - pivot[1] * first - pivot[2] * last - pivot[3] * after
        last, after = rhs / pivot[0], first
    store(cells, start + 4, last + nan_seen)
    store(cells, start + 9, after + nan_seen)


def _solve(cells: Any, known: Any, is_whole: bool, parts: int, start: int, stop: int) -> int:
    """Write the values at all cuts of the systems `start` to `stop`; return a singular one, or -1.

    The values of a system that contains nan or inf are nan. `known` has for each system the x
    before it, its first, its last and the x after it. It is ignored if the systems are whole.
    """
    singular = -1
    for system in range(start, stop):
        first_cell = 10 * system * (parts + 1)
        end, k = first_cell + 10 * parts, 4 * system
        ends = _load_four(known, k, 1)
        last, after, least_pivot, nan_seen = _factor(cells, first_cell, end, ends, is_whole)
        _substitute_back(cells, first_cell, end, last, after, nan_seen)
        if not is_whole:
            # The known values, without the rounding errors of back substitution.
            store(cells, first_cell + 4, ends[0] + nan_seen)
            store(cells, first_cell + 9, ends[1] + nan_seen)
        # The product is nan in both parts if one part is nan.
        size, zero = magnitude(nan_seen * nan_seen), magnitude(constant(nan_seen, 0.0))
        is_sound = is_any_larger(magnitude(constant(nan_seen, 1.0)), size)
        if is_sound and not is_any_larger(least_pivot, zero):
            singular = system
    return singular


def _join_ends(first: Any, last: Any, rows: Any, negligible: float, least: float) -> bool:
    """Write interface rows (2, 5, outer, inner) from those of both ends.

    See :func:`..interface.join_interface_rows`.
    """
    for end in range(2):
        part = last if end else first
        # Columns: the unknown outside of the chunk, its neighbour, the far one, and that beyond it.
        outside, near, far, beyond = (3, 2, 1, 0) if end else (0, 1, 2, 3)
        for outer in range(part.shape[2]):
            for inner in range(part.shape[3]):
                upper, lower = part[0, :, outer, inner], part[1, :, outer, inner]
                one, other = upper * lower[far], lower * upper[far]
                row = one - other
                size = max(
                    abs(one[outside]) + abs(other[outside]), abs(one[near]) + abs(other[near])
                )
                if not (max(abs(row[outside]), abs(row[near])) >= 0.5 * size and size >= least):
                    return False
                row /= row[near]
                if not (abs(row[beyond]) <= negligible and np.isfinite(row).all()):
                    return False
                row[beyond] = row[far] = 0
                rows[end, :, outer, inner] = row
    return True


join_ends = compile_kernel(_join_ends)
merge = compile_kernel(_merge)
solve = compile_kernel(_solve)
