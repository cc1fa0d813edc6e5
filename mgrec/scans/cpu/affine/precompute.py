"""The kernels that summarise rows and columns of w = s·w + t."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import CACHE_SIZE, INNER, compile_kernel
from ...affine import FINE
from ..tuples import cells_at, parts_of, rows_of
from .blocks import fill_powers
from .rows import fill_block
from .summary import (
    BLOCK,
    FOLD,
    magnitude,
    most_rebound,
    rescale,
    summarise_block,
    summarise_constant,
    track,
)

# Products are rescaled every SLAB steps: 16 coefficients within 2**±30 multiply them by at most
# 2**±480, which a float64 between SMALL and LARGE survives.
SLAB, HIGH = 16, 2.0**30
# Columns side by side: their products, offsets and flags stay in the L2 cache.
COLUMNS = 4096


@numba.njit(**INNER)
def _write(summary: Any, at: Any, carry: Any) -> None:
    product, exponent, offset, growth, flag = summary
    product[at], exponent[at], offset[at] = carry[:3]
    growth[at], flag[at] = carry[3], carry[5]


def _precompute_constant(operands: Any, summary: Any, bounds: Any) -> None:
    offset = summary[2]
    powers = np.empty(FOLD, offset.dtype)
    start = (1.0, 0, offset.dtype.type(0), 0.0, 1.0, FINE)
    for row in range(offset.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers)
        _write(summary, row, summarise_constant(s, t, start, powers, bounds))


def _precompute_arrays(operands: Any, summary: Any, bounds: Any) -> None:
    offset = summary[2]
    for row in range(offset.shape[0]):
        s, t = rows_of(operands, row)
        carry = (1.0, 0, offset.dtype.type(0), 0.0, 1.0, FINE)
        for left in range(0, t.size, BLOCK):
            right = min(left + BLOCK, t.size)
            carry = summarise_block(s[left:right], t[left:right], carry, bounds)
        _write(summary, row, carry)


precompute_constant = compile_kernel(_precompute_constant)
precompute_arrays = compile_kernel(_precompute_arrays)


@lru_cache(maxsize=CACHE_SIZE)
def precompute_filled(lift: Any, is_real: bool, *key: str) -> Any:
    """The kernel for coefficients on the fly, reversed rows, and complex numbers."""
    fill = fill_block(lift)

    def precompute(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        product, offset = summary[0], summary[2]
        s, t = np.empty(BLOCK, offset.dtype), np.empty(BLOCK, offset.dtype)
        for row in range(offset.shape[0]):
            operand = rows_of(operands, row)
            carry = (product.dtype.type(1), 0, offset.dtype.type(0), 0.0, 1.0, FINE)
            for left in range(0, steps, BLOCK):
                size = min(BLOCK, steps - left)
                first = steps - left - size if reverse else left
                fill(parts_of(operand, first, first + size), s, t, size, reverse)
                if is_real:
                    carry = summarise_block(s[:size], t[:size], carry, bounds)
                else:
                    carry = track(s, t, size, carry, bounds)
            _write(summary, row, carry)

    return compile_kernel(precompute, *key, repr(is_real))


@lru_cache(maxsize=CACHE_SIZE)
def precompute_columns(lift: Any, *key: str) -> Any:
    """The kernel for rows along the slow axis: all columns of a step side by side.

    A column whose coefficients or offsets leave the safe range is only flagged; `retrack`
    summarises it again, step by step.
    """

    def precompute(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        product, exponent, offset, growth, flag = summary
        largest, rebound, low, high = np.empty(COLUMNS), np.empty(COLUMNS), 1 / HIGH, HIGH
        most = most_rebound(bounds)
        product[:], exponent[:], offset[:], growth[:], flag[:] = 1, 0, 0, 0, FINE
        for row in range(offset.shape[0]):
            for left in range(0, offset.shape[1], COLUMNS):
                right = min(left + COLUMNS, offset.shape[1])
                p, e, b = (
                    product[row, left:right],
                    exponent[row, left:right],
                    offset[row, left:right],
                )
                g, f = growth[row, left:right], flag[row, left:right]
                top, back = largest[: right - left], rebound[: right - left]
                top[:], back[:] = 0, 1
                for step in range(steps):
                    at = steps - 1 - step if reverse else step
                    for j in range(right - left):
                        s, t = lift(*cells_at(operands, row, at, left + j))
                        size = magnitude(s)
                        p[j] *= s
                        b[j] = s * b[j] + t
                        top[j] = max(top[j], magnitude(p[j]))
                        back[j] = max(back[j] * size, 1.0)
                        safe = (size == 0) | ((size >= low) & (size <= high))
                        f[j] |= not (safe & (magnitude(b[j]) <= bounds[0]) & (back[j] <= most))
                    if step % SLAB == SLAB - 1 or step == steps - 1:
                        rescale(p, e, g, top)

    return compile_kernel(precompute, *key)


@lru_cache(maxsize=CACHE_SIZE)
def retrack_columns(lift: Any, *key: str) -> Any:
    """The kernel that summarises the flagged columns step by step."""

    def retrack(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        product, _, offset, _, flag = summary
        s, t = np.empty(BLOCK, offset.dtype), np.empty(BLOCK, offset.dtype)
        for row in range(offset.shape[0]):
            for j in range(offset.shape[1]):
                if flag[row, j] == FINE:
                    continue
                carry = (product.dtype.type(1), 0, offset.dtype.type(0), 0.0, 1.0, FINE)
                for left in range(0, steps, BLOCK):
                    size = min(BLOCK, steps - left)
                    for i in range(size):
                        at = steps - 1 - left - i if reverse else left + i
                        s[i], t[i] = lift(*cells_at(operands, row, at, j))
                    carry = track(s, t, size, carry, bounds)
                _write(summary, (row, j), carry)

    return compile_kernel(retrack, *key)
