"""Strips of a tile: ROWS rows in each lane of a register, all columns.

A step computes one column in each lane: ROWS cells, one below the other.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INLINED
from ....engines.cpu.lanes import last, store
from ....engines.cpu.simd import (
    REGISTER,
    add_saturated,
    all_true,
    any_true,
    both,
    choose,
    clamp_below,
    convert_like,
    equals,
    exceeds,
    extract_lane,
    is_within,
    larger,
    load_like,
    load_register,
    load_scalar,
    shift_in,
    smaller,
    splat_register,
    store_scalar,
    store_where,
)
from .profiles import ROWS, rows_of_pieces


@numba.njit(**INLINED)
def load_rows(array: Any, at: int, lanes: int, like: Any) -> Any:
    """Return a register for each row, from ``array[at]`` on, with as many lanes as `like`."""
    return (
        load_like(array, at, like),
        load_like(array, at + lanes, like),
        load_like(array, at + 2 * lanes, like),
        load_like(array, at + 3 * lanes, like),
    )


@numba.njit(**INLINED)
def load_scores(sheared: Any, at: int, lanes: int, like: Any) -> Any:
    """Return the scores of all rows from their pieces, in the dtype of `like`."""
    rows = rows_of_pieces(load_rows(sheared, at, lanes, like))
    return (
        convert_like(rows[0], like),
        convert_like(rows[1], like),
        convert_like(rows[2], like),
        convert_like(rows[3], like),
    )


@numba.njit(**INLINED)
def store_rows(array: Any, at: int, lanes: int, rows: Any) -> None:
    store(array, at, rows[0])
    store(array, at + lanes, rows[1])
    store(array, at + 2 * lanes, rows[2])
    store(array, at + 3 * lanes, rows[3])


@numba.njit(**INLINED)
def compare(rows: Any, letters: Any, match: Any, mismatch: Any) -> Any:
    """Return the scores of the letters of all rows with those of the column."""
    return (
        choose(equals(rows[0], letters), match, mismatch),
        choose(equals(rows[1], letters), match, mismatch),
        choose(equals(rows[2], letters), match, mismatch),
        choose(equals(rows[3], letters), match, mismatch),
    )


@numba.njit(**INLINED)
def _cell(
    corner: Any, score: Any, e: Any, f: Any, h: Any, inside: Any, gap: Any, extend: Any, floor: Any, gaps: Any
) -> Any:
    """Return H, E of the next column and F of the next row; H and E unchanged outside the grid.

    F depends on the row above by two operations only: of H = max(x, F) the next F needs x + gap,
    since F + gap is at most F + extend. `gaps` is None if gaps are linear: E and F are H + gap.
    """
    x = clamp_below(larger(add_saturated(corner, score), e), floor)
    new = larger(x, f)
    right = add_saturated(new, gap)
    below = right
    if gaps is not None:
        right = larger(right, add_saturated(e, extend))
        below = larger(add_saturated(x, gap), add_saturated(f, extend))
    return choose(inside, new, h), choose(inside, right, e), below


@numba.njit(**INLINED)
def next_column(
    h: Any,
    e: Any,
    f: Any,
    corner: Any,
    scores: Any,
    inside: Any,
    gap: Any,
    extend: Any,
    floor: Any,
    gaps: Any,
) -> Any:
    """Return H and E of all rows, and F below each of them; `f` is that of the first row."""
    h0, e0, f0 = _cell(corner, scores[0], e[0], f, h[0], inside, gap, extend, floor, gaps)
    h1, e1, f1 = _cell(h[0], scores[1], e[1], f0, h[1], inside, gap, extend, floor, gaps)
    h2, e2, f2 = _cell(h[1], scores[2], e[2], f1, h[2], inside, gap, extend, floor, gaps)
    h3, e3, f3 = _cell(h[2], scores[3], e[3], f2, h[3], inside, gap, extend, floor, gaps)
    return (h0, h1, h2, h3), (e0, e1, e2, e3), (f0, f1, f2, f3)


@numba.njit(**INLINED)
def capped(h: Any, caps: Any, lanes: int) -> Any:
    """Return the rows of a column, each at most as large as in an array."""
    rows = load_rows(caps, np.int64(0), lanes, h[0])
    return (smaller(h[0], rows[0]), smaller(h[1], rows[1]), smaller(h[2], rows[2]), smaller(h[3], rows[3]))


@numba.njit(**INLINED)
def highest(h: Any) -> Any:
    """Return the largest row of a column in each lane."""
    return larger(larger(h[0], h[1]), larger(h[2], h[3]))


@numba.njit(**INLINED)
def row_of(h: Any, peak: Any, number: Any) -> Any:
    """Return the first row of a column that equals its peak, as a `number` in each lane."""
    third = choose(exceeds(peak, h[2]), splat_register(number(3)), splat_register(number(2)))
    second = choose(exceeds(peak, h[1]), third, splat_register(number(1)))
    return choose(exceeds(peak, h[0]), second, splat_register(number(0)))


@numba.njit(**INLINED)
def value_of(rows: Any, index: int, row: int) -> Any:
    """Return one row of one lane."""
    if row == 3:
        return extract_lane(rows[3], index)
    if row == 2:
        return extract_lane(rows[2], index)
    return extract_lane(rows[1], index) if row == 1 else extract_lane(rows[0], index)


# Registers of a strip's state: H of all rows, E of all rows, then these.
CORNER, LEAVING, PEAK, PEAK_ROW = range(2 * ROWS, 2 * ROWS + 4)
STATE = 2 * ROWS + 4
# Parameters of a tile, which are broadcast to all lanes.
MATCH, MISMATCH, GAP, EXTEND, FLOOR, CEILING = range(6)


@numba.njit(**INLINED)
def _write_edge(edge: Any, edge_gaps: Any, h: Any, f: Any, column: int, count: int, is_whole: bool) -> None:
    """Write H of the last of `count` rows, and F below it, in one column."""
    bottom, row = (count - 1) // ROWS, (count - 1) % ROWS
    store_scalar(edge, column + 1, last(h[ROWS - 1]) if is_whole else value_of(h, bottom, row))
    if edge_gaps is not None:
        store_scalar(edge_gaps, column, last(f[ROWS - 1]) if is_whole else value_of(f, bottom, row))


@numba.njit(**INLINED)
def fill_steps(
    strip: Any, edge_gaps: Any, lookup: Any, steps: Any, columns: Any, is_local: bool, has_table: bool
) -> None:
    """Compute the steps (first, stop) of a strip; see `.antidiagonals` for arrays.

    `columns` is the length of the target, or None if all lanes are inside it at all these steps.
    H (step, row, lane) is written to `h_steps` if `has_table`.
    """
    codes, letters, state, caps, peak_steps, h_steps, target, edge, parameters, count = strip
    (first, stop), lanes = steps, REGISTER // state.itemsize
    bottom, number = (count - 1) // ROWS, state.dtype.type
    match, mismatch = splat_register(parameters[MATCH]), splat_register(parameters[MISMATCH])
    gap, floor = splat_register(parameters[GAP]), splat_register(parameters[FLOOR])
    extend = splat_register(parameters[EXTEND])
    is_whole = count == ROWS * lanes
    column = load_register(letters, 0)
    start = np.int64(0)  # numba would also compile functions for the type of the constant 0.
    rows = load_rows(codes, start, lanes, column)
    h, e = load_rows(state, start, lanes, floor), load_rows(state, ROWS * lanes, lanes, floor)
    corner, f = load_register(state, CORNER * lanes), load_register(state, LEAVING * lanes)
    peak, peak_row = load_register(state, PEAK * lanes), load_register(state, PEAK_ROW * lanes)
    for step in range(first, stop):
        inside = all_true(floor) if columns is None else is_within(step, columns, floor)
        above = shift_in(h[ROWS - 1], load_scalar(edge, step + 1))
        if edge_gaps is None:
            f = add_saturated(above, gap)
        else:
            f = shift_in(f, load_scalar(edge_gaps, step))
        if lookup is None:
            column = shift_in(column, load_scalar(target, lanes + step))
            scores = compare(rows, column, match, mismatch)
        else:
            scores = load_scores(lookup[4], (step - first) * ROWS * lanes, lanes, floor)
        h, e, below = next_column(h, e, f, corner, scores, inside, gap, extend, floor, edge_gaps)
        corner, f = above, below[ROWS - 1]
        if step >= bottom:
            _write_edge(edge, edge_gaps, h, below, step - bottom, count, is_whole)
        if is_local:
            counted = h if is_whole else capped(h, caps, lanes)
            top = highest(counted)
            is_peak = both(inside, exceeds(top, peak))
            if any_true(is_peak):
                peak = choose(is_peak, top, peak)
                peak_row = choose(is_peak, row_of(counted, top, number), peak_row)
                store_where(peak_steps, is_peak, step)
        if has_table:
            store_rows(h_steps, (step - first) * ROWS * lanes, lanes, h)
    store(letters, 0, column)
    store_rows(state, start, lanes, h)
    store_rows(state, ROWS * lanes, lanes, e)
    store(state, CORNER * lanes, corner)
    store(state, LEAVING * lanes, f)
    store(state, PEAK * lanes, peak)
    store(state, PEAK_ROW * lanes, peak_row)
