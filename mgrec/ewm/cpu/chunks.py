"""Chunks: rows one after the other, columns side by side in tiles that stay in a cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from ...engines.cpu.compilation import INLINED, compile_kernel
from ..summary import FIRST, STATES
from ..weights import PAIRS
from .steps import REST, faded, falls_at, is_there, observe, own_weight, row_loop

# A tile: columns, and steps of each before it is the next one's turn.
COLUMNS, STEPS = 64, 128


def line_of(array: Any, outer: Any, left: Any, right: Any, inner: Any) -> Any:
    """Steps of a row of an array (outer, steps, inner), whose other axes may be 1; None of None."""
    raise NotImplementedError  # compiled code only


@overload(line_of, strict=False)
def _line_of(array: Any, outer: Any, left: Any, right: Any, inner: Any) -> Any:
    if not isinstance(array, types.Array):
        return lambda array, outer, left, right, inner: None
    return lambda array, outer, left, right, inner: array[
        outer if array.shape[0] > 1 else 0, left:right, inner if array.shape[2] > 1 else 0
    ]


@numba.njit(**INLINED)
def state_at(states: Any, place: Any) -> Any:
    """The state of one row, of states in an array (STATES, ...)."""
    a, b = place
    return (
        states[0, a, b], states[1, a, b], states[2, a, b], states[3, a, b],
        states[4, a, b], states[5, a, b], states[6, a, b], states[7, a, b],
    )  # fmt: skip


@numba.njit(**INLINED)
def put_state(states: Any, place: Any, state: Any) -> None:
    a, b = place
    for k in range(STATES):
        states[k, a, b] = state[k]


@cache
def determine_kernel(statistic: str, is_adjusted: bool) -> Any:
    """``(x, y, gaps, marks, carry_in, out, weights)``; gaps, marks: or None; carry_in: or empty."""
    loop = row_loop(statistic, is_adjusted)

    def determine(
        x: Any, y: Any, gaps: Any, marks: Any, carry_in: Any, out: Any, weights: Any
    ) -> None:
        outers, steps, inners = out.shape
        states = np.empty((STATES, 1, COLUMNS))
        tile = max(steps, 1) if inners == 1 else STEPS
        for outer in range(outers):
            for first in range(0, inners, COLUMNS):
                count = min(COLUMNS, inners - first)
                states[:] = 0.0
                if carry_in.size > 0:
                    for k in range(count):
                        put_state(states, (0, k), state_at(carry_in, (outer, first + k)))
                for left in range(0, steps, tile):
                    right = min(left + tile, steps)
                    for k in range(count):
                        at = first + k
                        state = loop(
                            line_of(x, outer, left, right, at),
                            line_of(y, outer, left, right, at),
                            line_of(gaps, outer, left, right, at),
                            line_of(marks, outer, left, right, at),
                            out[outer, left:right, at],
                            state_at(states, (0, k)),
                            weights,
                        )
                        put_state(states, (0, k), state)

    return compile_kernel(determine, statistic, str(is_adjusted))


@cache
def precompute_kernel(statistic: str, is_adjusted: bool) -> Any:
    """``(x, y, gaps, marks, weights, parts, exits, is_reset)``; see EwmSummary."""
    loop = row_loop(statistic, is_adjusted)
    reduce = numba.njit(**INLINED)(_reduction(statistic, is_adjusted))

    def precompute(
        x: Any,
        y: Any,
        gaps: Any,
        marks: Any,
        weights: Any,
        parts: Any,
        carry_outs: Any,
        is_reset: Any,
    ) -> None:
        outers, inners = is_reset.shape
        steps = x.shape[1]
        for outer in range(outers):
            for inner in range(inners):
                mark = last_mark(line_of(marks, outer, 0, steps, inner))
                is_reset[outer, inner] = mark >= 0
                begin = max(mark, 0)
                own_x = line_of(x, outer, begin, steps, inner)
                own_y = line_of(y, outer, begin, steps, inner)
                own_gaps = line_of(gaps, outer, begin, steps, inner)
                if mark >= 0:
                    state = loop(own_x, own_y, own_gaps, None, None, REST, weights)
                    put_state(carry_outs, (outer, inner), state)
                else:
                    first, others = reduce(own_x, own_y, own_gaps, weights)
                    for k in range(FIRST):
                        parts[k, outer, inner] = first[k]
                    for k in range(1, STATES):
                        parts[FIRST - 1 + k, outer, inner] = others[k]

    return compile_kernel(precompute, statistic, str(is_adjusted))


def _reduction(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    """The parts of a row that is nowhere marked: of its first observation, and the others."""
    is_pair, is_sum = statistic in PAIRS, statistic == "sum"

    def reduction(x: Any, y: Any, gaps: Any, weights: Any) -> Any:
        decay, share, ignores, is_complement, _, _, _ = weights
        lead, left, first_x, first_y, count, others = 1.0, 1.0, 0.0, 0.0, 0.0, REST
        for i in range(x.size):
            falls, is_new = falls_at(gaps, i, decay), is_there(x, y, i, is_pair)
            value = np.float64(x[i])
            other = np.float64(y[i]) if is_pair else value
            falls = falls if is_new or not ignores else 1.0
            if is_sum:
                lead *= falls
                total = others[3] * falls + (value if is_new else 0.0)
                others = (0.0, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0)
            elif count == 0:
                lead *= falls
                if is_new:
                    first_x, first_y = value, other
            else:
                own = own_weight(left + others[1], falls, share, is_adjusted, is_complement)
                left *= falls
                if is_new and own > 0:
                    others = observe(others, falls, own, value, other, True)
                else:
                    others = faded(others, falls)
                if is_new and not is_adjusted:
                    unit = 1.0 / (left + others[1])
                    left, others = left * unit, scaled(others, unit)
            count += 1.0 if is_new else 0.0
        return (lead, count, first_x, first_y, left), others

    return reduction


def last_mark(marks: Any) -> Any:
    """The last step of a row that is marked, or -1."""
    raise NotImplementedError  # compiled code only


@overload(last_mark, strict=False)
def _last_mark(marks: Any) -> Any:
    if not isinstance(marks, types.Array):
        return lambda marks: -1

    def search(marks: Any) -> int:
        last = marks.size - 1
        while last >= 0 and not marks[last]:
            last -= 1
        return last

    return search


@numba.njit(**INLINED)
def scaled(state: Any, unit: float) -> Any:
    """A state whose weights are all multiplied."""
    count, weight, divisor, x, y, xx, yy, xy = state
    return count, weight * unit, divisor, x, y, xx, yy, xy


@cache
def propagate_kernel(is_sum: bool, is_adjusted: bool) -> Any:
    """``(parts, carry_in, carry_out, share, is_complement)`` of rows (…, rows)."""

    def propagate(
        parts: Any, carry_in: Any, carry_out: Any, share: float, is_complement: bool
    ) -> None:
        for row in range(carry_in.shape[2]):
            state = state_at(carry_in, (0, row))
            lead, count, left = parts[0, row], parts[1, row], parts[4, row]
            if is_sum:
                total = state[3] * lead + parts[7, row]
                state = (state[0] + count, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0)
            elif count == 0:
                state = scaled(state, lead)
            else:
                own = own_weight(state[1], lead, share, is_adjusted, is_complement)
                first = observe(state, lead, own, parts[2, row], parts[3, row], is_adjusted)
                state = joined(scaled(first, left), parts, row, count - 1.0)
            put_state(carry_out, (0, row), state)

    return compile_kernel(propagate, str(is_sum), str(is_adjusted))


@numba.njit(**INLINED)
def joined(state: Any, parts: Any, row: int, further: float) -> Any:
    """The state of two groups of observations (Chan, Golub and LeVeque 1979)."""
    count, weight, divisor, x, y, xx, yy, xy = state
    own = parts[5, row]
    if own == 0:
        return count + further, weight, divisor, x, y, xx, yy, xy
    whole = weight + own
    gain, kept = own / whole, weight / whole
    off_x, off_y = parts[7, row] - x, parts[8, row] - y
    xx = kept * xx + gain * parts[9, row] + kept * gain * off_x * off_x
    yy = kept * yy + gain * parts[10, row] + kept * gain * off_y * off_y
    xy = kept * xy + gain * parts[11, row] + kept * gain * off_x * off_y
    divisor = kept * kept * divisor + gain * gain * parts[6, row] + 2.0 * kept * gain
    return count + further, whole, divisor, x + gain * off_x, y + gain * off_y, xx, yy, xy
