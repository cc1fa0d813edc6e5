"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here
the steps of a register are composed first, apart from the state, and one multiply-add then
carries the state across: 2 to 3 (arrays) and 4 to 5 (constant s) times the loop.

Composing may overflow, underflow or round an infinity away where the loop does not. So a
block counts only if it is *sound*: its coefficients are 0 or in a range whose products are
normal numbers, and its results stay clear of the largest number. A block of other
coefficients is done again by the plain loop from its true state, a row that comes near
overflow from the start, since rounding may then decide what the loop does. Hence a row has
the loop's nan and inf.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from .compilation import OPTIONS, compile_kernel
from .lanes import (
    SCAN,
    deinterleave,
    extremes,
    fma,
    interleave,
    last,
    load,
    multiply,
    none_above,
    none_below,
    rotate,
    splat,
    splat_last,
    store,
    widen,
    with_head,
)
from .tuples import parts_of, rows_of, value_at, values_at

# Steps that are checked, and done again, together.
BLOCK = 512

# Per dtype: coefficients within 2**±range, whose products over two registers are normal
# numbers, and results below max * 2**-(range + 1), so that no s·w overflows.
_RANGE = {"f": 15, "d": 120}


@cache
def sound_limits(dtype: np.dtype[Any]) -> np.ndarray:
    """(top, low, high): results below top, coefficients 0 or from low to high."""
    span = _RANGE[dtype.char]
    top = float(np.finfo(dtype).max) * 2.0 ** -(span + 1)
    return np.array([top, 2.0**-span, 2.0**span], dtype)


def is_constant_sound(s: np.ndarray, steps: int = SCAN) -> bool:
    """Whether the powers of each row's constant up to `steps` are normal numbers."""
    high = 2.0 ** (_RANGE[s.dtype.char] * min(1.0, 2 * SCAN / steps))
    size = np.abs(s)
    return bool(((size >= 1 / high) & (size <= high)).all())


@numba.njit(**OPTIONS)
def fill_powers(s: Any, powers: Any) -> None:
    """s, s**2, ... one a lane, multiplied in float64."""
    power = 1.0
    for lane in range(powers.size):
        power *= s
        powers[lane] = power


@numba.njit(**OPTIONS)
def plain(s: Any, t: Any, result: Any, w: Any) -> Any:
    """The sequential loop; every other path is measured by it."""
    for i in range(result.size):
        w = value_at(s, i) * w + t[i]
        result[i] = w
    return w


@numba.njit(**OPTIONS)
def _scan_pairs(s: Any, t: Any, result: Any, w: Any, left: int, right: int) -> Any:
    """The state after steps of coefficient arrays, and the extremes of s and of the results.

    Every lane composes two steps; a scan over the lanes, (p, v)_i after (p, v)_(i-d) for
    d = 1, 2, composes the pairs before each pair (Kogge & Stone 1973).
    """
    state = splat(w)
    coefficients, states = extremes(state), extremes(state)
    for at in range(left, right, 2 * SCAN):
        a, b = deinterleave(load(s, at), load(s, at + SCAN))
        x, y = deinterleave(load(t, at), load(t, at + SCAN))
        coefficients = widen(widen(coefficients, a), b)
        p, v = multiply(b, a), fma(b, x, y)
        v = fma(with_head(p, 1, 0), rotate(v, 1), v)
        p = multiply(p, with_head(rotate(p, 1), 1, 1))
        v = fma(with_head(p, 2, 0), rotate(v, 2), v)
        p = multiply(p, with_head(rotate(p, 2), 2, 1))
        entry = fma(with_head(rotate(p, 1), 1, 1), state, with_head(rotate(v, 1), 1, 0))
        state = fma(splat_last(p), state, splat_last(v))
        x = fma(a, entry, x)
        y = fma(b, x, y)
        states = widen(widen(states, x), y)
        lower, upper = interleave(x, y)
        store(result, at, lower)
        store(result, at + SCAN, upper)
    return last(state), coefficients, states


@numba.njit(**OPTIONS)
def advance_row(s: Any, t: Any, result: Any, w: Any, limits: Any) -> Any:
    """One row of coefficient arrays; the state after it."""
    initial, full = w, result.size // (2 * SCAN) * (2 * SCAN)
    for left in range(0, full, BLOCK):
        right = min(left + BLOCK, full)
        after, coefficients, states = _scan_pairs(s, t, result, w, left, right)
        if not (none_below(coefficients, limits[1]) & none_above(coefficients, limits[2])):
            w = plain(s[left:right], t[left:right], result[left:right], w)
        elif none_above(states, limits[0]) & (abs(w) <= limits[0]):
            w = after
        else:
            # Near overflow rounding may decide what the loop does: the whole row is its.
            return plain(s, t, result, initial)
    return plain(s[full:], t[full:], result[full:], w)


