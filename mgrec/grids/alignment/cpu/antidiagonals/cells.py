"""One step of a strip: ROWS cells in every lane, one below the other, of one column."""

from __future__ import annotations

from typing import Any

import numba

from .....engines.cpu.compilation import INLINED
from .....engines.cpu.simd.arithmetic import (
    add_saturated,
    choose,
    clamp_below,
    convert_like,
    equals,
    exceeds,
    extract_lane,
    larger,
    load_like,
    load_register,
    smaller,
    splat_register,
)
from .....engines.cpu.simd.lanes import store
from .pieces import rows_of_pieces


@numba.njit(**INLINED)
def load_rows(array: Any, at: int, lanes: int) -> Any:
    """A register for each row, from ``array[at]`` on."""
    return (
        load_register(array, at),
        load_register(array, at + lanes),
        load_register(array, at + 2 * lanes),
        load_register(array, at + 3 * lanes),
    )


@numba.njit(**INLINED)
def load_scores(sheared: Any, at: int, lanes: int, like: Any) -> Any:
    """Scores of all rows, as numbers like those of H, from pieces."""
    pieces = (
        load_like(sheared, at, like),
        load_like(sheared, at + lanes, like),
        load_like(sheared, at + 2 * lanes, like),
        load_like(sheared, at + 3 * lanes, like),
    )
    rows = rows_of_pieces(pieces)
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
    """Scores of the letters of all rows and those of the column."""
    return (
        choose(equals(rows[0], letters), match, mismatch),
        choose(equals(rows[1], letters), match, mismatch),
        choose(equals(rows[2], letters), match, mismatch),
        choose(equals(rows[3], letters), match, mismatch),
    )


@numba.njit(**INLINED)
def _cell(
    corner: Any,
    score: Any,
    e: Any,
    f: Any,
    h: Any,
    inside: Any,
    gap: Any,
    extend: Any,
    floor: Any,
    gaps: Any,
) -> Any:
    """H, E of the next column and F of the next row; H and E as before outside the grid.

    F goes from row to row at once: of H = max(x, F) only x + gap is needed for the next F, since
    F + gap is at most F + extend. That is two operations a row that wait for each other. Where
    gaps are linear, `gaps` is None, E and F are H + gap.
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
    judged: Any,
    inside: Any,
    gap: Any,
    extend: Any,
    floor: Any,
    gaps: Any,
) -> Any:
    """H and E of all rows, and F that leaves each of them; `f` enters the first one."""
    h0, e0, f0 = _cell(corner, judged[0], e[0], f, h[0], inside, gap, extend, floor, gaps)
    h1, e1, f1 = _cell(h[0], judged[1], e[1], f0, h[1], inside, gap, extend, floor, gaps)
    h2, e2, f2 = _cell(h[1], judged[2], e[2], f1, h[2], inside, gap, extend, floor, gaps)
    h3, e3, f3 = _cell(h[2], judged[3], e[3], f2, h[3], inside, gap, extend, floor, gaps)
    return (h0, h1, h2, h3), (e0, e1, e2, e3), (f0, f1, f2, f3)


@numba.njit(**INLINED)
def capped(h: Any, caps: Any, lanes: int) -> Any:
    """Rows of a column, at most what an array says."""
    rows = load_rows(caps, 0, lanes)
    return (
        smaller(h[0], rows[0]),
        smaller(h[1], rows[1]),
        smaller(h[2], rows[2]),
        smaller(h[3], rows[3]),
    )


@numba.njit(**INLINED)
def highest(h: Any) -> Any:
    """The largest of a column, lane by lane."""
    return larger(larger(h[0], h[1]), larger(h[2], h[3]))


@numba.njit(**INLINED)
def row_of(h: Any, peak: Any, number: Any) -> Any:
    """The first row of a column that is as high as its peak, as a `number` in each lane."""
    third = choose(exceeds(peak, h[2]), splat_register(number(3)), splat_register(number(2)))
    second = choose(exceeds(peak, h[1]), third, splat_register(number(1)))
    return choose(exceeds(peak, h[0]), second, splat_register(number(0)))


@numba.njit(**INLINED)
def last_of(rows: Any, at: int, row: int) -> Any:
    """One row of one lane."""
    if row == 3:
        return extract_lane(rows[3], at)
    if row == 2:
        return extract_lane(rows[2], at)
    return extract_lane(rows[1], at) if row == 1 else extract_lane(rows[0], at)
