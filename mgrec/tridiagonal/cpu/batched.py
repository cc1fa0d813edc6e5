"""Gaussian elimination of many systems side by side, one in each lane: with and without pivoting.

Systems may lie in memory one after the other or side by side, or share diagonals: kernels always
solve a tile, some rows of as many systems as there are lanes, side by side in a buffer.

A pending row, with the coefficients of an unknown and of the next one, is carried from row to row.
A method is a function ``eliminate(row, carried) -> (carried, stored)`` of tuples of numbers. It stores
the pivot row; after the last row, a row of zeros stores the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.memory import (
    gather,
    lane_count,
    load,
    load_broadcast,
    load_contiguous,
    load_transposed,
    prefetch,
    row_loader,
    scatter,
    store,
    store_contiguous,
    store_row,
    store_transposed,
)
from ...engines.cpu.pointers import advance_pointer, pointer_to, pointers_to
from ...engines.cpu.vectors import constant, magnitude, select
from .elimination import scale_row
from .partitions import lanes_of

# Rows of a tile at most: 80 KB of numbers with the unknowns. 2,000 systems of 4,095 took 3.1 ns an
# unknown of float64 with 32, 2.6 with 64, 2.3 with 128. Operands are a few rows more apart,
# since addresses 4 KB apart compete for the same lines of the cache.
ROWS, ROW_SPACING = 128, 133
# Registers solved at once: a row waits for the one before. The elimination took 0.7 ns an unknown
# with one, 0.4 with two.
HALVES = 2
# Largest number of groups whose tiles are solved alternately, and of bytes stored for all of them.
MAX_GROUPS, MAX_GROUP_BYTES = 4, 1 << 25
# Numbers of a system that are carried from row to row (the coefficients of a pending row, its right-hand
# side, the smallest pivot, and nan if nan was seen), and stored for each row.
CARRIED, STORED = 5, 3
# Rows of a table of offsets: dl, d, du, b and the result, for each half.
RESULT, OFFSET_ROWS = 4, 5
# Access to the numbers of a row, one for each lane: one after the other; the same for all; from
# rows of a lane each, which are transposed; or any other way.
CONTIGUOUS, BROADCAST, TRANSPOSED, SCATTERED = range(4)
_load_carried, _load_stored, _load_tile_row = map(row_loader, (CARRIED, STORED, RESULT))


class Work(NamedTuple):
    """Memory of one thread for several groups of systems: flat arrays or pointers."""

    offsets: Any  # of their first rows in dl, d, du, b and the result, for each half
    accesses: Any  # CONTIGUOUS, BROADCAST, TRANSPOSED or SCATTERED, HALVES * OFFSET_ROWS
    tile: Any  # dl, d, du, b and x, for each half; one tile for all groups
    carried: Any  # CARRIED numbers for each half, from a row to the next
    pivots: Any  # STORED numbers of each row for each half, for back substitution
    least: Any  # the smallest pivot of each system, nan if nan was seen; real


class View(NamedTuple):
    """The arrays of a call as pointers, and their layout; strides are (5, 3) numbers."""

    operands: Any
    strides: Any
    result: Any
    outer: int
    steps: int
    inner: int


def concurrent_groups(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
    """Return the number of groups whose tiles are solved alternately.

    The rows of systems side by side are pages apart: with one group 2,000 systems of 4,095 took
    4.5 ns an unknown of float64, with four 3.5.
    """
    _, steps, inner = shape
    width = HALVES * lanes_of(dtype)
    fit = MAX_GROUP_BYTES // (STORED * (steps + 1) * width * dtype.itemsize)
    return max(1, min(fit, MAX_GROUPS, inner // width))


def empty_work(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> Work:
    """Return the memory of one thread."""
    count, width = concurrent_groups(shape, dtype), HALVES * lanes_of(dtype)
    offsets = np.empty(count * OFFSET_ROWS * width, np.int64)
    accesses = np.empty(count * HALVES * OFFSET_ROWS, np.int64)
    tile = np.empty(OFFSET_ROWS * ROW_SPACING * width, dtype)
    carried = np.empty(count * CARRIED * width, dtype)
    pivots = np.empty(count * STORED * (shape[1] + 1) * width, dtype)
    return Work(offsets, accesses, tile, carried, pivots, np.empty(count * width, dtype.char.lower()))


def group_count(shape: tuple[int, int, int], dtype: np.dtype[Any]) -> int:
    """Return the number of groups of systems that are solved side by side."""
    outer, _, inner = shape
    lanes = HALVES * lanes_of(dtype)
    if inner >= lanes:
        return outer * -(-inner // lanes)
    return -(-outer * inner // lanes)


@numba.njit(**INNER)
def work_of_group(number: int, work: Any, steps: int) -> Work:
    """Return the part of a thread's memory for one of its groups."""
    first = number * HALVES * lane_count(work.tile)
    return Work(
        advance_pointer(work.offsets, OFFSET_ROWS * first),
        advance_pointer(work.accesses, number * HALVES * OFFSET_ROWS),
        work.tile,
        advance_pointer(work.carried, CARRIED * first),
        advance_pointer(work.pivots, STORED * (steps + 1) * first),
        advance_pointer(work.least, first),
    )


