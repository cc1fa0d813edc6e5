"""Many pairs of sequences, one after the other without a return to Python."""

from __future__ import annotations

from typing import Any

import numba

from .....engines.cpu.compilation import INNER, compile_kernel
from .....engines.cpu.simd.arithmetic import REGISTER
from .align import align_strips
from .profiles import fill_profiles
from .strips import CEILING, EXTEND, FLOOR, GAP

LOCAL, GLOBAL, SEMI_GLOBAL = range(3)
"""Modes."""
SATURATED = -2
"""As the end of an alignment that its numbers did not hold."""


@numba.njit(**INNER)
def _copy(values: Any, begin: int, count: int, into: Any, at: int) -> None:
    # An assignment of slices takes numba three times as long to compile as all else here.
    for k in range(count):
        into[at + k] = values[begin + k]


@numba.njit(**INNER)
def _fill_border(edge: Any, at: int, size: int, mode: int, numbers: Any, zero: Any) -> None:
    """H before the first characters of one sequence, from ``edge[at]`` on."""
    for k in range(size):
        # As an array of the border has it, to the last bit.
        gap = numbers[GAP] + k * numbers[EXTEND]
        edge[at + k] = zero + gap if mode == GLOBAL else zero


@numba.njit(**INNER)
def _fill_gaps(gaps: Any, edge: Any, at: int, size: int, numbers: Any) -> None:
    """F or E of gaps that begin at a border; below the floor they never count."""
    for k in range(size):
        gaps[k] = max(edge[at + k] + numbers[GAP], numbers[FLOOR])


@numba.njit(**INNER)
def _best_of_edges(edge: Any, left: Any, n: int, m: int) -> Any:
    """The best of the last row and the last column: the smallest column counts, then row."""
    score, end, target_end = edge[1], n - 1, 0
    for column in range(1, m):
        if edge[1 + column] > score:
            score, target_end = edge[1 + column], column
    for row in range(n):
        is_tie = left[row] == score and target_end == m - 1 and row < end
        if left[row] > score or is_tie:
            score, end, target_end = left[row], row, m - 1
    return score, end, target_end


@numba.njit(**INNER)
def _end(best: Any, edge: Any, left: Any, n: int, m: int, mode: int) -> Any:
    if mode == LOCAL:
        return best
    if mode == GLOBAL:
        return edge[m], n - 1, m - 1
    return _best_of_edges(edge, left, n, m)


def _align_pairs(
    chosen: Any, queries: Any, query_offsets: Any, targets: Any, target_offsets: Any, target: Any,
    edge: Any, edge_gaps: Any, left: Any, left_gaps: Any, numbers: Any, table: Any, judge: Any,
    mode: int, base: Any, out: Any,
) -> None:  # fmt: skip
    """Score, query_end and target_end of chosen pairs.

    Parameters
    ----------
    chosen : array
        The rows of `out` to write; none of these has an empty sequence.
    queries, targets : array
        Codes of all sequences, joined; one sequence goes with all. Where there is a judge, whose
        first array are codes of the queries, letters of `queries` do not matter.
    target, edge, edge_gaps, left, left_gaps : array
        Memory for the longest; see :func:`.align.align_strips`.
    out : array (pairs, 3)
        `base` is added to scores; an end is SATURATED where they reached the ceiling.
    """
    lanes, zero, last, nothing = REGISTER // edge.itemsize, -base, -1, out[:0]
    for pair in chosen:
        own = pair if query_offsets.size > 2 else 0
        other = pair if target_offsets.size > 2 else 0
        begin, start = query_offsets[own], target_offsets[other]
        n, m = query_offsets[own + 1] - begin, target_offsets[other + 1] - start
        if judge is None:
            _copy(targets, start, m, target, lanes)
        else:
            _copy(targets, start, m, judge[1], lanes)
            if own != last:
                fill_profiles(judge[0][begin : begin + n], table, lanes, judge[2])
                last = own
        edge[0] = zero
        _fill_border(edge, 1, m, mode, numbers, zero)
        _fill_border(left, 0, n, mode, numbers, zero)
        if edge_gaps is not None:
            _fill_gaps(edge_gaps, edge, 1, m, numbers)
            _fill_gaps(left_gaps, left, 0, n, numbers)
        query = queries[begin : begin + n]
        best = align_strips(
            query, target, edge, edge_gaps, left, left_gaps, numbers, judge, nothing, base, m,
            mode == LOCAL,
        )  # fmt: skip
        score, end, target_end = _end(best, edge, left, n, m, mode)
        if mode == LOCAL and score == numbers[CEILING]:
            end = SATURATED
        out[pair, 0], out[pair, 1], out[pair, 2] = score + base, end, target_end


align_pairs = compile_kernel(_align_pairs, str(REGISTER))
