"""Checks of all registers of a block: sizes within bounds, finite numbers.

A register costs one to four instructions, and a block one branch.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .lanes import Lanes, call_llvm, in_every_lane


def _any(builder: Any, lanes: Lanes, condition: Any) -> Any:
    bits = ir.IntType(lanes.width)
    return builder.icmp_unsigned("!=", builder.bitcast(condition, bits), ir.Constant(bits, 0))


def _size_bits(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """The bits without the sign, as integers: they order as sizes do, nan the largest."""
    vector = context.get_value_type(_bits_of(lanes))
    mask = (1 << (lanes.dtype.bitwidth - 1)) - 1
    return builder.and_(builder.bitcast(value, vector), ir.Constant(vector, [mask] * lanes.width))


def _bits_of(lanes: Lanes) -> Lanes:
    bits = types.Integer.from_bitwidth(lanes.dtype.bitwidth, signed=False)
    return Lanes(bits, lanes.width)


def _bits_everywhere(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """The bits of a scalar without its sign, in every lane."""
    return _size_bits(context, builder, lanes, in_every_lane(context, builder, lanes, value))


@intrinsic
def extremes(_: Any, lanes: Any) -> Any:
    """(largest, smallest) of no lanes: what `widen` starts from."""
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(bits)
        ends = [ir.Constant(vector, [end] * bits.width) for end in (0, -1)]
        return context.make_tuple(builder, signature.return_type, ends)

    return types.UniTuple(bits, 2)(lanes), code


@intrinsic
def widen(_: Any, ends: Any, lanes: Any) -> Any:
    """(largest, smallest) size so far in each lane; 0 never counts as the smallest.

    A comparison of masks for every register took half of a block's time. These are two integer
    operations for either end.
    """
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        largest, smallest = cgutils.unpack_tuple(builder, values[0])
        size = _size_bits(context, builder, lanes, values[1])
        below = builder.sub(size, ir.Constant(size.type, [1] * bits.width))
        is_larger = builder.icmp_unsigned(">", size, largest)
        is_smaller = builder.icmp_unsigned("<", below, smallest)
        wider = [
            builder.select(is_larger, size, largest),
            builder.select(is_smaller, below, smallest),
        ]
        return context.make_tuple(builder, signature.return_type, wider)

    return ends(ends, lanes), code


@intrinsic
def none_above(_: Any, ends: Any, high: Any) -> Any:
    """No lane that `widen` saw is larger than the scalar `high` in size, or nan."""
    lanes = Lanes(high, ends.dtype.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        largest, _ = cgutils.unpack_tuple(builder, values[0])
        top = _bits_everywhere(context, builder, lanes, values[1])
        return builder.not_(_any(builder, lanes, builder.icmp_unsigned(">", largest, top)))

    return types.boolean(ends, high), code


@intrinsic
def none_below(_: Any, ends: Any, low: Any) -> Any:
    """No lane that `widen` saw is smaller than the scalar `low` in size, but for zeros."""
    lanes = Lanes(low, ends.dtype.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, smallest = cgutils.unpack_tuple(builder, values[0])
        bottom = _bits_everywhere(context, builder, lanes, values[1])
        bottom = builder.sub(bottom, ir.Constant(bottom.type, [1] * lanes.width))
        return builder.not_(_any(builder, lanes, builder.icmp_unsigned("<", smallest, bottom)))

    return types.boolean(ends, low), code


@intrinsic
def no_bits(_: Any, lanes: Any) -> Any:
    """What `unite` starts from."""
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(bits), [0] * bits.width)

    return bits(lanes), code


@intrinsic
def unite(_: Any, bits: Any, lanes: Any) -> Any:
    """The bits that any number so far has set: half an instruction a register, or one."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.or_(values[0], builder.bitcast(values[1], values[0].type))

    return bits(bits, lanes), code


@intrinsic
def all_below_two(_: Any, bits: Any) -> Any:
    """No number that `unite` saw has the top bit of its exponent: 2, more, inf or nan."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        top = 1 << (bits.dtype.bitwidth - 2)
        seen = builder.and_(values[0], ir.Constant(values[0].type, [top] * bits.width))
        zero = ir.Constant(seen.type, [0] * bits.width)
        return builder.not_(_any(builder, bits, builder.icmp_unsigned("!=", seen, zero)))

    return types.boolean(bits), code


@intrinsic
def none_negative(_: Any, bits: Any) -> Any:
    """No number that `unite` saw has a sign."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sign = 1 << (bits.dtype.bitwidth - 1)
        seen = builder.and_(values[0], ir.Constant(values[0].type, [sign] * bits.width))
        zero = ir.Constant(seen.type, [0] * bits.width)
        return builder.not_(_any(builder, bits, builder.icmp_unsigned("!=", seen, zero)))

    return types.boolean(bits), code


@intrinsic
def least(_: Any, so_far: Any, lanes: Any) -> Any:
    """The smaller of `so_far` and the size, lane by lane; nan is ignored."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = call_llvm(builder, "fabs", lanes, values[1])
        return builder.select(builder.fcmp_ordered("<", size, values[0]), size, values[0])

    return so_far(so_far, lanes), code


@intrinsic
def all_above(_: Any, lanes: Any, low: Any) -> Any:
    """Every lane is larger than the scalar `low`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bottom = in_every_lane(context, builder, lanes, values[1])
        not_above = builder.fcmp_unordered("<=", values[0], bottom)
        return builder.not_(_any(builder, lanes, not_above))

    return types.boolean(lanes, low), code


@intrinsic
def all_finite(_: Any, lanes: Any) -> Any:
    """No lane is inf or nan."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        infinite = ir.Constant(values[0].type, [float("inf")] * lanes.width)
        size = call_llvm(builder, "fabs", lanes, values[0])
        return builder.not_(_any(builder, lanes, builder.fcmp_unordered(">=", size, infinite)))

    return types.boolean(lanes), code
