"""Smith-Waterman scores of a tile, along antidiagonals that stay in registers.

As many rows as a register has lanes make a strip. Lane r holds row r of the strip and is r
columns behind the first, so that no lane needs another's result of the same step: what is
above lies in the lane before, one step ago (Wozniak 1997). H never reaches memory, but for
the strip's last row, which is the one above the next strip.

Nanoseconds a cell, of random sequences of 4,096 letters, on one core with AVX-512:

                                                   float64   int64   int32
    a loop over rows                                   1.7     4.9     5.3
    rows without their gaps, then a scan               1.0     3.3     3.1
    antidiagonals in memory, vectorised by LLVM        0.5     0.5    0.25
    this                                              0.21    0.19    0.09

The loop in integers is slow since its branches are mispredicted: where all letters are equal
it took 0.9. The scan for horizontal gaps (Hou, Wang, Feng 2018) also rounds floating-point
scores differently from the recurrence.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ..compilation.kernels import INNER, compile_kernel
from ..simd.choice import (
    WIDE,
    both,
    choose,
    equals,
    exceeds,
    is_index,
    lane,
    larger,
    load_all,
    plus,
    shift_in,
    splat_all,
)
from ..simd.lanes import store


@numba.njit(**INNER)
def _cell(corner: Any, above: Any, before: Any, score: Any, gap: Any, zero: Any) -> Any:
    """H of one cell a lane, from the three cells around it."""
    return larger(larger(plus(corner, score), zero), plus(larger(above, before), gap))


@numba.njit(**INNER)
def _strip(
    query: Any,
    target: Any,
    edge: Any,
    left: Any,
    right: Any,
    scores: Any,
    peaks: Any,
    at: Any,
    rows: int,
) -> None:
    """Rows of one strip, of which `rows` count; `peaks` and `at`: best of each and its column."""
    code, number = target.dtype.type, edge.dtype.type
    columns = target.size
    match, mismatch, gap = splat_all(scores[0]), splat_all(scores[1]), splat_all(scores[2])
    zero, one, size = splat_all(number(0)), splat_all(code(1)), splat_all(code(columns))
    # A lane keeps the value left of its row until its first column, and after its last one
    # the value there.
    h, row = load_all(left, 0), load_all(query, 0)
    above = shift_in(h, edge[0])
    edge[0] = left[rows - 1]
    column, letters = load_all(at, 0), splat_all(code(0))
    peak, peak_column = zero, column
    for step in range(columns + rows - 1):
        within = step < columns
        letters = shift_in(letters, target[step] if within else code(0))
        corner, above = above, shift_in(h, edge[step + 1] if within else number(0))
        score = choose(equals(row, letters), match, mismatch)
        is_inside = is_index(column, size)
        h = choose(is_inside, _cell(corner, above, h, score, gap, zero), h)
        is_peak = both(is_inside, exceeds(h, peak))
        peak, peak_column = choose(is_peak, h, peak), choose(is_peak, column, peak_column)
        column = plus(column, one)
        last = step - rows + 1
        if last >= 0:
            edge[last + 1] = lane(h, rows - 1)
    store(right, 0, h)
    store(peaks, 0, peak)
    store(at, 0, peak_column)


def _align(query: Any, target: Any, edge: Any, left: Any, right: Any, scores: Any, n: int) -> Any:
    """The best score of a tile, its row and its column; edges are written.

    Parameters
    ----------
    query, target : array of integers as wide as the scores
        `query`, `left` and `right` are padded to whole strips.
    edge : array (m + 1,)
        The row above, after the corner; overwritten by the tile's last row.
    left : array
    right : array
        Written.
    scores : array (3,)
        Of a match, of a mismatch, of one character of a gap.
    n : int
        Rows that count, at least 1.
    """
    lanes = WIDE // edge.itemsize
    peaks, at = np.empty(lanes, edge.dtype), np.empty(lanes, target.dtype)
    score, end, target_end = edge.dtype.type(0), -1, -1
    for begin in range(0, n, lanes):
        part, rows = slice(begin, begin + lanes), min(lanes, n - begin)
        for r in range(lanes):
            at[r] = -r
        _strip(query[part], target, edge, left[part], right[part], scores, peaks, at, rows)
        for r in range(rows):
            is_tie = 0 < peaks[r] == score and at[r] < target_end
            if peaks[r] > score or is_tie:
                score, end, target_end = peaks[r], begin + r, int(at[r])
    return score, end, target_end


# The registers of this machine are not in numba's own key where NUMBA_CPU_NAME is set.
align = compile_kernel(_align, str(WIDE))
