"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here
the steps of a register or a tile are composed first, without the state, and one multiply-add
then carries the state across: 3 to 4 times (arrays) and 4 to 5 times (constant s) as fast.

Composing may overflow, underflow or round an infinity away where the loop does not. So a
block counts only if it is *safe*: the products of its coefficients are 0 or normal numbers,
and its results stay far below the largest number. A block of other coefficients is done again
by the plain loop. A row that comes near overflow is done again from its start, since rounding
may then decide what the loop does. Hence a row has the loop's nan and inf.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import CACHE_SIZE, INNER, compile_kernel
from ....engines.cpu.simd.lanes import CACHE_LINE, MIN_STREAMED_BYTES, SCAN, fence
from ..tuples import parts_of, rows_of, values_at
from .blocks import BLOCK, advance_arrays, advance_constant, fill_powers, plain, run_plain

# Rows of LONG steps begin with HEAD bytes of the plain loop. Large arrays start 16 bytes into a
# page, so that the tiles then start at a line of memory. They start at the same step wherever the
# array lies, since the last bits of the results depend on it.
LONG, HEAD = 2 * BLOCK, 48


def _along_row(advance_steps: Any) -> Any:
    @numba.njit(**INNER)
    def advance(s: Any, t: Any, result: Any, initial: Any, setting: Any, is_large: bool) -> bool:
        w, first, past_caches, has_no_sign = initial, 0, False, True
        if result.size >= LONG:
            first = HEAD // result.itemsize
            w, _, has_no_sign = run_plain(s, t, result, initial, 0, first, initial)
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
    """Returns whether all coefficients are known to be positive."""
    is_large, is_positive = result.size * result.itemsize >= MIN_STREAMED_BYTES, True
    for row in range(result.shape[0]):
        s, t = rows_of(operands, row)
        is_positive &= _advance_row(s, t, result[row], carry_in[row], limits, is_large)
    fence()
    return is_positive


determine_constant = compile_kernel(_determine_constant)
determine_arrays = compile_kernel(_determine_arrays)


def fill_block(lift: Any) -> Any:
    """A function that writes s and t of a block in the order of the recurrence.

    Each operand is sliced first: indices from 0 vectorise. Reversed rows are read downwards
    throughout, as memory is prefetched: a step of float32 takes 1.0 ns so, and took 1.8 where
    the steps of a block were read upwards.
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


@lru_cache(maxsize=CACHE_SIZE)
def determine_filled(lift: Any, *key: str) -> Any:
    """The kernel for coefficients computed on the fly, and for reversed rows.

    Each block's s and t are first written to buffers that stay in the L1 cache.
    """
    fill = fill_block(lift)

    @numba.njit(**INNER)
    def advance(operand: Any, target: Any, w: Any, limits: Any, reverse: bool, tiled: bool) -> bool:
        s = np.empty(BLOCK, target.dtype)
        t, y = np.empty_like(s), np.empty_like(s)
        for left in range(0, target.size, BLOCK):
            size = min(BLOCK, target.size - left)
            first = target.size - left - size if reverse else left
            fill(parts_of(operand, first, first + size), s, t, size, reverse)
            if tiled:
                w, is_low, _ = advance_arrays(s, t, y, w, 0, size, limits, False)
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
            if not advance(operand, target, carry_in[row], limits, reverse, True):
                advance(operand, target, carry_in[row], limits, reverse, False)

    return compile_kernel(determine, *key)
