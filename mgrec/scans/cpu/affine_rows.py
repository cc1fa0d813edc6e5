"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here
the steps of a register or a tile are composed first, without the state, and one multiply-add
then carries the state across: 3 to 4 times (arrays) and 4 to 5 times (constant s) as fast.

Composing may overflow, underflow or round an infinity away where the loop does not. So a
block counts only if it is *safe*: the products of its coefficients are 0 or normal numbers,
and its results stay far below the largest number. The plain loop solves any other block. A row
that comes near overflow is solved again from its start by the plain loop, since rounding may decide
what the loop does. So rows have the loop's nan and inf.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.lanes import (
    CACHE_LINE,
    MIN_STREAMED_BYTES,
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
from ...engines.cpu.simd import no_extremes, none_above, none_below, update_extremes
from .affine_tiles import TILE, tiles_into_caches, tiles_past_caches
from .operands import parts_of, rows_of, value_at, values_at

# Steps that are checked, and redone, together.
BLOCK = 512

# Coefficients of a safe block are within 2**±range: products of eight are normal numbers.
# Its results are below max * 2**-(range + 1): no s·w overflows.
_RANGE = {"f": 15, "d": 120}


@cache
def safe_limits(dtype: np.dtype[Any]) -> np.ndarray:
    """Return (top, low, high, least, scale) of a safe block.

    Results are below top, and finite when multiplied by scale. Coefficients are 0 or from low
    to high, or they are below 2 and products of eight of them above least.
    """
    bits = _RANGE[dtype.char]
    top = float(np.finfo(dtype).max) * 2.0 ** -(bits + 1)
    least = float(np.finfo(dtype).tiny) * 2.0**8
    return np.array([top, 2.0**-bits, 2.0**bits, least, 2.0 ** (bits + 2)], dtype)


def is_constant_safe(s: np.ndarray, steps: int = SCAN) -> bool:
    """Return whether the powers of each row's constant up to `steps` are normal numbers."""
    high = 2.0 ** (_RANGE[s.dtype.char] * min(1.0, 2 * SCAN / steps))
    if s.size == 1:  # 0.3 µs instead of 2.5
        return 1 / high <= abs(s.item()) <= high
    size = np.abs(s)
    return bool(((size >= 1 / high) & (size <= high)).all())


@numba.njit(**INNER)
def fill_powers(s: Any, powers: Any) -> None:
    """Write s, s**2, ..., one for each lane, multiplied in float64."""
    power = 1.0
    for lane in range(powers.size):
        power *= s
        powers[lane] = power


@numba.njit(**INNER)
def plain(s: Any, t: Any, result: Any, w: Any) -> Any:
    """Solve by the sequential loop, which defines the result; return the last state."""
    for i in range(result.size):
        w = value_at(s, i) * w + t[i]
        result[i] = w
    return w


# Blocks are ranges of indices. A slice counts references with atomic instructions, which wait
# for all stores before them (0.2 ns a step), and so does a call that is not inlined.


@numba.njit(**INNER)
def run_plain(s: Any, t: Any, result: Any, w: Any, left: int, right: int, top: Any) -> Any:
    """Solve steps by the loop; return the state, and whether all are below top and all s > 0."""
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
    for index in range(left, right, SCAN):
        ends = update_extremes(ends, load(s, index))
    return none_below(ends, limits[1]) & none_above(ends, limits[2])


@numba.njit(**INNER)
def advance_arrays(
    s: Any, t: Any, result: Any, w: Any, left: int, right: int, limits: Any, past_caches: bool
) -> Any:
    """Solve steps with coefficient arrays.

    Return the state after them, whether all states are below top, and whether all coefficients
    are known to be positive.
    """
    whole = left + (right - left) // TILE * TILE
    is_low, is_positive = abs(w) <= limits[0], True
    while left < whole and is_low:
        stop = min(left + BLOCK, whole)
        if past_caches:
            after, is_normal, is_low, has_no_sign = tiles_past_caches(
                s, t, result, w, left, stop, limits
            )
        else:
            after, is_normal, is_low, has_no_sign = tiles_into_caches(
                s, t, result, w, left, stop, limits
            )
        is_positive &= is_normal & has_no_sign
        if not (is_normal or _is_in_range(s, left, stop, limits)):
            fence()
            after, is_low, _ = run_plain(s, t, result, w, left, stop, limits[0])
        is_low &= abs(after) <= limits[0]
        w, left = after, stop
    if left < right and is_low:
        w, is_low, has_no_sign = run_plain(s, t, result, w, left, right, limits[0])
        is_positive &= has_no_sign
    return w, is_low, is_positive


def _advance_registers(write: Any) -> Any:
    @numba.njit(**INNER)
    def advance(t: Any, result: Any, w: Any, left: int, right: int, powers: Any) -> Any:
        distance, state = load(powers, 0), splat(w)
        s1, s2, across = load(powers, SCAN), load(powers, 2 * SCAN), splat(powers[SCAN - 1])
        states = no_extremes(state)
        for index in range(left, right, SCAN):
            v = load(t, index)
            v = fma(s1, rotate(v, 1), v)
            v = fma(s2, rotate(v, 2), v)
            y = fma(distance, state, v)
            write(result, index, y)
            states = update_extremes(states, y)
            state = fma(across, state, splat_last(v))
        return last(state), none_above(states, powers[-1])

    return advance


_into_caches, _past_caches = _advance_registers(store), _advance_registers(stream)


