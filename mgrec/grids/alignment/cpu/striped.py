"""Alignment scores of a tile by a table, column by column in stripes (Farrar 2007).

Lane k of register s has row k · segments + s of a column. The scores of a column are loads from
the query's profile, which antidiagonals must shear. F is carried from register to register at
once, and from lane to lane afterwards, while it exceeds a new gap (M. Farrar, "Striped
Smith-Waterman speeds database searches six times over other SIMD implementations", Bioinformatics
23 (2007)). If F raises H afterwards, E of the next column is raised as well: the edges of a tile
are exact.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INLINED, INNER, compile_kernel
from ....engines.cpu.lanes import last, store
from ....engines.cpu.simd import (
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
from ..recurrence import Edges
from ..scoring import Scoring
from .antidiagonals import SATURATED
from .profiles import Encoding, encode_table

# Number of columns at the start whose F may be carried any distance.
_FREE = 64
# Parameters of a tile.
GAP, EXTEND, FLOOR, CEILING = range(4)


@numba.njit(**INLINED)
def _fill_registers(
    scores: Any, first: int, h: Any, e: Any, state: Any, gap: Any, extend: Any, start: int, stop: int
) -> Any:
    """Compute registers `start` to `stop` of a column, whose scores start at ``scores[first]``."""
    diagonal, f, top = state
    lanes = REGISTER // h.itemsize
    for s in range(start, stop):
        at = s * lanes
        gaps, before = load_register(e, at), load_register(h, at)
        score = convert_like(load_like(scores, first + at, f), f)
        x = larger(add_saturated(diagonal, score), gaps)
        diagonal, new = before, larger(x, f)
        store(h, at, new)
        store(e, at, larger(add_saturated(gaps, extend), add_saturated(new, gap)))
        # Of H = max(x, F), only x + gap matters: F + gap is at most F + extend.
        f = larger(add_saturated(f, extend), add_saturated(x, gap))
        top = larger(top, new)
    return diagonal, f, top


@numba.njit(**INNER)
def _carry(h: Any, e: Any, f: Any, parameters: Any, segments: int) -> Any:
    """Carry F from the end of each lane to the next one, while it exceeds a new gap.

    Return F below the last row, and the number of registers computed again.
    """
    gap, extend = splat_register(parameters[GAP]), splat_register(parameters[EXTEND])
    lanes, below = REGISTER // h.itemsize, last(f)
    for count in range(lanes):
        f = shift_in(f, parameters[FLOOR])
        for s in range(segments):
            old = load_register(h, s * lanes)
            if not any_true(exceeds(f, add_saturated(old, gap))):
                return below, count * segments + s
            new = larger(old, f)
            store(h, s * lanes, new)
            store(e, s * lanes, larger(load_register(e, s * lanes), add_saturated(new, gap)))
            f = add_saturated(f, extend)
        below = max(below, last(f))
    return below, lanes * segments


@numba.njit(**INNER)
def _highest(top: Any, lanes: int) -> Any:
    best = extract_lane(top, 0)
    for k in range(1, lanes):
        best = max(best, extract_lane(top, k))
    return best


@numba.njit(**INNER)
def _first_row(h: Any, score: Any, segments: int) -> int:
    """Return the first row of a column with a score."""
    lanes = REGISTER // h.itemsize
    for row in range(segments * lanes):
        if h[row % segments * lanes + row // segments] == score:
            return row
    return -1


def _fill_columns(
    scores: Any,
    target: Any,
    edge: Any,
    edge_gaps: Any,
    h: Any,
    e: Any,
    parameters: Any,
    in_first_lane: Any,
    skipped: int,
) -> Any:
    """Return the best score of a local tile, its row and its column; overwrite the edges.

    Stop if a score reaches the ceiling, or if F is carried too far; the row then is below −1.

    `scores` are those of each letter of the target with all rows (letter, register, lane). The
    edges are those of `.antidiagonals`, with the column to the left in `h` and `e` (register,
    lane). `parameters` are GAP to CEILING, int8, with the smallest int8 as the floor.
    `in_first_lane` is 1 in the lane of the first row, else 0. H and E of the `skipped` rows before
    the first one are, and stay, the floor.
    """
    lanes = REGISTER // h.itemsize
    segments, size = h.size // lanes, h.size
    gap, extend = splat_register(parameters[GAP]), splat_register(parameters[EXTEND])
    floor, first = splat_register(parameters[FLOOR]), skipped % segments
    is_first = exceeds(load_register(in_first_lane, 0), splat_register(in_first_lane.dtype.type(0)))
    best, row, column, peak = parameters[FLOOR], -1, -1, floor
    corner, carried = edge[0], 0
    edge[0] = h[size - 1]
    for j in range(target.size):
        above, offset = load_scalar(edge, j + 1), np.intp(load_scalar(target, j)) * size
        state = shift_in(load_register(h, size - lanes), parameters[FLOOR]), floor, floor
        state = _fill_registers(scores, offset, h, e, state, gap, extend, 0, first)
        diagonal = choose(is_first, splat_register(corner), state[0])
        f = choose(is_first, splat_register(load_scalar(edge_gaps, j)), state[1])
        state = diagonal, f, state[2]
        state = _fill_registers(scores, offset, h, e, state, gap, extend, first, segments)
        below, count = _carry(h, e, state[1], parameters, segments)
        carried += count
        if carried > (j + _FREE) * segments // 2:
            return best, -2, column
        store_scalar(edge_gaps, j, below)
        corner = above
        store_scalar(edge, j + 1, h[size - 1])
        if any_true(exceeds(state[2], peak)):
            best = _highest(state[2], lanes)
            peak, row, column = splat_register(best), _first_row(h, best, segments), j
            if best == parameters[CEILING]:
                break
    return best, max(row - skipped, -1), column


# numba's own cache key lacks the registers of this machine if NUMBA_CPU_NAME is set.
fill_columns = compile_kernel(_fill_columns, str(REGISTER), allocates=False)


# Registers of a column from which stripes are faster than antidiagonals. Speedups in int8 with
# 10,000 columns and BLOSUM62, on one core of an EPYC: 0.67 with 300 rows, 1.02 with 1,600, 1.28
# with 4,000 and 1.44 with 10,000. In int16 scores are high and F is carried far: 0.1 to 0.35 for
# related sequences, 0.55 to 1.05 for global alignments.
_SEGMENTS = 32

Result = tuple[tuple[Any, int, int], tuple[np.ndarray, ...]]


def may_stripe(scoring: Scoring, encoding: Encoding, rows: int, has_table: bool) -> bool:
    """Return whether a tile can be computed in stripes, and usually is faster so."""
    if scoring.table is None or not scoring.is_affine or not scoring.is_local or has_table:
        return False
    return encoding.dtype.itemsize == 1 and rows >= _SEGMENTS * REGISTER


def align_striped(
    scoring: Scoring, encoding: Encoding, sequences: tuple[np.ndarray, np.ndarray], carry_in: Edges
) -> Result | None:
    """Return the best score with its row and column, and H and F below, H and E to the right.

    Scores are encoded, in int8. None if antidiagonals are faster. Rows before the first one fill
    the lanes.
    """
    query, target = sequences
    lanes = REGISTER
    segments = -(-query.size // lanes)
    skipped = segments * lanes - query.size
    floor = encoding.dtype.type(encoding.floor)
    # The rows before the first one have another letter, which scores 0 with all letters.
    table = np.pad(encode_table(scoring.table, encoding.dtype).T, ((0, 0), (0, 1)))
    letters = _striped(query, skipped, lanes, table.shape[1] - 1)
    scores = np.take(table, letters, axis=1).reshape(-1)
    edge = encoding.encode(carry_in.row, carry_in.row.size)
    edge_gaps = encoding.encode(carry_in.row_gaps, target.size)
    h, e = (
        _striped(encoding.encode(column, query.size), skipped, lanes, floor)
        for column in (carry_in.column, carry_in.column_gaps)
    )
    in_first_lane = np.zeros(lanes, encoding.dtype)
    in_first_lane[skipped // segments] = 1
    score, row, column = fill_columns(
        scores,
        np.ascontiguousarray(target),
        edge,
        edge_gaps,
        h,
        e,
        encoding.parameters(scoring)[2:],
        in_first_lane,
        skipped,
    )
    if row < -1:
        return None
    right = (rows.reshape(segments, lanes).T.reshape(-1)[skipped:] for rows in (h, e))
    best = int(score) + encoding.base, SATURATED if score == encoding.ceiling else row, column
    return best, (edge, edge_gaps, *right)


def _striped(values: np.ndarray, skipped: int, lanes: int, fill: Any) -> np.ndarray:
    """Return the values of rows as (register, lane)."""
    rows = np.full(skipped + values.size, fill, values.dtype)
    rows[skipped:] = values
    return rows.reshape(lanes, -1).T.ravel()
