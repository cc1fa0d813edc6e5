"""A strip of a tile: ROWS rows in each lane of a register, all columns."""

from __future__ import annotations

from typing import Any

import numba

from .....engines.cpu.compilation import INLINED
from .....engines.cpu.simd.arithmetic import (
    REGISTER,
    add_saturated,
    all_true,
    any_true,
    both,
    choose,
    exceeds,
    is_within,
    load_register,
    load_scalar,
    shift_in,
    splat_register,
    store_scalar,
    store_where,
)
from .....engines.cpu.simd.lanes import last, store
from .cells import (
    capped,
    compare,
    highest,
    last_of,
    load_rows,
    load_scores,
    next_column,
    row_of,
    store_rows,
)
from .pieces import ROWS

# Registers of a strip's state: H of all rows, E of all rows, and these.
CORNER, LEAVING, PEAK, PEAK_ROW = range(2 * ROWS, 2 * ROWS + 4)
STATE = 2 * ROWS + 4
# Of what stays the same in a tile: numbers that are split to all lanes.
MATCH, MISMATCH, GAP, EXTEND, FLOOR, CEILING = range(6)


@numba.njit(**INLINED)
def _entering(f: Any, above: Any, gap: Any, edge_gaps: Any, step: int) -> Any:
    """F of the first row of every lane."""
    return (
        add_saturated(above, gap)
        if edge_gaps is None
        else shift_in(f, load_scalar(edge_gaps, step))
    )


@numba.njit(**INLINED)
def _inside(step: int, columns: Any, like: Any) -> Any:
    return all_true(like) if columns is None else is_within(step, columns, like)


@numba.njit(**INLINED)
def _leave(edge: Any, edge_gaps: Any, h: Any, f: Any, at: int, count: int, is_whole: bool) -> None:
    """Write H and F below the last of `count` rows, of column `at`."""
    bottom, row = (count - 1) // ROWS, (count - 1) % ROWS
    store_scalar(edge, at + 1, last(h[ROWS - 1]) if is_whole else last_of(h, bottom, row))
    if edge_gaps is not None:
        store_scalar(edge_gaps, at, last(f[ROWS - 1]) if is_whole else last_of(f, bottom, row))


@numba.njit(**INLINED)
def run_steps(
    codes: Any, letters: Any, state: Any, caps: Any, places: Any, target: Any, edge: Any,
    edge_gaps: Any, numbers: Any, judge: Any, kept: Any, first: int, stop: int, count: int,
    columns: Any, is_local: bool, is_kept: bool,
) -> None:  # fmt: skip
    """Steps `first` to `stop` of a strip.

    Parameters
    ----------
    codes, letters : array
        Of the rows (row, lane), and of the target as the lanes have reached it.
    state : array (STATE * lanes,)
        Read, and written for the next steps.
    caps : array (ROWS * lanes,)
        The most that a row may count for the best: the lowest number where there is no row.
    places : array of int32
        The step of each lane's peak.
    target : array
        After a register of other letters, and before as many.
    edge, edge_gaps : array
        H after the corner, and F, that enter the first row; those of the last row are written.
        The gaps are None where they are linear.
    numbers : array
        See MATCH and those after it.
    judge : tuple of arrays or None
        The last of them: scores (step, row, lane) from step `first` on. None where letters are
        compared.
    kept : array
        H (step, row, lane) is written if `is_kept`.
    count : int
        Rows, from 1 to all.
    columns : int or None
        Of the target; None where all lanes are inside of it at all these steps.
    """
    lanes = REGISTER // state.itemsize
    bottom, number = (count - 1) // ROWS, state.dtype.type
    match, mismatch = splat_register(numbers[MATCH]), splat_register(numbers[MISMATCH])
    gap, floor = splat_register(numbers[GAP]), splat_register(numbers[FLOOR])
    extend = splat_register(numbers[EXTEND])
    is_whole = count == ROWS * lanes
    own, seen = load_rows(codes, 0, lanes), load_register(letters, 0)
    h, e = load_rows(state, 0, lanes), load_rows(state, ROWS * lanes, lanes)
    corner, f = load_register(state, CORNER * lanes), load_register(state, LEAVING * lanes)
    peak, peak_row = load_register(state, PEAK * lanes), load_register(state, PEAK_ROW * lanes)
    for step in range(first, stop):
        inside = _inside(step, columns, floor)
        above = shift_in(h[ROWS - 1], load_scalar(edge, step + 1))
        f = _entering(f, above, gap, edge_gaps, step)
        if judge is None:
            seen = shift_in(seen, load_scalar(target, lanes + step))
            judged = compare(own, seen, match, mismatch)
        else:
            judged = load_scores(judge[4], (step - first) * ROWS * lanes, lanes, floor)
        h, e, below = next_column(h, e, f, corner, judged, inside, gap, extend, floor, edge_gaps)
        corner, f = above, below[ROWS - 1]
        if step >= bottom:
            _leave(edge, edge_gaps, h, below, step - bottom, count, is_whole)
        if is_local:
            rows = h if is_whole else capped(h, caps, lanes)
            top = highest(rows)
            is_peak = both(inside, exceeds(top, peak))
            if any_true(is_peak):
                peak = choose(is_peak, top, peak)
                peak_row = choose(is_peak, row_of(rows, top, number), peak_row)
                store_where(places, is_peak, step)
        if is_kept:
            store_rows(kept, (step - first) * ROWS * lanes, lanes, h)
    store(letters, 0, seen)
    store_rows(state, 0, lanes, h)
    store_rows(state, ROWS * lanes, lanes, e)
    store(state, CORNER * lanes, corner)
    store(state, LEAVING * lanes, f)
    store(state, PEAK * lanes, peak)
    store(state, PEAK_ROW * lanes, peak_row)
