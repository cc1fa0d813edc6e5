"""Checks of all registers of a block: magnitudes within bounds, signs, finite numbers.

A check costs one to four instructions a register, and one branch a block.
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


def _magnitude_bits(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """Return the bits without the sign: they order as magnitudes, nan the largest."""
    vector = context.get_value_type(_bits_of(lanes))
    mask = (1 << (lanes.dtype.bitwidth - 1)) - 1
    return builder.and_(builder.bitcast(value, vector), ir.Constant(vector, [mask] * lanes.width))


def _bits_of(lanes: Lanes) -> Lanes:
    bits = types.Integer.from_bitwidth(lanes.dtype.bitwidth, signed=False)
    return Lanes(bits, lanes.width)


def _bits_of_scalar(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """Return the bits of a scalar without its sign, in every lane."""
    return _magnitude_bits(context, builder, lanes, in_every_lane(context, builder, lanes, value))


@intrinsic
def no_extremes(_: Any, lanes: Any) -> Any:
    """Return the first value of `update_extremes`."""
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(bits)
        extremes = [ir.Constant(vector, [extreme] * bits.width) for extreme in (0, -1)]
        return context.make_tuple(builder, signature.return_type, extremes)

    return types.UniTuple(bits, 2)(lanes), code


@intrinsic
def update_extremes(_: Any, extremes: Any, lanes: Any) -> Any:
    """Update (largest, smallest), the extreme magnitudes in each lane; zeros are not the smallest.

    A comparison of masks for every register took half of a block's time. Each extreme takes two
    integer operations.
    """
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        largest, smallest = cgutils.unpack_tuple(builder, values[0])
        magnitude = _magnitude_bits(context, builder, lanes, values[1])
        below = builder.sub(magnitude, ir.Constant(magnitude.type, [1] * bits.width))
        is_larger = builder.icmp_unsigned(">", magnitude, largest)
        is_smaller = builder.icmp_unsigned("<", below, smallest)
        wider = [
            builder.select(is_larger, magnitude, largest),
            builder.select(is_smaller, below, smallest),
        ]
        return context.make_tuple(builder, signature.return_type, wider)

    return extremes(extremes, lanes), code


@intrinsic
def none_above(_: Any, extremes: Any, high: Any) -> Any:
    """Return whether no magnitude is above the scalar `high`, or nan."""
    lanes = Lanes(high, extremes.dtype.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        largest, _ = cgutils.unpack_tuple(builder, values[0])
        top = _bits_of_scalar(context, builder, lanes, values[1])
        return builder.not_(_any(builder, lanes, builder.icmp_unsigned(">", largest, top)))

    return types.boolean(extremes, high), code


@intrinsic
def none_below(_: Any, extremes: Any, low: Any) -> Any:
    """Return whether no magnitude is below the scalar `low`, except for zeros."""
    lanes = Lanes(low, extremes.dtype.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, smallest = cgutils.unpack_tuple(builder, values[0])
        bottom = _bits_of_scalar(context, builder, lanes, values[1])
        bottom = builder.sub(bottom, ir.Constant(bottom.type, [1] * lanes.width))
        return builder.not_(_any(builder, lanes, builder.icmp_unsigned("<", smallest, bottom)))

    return types.boolean(extremes, low), code


@intrinsic
def no_bits(_: Any, lanes: Any) -> Any:
    """Return the first value of `or_bits`."""
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(bits), [0] * bits.width)

    return bits(lanes), code


@intrinsic
def or_bits(_: Any, bits: Any, lanes: Any) -> Any:
    """Add the bits of a register to those set so far, in half an instruction or one."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.or_(values[0], builder.bitcast(values[1], values[0].type))

    return bits(bits, lanes), code


@intrinsic
def all_below_two(_: Any, bits: Any) -> Any:
    """Return whether no number has the top bit of its exponent: 2, more, inf or nan."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        top = 1 << (bits.dtype.bitwidth - 2)
        seen = builder.and_(values[0], ir.Constant(values[0].type, [top] * bits.width))
        zero = ir.Constant(seen.type, [0] * bits.width)
        return builder.not_(_any(builder, bits, builder.icmp_unsigned("!=", seen, zero)))

    return types.boolean(bits), code


@intrinsic
def none_negative(_: Any, bits: Any) -> Any:
    """Return whether no number has a sign."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sign = 1 << (bits.dtype.bitwidth - 1)
        seen = builder.and_(values[0], ir.Constant(values[0].type, [sign] * bits.width))
        zero = ir.Constant(seen.type, [0] * bits.width)
        return builder.not_(_any(builder, bits, builder.icmp_unsigned("!=", seen, zero)))

    return types.boolean(bits), code


@intrinsic
def update_least(_: Any, so_far: Any, lanes: Any) -> Any:
    """Return the smaller of `so_far` and the magnitude, lane by lane; nan is ignored."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        magnitude = call_llvm(builder, "fabs", lanes, values[1])
        return builder.select(builder.fcmp_ordered("<", magnitude, values[0]), magnitude, values[0])

    return so_far(so_far, lanes), code


@intrinsic
def all_above(_: Any, lanes: Any, low: Any) -> Any:
    """Return whether every lane is larger than the scalar `low`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bottom = in_every_lane(context, builder, lanes, values[1])
        not_above = builder.fcmp_unordered("<=", values[0], bottom)
        return builder.not_(_any(builder, lanes, not_above))

    return types.boolean(lanes, low), code


@intrinsic
def all_finite(_: Any, lanes: Any) -> Any:
    """Return whether no lane is inf or nan."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        infinite = ir.Constant(values[0].type, [float("inf")] * lanes.width)
        magnitude = call_llvm(builder, "fabs", lanes, values[0])
        return builder.not_(_any(builder, lanes, builder.fcmp_unordered(">=", magnitude, infinite)))

    return types.boolean(lanes), code


def _mask_bits(lanes: Any) -> Any:
    return types.Integer.from_bitwidth(lanes.width, signed=False)


@intrinsic
def sign_mask(_: Any, lanes: Any) -> Any:
    """Return which lanes have a sign, the first in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.width)
        zero = ir.Constant(vector, [0] * lanes.width)
        condition = builder.icmp_signed("<", builder.bitcast(values[0], vector), zero)
        return builder.bitcast(condition, ir.IntType(lanes.width))

    return _mask_bits(lanes)(lanes), code


@intrinsic
def zero_mask(_: Any, lanes: Any) -> Any:
    """Return which lanes are 0, the first in the lowest bit."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zero = ir.Constant(values[0].type, [0.0] * lanes.width)
        condition = builder.fcmp_ordered("==", values[0], zero)
        return builder.bitcast(condition, ir.IntType(lanes.width))

    return _mask_bits(lanes)(lanes), code
