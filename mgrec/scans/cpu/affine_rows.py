"""w = s·w + t along contiguous rows, several steps ahead of the state.

A plain loop waits for a multiplication and an addition at every step (6 to 8 cycles). Here the
steps of a register or a tile are composed first, without the state, and one multiply-add then
carries the state across: 3 to 4 times (arrays) and 4 to 5 times (constant s) as fast.

Composing may overflow, underflow or round an infinity away where the loop does not. So a block
counts only if it is *safe*: the products of its coefficients are 0 or normal numbers, and its
results stay far below the largest number. The plain loop solves any other block. A row that comes
near overflow is solved again from its start by the plain loop, since rounding may decide what the
loop does. So rows have the loop's nan and inf.

Tiles of rows with coefficient arrays have 16 steps, composed in registers. Upwards, steps are
composed to pairs, fours and eights. One multiply-add then carries the state across eight steps.
Downwards, the carry-in of each eight gives those of its fours, pairs and steps. Shuffles stay
within 128 bits where they can (one cycle instead of three).

A scan over all lanes (Kogge & Stone 1973) took 1.6 times as long: it shifts registers four times
for every eight steps. Tiles of 8 lanes were no faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from ...engines.cpu.compilation import INNER, compile_kernel
from ...engines.cpu.lanes import (
    CACHE_LINE,
    MIN_STREAMED_BYTES,
    SCAN,
    Lanes,
    fence,
    fma,
    last,
    load,
    multiply,
    rotate,
    shuffle_mask,
    splat,
    splat_last,
    store,
    stream,
)
from ...engines.cpu.scalars import smaller_of
from ...engines.cpu.simd import (
    all_above,
    all_below_two,
    all_finite,
    no_bits,
    no_extremes,
    none_above,
    none_below,
    none_negative,
    or_bits,
    plus,
    update_extremes,
    update_least,
)
from ...engines.cpu.stack import stack_zeros
from .operands import parts_of, rows_of, value_at, values_at

_I32 = ir.IntType(32)
TILE = 4 * SCAN

_NATURAL = [0, 2, 4, 6], [1, 3, 5, 7]
_NATURAL_BACK = [0, 4, 1, 5], [2, 6, 3, 7]
_WITHIN = [0, 4, 2, 6], [1, 5, 3, 7]
_ACROSS = [0, 1, 4, 5], [2, 3, 6, 7]


def _shuffle(by_bits: dict[int, tuple[list[int], list[int]]]) -> Any:
    """Return an intrinsic that shuffles two registers to two; the lanes depend on the dtype."""

    @intrinsic
    def shuffle(_: Any, lower: Any, upper: Any) -> Any:
        masks = [shuffle_mask(order) for order in by_bits[lower.dtype.bitwidth]]

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            shuffled = [builder.shuffle_vector(*values, mask) for mask in masks]
            return context.make_tuple(builder, signature.return_type, shuffled)

        return types.UniTuple(lower, 2)(lower, upper), code

    return shuffle


# (earlier, later) of each two steps, then of each two pairs, and the inverses. In float64 the
# pairs lie in the lanes 0 2 1 3, since nothing then crosses 128 bits.
split_steps = _shuffle({64: _WITHIN, 32: _NATURAL})
merge_steps = _shuffle({64: _WITHIN, 32: _NATURAL_BACK})
split_pairs = _shuffle({64: _ACROSS, 32: _NATURAL})
merge_pairs = _shuffle({64: _ACROSS, 32: _NATURAL_BACK})


def _select(order: list[int]) -> Any:
    @intrinsic
    def select(_: Any, first: Any, second: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.shuffle_vector(*values, shuffle_mask(order))

        return first(first, second), code

    return select


# Move each even lane to the odd lane after it, and fill even lanes from the first register; and
# interleave the odd lanes of two registers.
_to_odd_lanes, _odd_lanes = map(_select, _WITHIN)


@intrinsic(prefer_literal=True)
def _lane(_: Any, lanes: Any, number: Any) -> Any:
    if not isinstance(number, types.IntegerLiteral):
        raise RequireLiteralValue("number")
    at = ir.Constant(_I32, number.literal_value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.extract_element(values[0], at)

    return lanes.dtype(lanes, number), code


@intrinsic
def _twice_each(_: Any, first: Any, second: Any) -> Any:
    """Return the lanes `first`, `first`, `second`, `second`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        empty = ir.Constant(ir.VectorType(values[0].type, 2), ir.Undefined)
        low, high = (builder.insert_element(empty, value, ir.Constant(_I32, 0)) for value in values)
        return builder.shuffle_vector(low, high, shuffle_mask([0, 0, 2, 2]))

    return Lanes(first, 4)(first, second), code


@numba.njit(**INNER)
def _compose(s: Any, t: Any, at: int, bits: Any, smallest: Any) -> Any:
    """Return the maps of a tile's steps and of runs of them, and updated `bits` and `smallest`."""
    one, zero = splat(s.dtype.type(1)), splat(s.dtype.type(0))
    i, j, k, m = load(s, at), load(s, at + SCAN), load(s, at + 2 * SCAN), load(s, at + 3 * SCAN)
    bits = or_bits(or_bits(or_bits(or_bits(bits, i), j), k), m)
    a, b = split_steps(i, j)
    c, d = split_steps(k, m)
    x, y = split_steps(load(t, at), load(t, at + SCAN))
    z, u = split_steps(load(t, at + 2 * SCAN), load(t, at + 3 * SCAN))
    p, q = split_pairs(multiply(b, a), multiply(d, c))
    v, r = split_pairs(fma(b, x, y), fma(d, z, u))
    fours, offsets = multiply(q, p), fma(q, v, r)
    before, start = _to_odd_lanes(one, fours), _to_odd_lanes(zero, offsets)
    eights, ends = multiply(fours, before), fma(fours, start, offsets)
    smallest = update_least(smallest, eights)
    tile = (a, b, c, d, x, y, z, u), (p, v), (before, start), _odd_lanes(eights, ends)
    return tile, bits, smallest


