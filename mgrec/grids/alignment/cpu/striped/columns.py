"""Columns of a tile: lane k of register s has row k · segments + s of them.

The scores of a column are then loads from the query's profile, where antidiagonals must shear
them. F is carried from register to register at once, and from lane to lane afterwards, for as long
as it counts (M. Farrar, "Striped Smith-Waterman speeds database searches six times over other SIMD
implementations", Bioinformatics 23 (2007)). Where F raises H afterwards, E of the next column is
raised as well: the states that leave a tile are exact.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .....engines.cpu.compilation import INLINED, INNER, compile_kernel
from .....engines.cpu.simd.arithmetic import (
    REGISTER,
    add_saturated,
    any_true,
    choose,
    convert_like,
    exceeds,
    extract_lane,
    larger,
    load_like,
    load_register,
    load_scalar,
    shift_in,
    splat_register,
    store_scalar,
)
from .....engines.cpu.simd.lanes import last, store

# Columns whose F may be carried as far as it will.
_FREE = 64
# Of what stays the same in a tile.
GAP, EXTEND, FLOOR, CEILING = range(4)


@numba.njit(**INLINED)
def _run_registers(
    scores: Any, first: int, h: Any, e: Any, state: Any, gap: Any, extend: Any, begin: int, end: int
) -> Any:
    """Some registers of a column, one below the other; `scores` from ``scores[first]`` on."""
    diagonal, f, top = state
    lanes = REGISTER // h.itemsize
    for s in range(begin, end):
        at = s * lanes
        gaps, before = load_register(e, at), load_register(h, at)
        score = convert_like(load_like(scores, first + at, f), f)
        own = larger(add_saturated(diagonal, score), gaps)
        diagonal, new = before, larger(own, f)
        store(h, at, new)
        store(e, at, larger(add_saturated(gaps, extend), add_saturated(new, gap)))
        # F + gap is at most F + extend: only `own` + gap is new.
        f = larger(add_saturated(f, extend), add_saturated(own, gap))
        top = larger(top, new)
    return diagonal, f, top


@numba.njit(**INNER)
def _carry(h: Any, e: Any, f: Any, numbers: Any, segments: int) -> Any:
    """F from the end of each lane to the next one, until it is no more than a gap of H.

    Returns F below the last row, and how many registers were computed again.
    """
    gap, extend = splat_register(numbers[GAP]), splat_register(numbers[EXTEND])
    lanes, leaving = REGISTER // h.itemsize, last(f)
    for turn in range(lanes):
        f = shift_in(f, numbers[FLOOR])
        for s in range(segments):
            own = load_register(h, s * lanes)
            if not any_true(exceeds(f, add_saturated(own, gap))):
                return leaving, turn * segments + s
            new = larger(own, f)
            store(h, s * lanes, new)
            store(e, s * lanes, larger(load_register(e, s * lanes), add_saturated(new, gap)))
            f = add_saturated(f, extend)
        leaving = max(leaving, last(f))
    return leaving, lanes * segments


@numba.njit(**INNER)
def _highest(top: Any, lanes: int) -> Any:
    best = extract_lane(top, 0)
    for k in range(1, lanes):
        best = max(best, extract_lane(top, k))
    return best


@numba.njit(**INNER)
def _first_row(h: Any, score: Any, segments: int) -> int:
    """The first row of a column that has a score."""
    lanes = REGISTER // h.itemsize
    for row in range(segments * lanes):
        if h[row % segments * lanes + row // segments] == score:
            return row
    return -1


def _run_columns(
    scores: Any, target: Any, edge: Any, edge_gaps: Any, h: Any, e: Any, numbers: Any, place: Any,
    skipped: int,
) -> Any:  # fmt: skip
    """The best score of a local tile, its row and its column; edges are written.

    It is given up where a score reaches the ceiling, and where F had to be carried too far: the
    row is then below −1.

    Parameters
    ----------
    scores : array
        Of each letter of the target with all rows: (letter, register, lane).
    target : array (m,)
        Codes of its letters.
    edge : array (m + 1,)
        H above, after the corner; overwritten by the last row, after what is to the left of it.
    edge_gaps : array (m,)
        F of the first row; overwritten by that of the row below the tile.
    h, e : array (registers, lane)
        H of the column to the left, and E of the first one; overwritten by those of the last
        column and of the one to the right.
    numbers : array
        GAP and those after it, of integers of 8 bits; the floor is the least of them.
    place : array (lanes,)
        1 in the lane of the first row, else 0.
    skipped : int
        Rows before the first one, whose H and E are, and stay, the floor.
    """
    lanes = REGISTER // h.itemsize
    segments, size = h.size // lanes, h.size
    gap, extend = splat_register(numbers[GAP]), splat_register(numbers[EXTEND])
    floor, first = splat_register(numbers[FLOOR]), skipped % segments
    is_first = exceeds(load_register(place, 0), splat_register(place.dtype.type(0)))
    best, row, column, peak = numbers[FLOOR], -1, -1, floor
    corner, carried = edge[0], 0
    edge[0] = h[size - 1]
    for j in range(target.size):
        above, begin = load_scalar(edge, j + 1), np.intp(load_scalar(target, j)) * size
        state = shift_in(load_register(h, size - lanes), numbers[FLOOR]), floor, floor
        state = _run_registers(scores, begin, h, e, state, gap, extend, 0, first)
        diagonal = choose(is_first, splat_register(corner), state[0])
        f = choose(is_first, splat_register(load_scalar(edge_gaps, j)), state[1])
        state = diagonal, f, state[2]
        state = _run_registers(scores, begin, h, e, state, gap, extend, first, segments)
        leaving, again = _carry(h, e, state[1], numbers, segments)
        carried += again
        if carried > (j + _FREE) * segments // 2:
            return best, -2, column
        store_scalar(edge_gaps, j, leaving)
        corner = above
        store_scalar(edge, j + 1, h[size - 1])
        if any_true(exceeds(state[2], peak)):
            best = _highest(state[2], lanes)
            peak, row, column = splat_register(best), _first_row(h, best, segments), j
            if best == numbers[CEILING]:
                break
    return best, max(row - skipped, -1), column


# The registers of this machine are not in numba's own key where NUMBA_CPU_NAME is set.
run_columns = compile_kernel(_run_columns, str(REGISTER))
