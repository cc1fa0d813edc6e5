"""Arithmetic, comparisons, selections and checks of lanes that are integers or floats.

The functions without a number of registers in their name take lanes of any width. A check of all
registers of a block costs one to four instructions a register, and one branch a block.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from .compilation import INNER
from .lanes import (
    Lanes,
    any_lane,
    bits_of,
    call_llvm,
    filled,
    in_every_lane,
    integers_like,
    is_real,
    load_lanes,
    load_of,
    magnitude,
    shuffle_mask,
    splat_of,
    vector_code,
    vector_pointer,
)

REGISTER = 64 if binding.get_host_cpu_features().get("avx512f") else 32
"""Bytes of a SIMD register."""
# Alignment in int32, ns a cell: two registers 0.13, four 0.09, eight 0.15 with AVX-512, and
# 0.31, 0.24, 0.34 with AVX2, which has 16 registers and spills.
FOUR_REGISTERS = 4 * REGISTER
"""Bytes of four registers: four independent instructions hide the latency of each other."""
_I32 = ir.IntType(32)

load_register, load_four = load_of(REGISTER), load_of(FOUR_REGISTERS)
splat_register, splat_four = splat_of(REGISTER), splat_of(FOUR_REGISTERS)


def _mask_of(lanes: Lanes, *_: Any) -> Lanes:
    return Lanes(types.boolean, lanes.width)


def _same(x: Any, *others: Any) -> Any:
    return x(x, *others)


def _compared(x: Any, y: Any) -> Any:
    return _mask_of(x)(x, y)


def constant_index(value: int) -> Any:
    """Return an index of an array as an LLVM constant."""
    return ir.Constant(ir.IntType(types.intp.bitwidth), value)


def _truncated_in_every_lane(builder: Any, value: Any, width: int) -> Any:
    return in_every_lane(builder, builder.trunc(value, _I32), width)


@vector_code(lambda array, index, like: Lanes(array.dtype, like.width)(array, types.intp, like))
def load_like(builder: Any, data: Any, index: Any, like: Any) -> Any:
    """Return as many numbers from ``array[index]`` on as `like` has."""
    return load_lanes(builder, data, index, like.type.count)


@vector_code(lambda array, index: array.dtype(array, types.intp))
def load_scalar(builder: Any, data: Any, index: Any) -> Any:
    """Return ``array[index]`` without the check for a negative index."""
    return builder.load(builder.gep(data, [index]))


@vector_code(lambda array, index, value: types.void(array, types.intp, array.dtype))
def store_scalar(builder: Any, data: Any, index: Any, value: Any) -> None:
    """Set ``array[index] = value`` without the check for a negative index."""
    builder.store(value, builder.gep(data, [index]))


@vector_code(lambda array, mask, value: types.void(array, mask, types.intp))
def store_where(builder: Any, data: Any, mask: Any, value: Any) -> None:
    """Set ``array[k] = value`` of int32 for each lane k in which the mask is true."""
    width = mask.type.count
    pointer = vector_pointer(builder, data, constant_index(0), width)
    before = builder.load(pointer, align=4)
    new = _truncated_in_every_lane(builder, value, width)
    builder.store(builder.select(mask, new, before), pointer, align=4)


@vector_code(lambda x, like: like(x, like))
def convert_like(builder: Any, x: Any, like: Any) -> Any:
    """Return numbers in the dtype of `like`, from that dtype or from integers of fewer bits."""
    if x.type == like.type:
        return x
    return (builder.sitofp if is_real(like) else builder.sext)(x, like.type)


def _shifted(builder: Any, lanes: Any, entering: Any, mask: list[int]) -> Any:
    empty = ir.Constant(lanes.type, ir.Undefined)
    entering = builder.insert_element(empty, entering, ir.Constant(_I32, 0))
    return builder.shuffle_vector(lanes, entering, shuffle_mask(mask))


@vector_code(lambda lanes, value: lanes(lanes, lanes.dtype))
def shift_in(builder: Any, lanes: Any, value: Any) -> Any:
    """Return in each lane the lane before it, and `value` in the first lane."""
    width = lanes.type.count
    return _shifted(builder, lanes, value, [width, *range(width - 1)])


@vector_code(lambda lanes, value: lanes(lanes, lanes.dtype))
def shift_back(builder: Any, lanes: Any, value: Any) -> Any:
    """Return in each lane the lane after it, and `value` in the last lane."""
    return _shifted(builder, lanes, value, [*range(1, lanes.type.count + 1)])


@vector_code(lambda lanes, number: lanes.dtype(lanes, types.intp))
def extract_lane(builder: Any, lanes: Any, number: Any) -> Any:
    """Return one lane, whose number need not be known at compilation."""
    return builder.extract_element(lanes, number)


@vector_code(_same)
def plus(builder: Any, x: Any, y: Any) -> Any:
    """Return ``x + y``; integers wrap around."""
    return (builder.fadd if is_real(x) else builder.add)(x, y)


@vector_code(_same)
def minus(builder: Any, x: Any, y: Any) -> Any:
    """Return ``x - y``; integers wrap around."""
    return (builder.fsub if is_real(x) else builder.sub)(x, y)


@vector_code(_same)
def add_saturated(builder: Any, x: Any, y: Any) -> Any:
    """Return ``x + y``; integers of 8 and 16 bits stop at the ends of their range."""
    if is_real(x):
        return builder.fadd(x, y)
    if bits_of(x.type.element) > 16:
        return builder.add(x, y)
    return call_llvm(builder, "sadd.sat", x, y)


@vector_code(_same)
def clamp_below(builder: Any, x: Any, floor: Any) -> Any:
    """Return the larger one; return `x` for dtypes in which `add_saturated` stops at the floor."""
    if not is_real(x) and bits_of(x.type.element) <= 16:
        return x
    return builder.select(_greater(builder, x, floor), x, floor)


def _greater(builder: Any, x: Any, y: Any) -> Any:
    return (builder.fcmp_ordered if is_real(x) else builder.icmp_signed)(">", x, y)


@vector_code(_compared)
def exceeds(builder: Any, x: Any, y: Any) -> Any:
    """Return the mask ``x > y``."""
    return _greater(builder, x, y)


@vector_code(_compared)
def equals(builder: Any, x: Any, y: Any) -> Any:
    """Return the mask ``x == y`` of integers."""
    return builder.icmp_signed("==", x, y)


@vector_code(_compared)
def is_index(builder: Any, x: Any, size: Any) -> Any:
    """Return the mask ``0 <= x < size`` of integers."""
    return builder.icmp_unsigned("<", x, size)


@vector_code(lambda step, size, like: _mask_of(like)(types.intp, types.intp, like))
def is_within(builder: Any, step: Any, size: Any, like: Any) -> Any:
    """Return the mask ``0 <= step - k < size`` for each lane k; `step` is below 2^31."""
    width = like.type.count
    numbers = ir.Constant(ir.VectorType(_I32, width), list(range(width)))
    step = _truncated_in_every_lane(builder, step, width)
    size = _truncated_in_every_lane(builder, size, width)
    return builder.icmp_unsigned("<", builder.sub(step, numbers), size)


@vector_code(lambda lanes: _mask_of(lanes)(lanes))
def all_true(builder: Any, lanes: Any) -> Any:
    """Return a mask that is true in each lane, as a constant."""
    return filled(ir.VectorType(ir.IntType(1), lanes.type.count), 1)


@vector_code(lambda mask: types.boolean(mask))
def any_true(builder: Any, mask: Any) -> Any:
    """Return whether a mask is true in any lane."""
    return any_lane(builder, mask)


@vector_code(_same)
def both(builder: Any, first: Any, second: Any) -> Any:
    """Return the conjunction of two masks."""
    return builder.and_(first, second)


@vector_code(lambda condition, x, y: x(condition, x, y))
def choose(builder: Any, condition: Any, x: Any, y: Any) -> Any:
    """Return `x` where the mask is true, otherwise `y`."""
    return builder.select(condition, x, y)


@numba.njit(**INNER)
def larger(x: Any, y: Any) -> Any:
    """Return the larger one, lane by lane; `y` where they are equal or unordered."""
    return choose(exceeds(x, y), x, y)


@numba.njit(**INNER)
def smaller(x: Any, y: Any) -> Any:
    """Return the smaller one, lane by lane; `y` where they are equal or unordered."""
    return choose(exceeds(y, x), x, y)


@vector_code(lambda x: Lanes(types.Integer.from_bitwidth(x.dtype.bitwidth), x.width)(x))
def magnitude_bits(builder: Any, x: Any) -> Any:
    """Return the bits without the sign, as integers: they order as magnitudes, nan the largest."""
    return magnitude(builder, x)


def _bits_of(lanes: Lanes) -> Lanes:
    bits = types.Integer.from_bitwidth(lanes.dtype.bitwidth, signed=False)
    return Lanes(bits, lanes.width)


def _bits_of_scalar(builder: Any, value: Any, width: int) -> Any:
    """Return the bits of a scalar without its sign, in every lane."""
    return magnitude(builder, in_every_lane(builder, value, width))


@vector_code(lambda lanes: types.UniTuple(_bits_of(lanes), 2)(lanes))
def no_extremes(builder: Any, lanes: Any) -> Any:
    """Return the first value of `update_extremes`."""
    return [filled(integers_like(lanes), extreme) for extreme in (0, -1)]


@vector_code(lambda extremes, lanes: extremes(extremes, lanes))
def update_extremes(builder: Any, extremes: Any, lanes: Any) -> Any:
    """Update (largest, smallest), the extreme magnitudes in each lane; zeros are not the smallest.

    A comparison of masks for every register took half of a block's time. Each extreme takes two
    integer operations.
    """
    largest, smallest = cgutils.unpack_tuple(builder, extremes)
    size = magnitude(builder, lanes)
    below = builder.sub(size, filled(size.type, 1))
    is_larger = builder.icmp_unsigned(">", size, largest)
    is_smaller = builder.icmp_unsigned("<", below, smallest)
    return [builder.select(is_larger, size, largest), builder.select(is_smaller, below, smallest)]


@vector_code(lambda extremes, high: types.boolean(extremes, high))
def none_above(builder: Any, extremes: Any, high: Any) -> Any:
    """Return whether no magnitude is above the scalar `high`, or nan."""
    largest, _ = cgutils.unpack_tuple(builder, extremes)
    top = _bits_of_scalar(builder, high, largest.type.count)
    return builder.not_(any_lane(builder, builder.icmp_unsigned(">", largest, top)))


@vector_code(lambda extremes, low: types.boolean(extremes, low))
def none_below(builder: Any, extremes: Any, low: Any) -> Any:
    """Return whether no magnitude is below the scalar `low`, except for zeros."""
    _, smallest = cgutils.unpack_tuple(builder, extremes)
    bottom = _bits_of_scalar(builder, low, smallest.type.count)
    bottom = builder.sub(bottom, filled(bottom.type, 1))
    return builder.not_(any_lane(builder, builder.icmp_unsigned("<", smallest, bottom)))


@vector_code(lambda lanes: _bits_of(lanes)(lanes))
def no_bits(builder: Any, lanes: Any) -> Any:
    """Return the first value of `or_bits`."""
    return filled(integers_like(lanes), 0)


@vector_code(lambda bits, lanes: bits(bits, lanes))
def or_bits(builder: Any, bits: Any, lanes: Any) -> Any:
    """Add the bits of a register to those set so far, in half an instruction or one."""
    return builder.or_(bits, builder.bitcast(lanes, bits.type))


def _is_unset(builder: Any, bits: Any, number: int) -> Any:
    """Return whether the bit of this number is 0 in every lane."""
    seen = builder.and_(bits, filled(bits.type, 1 << number))
    return builder.not_(any_lane(builder, builder.icmp_unsigned("!=", seen, filled(seen.type, 0))))


@vector_code(lambda bits: types.boolean(bits))
def all_below_two(builder: Any, bits: Any) -> Any:
    """Return whether no number has the top bit of its exponent: 2, more, inf or nan."""
    return _is_unset(builder, bits, bits.type.element.width - 2)


@vector_code(lambda bits: types.boolean(bits))
def none_negative(builder: Any, bits: Any) -> Any:
    """Return whether no number has a sign."""
    return _is_unset(builder, bits, bits.type.element.width - 1)


@vector_code(lambda so_far, lanes: so_far(so_far, lanes))
def update_least(builder: Any, so_far: Any, lanes: Any) -> Any:
    """Return the smaller of `so_far` and the magnitude, lane by lane; nan is ignored."""
    size = call_llvm(builder, "fabs", lanes)
    return builder.select(builder.fcmp_ordered("<", size, so_far), size, so_far)


@vector_code(lambda lanes, low: types.boolean(lanes, low))
def all_above(builder: Any, lanes: Any, low: Any) -> Any:
    """Return whether every lane is larger than the scalar `low`."""
    bottom = in_every_lane(builder, low, lanes.type.count)
    return builder.not_(any_lane(builder, builder.fcmp_unordered("<=", lanes, bottom)))


@vector_code(lambda lanes: types.boolean(lanes))
def all_finite(builder: Any, lanes: Any) -> Any:
    """Return whether no lane is inf or nan."""
    size, infinite = call_llvm(builder, "fabs", lanes), filled(lanes.type, float("inf"))
    return builder.not_(any_lane(builder, builder.fcmp_unordered(">=", size, infinite)))
