"""Gaussian elimination of many systems side by side, one in each lane: with and without pivoting.

A pending row, with the coefficients of an unknown and of the next one, is carried from row to row.
A method consists of two functions, whose states are tuples of numbers::

    eliminate(row, carried) -> (carried, stored)
    finalize(carried) -> (stored, flag, nan_seen)

`eliminate` stores the pivot row, and `finalize` the last one. The flag is the smallest pivot, nan
if nan was seen, and `nan_seen` is added to all unknowns.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from .elimination import scale_row
from .memory import lane_count, load, row_loader, store
from .tiles import (
    CARRIED,
    HALVES,
    RESULT,
    ROW_SPACING,
    ROWS,
    STORED,
    load_tile,
    locate_systems,
    operand_start,
    pointers_of,
    select_systems,
    store_tile,
    tile_start,
    view_of,
    work_of_group,
)
from .vectors import constant, magnitude, select


@numba.njit(**INNER)
def _store_all(pointer: Any, index: int, numbers: Any) -> None:
    lanes = lane_count(pointer)
    for k in range(len(numbers)):
        store(pointer, index + k * lanes, numbers[k])


_load_carried, _load_stored, _load_tile_row = map(row_loader, (CARRIED, STORED, RESULT))


@numba.njit(**INNER)
def _start_group(group: int, view: Any, work: Any) -> None:
    """Start a group of systems, with 1·x = 0 as the row before the first.

    Carried are the coefficients of a pending row, its right-hand side, the smallest pivot, and nan
    if nan was seen.
    """
    select_systems(group, view, work)
    locate_systems(view, work)
    zero = constant(load(work.tile, 0), 0.0)
    one = constant(zero, 1.0)
    for half in range(HALVES):
        carried = one, zero, zero, one, zero
        _store_all(work.carried, half * CARRIED * lane_count(work.tile), carried)


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
    _store_all(work.carried, 0, lower)
    _store_all(work.carried, CARRIED * lanes, upper)


@numba.njit(**INNER)
def _substitute(stored: Any, unknowns: Any) -> Any:
    """Return the unknown of a pivot row, the one after it, and `nan_seen`."""
    x, after, nan_seen = unknowns
    return stored[2] - stored[1] * after - stored[0] * x, x, nan_seen


@numba.njit(**INNER)
def _singular_system(work: Any, least: Any) -> int:
    """Return a system of a group whose smallest pivot is below `least`, or -1."""
    singular = -1
    for lane in range(HALVES * lane_count(work.tile)):
        if work.flags[lane] < least:
            singular = max(singular, work.systems[lane])
    return singular


def _kernel_of(name: str, eliminate: Any, finalize: Any) -> Any:
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
            index, place = HALVES * (first + row) * size, row * lanes
            lower, stored = eliminate(_load_tile_row(work.tile, place, spacing), lower)
            _store_all(work.pivots, index, stored)
            upper, stored = eliminate(_load_tile_row(work.tile, half + place, spacing), upper)
            _store_all(work.pivots, index + size, stored)
        _store_all(work.carried, 0, lower)
        _store_all(work.carried, CARRIED * lanes, upper)

    @numba.njit(**INNER)
    def finalize_group(view: Any, work: Any) -> None:
        lanes = lane_count(work.tile)
        zero = constant(load(work.tile, 0), 0.0)
        for half in range(HALVES):
            place = half * CARRIED * lanes
            stored, flag, nan_seen = finalize(_load_carried(work.carried, place, lanes))
            _store_all(work.pivots, (HALVES * view.steps + half) * STORED * lanes, stored)
            store(work.flags, half * lanes, flag)
            _store_all(work.carried, place, (zero, zero, nan_seen))

    def solve(
        operands: Any, layout: Any, work: Any, count: int, begin: int, stop: int, result: Any
    ) -> int:
        least = np.finfo(work.flags.dtype).tiny
        view, memory, singular = view_of(operands, layout, result), pointers_of(work), -1
        steps = view.steps
        tiles = -(-steps // ROWS)
        for first in range(begin, stop, count):
            groups = min(count, stop - first)
            for g in range(groups):
                _start_group(first + g, view, work_of_group(g, memory, steps))
            for k in range(tiles):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    eliminate_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                finalize_group(view, work_of_group(g, memory, steps))
            for k in range(tiles - 1, -1, -1):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    _substitute_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                singular = max(singular, _singular_system(work_of_group(g, memory, steps), least))
        return singular

    return compile_kernel(solve, name)


# Partial pivoting, as in LAPACK's gtsv, of rows scaled by powers of two.


@numba.njit(**INNER)
def _eliminate_pivoting(row: Any, carried: Any) -> Any:
    """Eliminate the unknown before a row from it and the pending row; store the pivot row."""
    p, u, rhs, least_pivot, nan_seen = carried
    row, nan_seen = scale_row(row, nan_seen)
    size, size_pending, pending = magnitude(row[0]), magnitude(p), (p, u, constant(p, 0.0), rhs)
    pivot = select(size, size_pending, row, pending)
    other = select(size, size_pending, pending, row)
    least_pivot = select(magnitude(least_pivot), magnitude(pivot[0]), pivot[0], least_pivot)
    inverse = constant(p, 1.0) / pivot[0]
    m = other[0] * inverse
    p, u, rhs = other[1] - m * pivot[1], other[2] - m * pivot[2], other[3] - m * pivot[3]
    stored = pivot[1] * inverse, pivot[2] * inverse, pivot[3] * inverse
    return (p, u, rhs, least_pivot, nan_seen), stored


@numba.njit(**INNER)
def _finalize_pivoting(carried: Any) -> Any:
    """Store the last unknown."""
    p, _, rhs, least_pivot, nan_seen = carried
    zero = constant(p, 0.0)
    least_pivot = select(magnitude(least_pivot), magnitude(p), p, least_pivot)
    return (zero, zero, rhs / p), magnitude(least_pivot) + magnitude(nan_seen), nan_seen


# Without pivoting: the method of L. H. Thomas (1949). Each row is the pivot of the next one.


@numba.njit(**INNER)
def _eliminate_thomas(row: Any, carried: Any) -> Any:
    """Eliminate the unknown before a row by the pending row; store the pending row."""
    p, u, rhs, least_pivot, nan_seen = carried
    (dl, d, du, b), nan_seen = scale_row(row, nan_seen)
    inverse = constant(p, 1.0) / p
    # The inverse is 0 if the pivot has overflowed.
    least_pivot = select(magnitude(least_pivot), magnitude(p), p, least_pivot)
    least_pivot = select(magnitude(least_pivot), magnitude(inverse), inverse, least_pivot)
    c, r = u * inverse, rhs * inverse
    return (d - dl * c, du, b - dl * r, least_pivot, nan_seen), (c, constant(p, 0.0), r)


@numba.njit(**INNER)
def _finalize_thomas(carried: Any) -> Any:
    """Store the last row."""
    zero = constant(carried[0], 0.0)
    after, stored = _eliminate_thomas((zero, zero, zero, zero), carried)
    return stored, magnitude(after[3]) + magnitude(after[4]), after[4]


solve_pivoting = _kernel_of("pivoting", _eliminate_pivoting, _finalize_pivoting)
solve_thomas = _kernel_of("thomas", _eliminate_thomas, _finalize_thomas)