@numba.njit(**INNER)
def first_system(group: int, view: Any, lanes: int) -> int:
    """Return the first of the HALVES * lanes systems of a group; the last system fills other lanes."""
    width, inner = HALVES * lanes, view.inner
    if inner < width:
        return group * width
    row, part = divmod(group, -(-inner // width))
    return row * inner + min(part * width, inner - width)


@numba.njit(**INNER)
def locate_systems(group: int, view: Any, work: Any) -> None:
    """Write the offsets of the systems of a group, and how their rows are accessed."""
    lanes, inner = lane_count(work.tile), view.inner
    outer, column, before = 0, -1, -1
    first = first_system(group, view, lanes)
    for index in range(HALVES * lanes):
        system = min(first + index, view.outer * inner - 1)
        # A division takes as long as a row.
        if system == before + 1 and column + 1 < inner:
            column += 1
        elif system != before:
            outer, column = divmod(system, inner)
        before = system
        table_row = index // lanes * OFFSET_ROWS
        position = table_row * lanes + index % lanes
        for k in range(OFFSET_ROWS):
            offset = outer * view.strides[3 * k] + column * view.strides[3 * k + 2]
            work.offsets[position + k * lanes] = offset
    for table_row in range(HALVES * OFFSET_ROWS):
        stride = view.strides[3 * (table_row % OFFSET_ROWS) + 1]
        work.accesses[table_row] = _access(work.offsets, table_row * lanes, lanes, stride, view.steps)


@numba.njit(**INNER)
def _access(offsets: Any, start: int, lanes: int, stride: int, steps: int) -> int:
    is_same, is_contiguous, first = True, True, offsets[start]
    for lane in range(lanes):
        is_same &= offsets[start + lane] == first
        is_contiguous &= offsets[start + lane] == first + lane
    if is_same:
        return BROADCAST
    if is_contiguous:
        return CONTIGUOUS
    return TRANSPOSED if stride == 1 and steps >= lanes else SCATTERED


@numba.njit(**INNER)
def tile_start(tile: int, steps: int) -> int:
    """Return the first row of a tile: all tiles have nearly one length."""
    return tile * steps // -(-steps // ROWS)


@numba.njit(**INNER)
def operand_start(half: int, k: int, lanes: int) -> int:
    """Return the index in a tile where an operand starts."""
    return (half * OFFSET_ROWS + k) * ROW_SPACING * lanes


@numba.njit(**INNER)
def load_tile(view: Any, work: Any, start: int, stop: int) -> None:
    """Load the rows from `start` to `stop` of all operands."""
    lanes = lane_count(work.tile)
    zero = constant(load(work.tile, 0), 0.0)
    for half in range(HALVES):
        for k in range(RESULT):
            stride = view.strides[3 * k + 1]
            _load_operand(view.operands[k], work, half * OFFSET_ROWS + k, stride, start, stop)
        if start == 0:
            store(work.tile, operand_start(half, 0, lanes), zero)
        if stop == view.steps:
            store(work.tile, operand_start(half, 2, lanes) + (stop - start - 1) * lanes, zero)


@numba.njit(**INNER)
def _load_operand(operand: Any, work: Any, table_row: int, stride: int, start: int, stop: int) -> None:
    tile, offsets, lanes = work.tile, work.offsets, lane_count(work.tile)
    access = work.accesses[table_row]
    target, source = table_row * ROW_SPACING * lanes, offsets[table_row * lanes] + start * stride
    if access == CONTIGUOUS:
        for row in range(stop - start):
            store(tile, target + row * lanes, load_contiguous(operand, source + row * stride))
            prefetch(operand, source + (row + ROWS) * stride)
    elif access == BROADCAST:
        for row in range(stop - start):
            store(tile, target + row * lanes, load_broadcast(operand, source + row * stride))
    elif access == TRANSPOSED:
        for row in range(0, stop - start, lanes):
            # The last block starts early enough to be whole.
            first = min(row, stop - start - lanes)
            load_transposed(tile, target + first * lanes, operand, offsets, table_row, start + first)
    else:
        for row in range(stop - start):
            numbers = gather(operand, offsets, table_row, (start + row) * stride)
            store(tile, target + row * lanes, numbers)


@numba.njit(**INNER)
def store_tile(view: Any, work: Any, start: int, stop: int) -> None:
    """Write the unknowns from `start` to `stop`."""
    tile, result, offsets, lanes = work.tile, view.result, work.offsets, lane_count(work.tile)
    stride = view.strides[3 * RESULT + 1]
    for half in range(HALVES):
        table_row = half * OFFSET_ROWS + RESULT
        access = work.accesses[table_row]
        source, target = table_row * ROW_SPACING * lanes, offsets[table_row * lanes] + start * stride
        if access == CONTIGUOUS:
            for row in range(stop - start):
                store_contiguous(result, target + row * stride, load(tile, source + row * lanes))
                prefetch(result, target + (row - ROWS) * stride)
        elif access == TRANSPOSED:
            for row in range(0, stop - start, lanes):
                first = min(row, stop - start - lanes)
                store_transposed(tile, source + first * lanes, result, offsets, table_row, start + first)
        else:
            for row in range(stop - start):
                numbers = load(tile, source + row * lanes)
                scatter(result, offsets, table_row, (start + row) * stride, numbers)


@numba.njit(**INNER)
def _substitute_tile(view: Any, work: Any, first: int, stop: int) -> None:
    """Substitute back in a tile of a group."""
    lanes = lane_count(work.tile)
    size, unknowns = STORED * lanes, operand_start(0, RESULT, lanes)
    others = operand_start(1, RESULT, lanes)
    lower = _load_carried(work.carried, 0, lanes)[:3]
    upper = _load_carried(work.carried, CARRIED * lanes, lanes)[:3]
    for row in range(stop - first - 1, -1, -1):
        index = HALVES * (first + row + 1) * size
        lower = _substitute(_load_stored(work.pivots, index, lanes), lower)
        store(work.tile, unknowns + row * lanes, lower[0] + lower[2])
        upper = _substitute(_load_stored(work.pivots, index + size, lanes), upper)
        store(work.tile, others + row * lanes, upper[0] + upper[2])
    store_tile(view, work, first, stop)
    store_row(work.carried, 0, lanes, lower)
    store_row(work.carried, CARRIED * lanes, lanes, upper)


@numba.njit(**INNER)
def _substitute(stored: Any, unknowns: Any) -> Any:
    """Return the unknown of a pivot row, the one after it, and `nan_seen`."""
    x, after, nan_seen = unknowns
    return stored[2] - stored[1] * after - stored[0] * x, x, nan_seen


def _kernel_of(name: str, eliminate: Any) -> Any:
    """Return a kernel ``(operands, layout, work, count, start, stop, result) -> singular``.

    Operands and `result`, of the axes (outer, steps, inner), are 1-d. The kernel solves the groups
    of systems from `start` to `stop`, the tiles of `count` of them alternately. It returns a
    singular system, or -1.
    """

    @numba.njit(**INNER)
    def eliminate_tile(view: Any, work: Any, first: int, stop: int) -> None:
        lanes = lane_count(work.tile)
        size, spacing, half = STORED * lanes, ROW_SPACING * lanes, operand_start(1, 0, lanes)
        load_tile(view, work, first, stop)
        lower = _load_carried(work.carried, 0, lanes)
        upper = _load_carried(work.carried, CARRIED * lanes, lanes)
        for row in range(stop - first):
            index, offset = HALVES * (first + row) * size, row * lanes
            lower, stored = eliminate(_load_tile_row(work.tile, offset, spacing), lower)
            store_row(work.pivots, index, lanes, stored)
            upper, stored = eliminate(_load_tile_row(work.tile, half + offset, spacing), upper)
            store_row(work.pivots, index + size, lanes, stored)
        store_row(work.carried, 0, lanes, lower)
        store_row(work.carried, CARRIED * lanes, lanes, upper)

    @numba.njit(**INNER)
    def store_last_rows(view: Any, work: Any) -> None:
        lanes = lane_count(work.tile)
        zero = constant(load(work.tile, 0), 0.0)
        for half in range(HALVES):
            offset = half * CARRIED * lanes
            carried, stored = eliminate((zero, zero, zero, zero), _load_carried(work.carried, offset, lanes))
            store_row(work.pivots, (HALVES * view.steps + half) * STORED * lanes, lanes, stored)
            store(work.least, half * lanes, magnitude(carried[3]) + magnitude(carried[4]))
            store_row(work.carried, offset, lanes, (zero, zero, carried[4]))

    def solve(
        operands: Any, layout: Any, work: Any, count: int, first_row: int, stop: int, result: Any
    ) -> int:
        least = np.finfo(work.least.dtype).tiny
        strides, memory, singular = pointer_to(layout.strides), Work(*pointers_to(work)), -1
        view = View(pointers_to(operands), strides, pointer_to(result), *layout.shape)
        steps, lanes, zero = view.steps, lane_count(work.tile), constant(load(work.tile, 0), 0.0)
        tiles, one = -(-steps // ROWS), constant(zero, 1.0)
        for first in range(first_row, stop, count):
            groups = min(count, stop - first)
            for g in range(groups):
                part = work_of_group(g, memory, steps)
                locate_systems(first + g, view, part)
                for half in range(HALVES):
                    # 1·x = 0 is the row before the first.
                    store_row(part.carried, half * CARRIED * lanes, lanes, (one, zero, zero, one, zero))
            for k in range(tiles):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    eliminate_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                store_last_rows(view, work_of_group(g, memory, steps))
            for k in range(tiles - 1, -1, -1):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    _substitute_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                part = work_of_group(g, memory, steps)
                for lane in range(HALVES * lanes):
                    if part.least[lane] < least:
                        system = min(first_system(first + g, view, lanes) + lane, view.outer * view.inner - 1)
                        singular = max(singular, system)
        return singular

    return compile_kernel(solve, name, allocates=False)


# Partial pivoting, as in LAPACK's gtsv, of rows scaled by powers of two.


@numba.njit(**INNER)
def _eliminate_pivoting(row: Any, carried: Any) -> Any:
    """Eliminate the unknown before a row from it and the pending row; store the pivot row."""
    p, u, rhs, least_pivot, nan_seen = carried
    row, nan = scale_row(row)
    size, size_pending, pending = magnitude(row[0]), magnitude(p), (p, u, constant(p, 0.0), rhs)
    pivot = select(size, size_pending, row, pending)
    other = select(size, size_pending, pending, row)
    least_pivot = select(magnitude(least_pivot), magnitude(pivot[0]), pivot[0], least_pivot)
    inverse = constant(p, 1.0) / pivot[0]
    m = other[0] * inverse
    p, u, rhs = other[1] - m * pivot[1], other[2] - m * pivot[2], other[3] - m * pivot[3]
    stored = pivot[1] * inverse, pivot[2] * inverse, pivot[3] * inverse
    return (p, u, rhs, least_pivot, nan_seen + nan), stored


# Without pivoting: the method of L. H. Thomas (1949). Each row is the pivot of the next one.


@numba.njit(**INNER)
def _eliminate_thomas(row: Any, carried: Any) -> Any:
    """Eliminate the unknown before a row by the pending row; store the pending row."""
    p, u, rhs, least_pivot, nan_seen = carried
    (dl, d, du, b), nan = scale_row(row)
    inverse = constant(p, 1.0) / p
    # The inverse is 0 if the pivot has overflowed.
    least_pivot = select(magnitude(least_pivot), magnitude(p), p, least_pivot)
    least_pivot = select(magnitude(least_pivot), magnitude(inverse), inverse, least_pivot)
    c, r = u * inverse, rhs * inverse
    return (d - dl * c, du, b - dl * r, least_pivot, nan_seen + nan), (c, constant(p, 0.0), r)


solve_pivoting = _kernel_of("pivoting", _eliminate_pivoting)
solve_thomas = _kernel_of("thomas", _eliminate_thomas)
