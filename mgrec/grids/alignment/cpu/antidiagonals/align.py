"""A tile, strip by strip."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from .....engines.cpu.compilation import INNER, compile_kernel
from .....engines.cpu.simd.arithmetic import (
    REGISTER,
    add_saturated,
    load_register,
    shift_in,
    splat_register,
)
from .....engines.cpu.simd.lanes import store
from .pieces import ROWS
from .profiles import fill_profiles, shear
from .strips import CEILING, CORNER, FLOOR, GAP, PEAK, PEAK_ROW, STATE, run_steps

STEPS = 64
"""Steps between which scores by a table are sheared, and H is written to a table."""


@numba.njit(**INNER)
def _spread(values: Any, begin: int, count: int, into: Any, at: int, lanes: int) -> None:
    """Values of a strip's `count` rows as (row, lane)."""
    for r in range(count):
        into[at + r % ROWS * lanes + r // ROWS] = values[begin + r]


@numba.njit(**INNER)
def _gather(rows: Any, at: int, lanes: int, values: Any, begin: int, count: int) -> None:
    for r in range(count):
        values[begin + r] = rows[at + r % ROWS * lanes + r // ROWS]


@numba.njit(**INNER)
def _enter(
    state: Any, edge: Any, left: Any, left_gaps: Any, begin: int, count: int, numbers: Any
) -> None:
    """The state of a strip before its first step; the corner becomes that of the next strip."""
    lanes = REGISTER // state.itemsize
    for k in range(state.size):
        state[k] = numbers[FLOOR]
    _spread(left, begin, count, state, 0, lanes)
    if left_gaps is None:
        for row in range(ROWS):
            h = load_register(state, row * lanes)
            store(state, (ROWS + row) * lanes, add_saturated(h, splat_register(numbers[GAP])))
    else:
        _spread(left_gaps, begin, count, state, ROWS * lanes, lanes)
    store(state, CORNER * lanes, shift_in(load_register(state, (ROWS - 1) * lanes), edge[0]))
    edge[0] = left[begin + count - 1]


@numba.njit(**INNER)
def _cap(caps: Any, count: int, lowest: Any, highest: Any, lanes: int) -> None:
    for r in range(ROWS * lanes):
        caps[r % ROWS * lanes + r // ROWS] = highest if r < count else lowest


@numba.njit(**INNER)
def _write(kept: Any, first: int, last: int, out: Any, begin: int, base: Any, lanes: int) -> None:
    """H of these steps of a strip, to a table of the whole tile."""
    for r in range(min(ROWS * lanes, out.shape[0] - begin)):
        late, at = r // ROWS, r % ROWS * lanes + r // ROWS
        for step in range(max(first, late), min(last, out.shape[1] + late)):
            value = kept[(step - first) * ROWS * lanes + at]
            out[begin + r, step - late] = base + out.dtype.type(value)


@numba.njit(**INNER)
def _run(
    codes: Any, letters: Any, state: Any, caps: Any, places: Any, target: Any, edge: Any,
    edge_gaps: Any, numbers: Any, judge: Any, kept: Any, out: Any,
    begin: int, base: Any, count: int, columns: int, is_local: bool,
) -> None:  # fmt: skip
    """All steps of a strip of `count` rows."""
    lanes = REGISTER // state.itemsize
    steps = columns + (count - 1) // ROWS
    for first in range(0, steps, STEPS):
        last = min(first + STEPS, steps)
        if judge is not None:
            _, letters_of, profiles, late, sheared = judge
            profile, like = profiles[begin // (ROWS * lanes)], load_register(state, 0)
            shear(profile, letters_of, first, last - first, late, sheared, like)
        if lanes - 1 <= first and last <= columns:
            run_steps(
                codes, letters, state, caps, places, target, edge, edge_gaps, numbers, judge,
                kept, first, last, count, None, is_local, out.size > 0,
            )  # fmt: skip
        else:
            run_steps(
                codes, letters, state, caps, places, target, edge, edge_gaps, numbers, judge,
                kept, first, last, count, columns, is_local, out.size > 0,
            )  # fmt: skip
        if out.size > 0:
            _write(kept, first, last, out, begin, base, lanes)


@numba.njit(**INNER)
def _best(state: Any, places: Any, begin: int, count: int, best: Any) -> Any:
    """The better one of the best so far and of a strip's; its rows come after all before."""
    score, end, target_end = best
    lanes = places.size
    for r in range((count + ROWS - 1) // ROWS):
        peak, column = state[PEAK * lanes + r], places[r] - r
        # A lane whose cells are all at the floor has no peak: its column is below 0.
        if peak > score or (peak == score and 0 <= column < target_end):
            row = begin + ROWS * r + int(state[PEAK_ROW * lanes + r])
            score, end, target_end = peak, row, column
    return score, end, target_end


@numba.njit(**INNER)
def align_strips(
    query: Any, target: Any, edge: Any, edge_gaps: Any, left: Any, left_gaps: Any, numbers: Any,
    judge: Any, out: Any, base: Any, columns: int, is_local: bool,
) -> Any:  # fmt: skip
    """The best score of a tile, its row and its column; edges are written.

    Parameters
    ----------
    query : array (n,)
        At least one code, of integers as wide as the numbers. Codes do not matter where scores
        are by a table.
    target : array
        Codes, after a register of others and before as many.
    edge : array
        H above, after the corner, before a register and more of others; overwritten by the tile's
        last row.
    edge_gaps : array or None
        F of the first row; overwritten by that of the row below. None where gaps are linear.
    left, left_gaps : array (n or more,)
        H of the column to the left, and E of the first one; overwritten by those of the last
        column and of the one to the right.
    numbers : array
        Those of strips.py.
    judge : tuple of arrays or None
        Codes of the query, codes of the target as above, all below the number of letters,
        profiles of all strips, and memory for `shear` and for its scores. None where codes are
        compared.
    out : array (n, columns), or of size 0
        H + `base` is written.
    is_local : bool
        Find the best. It is given up where a score reaches the ceiling.
    """
    lanes = REGISTER // edge.itemsize
    size = ROWS * lanes
    state, caps = np.empty(STATE * lanes, edge.dtype), np.empty(size, edge.dtype)
    codes, letters = np.zeros(size, query.dtype), np.zeros(lanes, query.dtype)
    places = np.zeros(lanes, np.int32)
    kept = np.empty(STEPS * size, edge.dtype)
    best = numbers[FLOOR], -1, -1
    for begin in range(0, query.size, size):
        count = min(size, query.size - begin)
        _spread(query, begin, count, codes, 0, lanes)
        _enter(state, edge, left, left_gaps, begin, count, numbers)
        _cap(caps, count, numbers[FLOOR], numbers[CEILING], lanes)
        _run(
            codes, letters, state, caps, places, target, edge, edge_gaps, numbers, judge, kept,
            out, begin, base, count, columns, is_local,
        )  # fmt: skip
        _gather(state, 0, lanes, left, begin, count)
        if left_gaps is not None:
            _gather(state, ROWS * lanes, lanes, left_gaps, begin, count)
        if is_local:
            best = _best(state, places, begin, count, best)
            if best[0] == numbers[CEILING]:
                break
    return best


def _align(
    query: Any, target: Any, edge: Any, edge_gaps: Any, left: Any, left_gaps: Any, numbers: Any,
    table: Any, judge: Any, out: Any, base: Any, columns: int, is_local: bool,
) -> Any:  # fmt: skip
    """:func:`align_strips`, after the profiles of the query are filled by the table, if any."""
    if judge is not None:
        fill_profiles(judge[0], table, REGISTER // edge.itemsize, judge[2])
    return align_strips(
        query, target, edge, edge_gaps, left, left_gaps, numbers, judge, out, base, columns,
        is_local,
    )  # fmt: skip


# The registers of this machine are not in numba's own key where NUMBA_CPU_NAME is set.
align = compile_kernel(_align, str(REGISTER))
