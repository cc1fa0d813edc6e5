"""Checks of all registers of a block: magnitudes within bounds, signs, finite numbers.

A check costs one to four instructions a register, and one branch a block.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils

from .lanes import (
    Lanes,
    any_lane,
    call_llvm,
    filled,
    in_every_lane,
    integers_like,
    magnitude,
    vector_code,
)  # fmt: skip


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
