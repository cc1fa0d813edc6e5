"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here
the steps of a group are composed first, apart from the state, and one multiply-add then
carries the state across the group: 3.4 (arrays) and 4 to 5 (constant s) times the loop.

Composing may overflow, underflow or round an infinity away where the loop does not. So a
group counts only if it is *sound*: its coefficients are 0 or in a range whose products are
normal numbers, and its results stay clear of the largest number. All else is done again by
the plain loop from the true state. Hence a row has the loop's nan and inf.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from .compilation import OPTIONS, compile_kernel
from .lanes import (
    SCAN,
    extremes,
    fma,
    last,
    load,
    load_wide,
    none_above,
    none_below,
    shift,
    splat,
    splat_last,
    store,
    widen,
)
from .tuples import rows_of, value_at, values_at

# Steps that are checked, and done again, together; a multiple of the widest register.
BLOCK, WIDEST = 512, 16

# Per dtype: coefficients within 2**±range, whose products over a group of 4 are normal
# numbers, and results below max * 2**-(range + 1), so that no s·w overflows.
_RANGE = {"f": 30, "d": 200}


@cache
def sound_limits(dtype: np.dtype[Any]) -> np.ndarray:
    """(top, low, high): results below top, coefficients 0 or from low to high."""
    span = _RANGE[dtype.char]
    top = float(np.finfo(dtype).max) * 2.0 ** -(span + 1)
    return np.array([top, 2.0**-span, 2.0**span], dtype)


def is_constant_sound(s: np.ndarray, steps: int = SCAN) -> bool:
    """Whether the powers of each row's constant up to `steps` are normal numbers."""
    high = 2.0 ** (_RANGE[s.dtype.char] * SCAN / steps)
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


@numba.njit(fastmath={"contract"}, **OPTIONS)
def _look_ahead(s: Any, t: Any, result: Any, w: Any, left: int, right: int) -> Any:
    """Groups of 4 steps, composed ahead of the state."""
    for group in range(left // 4, right // 4):
        a = s[4 * group : 4 * group + 4]
        x = t[4 * group : 4 * group + 4]
        y = result[4 * group : 4 * group + 4]
        product1 = a[1] * a[0]
        offset1 = a[1] * x[0] + x[1]
        upper = a[3] * a[2]
        offset_upper = a[3] * x[2] + x[3]
        product2 = a[2] * product1
        offset2 = a[2] * offset1 + x[2]
        product3 = upper * product1
        offset3 = upper * offset1 + offset_upper
        y[0] = a[0] * w + x[0]
        y[1] = product1 * w + offset1
        y[2] = product2 * w + offset2
        w = product3 * w + offset3
        y[3] = w
    return w


@numba.njit(**OPTIONS)
def _is_sound(s: Any, result: Any, w: Any, left: int, right: int, limits: Any) -> Any:
    coefficients = extremes(load_wide(s, left))
    states = extremes(load_wide(result, left))
    for at in range(left, right, 64 // result.itemsize):
        coefficients = widen(coefficients, load_wide(s, at))
        states = widen(states, load_wide(result, at))
    sound = none_below(coefficients, limits[1]) & none_above(coefficients, limits[2])
    return sound & none_above(states, limits[0]) & (abs(w) <= limits[0])


@numba.njit(**OPTIONS)
def _redo(s: Any, t: Any, result: Any, w: Any, left: int, right: int) -> Any:
    return plain(s[left:right], t[left:right], result[left:right], w)


@numba.njit(**OPTIONS)
def advance_row(s: Any, t: Any, result: Any, w: Any, limits: Any) -> Any:
    """One row of coefficient arrays; the state after it.

    A block is checked when the next one has been solved: wide loads of what has just been
    stored narrow would wait for the stores, a fifth of the time.
    """
    full = result.size // WIDEST * WIDEST
    start, before, left = w, 0, 0
    while left < full:
        right = min(left + BLOCK, full)
        after = _look_ahead(s, t, result, w, left, right)
        if before < left and not _is_sound(s, result, start, before, left, limits):
            w = _redo(s, t, result, start, before, left)
            after = _look_ahead(s, t, result, w, left, right)
        start, before, w, left = w, left, after, right
    if before < full and not _is_sound(s, result, start, before, full, limits):
        w = _redo(s, t, result, start, before, full)
    return _redo(s, t, result, w, full, result.size)


@numba.njit(**OPTIONS)
def _scan_registers(t: Any, result: Any, w: Any, left: int, right: int, powers: Any) -> Any:
    """The state after steps of a constant s, and the extremes of the results.

    Inside a register: v_i += s**d · v_(i-d) for d = 1, 2 (Kogge & Stone 1973).
    """
    distance, state = load(powers, 0), splat(w)
    s1, s2, across = splat(powers[0]), splat(powers[1]), splat(powers[SCAN - 1])
    states = extremes(state)
    for at in range(left, right, SCAN):
        v = load(t, at)
        v = fma(s1, shift(v, 1), v)
        v = fma(s2, shift(v, 2), v)
        y = fma(distance, state, v)
        store(result, at, y)
        states = widen(states, y)
        state = fma(across, state, splat_last(v))
    return last(state), states


@numba.njit(**OPTIONS)
def advance_constant(s: Any, t: Any, result: Any, w: Any, powers: Any, top: Any) -> Any:
    """One row of a constant s that is sound; the state after it."""
    full = result.size // SCAN * SCAN
    for left in range(0, full, BLOCK):
        right = min(left + BLOCK, full)
        after, states = _scan_registers(t, result, w, left, right, powers)
        if none_above(states, top) & (abs(w) <= top):
            w = after
        else:
            w = plain(s, t[left:right], result[left:right], w)
    return plain(s, t[full:], result[full:], w)


def _determine_constant(operands: Any, entry: Any, result: Any, limits: Any) -> None:
    powers = np.empty(SCAN, result.dtype)
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers)
        advance_constant(s, t, result[row], entry[row], powers, limits[0])


def _determine_arrays(operands: Any, entry: Any, result: Any, limits: Any) -> None:
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        advance_row(s, t, result[row], entry[row], limits)


determine_constant = compile_kernel(_determine_constant)
determine_arrays = compile_kernel(_determine_arrays)


@cache
def determine_filled(lift: Any, *key: str) -> Any:
    """The kernel for coefficients computed on the fly, and for reversed rows.

    Each block's s and t are first written, in the order of the recurrence, to buffers that
    stay in the L1 cache.
    """

    def determine(operands: Any, entry: Any, result: Any, limits: Any, reverse: bool) -> None:
        s = np.empty(BLOCK, result.dtype)
        t, y = np.empty_like(s), np.empty_like(s)
        steps = result.shape[1]
        for row in range(result.shape[0]):
            operand, target, w = rows_of(operands, row), result[row], entry[row]
            for left in range(0, steps, BLOCK):
                size = min(BLOCK, steps - left)
                for i in range(size):
                    at = steps - 1 - left - i if reverse else left + i
                    s[i], t[i] = lift(*values_at(operand, at))
                w = advance_row(s[:size], t[:size], y[:size], w, limits)
                for i in range(size):
                    target[steps - 1 - left - i if reverse else left + i] = y[i]

    return compile_kernel(determine, *key)