@numba.njit(**INNER)
def advance_constant(
    s: Any, t: Any, result: Any, w: Any, left: int, right: int, powers: Any, past_caches: bool
) -> Any:
    """Solve steps of a safe constant s; return what :func:`advance_arrays` returns.

    Inside a register: v_i += s**d · v_(i-d) for d = 1, 2 (Kogge & Stone 1973). The first d
    lanes have no v_(i-d): they add 0 times the lane that rotates in, nan if it is not finite.
    """
    whole = left + (right - left) // SCAN * SCAN
    is_low = abs(w) <= powers[-1]
    while left < whole and is_low:
        stop = min(left + BLOCK, whole)
        if past_caches:
            w, is_low = _past_caches(t, result, w, left, stop, powers)
        else:
            w, is_low = _into_caches(t, result, w, left, stop, powers)
        left = stop
    if left < right and is_low:
        w, is_low, _ = run_plain(s, t, result, w, left, right, powers[-1])
    return w, is_low, s > 0


# Rows of LONG steps begin with HEAD bytes of the plain loop. Large arrays start 16 bytes into a
# page, so that the tiles then start at a cache line. The first tile is the same at any address of
# the array, since the last bits of the results depend on it.
LONG, HEAD = 2 * BLOCK, 48


def _along_row(advance_steps: Any) -> Any:
    @numba.njit(**INNER)
    def advance(s: Any, t: Any, result: Any, initial: Any, setting: Any, is_large: bool) -> bool:
        w, first, past_caches, has_no_sign = initial, np.int64(0), False, True
        if result.size >= LONG:
            first = HEAD // result.itemsize
            w, _, has_no_sign = run_plain(s, t, result, initial, np.int64(0), first, initial)
            past_caches = is_large and (result.ctypes.data + HEAD) % CACHE_LINE == 0
        _, is_low, is_positive = advance_steps(
            s, t, result, w, first, result.size, setting, past_caches
        )
        if not is_low:
            fence()
            plain(s, t, result, initial)
        return is_low and is_positive and has_no_sign

    return advance


_advance_row = _along_row(advance_arrays)
_advance_constant_row = _along_row(advance_constant)


def _determine_constant(operands: Any, carry_in: Any, result: Any, limits: Any) -> None:
    powers = np.zeros(3 * SCAN + 1, result.dtype)
    is_large = result.size * result.itemsize >= MIN_STREAMED_BYTES
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers[:SCAN])
        powers[SCAN + 1 : 2 * SCAN] = powers[0]
        powers[2 * SCAN + 2 : 3 * SCAN] = powers[1]
        powers[3 * SCAN] = limits[0]
        _advance_constant_row(s, t, result[row], carry_in[row], powers, is_large)
    fence()


def _determine_arrays(operands: Any, carry_in: Any, result: Any, limits: Any) -> bool:
    """Determine rows; return whether all coefficients are known to be positive."""
    is_large, is_positive = result.size * result.itemsize >= MIN_STREAMED_BYTES, True
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        is_positive &= _advance_row(s, t, result[row], carry_in[row], limits, is_large)
    fence()
    return is_positive


determine_constant = compile_kernel(_determine_constant)
determine_arrays = compile_kernel(_determine_arrays)


def fill_block(lift: Any) -> Any:
    """Return a function that writes s and t of a block in the order of the recurrence.

    Each operand is sliced first: indices from 0 vectorise. Reversed rows are read downwards
    throughout, for the prefetcher: a step of float32 takes 1.0 ns, and took 1.8 when the steps
    of a block were read upwards.
    """

    @numba.njit(**INNER)
    def fill(part: Any, s: Any, t: Any, size: int, reverse: bool) -> None:
        if reverse:
            for i in range(size):
                s[i], t[i] = lift(*values_at(part, size - 1 - i))
        else:
            for i in range(size):
                s[i], t[i] = lift(*values_at(part, i))

    return fill


def determine_filled(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    """Build the kernel for coefficients computed on the fly, and for reversed rows.

    Each block's s and t are first written to buffers that stay in the L1 cache.
    """
    fill = fill_block(lift)

    @numba.njit(**INNER)
    def advance(
        operand: Any, target: Any, w: Any, limits: Any, reverse: bool, is_tiled: bool
    ) -> bool:
        s = np.empty(BLOCK, target.dtype)
        t, y = np.empty_like(s), np.empty_like(s)
        for left in range(0, target.size, BLOCK):
            size = min(BLOCK, target.size - left)
            first = target.size - left - size if reverse else left
            fill(parts_of(operand, first, first + size), s, t, size, reverse)
            if is_tiled:
                w, is_low, _ = advance_arrays(
                    s, t, y, w, np.int64(0), size, limits, np.bool_(False)
                )
                if not is_low:
                    return False
            else:
                w = plain(s[:size], t[:size], y[:size], w)
            # Slice assignments take 2 s to compile, for their messages about shapes. Signed
            # indices do not vectorise (see value_at): 0.4 ns a step.
            if reverse:
                for i in range(size):
                    target[np.uint64(first + size - 1 - i)] = y[i]
            else:
                for i in range(size):
                    target[np.uint64(first + i)] = y[i]
        return True

    def determine(operands: Any, carry_in: Any, result: Any, limits: Any, reverse: bool) -> None:
        for row in range(result.shape[0]):
            operand, target = rows_of(operands, row), result[row]
            # numba would compile `advance` for the types of the constants True and False.
            for is_tiled in (True, False):
                if advance(operand, target, carry_in[row], limits, reverse, is_tiled):
                    break

    return determine