@numba.njit(**OPTIONS)
def _scan_registers(t: Any, result: Any, w: Any, left: int, right: int, powers: Any) -> Any:
    """The state after steps of a constant s, and the extremes of the results.

    Inside a register: v_i += s**d · v_(i-d) for d = 1, 2 (Kogge & Stone 1973); the first d
    lanes, which have no v_(i-d), take 0 times what comes round, nan if that is not finite.
    """
    distance, state = load(powers, 0), splat(w)
    s1, s2, across = load(powers, SCAN), load(powers, 2 * SCAN), splat(powers[SCAN - 1])
    states = extremes(state)
    for at in range(left, right, SCAN):
        v = load(t, at)
        v = fma(s1, rotate(v, 1), v)
        v = fma(s2, rotate(v, 2), v)
        y = fma(distance, state, v)
        store(result, at, y)
        states = widen(states, y)
        state = fma(across, state, splat_last(v))
    return last(state), states


@numba.njit(**OPTIONS)
def advance_constant(s: Any, t: Any, result: Any, w: Any, powers: Any, top: Any) -> Any:
    """One row of a constant s that is sound; the state after it."""
    initial, full = w, result.size // SCAN * SCAN
    for left in range(0, full, BLOCK):
        right = min(left + BLOCK, full)
        after, states = _scan_registers(t, result, w, left, right, powers)
        if not (none_above(states, top) & (abs(w) <= top)):
            return plain(s, t, result, initial)
        w = after
    return plain(s, t[full:], result[full:], w)


def _determine_constant(operands: Any, entry: Any, result: Any, limits: Any) -> None:
    powers = np.zeros(3 * SCAN, result.dtype)
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers[:SCAN])
        powers[SCAN + 1 : 2 * SCAN] = powers[0]
        powers[2 * SCAN + 2 :] = powers[1]
        advance_constant(s, t, result[row], entry[row], powers, limits[0])


def _determine_arrays(operands: Any, entry: Any, result: Any, limits: Any) -> None:
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        advance_row(s, t, result[row], entry[row], limits)


determine_constant = compile_kernel(_determine_constant)
determine_arrays = compile_kernel(_determine_arrays)


def fill_block(lift: Any) -> Any:
    """A function that writes s and t of a block in the order of the recurrence.

    The block's part of every operand is cut out first: indices from 0 vectorise.
    """

    @numba.njit(**OPTIONS)
    def fill(part: Any, s: Any, t: Any, size: int, reverse: bool) -> None:
        if reverse:
            for i in range(size):
                s[size - 1 - i], t[size - 1 - i] = lift(*values_at(part, i))
        else:
            for i in range(size):
                s[i], t[i] = lift(*values_at(part, i))

    return fill


@cache
def determine_filled(lift: Any, *key: str) -> Any:
    """The kernel for coefficients computed on the fly, and for reversed rows.

    Each block's s and t are first written, in the order of the recurrence, to buffers that
    stay in the L1 cache.
    """
    fill = fill_block(lift)

    @numba.njit(**OPTIONS)
    def advance(operand: Any, target: Any, w: Any, limits: Any, reverse: bool, ahead: bool) -> Any:
        s = np.empty(BLOCK, target.dtype)
        t, y = np.empty_like(s), np.empty_like(s)
        for left in range(0, target.size, BLOCK):
            size = min(BLOCK, target.size - left)
            first = target.size - left - size if reverse else left
            fill(parts_of(operand, first, first + size), s, t, size, reverse)
            if ahead:
                w = advance_row(s[:size], t[:size], y[:size], w, limits)
            else:
                w = plain(s[:size], t[:size], y[:size], w)
            target[first : first + size] = y[:size][::-1] if reverse else y[:size]
        return w

    def determine(operands: Any, entry: Any, result: Any, limits: Any, reverse: bool) -> None:
        for row in range(result.shape[0]):
            operand, target = rows_of(operands, row), result[row]
            w = advance(operand, target, entry[row], limits, reverse, True)
            if not abs(w) <= limits[0]:
                advance(operand, target, entry[row], limits, reverse, False)

    return compile_kernel(determine, *key)
