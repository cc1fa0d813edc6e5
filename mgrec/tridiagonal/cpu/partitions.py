"""Partitions of a chunk: their reduction to interface rows, and back substitution.

Each unknown of a partition but the first and the last is eliminated with its largest coefficient
in the partition's rows, including those of the two ends. Rows outside the partition do not contain
these unknowns. If the whole matrix is regular, their columns do not depend on each other, and
there is always a pivot other than 0.

The interface rows of the parts of a system, partitions or chunks, are the reduced system. The rows
of part k contain last[k-1], first[k], last[k] and first[k+1]: a banded system with two diagonals
below and two above the main one. The unknowns are eliminated in this order, with partial pivoting
over all rows that contain them, as in LAPACK's gbtrf. After part k two rows in last[k] and
first[k+1] are pending. Kernels have them in flat `cells` of 10 numbers. Of parts + 1 a system, cell k is
for part k, and for the two unknowns at the cut before it.

References
----------
C. Klein, R. Strzodka, "Tridiagonal GPU solver with scaled partial pivoting at maximum
bandwidth", ICPP 2021, doi:10.1145/3472456.3472484: partitions, their interface rows, and an
elimination that is done a second time rather than stored. There each interface row has its own
elimination, from one end to the other, in which the row at the end where it starts cannot be the
pivot: the inner block may then be singular although the matrix is not.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.memory import gather, lane_count, row_loader, scatter, store, store_row
from ...engines.cpu.scalars import smaller_of
from ...engines.cpu.threads import split_range
from ...engines.cpu.vectors import BYTES, constant, is_any_larger, magnitude, scale_of, select
from .elimination import (
    CELL_POSITIONS,
    advance,
    advance_part,
    cell_number,
    initial_pending,
    largest,
    load_row,
    order_by_pivot,
)

# Rows of a partition at most: its cell takes 10 words, and its pivots, 48 KB of real numbers, fit
# the L1 cache. An unknown took 13.1 ns with 64, 12.1 with 128, 11.3 with 192.
LENGTH = 192
# Rows of a table of offsets, after dl, d, du and b: offsets of the partition's first unknown and of
# its cell, and 1 if it contains the first row of the whole system, or the last.
RESULT, CELL, FIRST, LAST, OFFSET_ROWS = 4, 5, 6, 7, 8
_load_pivot = row_loader(4)
_load_four, _load_five = row_loader(4, is_scalar=True), row_loader(5, is_scalar=True)


class Partitions(NamedTuple):
    """Partitions `first` to `stop` of every system, of one length, `spacing` rows apart."""

    first: int
    stop: int
    length: int
    spacing: int


def part_count(steps: int) -> int:
    """Return the number of partitions of a chunk."""
    return -(-steps // LENGTH)


@lru_cache(maxsize=256)
def partition_tasks(
    shape: tuple[int, int, int], lanes: int, threads: int
) -> list[tuple[Partitions, int, int]]:
    """Return the groups of partitions of one length, and the parts of each for the threads."""
    count = part_count(shape[1])
    length = -(-shape[1] // max(count, 1))
    last = shape[1] - (count - 1) * length
    groups = [Partitions(0, count - 1, length, length), Partitions(count - 1, count, last, length)]
    tasks = []
    for group in [Partitions(0, count, length, length)] if last == length else groups:
        systems = shape[0] * shape[2] * (group.stop - group.first)
        for start, stop in split_range(-(-systems // lanes), threads):
            tasks.append((group, start * lanes, min(stop * lanes, systems)))
    return tasks


class ChunkLayout(NamedTuple):
    """The memory layout of a chunk, for kernels."""

    shape: tuple[int, int, int]  # (outer, steps, inner)
    strides: np.ndarray  # (5, 3), of operands and result in numbers; 0 along a broadcast axis
    ends: tuple[bool, bool]  # whether the chunk contains the first row of the system, and the last
    parts: int  # partitions of a system


def lanes_of(dtype: np.dtype[Any]) -> int:
    """Return how many numbers of a dtype are side by side."""
    return BYTES // dtype.itemsize


class Scratch(NamedTuple):
    """Memory of one call of a kernel.

    These are offsets (OFFSET_ROWS, lanes) of int64, the numbers 0 and 1, read at the offsets FIRST
    and LAST, and for the pivots four numbers a row of a partition and lane.
    """

    offsets: np.ndarray
    zero_one: np.ndarray
    pivots: np.ndarray


def empty_scratch(dtype: np.dtype[Any]) -> Scratch:
    """Return the memory of one call of a kernel."""
    lanes = lanes_of(dtype)
    pivots = np.empty(4 * LENGTH * lanes, dtype)
    return Scratch(np.empty((OFFSET_ROWS, lanes), np.int64), _zero_one(dtype), pivots)


@cache
def _zero_one(dtype: np.dtype[Any]) -> np.ndarray:
    return np.array([0, 1], dtype)


@numba.njit(**INNER)
def _fill_offsets(task: int, stop: int, group: Any, layout: Any, offsets: Any) -> None:
    """Write the offsets of the partitions from number `task` of a group, one for each lane."""
    inner = layout.shape[2]
    count = group.stop - group.first
    for lane in range(offsets.shape[1]):
        number = smaller_of(task + lane, stop - 1)
        number, column = divmod(number, inner)
        outer, part = divmod(number, count)
        part += group.first
        row = part * group.spacing
        for k in range(RESULT + 1):
            along = outer * layout.strides[k, 0] + row * layout.strides[k, 1]
            offsets[k, lane] = along + column * layout.strides[k, 2]
        offsets[CELL, lane] = ((outer * inner + column) * (layout.parts + 1) + part) * 10
        offsets[FIRST, lane] = layout.ends[0] and part == 0
        offsets[LAST, lane] = layout.ends[1] and part == layout.parts - 1


def _eliminate(
    operands: Any, layout: Any, cells: Any, scratch: Any, group: Any, start: int, stop: int, result: Any
) -> None:
    """Write the interface rows of the partitions `start` to `stop` of a group, or their unknowns.

    If `result`, a 1-d array of the axes (outer, steps, inner), is empty, rows are written to `cells`.
    Otherwise these have the values at cuts: the elimination is done again, bit for bit, and its pivots
    stay in a buffer of a partition's length. With x[-1], x[0], x[n-1] and x[n] known, x[n-2] … x[1]
    follow backwards. Operands are 1-d.
    """
    offsets, zero_one, pivots = scratch
    width, last, inner, is_known = lane_count(cells), group.length - 1, layout.shape[2], result.size > 0
    for task in range(start, stop, width):
        _fill_offsets(task, stop, group, layout, offsets)
        marks = gather(zero_one, offsets, FIRST, 0), gather(zero_one, offsets, LAST, 0)
        nan_seen, one = constant(marks[0], 0.0), constant(marks[0], 1.0)
        before, first = gather(cells, offsets, CELL, 4), gather(cells, offsets, CELL, 9)
        least_pivot, pending = magnitude(one), initial_pending(one)
        for i in range(last + 1):
            row, nan = load_row(operands, offsets, layout.strides, i, last, marks)
            pending, pivot = advance(pending, row)
            if is_known:
                rhs = pivot[5] - pivot[3] * before - pivot[4] * first
                # Dividing here, during the elimination, keeps divisions out of the back substitution.
                store_row(pivots, 4 * i * width, width, (one / pivot[0], pivot[1], pivot[2], rhs))
            else:
                size, nan_seen = magnitude(pivot[0]), nan_seen + nan
                least_pivot = select(least_pivot, size, size, least_pivot)
        if not is_known:
            for k, position in enumerate(CELL_POSITIONS):
                for r in range(2):
                    number = cell_number(pending[r][k], least_pivot, nan_seen)
                    scatter(cells, offsets, CELL, 5 * r + position, number)
            continue
        near, far = gather(cells, offsets, CELL, 14), gather(cells, offsets, CELL, 19)
        scatter(result, offsets, RESULT, last * inner, near)
        for i in range(last, 1, -1):
            inverse, c, c_far, rhs = _load_pivot(pivots, 4 * i * width, width)
            near, far = (rhs - c_far * far - c * near) * inverse, near
            scatter(result, offsets, RESULT, (i - 1) * inner, near)
        scatter(result, offsets, RESULT, 0, first)


eliminate = compile_kernel(_eliminate, allocates=False)


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


@numba.njit(**INNER)
def _factor(cells: Any, start: int, stop: int, known: Any, is_whole: bool) -> Any:
    """Replace the rows of all parts by pivots; move known unknowns to their right-hand sides.

    Return the pending rows, the least pivot, and 0, or nan if a row or a known value is not finite.
    """
    before, first = known[0], known[1]
    total = (before + first) + (known[2] + known[3])
    nan_seen, least_pivot = total - total, magnitude(constant(before, 1.0))
    zero = constant(before, 0.0)
    pending = initial_pending(before)
    if is_whole:
        pending = pending[0], (zero, zero, zero, zero, zero)
    for index in range(start, stop, 10):
        pending, pivot, second, least_pivot, nan_seen = _advance(cells, index, pending, least_pivot, nan_seen)
        rhs = pivot[6] - pivot[4] * before - pivot[5] * first
        store_row(cells, index, 1, (pivot[0], pivot[1], pivot[2], pivot[3], rhs))
        rhs = second[5] - second[3] * before - second[4] * first
        store_row(cells, index + 5, 1, (second[0], second[1], second[2], zero, rhs))
    return pending, least_pivot, nan_seen


@numba.njit(**INNER)
def _substitute_back(cells: Any, start: int, stop: int, last: Any, after: Any, nan_seen: Any) -> None:
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


def _solve(cells: Any, known: Any, is_whole: bool, is_merged: bool, parts: int, start: int, stop: int) -> int:
    """Write the values at all cuts of the systems `start` to `stop`; return a singular one, or -1.

    The values of a system that contains nan or inf are nan. `known` has for each system the x
    before it, its first, its last and the x after it. It is ignored if the systems are whole. If
    `is_merged`, write the interface rows of the parts of a system, to the first cell, instead.
    """
    singular = -1
    for system in range(start, stop):
        first_cell = 10 * system * (parts + 1)
        end, k = first_cell + 10 * parts, 4 * system
        ends = _load_four(known, k, 1)
        pending, least_pivot, nan_seen = _factor(cells, first_cell, end, ends, is_whole)
        last, after = ends[2], ends[3]
        if is_merged:
            for n, position in enumerate(CELL_POSITIONS):
                for r in range(2):
                    number = cell_number(pending[r][n], least_pivot, nan_seen)
                    store(cells, first_cell + 5 * r + position, number)
            continue
        if is_whole:
            row, _ = order_by_pivot(pending[0], pending[1])
            last, size = row[4] / row[0], magnitude(row[0])
            least_pivot = select(least_pivot, size, size, least_pivot)
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


solve_reduced = compile_kernel(_solve, allocates=False)