@numba.njit(**INNER)
def _apply(tile: Any, w: Any, sums: Any, scale: Any) -> Any:
    """Return the state after a tile, its results, and the sums of all results times `scale`."""
    (a, b, c, d, x, y, z, u), (p, v), (before, start), eights = tile
    middle = fma(_lane(eights, 0), w, _lane(eights, 1))
    carry_in = fma(before, _twice_each(w, middle), start)
    w = fma(_lane(eights, 2), middle, _lane(eights, 3))
    carry_in, later = merge_pairs(carry_in, fma(p, carry_in, v))
    x, z = fma(a, carry_in, x), fma(c, later, z)
    y, u = fma(b, x, y), fma(d, z, u)
    sums = fma(z, scale, fma(x, scale, sums[0])), fma(u, scale, fma(y, scale, sums[1]))
    return w, merge_steps(x, y), merge_steps(z, u), sums


def _advance_tiles(write_register: Any) -> Any:
    """Return a function that solves whole tiles.

    It returns the state after them, whether products are normal, whether results are finite, and
    whether no coefficient is negative.

    A tile is composed while the one before it is applied. One after the other, or with a
    branch between them, they take 1.2 times as long.

    Products: with coefficients below 2 and products of eight above `limits[3]`, no product of
    fewer underflows. Results: a sum that was once inf or nan stays so.
    """

    @numba.njit(**INNER)
    def write(result: Any, at: int, lower: Any, upper: Any) -> None:
        write_register(result, at, lower[0])
        write_register(result, at + SCAN, lower[1])
        write_register(result, at + 2 * SCAN, upper[0])
        write_register(result, at + 3 * SCAN, upper[1])

    @numba.njit(**INNER)
    def advance(s: Any, t: Any, result: Any, w: Any, left: int, right: int, limits: Any) -> Any:
        one, zero, scale = splat(s.dtype.type(1)), splat(s.dtype.type(0)), splat(limits[4])
        bits, smallest, sums = no_bits(scale), one, (zero, zero)
        tile, bits, smallest = _compose(s, t, left, bits, smallest)
        for at in range(left + TILE, right, TILE):
            later, bits, smallest = _compose(s, t, at, bits, smallest)
            w, lower, upper, sums = _apply(tile, w, sums, scale)
            write(result, at - TILE, lower, upper)
            tile = later
        w, lower, upper, sums = _apply(tile, w, sums, scale)
        write(result, right - TILE, lower, upper)
        is_normal = all_below_two(bits) & all_above(smallest, limits[3])
        return w, is_normal, all_finite(plus(sums[0], sums[1])), none_negative(bits)

    return advance


tiles_into_caches, tiles_past_caches = _advance_tiles(store), _advance_tiles(stream)


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
def solve_plain(s: Any, t: Any, result: Any, w: Any, left: int, right: int, top: Any) -> Any:
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
        stop = smaller_of(left + BLOCK, whole)
        if past_caches:
            after, is_normal, is_low, has_no_sign = tiles_past_caches(s, t, result, w, left, stop, limits)
        else:
            after, is_normal, is_low, has_no_sign = tiles_into_caches(s, t, result, w, left, stop, limits)
        is_positive &= is_normal & has_no_sign
        if not (is_normal or _is_in_range(s, left, stop, limits)):
            fence()
            after, is_low, _ = solve_plain(s, t, result, w, left, stop, limits[0])
        is_low &= abs(after) <= limits[0]
        w, left = after, stop
    if left < right and is_low:
        w, is_low, has_no_sign = solve_plain(s, t, result, w, left, right, limits[0])
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
        stop = smaller_of(left + BLOCK, whole)
        if past_caches:
            w, is_low = _past_caches(t, result, w, left, stop, powers)
        else:
            w, is_low = _into_caches(t, result, w, left, stop, powers)
        left = stop
    if left < right and is_low:
        w, is_low, _ = solve_plain(s, t, result, w, left, right, powers[-1])
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
            w, _, has_no_sign = solve_plain(s, t, result, initial, np.int64(0), first, initial)
            past_caches = is_large and (result.ctypes.data + HEAD) % CACHE_LINE == 0
        _, is_low, is_positive = advance_steps(s, t, result, w, first, result.size, setting, past_caches)
        if not is_low:
            fence()
            plain(s, t, result, initial)
        return is_low and is_positive and has_no_sign

    return advance


_advance_row = _along_row(advance_arrays)
_advance_constant_row = _along_row(advance_constant)


def _determine_constant(operands: Any, carry_in: Any, result: Any, limits: Any) -> None:
    powers = stack_zeros(3 * SCAN + 1, result.dtype)
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
    def advance(operand: Any, target: Any, w: Any, limits: Any, reverse: bool, is_tiled: bool) -> bool:
        s = np.empty(BLOCK, target.dtype)
        t, y = np.empty_like(s), np.empty_like(s)
        for left in range(0, target.size, BLOCK):
            size = smaller_of(BLOCK, target.size - left)
            first = target.size - left - size if reverse else left
            fill(parts_of(operand, first, first + size), s, t, size, reverse)
            if is_tiled:
                w, is_low, _ = advance_arrays(s, t, y, w, np.int64(0), size, limits, np.bool_(False))
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
