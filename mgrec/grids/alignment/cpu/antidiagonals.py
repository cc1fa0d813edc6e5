"""Alignment scores of a tile, along antidiagonals that stay in registers.

ROWS rows in each lane of a register are a strip. Lane r is r columns behind lane 0, so that the
cells above its first row are in the lane before, one step ago (Wozniak 1997). H is not written to
memory, except for the strip's last row, which the next strip reads.

A cell with linear gaps takes 0.35 ns in float64, 0.13 in int32 and 0.037 in int8; with affine gaps
0.43, 0.16 and 0.046 (one core of an EPYC, Zen 4). One row a lane in four registers, each of which is
shifted, took 0.36 and 0.17 in float64 and int32. On another machine one row a lane took 0.21 and
0.09, antidiagonals in memory 0.5 and 0.25, a loop over rows 1.7 and 5.3, since branches are
mispredicted, and rows without their gaps, then a scan (Hou, Wang, Feng 2018), 1.0 and 3.1. The scan
also rounds floating-point scores differently.

Arrays of the kernels, from `_align_pairs` to `fill_steps`:

- `query`, `target`: codes as wide as the scores, of the target with a register of padding on both
  sides. They are not read if there is a lookup.
- `edge`, `edge_gaps`: the corner, H above, and padding; F of the first row, or None for linear
  gaps. Overwritten by the last row and by F of the row below.
- `left`, `left_gaps`: H of the column to the left and E of the first column. Overwritten by H of
  the last column and E of the column to the right.
- `lookup`: codes of the query, codes of the target with padding, profiles of all strips, and
  memory for `shear` and for its scores (step, row, lane). None if codes are compared.
- `codes`, `letters`: codes of a strip's rows (row, lane), and of the target at the lanes' columns.
- `state`: (STATE * lanes,), read, and written for the next steps.
- `peak_steps`: int32, the step of each lane's peak.
- `caps`: largest score by which a row counts for the best; the floor where there is no row.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INNER, RARE, compile_kernel
from ....engines.cpu.lanes import store
from ....engines.cpu.scalars import larger_of, smaller_of
from ....engines.cpu.simd import REGISTER, add_saturated, load_register, shift_in, splat_register
from ....engines.cpu.stack import stack_empty, stack_zeros
from .profiles import ROWS, fill_profiles, shear
from .strips import CEILING, CORNER, EXTEND, FLOOR, GAP, PEAK, PEAK_ROW, STATE, fill_steps

STEPS = 64
"""Steps at a time for which scores are sheared, and after which H is written to a table."""


@numba.njit(**RARE)
def _scatter(values: Any, start: int, count: int, rows: Any, at: int, lanes: int) -> None:
    """Copy the values of `count` rows into the order (row, lane)."""
    for r in range(count):
        rows[at + r % ROWS * lanes + r // ROWS] = values[start + r]


@numba.njit(**RARE)
def _gather(rows: Any, at: int, lanes: int, values: Any, start: int, count: int) -> None:
    for r in range(count):
        values[start + r] = rows[at + r % ROWS * lanes + r // ROWS]


@numba.njit(**RARE)
def _start_strip(
    state: Any, edge: Any, left: Any, left_gaps: Any, start: int, count: int, parameters: Any
) -> None:
    """Write the state before the first step; the corner becomes that of the next strip."""
    lanes = REGISTER // state.itemsize
    for k in range(state.size):
        state[k] = parameters[FLOOR]
    _scatter(left, start, count, state, np.int64(0), lanes)
    if left_gaps is None:
        for row in range(ROWS):
            h = load_register(state, row * lanes)
            store(state, (ROWS + row) * lanes, add_saturated(h, splat_register(parameters[GAP])))
    else:
        _scatter(left_gaps, start, count, state, ROWS * lanes, lanes)
    store(state, CORNER * lanes, shift_in(load_register(state, (ROWS - 1) * lanes), edge[0]))
    edge[0] = left[start + count - 1]


@numba.njit(**RARE)
def _fill_caps(caps: Any, count: int, lowest: Any, highest: Any, lanes: int) -> None:
    for r in range(ROWS * lanes):
        caps[r % ROWS * lanes + r // ROWS] = highest if r < count else lowest


@numba.njit(**INNER)
def _write_h(h_steps: Any, first: int, stop: int, out: Any, start: int, base: Any, lanes: int) -> None:
    """Write H of these steps of a strip to a table of the whole tile."""
    for r in range(smaller_of(ROWS * lanes, out.shape[0] - start)):
        late, at = r // ROWS, r % ROWS * lanes + r // ROWS
        for step in range(larger_of(first, late), smaller_of(stop, out.shape[1] + late)):
            value = h_steps[(step - first) * ROWS * lanes + at]
            out[start + r, step - late] = base + out.dtype.type(value)


@numba.njit(**INNER)
def _fill_strip(
    strip: Any, edge_gaps: Any, lookup: Any, table: Any, start: int, columns: int, is_local: bool
) -> None:
    """Run all steps of a strip."""
    _, _, state, _, _, h_steps, _, _, _, count = strip
    (out, base), lanes = table, REGISTER // state.itemsize
    steps = columns + (count - 1) // ROWS
    for first in range(0, steps, STEPS):
        stop = smaller_of(first + STEPS, steps)
        if lookup is not None:
            _, target_letters, profiles, late, sheared = lookup
            profile, like = profiles[start // (ROWS * lanes)], load_register(state, 0)
            shear(profile, target_letters, first, stop - first, late, sheared, like)
        if lanes - 1 <= first and stop <= columns:
            fill_steps(strip, edge_gaps, lookup, (first, stop), None, is_local, out.size > 0)
        else:
            fill_steps(strip, edge_gaps, lookup, (first, stop), columns, is_local, out.size > 0)
        if out.size > 0:
            _write_h(h_steps, first, stop, out, start, base, lanes)


@numba.njit(**RARE)
def _best(state: Any, peak_steps: Any, start: int, count: int, best: Any) -> Any:
    """Return the better of the best so far and a strip's; earlier strips have smaller rows."""
    score, end, target_end = best
    lanes = peak_steps.size
    for r in range((count + ROWS - 1) // ROWS):
        peak, column = state[PEAK * lanes + r], peak_steps[r] - r
        # A lane has no peak if all its cells are at the floor; its column is below 0.
        if peak > score or (peak == score and 0 <= column < target_end):
            row = start + ROWS * r + np.int64(state[PEAK_ROW * lanes + r])
            score, end, target_end = peak, row, column
    return score, end, target_end


@numba.njit(**INNER)
def align_strips(
    sides: Any,
    edges: Any,
    edge_gaps: Any,
    left_gaps: Any,
    parameters: Any,
    lookup: Any,
    table: Any,
    is_local: bool,
) -> Any:
    """Return the best score of a tile, its row and its column; overwrite the edges.

    `sides` are the query and the target, with the length of the latter, `edges` those above and to
    the left. If `is_local`, find the best until a score reaches the ceiling. `table` is (out, base):
    H + `base` is written to `out`, (n, columns), or an array of size 0.
    """
    (query, target, columns), (edge, left) = sides, edges
    lanes = REGISTER // edge.itemsize
    size = ROWS * lanes
    state, caps = stack_empty(STATE * lanes, edge.dtype), stack_empty(size, edge.dtype)
    codes, letters = stack_zeros(size, query.dtype), stack_zeros(lanes, query.dtype)
    peak_steps, h_steps = stack_zeros(lanes, np.int32), stack_empty(STEPS * size, edge.dtype)
    # numba would also compile functions for the type of the constants -1, 0 or 1.
    best = parameters[FLOOR], np.int64(-1), np.int64(-1)
    for start in range(0, query.size, size):
        count = smaller_of(size, query.size - start)
        _scatter(query, start, count, codes, np.int64(0), lanes)
        _start_strip(state, edge, left, left_gaps, start, count, parameters)
        _fill_caps(caps, count, parameters[FLOOR], parameters[CEILING], lanes)
        strip = codes, letters, state, caps, peak_steps, h_steps, target, edge, parameters, count
        _fill_strip(strip, edge_gaps, lookup, table, start, columns, is_local)
        _gather(state, np.int64(0), lanes, left, start, count)
        if left_gaps is not None:
            _gather(state, ROWS * lanes, lanes, left_gaps, start, count)
        if is_local:
            best = _best(state, peak_steps, start, count, best)
            if best[0] == parameters[CEILING]:
                break
    return best


LOCAL, GLOBAL, SEMI_GLOBAL = range(3)
SATURATED = -2
"""The query_end of an alignment whose score may have saturated."""


@numba.njit(**INNER)
def _copy(values: Any, start: int, count: int, out: Any, at: int) -> None:
    # numba compiles an assignment of slices three times as long as the rest of this module.
    for k in range(count):
        out[at + k] = values[start + k]


@numba.njit(**RARE)
def _fill_border(edge: Any, at: int, gaps: Any, size: int, mode: int, parameters: Any, zero: Any) -> None:
    """Write H before the first characters of one sequence, and E or F of gaps that start there."""
    for k in range(size):
        # The operations of a tile's border, for the same bits.
        gap = parameters[GAP] + k * parameters[EXTEND]
        edge[at + k] = zero + gap if mode == GLOBAL else zero
        if gaps is not None:
            gaps[k] = larger_of(edge[at + k] + parameters[GAP], parameters[FLOOR])


@numba.njit(**RARE)
def _best_of_edges(edge: Any, left: Any, n: int, m: int) -> Any:
    """Return the best of the last row and column: the smallest column wins, then the row."""
    score, end, target_end = edge[1], n - 1, 0
    for column in range(1, m):
        if edge[1 + column] > score:
            score, target_end = edge[1 + column], column
    for row in range(n):
        is_tie = left[row] == score and target_end == m - 1 and row < end
        if left[row] > score or is_tie:
            score, end, target_end = left[row], row, m - 1
    return score, end, target_end


@numba.njit(**RARE)
def _end(best: Any, edge: Any, left: Any, n: int, m: int, mode: int) -> Any:
    if mode == LOCAL:
        return best
    if mode == GLOBAL:
        return edge[m], n - 1, m - 1
    return _best_of_edges(edge, left, n, m)


def _align_pairs(
    chosen: Any,
    all_queries: Any,
    all_targets: Any,
    target: Any,
    edge: Any,
    edge_gaps: Any,
    left: Any,
    left_gaps: Any,
    parameters: Any,
    table: Any,
    lookup: Any,
    mode: int,
    is_tile: bool,
    base: Any,
    h: Any,
    out: Any,
) -> None:
    """Write score + `base`, query_end and target_end of chosen pairs, none of them empty, to `out`.

    query_end is SATURATED if a score reached the ceiling. Queries and targets are joined, with
    their offsets; a single sequence is paired with all. A tile is one pair whose carry-in the edges
    have: H + `base` is written to `h` unless its size is 0. The other arrays are memory for the
    longest pair. What may be None is a parameter of its own: numba would compile all branches.
    """
    (queries, query_offsets), (targets, target_offsets) = all_queries, all_targets
    lanes, zero, last = REGISTER // edge.itemsize, -base, -1
    for pair in chosen:
        i = pair if query_offsets.size > 2 else 0
        j = pair if target_offsets.size > 2 else 0
        first, start = query_offsets[i], target_offsets[j]
        n, m = query_offsets[i + 1] - first, target_offsets[j + 1] - start
        if lookup is None:
            _copy(targets, start, m, target, lanes)
        else:
            _copy(targets, start, m, lookup[1], lanes)
            if i != last:
                fill_profiles(lookup[0][first : first + n], table, lanes, lookup[2])
                last = i
        if not is_tile:
            edge[0] = zero
            _fill_border(edge, np.int64(1), edge_gaps, m, mode, parameters, zero)
            _fill_border(left, np.int64(0), left_gaps, n, mode, parameters, zero)
        query = queries[first : first + n]
        sides, edges, is_local = (query, target, m), (edge, left), mode == LOCAL
        best = align_strips(sides, edges, edge_gaps, left_gaps, parameters, lookup, (h, base), is_local)
        score, end, target_end = _end(best, edge, left, n, m, mode)
        if mode == LOCAL and edge.itemsize < 4 and score == parameters[CEILING]:
            end = SATURATED
        out[pair, 0], out[pair, 1], out[pair, 2] = score + base, end, target_end


# numba's own cache key lacks the registers of this machine if NUMBA_CPU_NAME is set.
align_pairs = compile_kernel(_align_pairs, str(REGISTER), allocates=False)
