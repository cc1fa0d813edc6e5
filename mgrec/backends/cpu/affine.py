"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here
the steps of a group are composed first, apart from the state, and one multiply-add then
carries the state across the group: 3.4 (arrays) and 4 to 6 (constant s) times the loop.

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
    any_above,
    extremes,
    fma,
    last,
    load,
    none_above,
    none_below,
    shift,
    splat,
    splat_last,
    store,
    widen,
)
from .tuples import rows_of, value_at, values_at

BLOCK = 128

# Per dtype: coefficients within 2**±range, results below max * 2**-clear.
_ARRAY_RANGE = {"f": 30, "d": 200}
_CONSTANT_RANGE = {"f": 7, "d": 100}


@cache
def array_limits(dtype: np.dtype[Any]) -> np.ndarray:
    """(top, low, high): results below top, coefficients 0 or from low to high."""
    span = _ARRAY_RANGE[dtype.char]
    top = float(np.finfo(dtype).max) * 2.0 ** -(span + 1)
    return np.array([top, 2.0**-span, 2.0**span], dtype)


def is_constant_sound(s: np.ndarray) -> bool:
    """Whether the powers of each row's constant within one register are normal numbers."""
    high = 2.0 ** _CONSTANT_RANGE[s.dtype.char]
    size = np.abs(s)
    return bool(((size >= 1 / high) & (size <= high)).all())


@cache
def constant_top(dtype: np.dtype[Any]) -> Any:
    """Results of a sound group stay below this."""
    top = float(np.finfo(dtype).max) * 2.0 ** -(_CONSTANT_RANGE[dtype.char] + 1)
    return dtype.type(top)


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
def _look_ahead(s: Any, t: Any, result: Any, w: Any) -> Any:
    """Groups of 4 steps, composed ahead of the state; the size is a multiple of 4."""
    for group in range(result.size // 4):
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
def _is_sound(s: Any, result: Any, w: Any, limits: Any) -> Any:
    top, low, high = splat(limits[0]), splat(limits[1]), splat(limits[2])
    coefficients, states = extremes(top), extremes(top)
    for at in range(0, BLOCK, 64 // result.itemsize):
        coefficients = widen(coefficients, load(s, at))
        states = widen(states, load(result, at))
    sound = none_below(coefficients, low) & none_above(coefficients, high)
    return sound & none_above(states, top) & (abs(w) <= limits[0])


@numba.njit(**OPTIONS)
def advance_block(s: Any, t: Any, result: Any, w: Any, limits: Any) -> Any:
    """One block of coefficient arrays; the state after it."""
    if result.size < BLOCK:
        return plain(s, t, result, w)
    exit = _look_ahead(s, t, result, w)
    if _is_sound(s, result, w, limits):
        return exit
    return plain(s, t, result, w)


@numba.njit(**OPTIONS)
def advance_row(s: Any, t: Any, result: Any, w: Any, limits: Any) -> Any:
    """One row of coefficient arrays; the state after it."""
    for left in range(0, result.size, BLOCK):
        right = min(left + BLOCK, result.size)
        w = advance_block(s[left:right], t[left:right], result[left:right], w, limits)
    return w


@numba.njit(**OPTIONS)
def _advance_lanes(s: Any, t: Any, result: Any, w: Any, group: int, powers: Any, top: Any) -> Any:
    """Registers of a constant s from `group` on, up to the first unsound one.

    Inside a register: v_i += s**d · v_(i-d) for d = 1, 2, 4, ... (Kogge & Stone 1973).
    """
    width = 64 // result.itemsize
    distance, bound, state = load(powers, 0), splat(top), splat(w)
    s1, s2, s4 = splat(powers[0]), splat(powers[1]), splat(powers[3])
    s8, across = splat(powers[7]), splat(powers[width - 1])
    while group < result.size // width:
        v = load(t, group * width)
        v = fma(s1, shift(v, 1), v)
        v = fma(s2, shift(v, 2), v)
        v = fma(s4, shift(v, 4), v)
        if width == 16:
            v = fma(s8, shift(v, 8), v)
        y = fma(distance, state, v)
        store(result, group * width, y)
        if any_above(y, bound):
            break
        state = fma(across, state, splat_last(v))
        group += 1
    return group, last(state)


@numba.njit(**OPTIONS)
def advance_constant(s: Any, t: Any, result: Any, w: Any, powers: Any, top: Any) -> Any:
    """One row of a constant s that is sound; the state after it."""
    width = 64 // result.itemsize
    groups = result.size // width
    group = 0
    while group < groups:
        if abs(w) <= top:
            group, w = _advance_lanes(s, t, result, w, group, powers, top)
        if group < groups:
            left, right = group * width, group * width + width
            w = plain(s, t[left:right], result[left:right], w)
            group += 1
    left = groups * width
    return plain(s, t[left:], result[left:], w)


def _determine_constant(operands: Any, entry: Any, result: Any, top: Any) -> None:
    powers = np.empty(64 // result.itemsize, result.dtype)
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers)
        advance_constant(s, t, result[row], entry[row], powers, top)


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
                w = advance_block(s[:size], t[:size], y[:size], w, limits)
                for i in range(size):
                    target[steps - 1 - left - i if reverse else left + i] = y[i]

    return compile_kernel(determine, *key)
