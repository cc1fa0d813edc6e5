"""Gaussian elimination of many systems side by side, one in each lane: with and without pivoting.

A method consists of four functions, whose states are tuples of numbers::

    start(zero) -> carried
    eliminate(row, carried) -> (carried, stored)
    finalize(carried) -> (stored, flag, nan_seen)
    substitute(stored, unknowns) -> unknowns

`eliminate` may store numbers that belong to the row before. `finalize` follows the last row, and
`substitute` reads the numbers stored after its row. `unknowns` are those of the row and of the one
after it, and `nan_seen`, which is added to all of them.
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
    OFFSET_ROWS,
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


def _forward_kernels(start: Any, eliminate: Any) -> tuple[Any, Any]:
    """Return compiled functions that start a group of systems, and eliminate a tile of it."""

    @numba.njit(**INNER)
    def start_group(group: int, view: Any, work: Any) -> None:
        select_systems(group, view, work)
        locate_systems(view, work)
        carried = start(constant(load(work.tile, 0), 0.0))
        for half in range(HALVES):
            _store_all(work.carried, half * CARRIED * lane_count(work.tile), carried)

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

    return start_group, eliminate_tile


def _backward_kernels(finalize: Any, substitute: Any) -> tuple[Any, Any]:
    """Return compiled functions that finalize a group, and substitute back in a tile of it."""

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

    @numba.njit(**INNER)
    def substitute_tile(view: Any, work: Any, first: int, stop: int) -> None:
        lanes = lane_count(work.tile)
        size, unknowns = STORED * lanes, operand_start(0, RESULT, lanes)
        others = operand_start(1, RESULT, lanes)
        lower = _load_carried(work.carried, 0, lanes)[:3]
        upper = _load_carried(work.carried, CARRIED * lanes, lanes)[:3]
        for row in range(stop - first - 1, -1, -1):
            index = HALVES * (first + row + 1) * size
            lower = substitute(_load_stored(work.pivots, index, lanes), lower)
            store(work.tile, unknowns + row * lanes, lower[0] + lower[2])
            upper = substitute(_load_stored(work.pivots, index + size, lanes), upper)
            store(work.tile, others + row * lanes, upper[0] + upper[2])
        store_tile(view, work, first, stop)
        _store_all(work.carried, 0, lower)
        _store_all(work.carried, CARRIED * lanes, upper)

    return finalize_group, substitute_tile


def _kernel_of(
    name: str, start: Any, eliminate: Any, finalize: Any, substitute: Any, check: Any
) -> Any:
    """Return a kernel ``(operands, layout, work, count, start, stop, result) -> singular``.

    Operands and `result`, of the axes (outer, steps, inner), are 1-d. The kernel solves the groups
    of systems from `start` to `stop`, the tiles of `count` of them alternately. It returns a
    singular system, or -1. `check` returns a singular system of the flags of a group, or -1.
    """
    start_group, eliminate_tile = _forward_kernels(start, eliminate)
    finalize_group, substitute_tile = _backward_kernels(finalize, substitute)

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
                start_group(first + g, view, work_of_group(g, memory, steps))
            for k in range(tiles):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    eliminate_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                finalize_group(view, work_of_group(g, memory, steps))
            for k in range(tiles - 1, -1, -1):
                for g in range(groups):
                    rows = tile_start(k, steps), tile_start(k + 1, steps)
                    substitute_tile(view, work_of_group(g, memory, steps), *rows)
            for g in range(groups):
                singular = max(singular, check(view, work_of_group(g, memory, steps), least))
        return singular

    return compile_kernel(solve, name)


# Partial pivoting, as in LAPACK's gtsv, of rows scaled by powers of two.


@numba.njit(**INNER)
def _start_pivoting(zero: Any) -> Any:
    """Return 1·x = 0 as the row before the first.

    Carried are the coefficients of a pending row, its right-hand side, the smallest pivot, and nan
    if nan was seen.
    """
    one = constant(zero, 1.0)
    return one, zero, zero, one, zero


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
    """Store the last unknown. The flag is the smallest pivot; nan if nan was seen."""
    p, _, rhs, least_pivot, nan_seen = carried
    zero = constant(p, 0.0)
    least_pivot = select(magnitude(least_pivot), magnitude(p), p, least_pivot)
    return (zero, zero, rhs / p), magnitude(least_pivot) + magnitude(nan_seen), nan_seen


@numba.njit(**INNER)
def _substitute_pivoting(stored: Any, unknowns: Any) -> Any:
    x, after, nan_seen = unknowns
    return stored[2] - stored[1] * after - stored[0] * x, x, nan_seen


@numba.njit(**INNER)
def _check_pivoting(view: Any, work: Any, least: Any) -> int:
    singular = -1
    for lane in range(HALVES * lane_count(work.tile)):
        if work.flags[lane] < least:
            singular = max(singular, work.systems[lane])
    return singular


# Without pivoting: the method of L. H. Thomas (1949).


@numba.njit(**INNER)
def _start_thomas(zero: Any) -> Any:
    """Carried are du and the right-hand side, divided by the pivot, and nan after nan or inf."""
    return zero, zero, zero, zero, zero


@numba.njit(**INNER)
def _eliminate_thomas(row: Any, carried: Any) -> Any:
    """Divide a row by its pivot; store the row before it."""
    c, r, unsound, _, _ = carried
    stored = c, r, unsound
    dl, d, du, b = row
    pivot = d - dl * c
    inverse = constant(d, 1.0) / pivot
    c, r = du * inverse, (b - dl * r) * inverse
    unsound = unsound + (pivot - pivot)
    return (c, r, unsound, unsound, unsound), stored


@numba.njit(**INNER)
def _finalize_thomas(carried: Any) -> Any:
    """Store the last row. The flag is 0 if the system is solved, else nan."""
    c, r, unsound, _, _ = carried
    # A pivot of 0, nan and inf in b, dl and du all leave nan or inf in the last right-hand side;
    # a pivot of inf does not.
    total = (r - r) + unsound
    return (c, r, unsound), magnitude(total), constant(c, 0.0)


@numba.njit(**INNER)
def _substitute_thomas(stored: Any, unknowns: Any) -> Any:
    x, _, nan_seen = unknowns
    return stored[1] - stored[0] * x, x, nan_seen


@numba.njit(**INNER)
def _check_thomas(view: Any, work: Any, least: Any) -> int:
    """Fill flagged systems that contain nan or inf with nan; return one that does not, or -1."""
    singular, lanes = -1, lane_count(work.tile)
    for lane in range(HALVES * lanes):
        if work.flags[lane] == 0:
            continue
        first = lane // lanes * OFFSET_ROWS * lanes + lane % lanes
        total = _nan_seen(view, work.offsets, first, lanes)
        if total == total:
            singular = max(singular, work.systems[lane])
        for row in range(view.steps):
            view.result[work.offsets[first + RESULT * lanes] + row * view.inner] = total
    return singular


@numba.njit(**INNER)
def _nan_seen(view: Any, offsets: Any, first: int, lanes: int) -> Any:
    """Return nan if a system contains nan or inf, else 0."""
    number = view.operands[RESULT - 1][offsets[first + (RESULT - 1) * lanes]]
    total = number - number
    for k in range(RESULT):
        # Not the first dl, nor the last du.
        for row in range(k == 0, view.steps - (k == 2)):
            number = view.operands[k][offsets[first + k * lanes] + row * view.strides[3 * k + 1]]
            total += number - number
    return total


solve_pivoting = _kernel_of(
    "pivoting", _start_pivoting, _eliminate_pivoting, _finalize_pivoting, _substitute_pivoting,
    _check_pivoting,
)  # fmt: skip
solve_thomas = _kernel_of(
    "thomas", _start_thomas, _eliminate_thomas, _finalize_thomas, _substitute_thomas, _check_thomas
)
