"""Summaries of rows and columns of w = s·w + t in floating point.

A row goes block by block. A block is *safe* (:mod:`mgrec.scans.summaries`) if its products are 0 or
normal numbers, none can exceed the largest so far, and its offsets stay far from overflow: then
groups of steps are composed. Any other block is tracked step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.lanes import SCAN, fma, load, load_64_bytes, splat, store
from ...engines.cpu.simd import no_extremes, none_above, none_below, update_extremes
from ...engines.cpu.stack import stack_empty
from ..summaries import FINE, NAN, REDO, SAFE_BLOCK, SAFE_GROWTH, SAFE_HIGH, SAFE_LOW, SAFE_TERM, margins
from .affine_rows import fill_block, fill_powers
from .operands import cells_at, compiled_only, parts_of, rows_of, value_at

BLOCK = SAFE_BLOCK
FOLD = 4 * SCAN
# The running product stays within these; products of 16 coefficients of 2**±30 fit on top.
SMALL, LARGE, SHIFT = 2.0**-500, 2.0**500, 500
_REBOUND_32, _REBOUND_64 = (2.0 ** margins(np.dtype(char)).rebound for char in "fd")


@cache
def limits(dtype: np.dtype[Any]) -> np.ndarray:
    """Return the limits of offsets, and of t and of coefficients of a safe block."""
    top = margins(dtype).offset_on_cpu
    return np.array([top, top * SAFE_TERM, SAFE_LOW], np.finfo(dtype).dtype)


@compiled_only
def magnitude(x: Any) -> Any:
    if isinstance(x, types.Complex):
        return lambda x: max(abs(x.real), abs(x.imag))
    return lambda x: abs(x)


@numba.njit(**INNER)
def scaled_log2(x: Any) -> Any:
    return math.log2(x) if x > 0 else -math.inf


@numba.njit(**INNER)
def most_rebound(bounds: Any) -> Any:
    return _REBOUND_32 if bounds.itemsize == 4 else _REBOUND_64


@numba.njit(**INNER)
def track(s: Any, t: Any, steps: int, carry: Any, bounds: Any) -> Any:
    """Summarise steps one by one. carry = (product, exponent, offset, growth, rebound, flag).

    rebound is the largest product of any number of last coefficients: a state that underflowed
    stays 0 in the loop, and must not return through the product.
    """
    product, exponent, offset, growth, rebound, flag = carry
    top, most = bounds[0], most_rebound(bounds)
    largest = 0.0
    for i in range(steps):
        a, x = value_at(s, i), value_at(t, i)
        size = float(magnitude(a))
        if size > LARGE or (size < SMALL and size > 0):
            unit, shift = math.frexp(size)
            growth = max(growth, scaled_log2(largest) + exponent)
            largest = 0.0
            if math.isfinite(size):
                a = a * (unit / size) if size > 1e-300 else a * 2.0**1000 * 2.0 ** (-shift - 1000)
                exponent += shift
        rebound = max(rebound * float(magnitude(value_at(s, i))), 1.0)
        product = product * a
        size = float(magnitude(product))
        largest = max(largest, size)
        if size > LARGE or (size < SMALL and size > 0):
            growth = max(growth, scaled_log2(largest) + exponent)
            largest = 0.0
            factor = 2.0**-SHIFT if size > LARGE else 2.0**SHIFT
            product *= factor
            exponent += SHIFT if size > LARGE else -SHIFT
        offset = value_at(s, i) * offset + x
        if not (magnitude(offset) <= top and rebound <= most):
            flag = REDO if flag == FINE else flag
        if value_at(s, i) != value_at(s, i) or x != x:
            flag = NAN
            break
    growth = max(growth, scaled_log2(largest) + exponent)
    return product, exponent, offset, growth, rebound, flag


@numba.njit(**INNER)
def _is_safe(s: Any, t: Any, carry: Any, bounds: Any) -> Any:
    product, exponent, offset, growth, rebound, _ = carry
    coefficients, terms = no_extremes(load_64_bytes(s, 0)), no_extremes(load_64_bytes(t, 0))
    for index in range(0, BLOCK, 64 // t.itemsize):
        coefficients = update_extremes(coefficients, load_64_bytes(s, index))
        terms = update_extremes(terms, load_64_bytes(t, index))
    is_inside = none_below(coefficients, bounds[2]) & none_above(terms, bounds[1])
    if not is_inside or not abs(offset) <= bounds[1]:
        return False
    if none_above(coefficients, t.dtype.type(1)):
        return True
    if not none_above(coefficients, t.dtype.type(SAFE_HIGH)):
        return False
    if rebound * 2.0**SAFE_GROWTH > most_rebound(bounds):
        return False
    return scaled_log2(abs(product)) + exponent + SAFE_GROWTH <= growth


@numba.njit(fastmath={"contract"}, **INNER)
def _compose(s: Any, t: Any, product: Any, exponent: Any, offset: Any) -> Any:
    # The product is scaled after each slab of 16 steps: a test after each group of 4 took 1 ns
    # a step.
    alone = 1.0
    for slab in range(t.size // 16):
        within = 1.0
        for group in range(4 * slab, 4 * slab + 4):
            a = s[4 * group : 4 * group + 4]
            x = t[4 * group : 4 * group + 4]
            upper = a[3] * a[2]
            whole = upper * (a[1] * a[0])
            later = upper * (a[1] * x[0] + x[1]) + (a[3] * x[2] + x[3])
            offset = whole * offset + later
            within *= whole
        alone *= within
        product *= within
        if abs(product) < SMALL and product != 0:
            product *= 2.0**SHIFT
            exponent -= SHIFT
    return product, exponent, offset, abs(alone)


@numba.njit(**INNER)
def summarise_block(s: Any, t: Any, carry: Any, bounds: Any) -> Any:
    """Return the carry after one more block of coefficient arrays of a real dtype."""
    if t.size == BLOCK and _is_safe(s, t, carry, bounds):
        product, exponent, offset, alone = _compose(s, t, carry[0], carry[1], carry[2])
        # Products of the block's last coefficients are at most 2**SAFE_GROWTH.
        rebound = max(carry[4] * alone, 2.0**SAFE_GROWTH)
        return product, exponent, offset, carry[3], rebound, carry[5]
    return track(s, t, t.size, carry, bounds)


@compiled_only
def _summarise(s: Any, t: Any, carry: Any, bounds: Any) -> Any:
    if isinstance(t.dtype, types.Complex):
        return lambda s, t, carry, bounds: track(s, t, t.size, carry, bounds)
    return lambda s, t, carry, bounds: summarise_block(s, t, carry, bounds)


@numba.njit(**INNER)
def _power(base: Any, count: int) -> Any:
    """Return base**count as (product, exponent), by scaled squaring."""
    product, exponent = 1.0, 0
    factor, shift = math.frexp(base)
    while count > 0:
        if count & 1:
            product, more = math.frexp(product * factor)
            exponent += more + shift
        factor, more = math.frexp(factor * factor)
        shift = 2 * shift + more
        count >>= 1
    return product, exponent


@numba.njit(**INNER)
def _fold(t: Any, powers: Any, top: Any) -> Any:
    """Return the offset of a constant s, and whether all t are below top.

    The number of steps is a multiple of FOLD; each of FOLD lanes folds steps FOLD apart.
    """
    across = splat(powers[FOLD - 1])
    a = b = c = d = splat(t.dtype.type(0))
    terms = no_extremes(a)
    for index in range(0, t.size, FOLD):
        w, x = load(t, index), load(t, index + SCAN)
        y, z = load(t, index + 2 * SCAN), load(t, index + 3 * SCAN)
        a, b = fma(across, a, w), fma(across, b, x)
        c, d = fma(across, c, y), fma(across, d, z)
        terms = update_extremes(update_extremes(update_extremes(update_extremes(terms, w), x), y), z)
    folded = stack_empty(FOLD, t.dtype)
    store(folded, 0, a)
    store(folded, SCAN, b)
    store(folded, 2 * SCAN, c)
    store(folded, 3 * SCAN, d)
    offset = folded[FOLD - 1]
    for lane in range(FOLD - 1):
        offset += powers[FOLD - 2 - lane] * folded[lane]
    return offset, none_above(terms, top)


@numba.njit(**INNER)
def summarise_constant(s: Any, t: Any, start: Any, powers: Any, bounds: Any) -> Any:
    """Summarise a row of a constant s, |s| <= 1, whose powers up to FOLD are normal numbers."""
    full = t.size // FOLD * FOLD
    offset, is_low = _fold(t[:full], powers, bounds[1])
    if not is_low:
        return track(s, t, t.size, start, bounds)
    carry = (start[0], start[1], offset, start[3], start[4], start[5])
    tail = t[full:]
    _, _, offset, _, _, flag = track(s, tail, tail.size, carry, bounds)
    product, exponent = _power(float(s), t.size)
    return product, exponent, offset, 0.0, 1.0, flag


@numba.njit(**INNER)
def rescale(product: Any, exponent: Any, growth: Any, largest: Any) -> None:
    """Rescale the products of columns, update their growth, and reset `largest`."""
    for j in range(product.size):
        size = magnitude(product[j])
        if largest[j] > 1 or exponent[j] != 0:
            growth[j] = max(growth[j], scaled_log2(largest[j]) + exponent[j])
        largest[j] = 0
        if size > LARGE:
            product[j] *= 2.0**-SHIFT
            exponent[j] += SHIFT
        elif size < SMALL and size > 0:
            product[j] *= 2.0**SHIFT
            exponent[j] -= SHIFT


# Products are rescaled every SLAB steps: 16 coefficients within 2**±30 multiply them by at most
# 2**±480, which a float64 between SMALL and LARGE survives.
SLAB, HIGH = 16, 2.0**30
# Columns side by side: their products, offsets and flags stay in the L2 cache.
COLUMNS = 4096


@numba.njit(**INNER)
def _carry_of_no_steps(summary: Any) -> Any:
    # numba would also compile functions for the types of the constants 0 and FINE.
    product, offset = summary[0], summary[2]
    zero, fine = np.int64(0), np.int64(FINE)
    return product.dtype.type(1), zero, offset.dtype.type(0), 0.0, 1.0, fine


@numba.njit(**INNER)
def _write(summary: Any, index: Any, carry: Any) -> None:
    product, exponent, offset, growth, flag = summary
    product[index], exponent[index], offset[index] = carry[:3]
    growth[index], flag[index] = carry[3], carry[5]


def _precompute_constant(operands: Any, summary: Any, bounds: Any) -> None:
    offset = summary[2]
    powers = stack_empty(FOLD, offset.dtype)
    start = _carry_of_no_steps(summary)
    for row in range(offset.shape[0]):
        s, t = rows_of(operands, row)
        fill_powers(s, powers)
        _write(summary, row, summarise_constant(s, t, start, powers, bounds))


def _precompute_arrays(operands: Any, summary: Any, bounds: Any) -> None:
    offset = summary[2]
    for row in range(offset.shape[0]):
        s, t = rows_of(operands, row)
        carry = _carry_of_no_steps(summary)
        for left in range(0, t.size, BLOCK):
            right = min(left + BLOCK, t.size)
            carry = summarise_block(s[left:right], t[left:right], carry, bounds)
        _write(summary, row, carry)


precompute_constant = compile_kernel(_precompute_constant)
precompute_arrays = compile_kernel(_precompute_arrays)


def precompute_filled(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    """Build the kernel for coefficients on the fly, reversed rows, and complex numbers."""
    fill = fill_block(lift)

    def precompute(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        offset = summary[2]
        s, t = np.empty(BLOCK, offset.dtype), np.empty(BLOCK, offset.dtype)
        for row in range(offset.shape[0]):
            operand = rows_of(operands, row)
            carry = _carry_of_no_steps(summary)
            for left in range(0, steps, BLOCK):
                size = min(BLOCK, steps - left)
                first = steps - left - size if reverse else left
                fill(parts_of(operand, first, first + size), s, t, size, reverse)
                carry = _summarise(s[:size], t[:size], carry, bounds)
            _write(summary, row, carry)

    return precompute


def precompute_columns(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    """Build the kernel for rows along the slow axis: all columns of a step side by side.

    The summary must be that of no steps. The kernel only flags a column whose coefficients or
    offsets leave the safe range; :func:`retrack_columns` summarises it step by step.
    """

    def precompute(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        product, exponent, offset, growth, flag = summary
        largest, rebound, low, high = np.empty(COLUMNS), np.empty(COLUMNS), 1 / HIGH, HIGH
        most = most_rebound(bounds)
        for row in range(offset.shape[0]):
            for left in range(0, offset.shape[1], COLUMNS):
                right = min(left + COLUMNS, offset.shape[1])
                p, e, b = (product[row, left:right], exponent[row, left:right], offset[row, left:right])
                g, f = growth[row, left:right], flag[row, left:right]
                top, back = largest[: right - left], rebound[: right - left]
                for j in range(right - left):
                    top[j], back[j] = 0.0, 1.0
                for step in range(steps):
                    index = steps - 1 - step if reverse else step
                    for j in range(right - left):
                        s, t = lift(*cells_at(operands, row, index, left + j))
                        size = magnitude(s)
                        p[j] *= s
                        b[j] = s * b[j] + t
                        top[j] = max(top[j], magnitude(p[j]))
                        back[j] = max(back[j] * size, 1.0)
                        safe = (size == 0) | ((size >= low) & (size <= high))
                        f[j] |= not (safe & (magnitude(b[j]) <= bounds[0]) & (back[j] <= most))
                    if step % SLAB == SLAB - 1 or step == steps - 1:
                        rescale(p, e, g, top)

    return precompute


def retrack_columns(lift: Any, compose: Any, apply: Any) -> Callable[..., None]:
    """Build the kernel that summarises the flagged columns step by step."""

    def retrack(operands: Any, steps: int, summary: Any, bounds: Any, reverse: bool) -> None:
        offset, flag = summary[2], summary[4]
        s, t = np.empty(BLOCK, offset.dtype), np.empty(BLOCK, offset.dtype)
        for row in range(offset.shape[0]):
            for j in range(offset.shape[1]):
                if flag[row, j] == FINE:
                    continue
                carry = _carry_of_no_steps(summary)
                for left in range(0, steps, BLOCK):
                    size = min(BLOCK, steps - left)
                    for i in range(size):
                        index = steps - 1 - left - i if reverse else left + i
                        s[i], t[i] = lift(*cells_at(operands, row, index, j))
                    carry = track(s, t, size, carry, bounds)
                _write(summary, (row, j), carry)

    return retrack
