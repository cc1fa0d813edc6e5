"""Blocks of w = s·w + t: the state after some hundred steps, and whether the block was safe."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INNER
from ....engines.cpu.simd.checks import no_extremes, none_above, none_below, update_extremes
from ....engines.cpu.simd.lanes import (
    SCAN,
    fence,
    fma,
    last,
    load,
    rotate,
    splat,
    splat_last,
    store,
    stream,
)
from ..tuples import value_at
from .tiles import TILE, tiles_into_caches, tiles_past_caches

# Steps that are checked, and done again, together.
BLOCK = 512

# Coefficients of a safe block are within 2**±range: products of eight are normal numbers.
# Its results are below max * 2**-(range + 1): no s·w overflows.
_RANGE = {"f": 15, "d": 120}


@cache
def safe_limits(dtype: np.dtype[Any]) -> np.ndarray:
    """(top, low, high, least, scale) of a safe block.

    Results are below top, and finite when multiplied by scale. Coefficients are 0 or from low
    to high, or they are below 2 and products of eight of them above least.
    """
    bits = _RANGE[dtype.char]
    top = float(np.finfo(dtype).max) * 2.0 ** -(bits + 1)
    least = float(np.finfo(dtype).tiny) * 2.0**8
    return np.array([top, 2.0**-bits, 2.0**bits, least, 2.0 ** (bits + 2)], dtype)


def is_constant_safe(s: np.ndarray, steps: int = SCAN) -> bool:
    """Whether the powers of each row's constant up to `steps` are normal numbers."""
    high = 2.0 ** (_RANGE[s.dtype.char] * min(1.0, 2 * SCAN / steps))
    size = np.abs(s)
    return bool(((size >= 1 / high) & (size <= high)).all())


@numba.njit(**INNER)
def fill_powers(s: Any, powers: Any) -> None:
    """s, s**2, ... one a lane, multiplied in float64."""
    power = 1.0
    for lane in range(powers.size):
        power *= s
        powers[lane] = power


@numba.njit(**INNER)
def plain(s: Any, t: Any, result: Any, w: Any) -> Any:
    """The sequential loop, which defines the result."""
    for i in range(result.size):
        w = value_at(s, i) * w + t[i]
        result[i] = w
    return w


# Blocks are ranges of indices. A slice counts references with atomic instructions, which wait
# for all stores before them (0.2 ns a step), and so does a call that is not inlined.


@numba.njit(**INNER)
def run_plain(s: Any, t: Any, result: Any, w: Any, left: int, right: int, top: Any) -> Any:
    """Some steps of the plain loop: the state after them, are all below top, are all s positive."""
    is_low, is_positive = True, True
    for i in range(left, right):
        w = value_at(s, i) * w + t[i]
        result[i] = w
        is_low &= abs(w) <= top
        is_positive &= value_at(s, i) > 0
    return w, is_low, is_positive


@numba.njit(**INNER)
def _is_in_range(s: Any, left: int, right: int, limits: Any) -> bool:
    ends = no_extremes(splat(limits[0]))
    for at in range(left, right, SCAN):
        ends = update_extremes(ends, load(s, at))
    return none_below(ends, limits[1]) & none_above(ends, limits[2])


@numba.njit(**INNER)
def advance_arrays(
    s: Any, t: Any, result: Any, w: Any, left: int, right: int, limits: Any, past_caches: bool
) -> Any:
    """Steps of coefficient arrays.

    Returns the state after them, whether all states are below top, and whether all coefficients
    are known to be positive.
    """
    whole = left + (right - left) // TILE * TILE
    is_low, is_positive = abs(w) <= limits[0], True
    while left < whole and is_low:
        end = min(left + BLOCK, whole)
        if past_caches:
            after, is_normal, is_low, has_no_sign = tiles_past_caches(
                s, t, result, w, left, end, limits
            )
        else:
            after, is_normal, is_low, has_no_sign = tiles_into_caches(
                s, t, result, w, left, end, limits
            )
        is_positive &= is_normal & has_no_sign
        if not (is_normal or _is_in_range(s, left, end, limits)):
            fence()
            after, is_low, _ = run_plain(s, t, result, w, left, end, limits[0])
        is_low &= abs(after) <= limits[0]
        w, left = after, end
    if left < right and is_low:
        w, is_low, has_no_sign = run_plain(s, t, result, w, left, right, limits[0])
        is_positive &= has_no_sign
    return w, is_low, is_positive


def _registers_written_by(put: Any) -> Any:
    @numba.njit(**INNER)
    def advance(t: Any, result: Any, w: Any, left: int, right: int, powers: Any) -> Any:
        distance, state = load(powers, 0), splat(w)
        s1, s2, across = load(powers, SCAN), load(powers, 2 * SCAN), splat(powers[SCAN - 1])
        states = no_extremes(state)
        for at in range(left, right, SCAN):
            v = load(t, at)
            v = fma(s1, rotate(v, 1), v)
            v = fma(s2, rotate(v, 2), v)
            y = fma(distance, state, v)
            put(result, at, y)
            states = update_extremes(states, y)
            state = fma(across, state, splat_last(v))
        return last(state), none_above(states, powers[-1])

    return advance


_into_caches, _past_caches = _registers_written_by(store), _registers_written_by(stream)


@numba.njit(**INNER)
def advance_constant(
    s: Any, t: Any, result: Any, w: Any, left: int, right: int, powers: Any, past_caches: bool
) -> Any:
    """Steps of a safe constant s: the state after them, are all below top, is s positive.

    Inside a register: v_i += s**d · v_(i-d) for d = 1, 2 (Kogge & Stone 1973). The first d
    lanes have no v_(i-d): they add 0 times the lane that rotates in, nan if it is not finite.
    """
    whole = left + (right - left) // SCAN * SCAN
    is_low = abs(w) <= powers[-1]
    while left < whole and is_low:
        end = min(left + BLOCK, whole)
        if past_caches:
            w, is_low = _past_caches(t, result, w, left, end, powers)
        else:
            w, is_low = _into_caches(t, result, w, left, end, powers)
        left = end
    if left < right and is_low:
        w, is_low, _ = run_plain(s, t, result, w, left, right, powers[-1])
    return w, is_low, s > 0
