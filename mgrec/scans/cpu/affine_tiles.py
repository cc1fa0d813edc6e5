"""Tiles of w = s·w + t with coefficient arrays: 16 steps composed at once, in registers.

Upwards, steps are composed to pairs, fours and eights. One multiply-add then carries the state
across eight steps. Downwards, the carry-in of each eight gives those of its fours, pairs and steps.
Shuffles stay within 128 bits where they can (one cycle instead of three).

A scan over all lanes (Kogge & Stone 1973) took 1.6 times as long: it shifts registers four
times for every eight steps. Tiles of 8 lanes were no faster.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from ...engines.cpu.compilation import INNER
from ...engines.cpu.lanes import (
    SCAN,
    Lanes,
    fma,
    load,
    multiply,
    shuffle_mask,
    splat,
    store,
    stream,
)
from ...engines.cpu.simd import (
    all_above,
    all_below_two,
    all_finite,
    no_bits,
    none_negative,
    or_bits,
    plus,
    update_least,
)

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
