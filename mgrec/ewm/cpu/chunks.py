"""Kernels over chunks: row by row, or tiles of columns that stay in a cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from ...engines.cpu.compilation import INLINED, INNER, compile_kernel
from ..recurrence import FIRST, PAIRS, STATES
from .steps import ZERO_STATE, decay_at, decayed, is_present, observe, row_loop, weight_of_new

# A tile: number of columns, and steps of a column before the next column follows.
COLUMNS, STEPS = 64, 128
# Smaller weights of earlier observations change no digit of later results.
NEGLIGIBLE = 2.0**-960


# An overload: a compiled function with a test for None made covariances take 3 times as long.
def row_part(array: Any, outer: Any, left: Any, right: Any, inner: Any) -> Any:
    """Return steps of a row of an array (outer, steps, inner), or None for None.

    Outer and inner axes of length 1 are broadcast.
    """
    raise NotImplementedError  # compiled code only


@overload(row_part, strict=False)
def _row_part(array: Any, outer: Any, left: Any, right: Any, inner: Any) -> Any:
    if not isinstance(array, types.Array):
        return lambda array, outer, left, right, inner: None
    return lambda array, outer, left, right, inner: array[
        outer if array.shape[0] > 1 else 0, left:right, inner if array.shape[2] > 1 else 0
    ]


@numba.njit(**INLINED)
def state_at(states: Any, index: Any) -> Any:
    """Return the state of one row, from an array (STATES, ...)."""
    a, b = index
    return (
        states[0, a, b], states[1, a, b], states[2, a, b], states[3, a, b],
        states[4, a, b], states[5, a, b], states[6, a, b], states[7, a, b],
    )  # fmt: skip


@numba.njit(**INLINED)
def put_state(states: Any, index: Any, state: Any) -> None:
    a, b = index
    for k in range(STATES):
        states[k, a, b] = state[k]


@cache
def determine_kernel(statistic: str, is_adjusted: bool) -> Any:
    """Return the kernel ``(x, y, gaps, marks, carry_in, out, weights)``.

    `gaps` may be None, `marks` (1, 0, 1) if there are none, and `carry_in` empty.
    """
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
                            row_part(x, outer, left, right, at),
                            row_part(y, outer, left, right, at),
                            row_part(gaps, outer, left, right, at),
                            row_part(marks, outer, left, right, at),
                            out[outer, left:right, at],
                            state_at(states, (0, k)),
                            weights,
                        )
                        put_state(states, (0, k), state)

    return compile_kernel(determine, statistic, str(is_adjusted))


@cache
def precompute_kernel(statistic: str, is_adjusted: bool) -> Any:
    """Return the kernel ``(x, y, gaps, marks, weights, parts, carry_outs, is_reset)``.

    The last three are those of :class:`mgrec.ewm.recurrence.EwmSummary`.
    """
    loop = row_loop(statistic, is_adjusted)
    reduce = numba.njit(**INLINED)(_reduction(statistic, is_adjusted))

    def precompute(
        x: Any, y: Any, gaps: Any, marks: Any, weights: Any, parts: Any, after: Any, is_reset: Any
    ) -> None:
        outers, inners = is_reset.shape
        steps = x.shape[1]
        for outer in range(outers):
            for inner in range(inners):
                mark = last_mark(row_part(marks, outer, 0, steps, inner))
                is_reset[outer, inner] = mark >= 0
                start = max(mark, 0)
                x_part = row_part(x, outer, start, steps, inner)
                y_part = row_part(y, outer, start, steps, inner)
                gaps_part = row_part(gaps, outer, start, steps, inner)
                if mark >= 0:
                    no_marks = row_part(marks, outer, 0, 0, inner)
                    state = loop(x_part, y_part, gaps_part, no_marks, None, ZERO_STATE, weights)
                    put_state(after, (outer, inner), state)
                else:
                    first, others = reduce(x_part, y_part, gaps_part, weights)
                    for k in range(FIRST):
                        parts[k, outer, inner] = first[k]
                    for k in range(1, STATES):
                        parts[FIRST - 1 + k, outer, inner] = others[k]

    return compile_kernel(precompute, statistic, str(is_adjusted))


def _reduction(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    """Return the function that summarises a row without a reset.

    It returns FIRST scalars for the first observation, and the state of the others.
    """
    is_pair, is_sum = statistic in PAIRS, statistic == "sum"

    def reduction(x: Any, y: Any, gaps: Any, weights: Any) -> Any:
        decay, alpha, ignores, is_complement, _, _, _ = weights
        first_decay, first_weight, others = 1.0, 1.0, ZERO_STATE
        first_x, first_y, count = 0.0, 0.0, 0.0
        for i in range(x.size):
            factor, is_new = decay_at(gaps, i, decay), is_present(x, y, i, is_pair)
            value = np.float64(x[i])
            other = np.float64(y[i]) if is_pair else value
            factor = factor if is_new or not ignores else 1.0
            if is_sum:
                first_decay *= factor
                total = others[3] * factor + (value if is_new else 0.0)
                others = (0.0, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0)
            elif count == 0:
                first_decay *= factor
                if is_new:
                    first_x, first_y = value, other
            else:
                weight = weight_of_new(
                    first_weight + others[1], factor, alpha, is_adjusted, is_complement
                )
                first_weight *= factor
                if is_new and weight > 0:
                    others = observe(others, factor, weight, value, other, True)
                else:
                    others = decayed(others, factor)
                if is_new and not is_adjusted:
                    unit = 1.0 / (first_weight + others[1])
                    first_weight, others = first_weight * unit, scaled(others, unit)
                if is_new:
                    last_weights = first_weight, others[1]
            count += 1.0 if is_new else 0.0
        has_decayed = 0.0
        if not is_sum and first_weight + others[1] < NEGLIGIBLE:
            has_decayed = 1.0
            first_weight, other_weight = last_weights
            others = with_weight(others, other_weight)
        return (first_decay, count, first_x, first_y, first_weight, has_decayed), others

    return reduction


@numba.njit(**INNER)
def last_mark(marks: Any) -> int:
    """Return the last marked step of a row, or -1."""
    last: int = marks.size - 1
    while last >= 0 and not marks[last]:
        last -= 1
    return last


@numba.njit(**INLINED)
def with_weight(state: Any, weight: float) -> Any:
    """Return a state with another weight."""
    count, _, divisor, x, y, xx, yy, xy = state
    return count, weight, divisor, x, y, xx, yy, xy


@numba.njit(**INLINED)
def scaled(state: Any, unit: float) -> Any:
    """Return a state whose weight is multiplied by `unit`."""
    count, weight, divisor, x, y, xx, yy, xy = state
    return count, weight * unit, divisor, x, y, xx, yy, xy


@cache
def propagate_kernel(is_sum: bool, is_adjusted: bool) -> Any:
    """Return the kernel ``(parts, carry_in, carry_out, alpha, is_complement)`` over rows."""

    def propagate(
        parts: Any, carry_in: Any, carry_out: Any, alpha: float, is_complement: bool
    ) -> None:
        for row in range(carry_in.shape[2]):
            state = state_at(carry_in, (0, row))
            first_decay, count, first_weight = parts[0, row], parts[1, row], parts[4, row]
            if is_sum:
                total = state[3] * first_decay + parts[8, row]
                state = (state[0] + count, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0)
            elif count == 0:
                state = scaled(state, first_decay)
            else:
                weight = weight_of_new(state[1], first_decay, alpha, is_adjusted, is_complement)
                first = observe(
                    state, first_decay, weight, parts[2, row], parts[3, row], is_adjusted
                )
                state = merged(scaled(first, first_weight), parts, row, count - 1.0)
            put_state(carry_out, (0, row), state)

    return compile_kernel(propagate, str(is_sum), str(is_adjusted))


@numba.njit(**INLINED)
def merged(state: Any, parts: Any, row: int, other_count: float) -> Any:
    """Return the state of a row and the other observations of its summary.

    The formulas are those of Chan, Golub and LeVeque (1979).
    """
    count, weight, divisor, x, y, xx, yy, xy = state
    has_decayed, other_weight = parts[5, row] > 0, parts[6, row]
    total = weight + other_weight
    if other_weight == 0 and (total > 0 or other_count == 0):
        return count + other_count, 0.0 if has_decayed else weight, divisor, x, y, xx, yy, xy
    gain, kept = (other_weight / total, weight / total) if total > 0 else (1.0, 0.0)
    off_x, off_y = parts[8, row] - x, parts[9, row] - y
    xx = kept * xx + gain * parts[10, row] + kept * gain * off_x * off_x
    yy = kept * yy + gain * parts[11, row] + kept * gain * off_y * off_y
    xy = kept * xy + gain * parts[12, row] + kept * gain * off_x * off_y
    divisor = kept * kept * divisor + gain * gain * parts[7, row] + 2.0 * kept * gain
    total = 0.0 if has_decayed else total
    return count + other_count, total, divisor, x + gain * off_x, y + gain * off_y, xx, yy, xy
