"""Lanes that are compared, chosen from and shifted: integers and floating-point numbers alike.

A value of these functions fills four of the processor's registers, so that four of its
instructions are under way where one waits for the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from ..compilation.kernels import INNER
from .lanes import Lanes, in_every_lane, pointer_to, shuffle_mask

_REGISTER = 64 if binding.get_host_cpu_features().get("avx512f") else 32
# Alignment in int32, ns a cell: two registers 0.13, four 0.09, eight 0.15 with AVX-512, and
# 0.31, 0.24, 0.34 with AVX2, which has 16 registers and spills.
WIDE = 4 * _REGISTER
"""Bytes of all lanes together."""


def _lanes_of(dtype: Any) -> Lanes:
    return Lanes(dtype, WIDE * 8 // dtype.bitwidth)


def _mask_of(lanes: Lanes) -> Lanes:
    return Lanes(types.boolean, lanes.width)


def _is_real(lanes: Lanes) -> bool:
    return isinstance(lanes.dtype, types.Float)


def _builds(build: Callable[..., Any]) -> Callable[..., Any]:
    """What numba generates for an intrinsic: `build` of the builder and the values."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return build(builder, *values)

    return code


@intrinsic
def load_all(_: Any, array: Any, at: Any) -> Any:
    """WIDE bytes of a contiguous array from ``array[at]`` on, unaligned."""
    lanes = _lanes_of(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp), code


@intrinsic
def splat_all(_: Any, value: Any) -> Any:
    """`value` in each lane of WIDE bytes."""
    lanes = _lanes_of(value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def shift_in(_: Any, lanes: Any, value: Any) -> Any:
    """Each lane takes the one before it, and the first one `value`."""

    def build(builder: Any, before: Any, first: Any) -> Any:
        empty = ir.Constant(before.type, ir.Undefined)
        first = builder.insert_element(empty, first, ir.Constant(ir.IntType(32), 0))
        mask = [lanes.width, *range(lanes.width - 1)]
        return builder.shuffle_vector(before, first, shuffle_mask(mask))

    return lanes(lanes, lanes.dtype), _builds(build)


@intrinsic
def shift_back(_: Any, lanes: Any, value: Any) -> Any:
    """Each lane takes the one after it, and the last one `value`."""

    def build(builder: Any, after: Any, last: Any) -> Any:
        empty = ir.Constant(after.type, ir.Undefined)
        last = builder.insert_element(empty, last, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(after, last, shuffle_mask([*range(1, lanes.width + 1)]))

    return lanes(lanes, lanes.dtype), _builds(build)


@intrinsic
def lane(_: Any, lanes: Any, at: Any) -> Any:
    """One lane, whose number need not be known when this is compiled."""
    return lanes.dtype(lanes, types.intp), _builds(lambda b, x, at: b.extract_element(x, at))


@intrinsic
def plus(_: Any, x: Any, y: Any) -> Any:
    """``x + y``; integers wrap around."""
    return x(x, y), _builds(lambda b, *values: (b.fadd if _is_real(x) else b.add)(*values))


@intrinsic
def minus(_: Any, x: Any, y: Any) -> Any:
    """``x - y``; integers wrap around."""
    return x(x, y), _builds(lambda b, *values: (b.fsub if _is_real(x) else b.sub)(*values))


@intrinsic
def exceeds(_: Any, x: Any, y: Any) -> Any:
    """``x > y``, lane by lane."""

    def build(builder: Any, *values: Any) -> Any:
        compare = builder.fcmp_ordered if _is_real(x) else builder.icmp_signed
        return compare(">", *values)

    return _mask_of(x)(x, y), _builds(build)


@intrinsic
def equals(_: Any, x: Any, y: Any) -> Any:
    """``x == y`` of integers, lane by lane."""
    return _mask_of(x)(x, y), _builds(lambda b, *values: b.icmp_signed("==", *values))


@intrinsic
def is_index(_: Any, x: Any, size: Any) -> Any:
    """``0 <= x < size`` of integers, lane by lane."""
    return _mask_of(x)(x, size), _builds(lambda b, *values: b.icmp_unsigned("<", *values))


@intrinsic
def both(_: Any, first: Any, second: Any) -> Any:
    """Where two conditions hold."""
    return first(first, second), _builds(lambda b, *values: b.and_(*values))


@intrinsic
def choose(_: Any, condition: Any, x: Any, y: Any) -> Any:
    """`x` where the condition holds, otherwise `y`."""
    return x(condition, x, y), _builds(lambda b, *values: b.select(*values))


@intrinsic
def sizes(_: Any, x: Any) -> Any:
    """The bits without the sign, as integers: they order as sizes do, nan the largest."""
    bits = x.dtype.bitwidth
    lanes = Lanes(types.Integer.from_bitwidth(bits), x.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(lanes)
        mask = ir.Constant(vector, [(1 << (bits - 1)) - 1] * x.width)
        return builder.and_(builder.bitcast(values[0], vector), mask)

    return lanes(x), code


@numba.njit(**INNER)
def larger(x: Any, y: Any) -> Any:
    """The larger one, lane by lane; `y` where they are equal or not to be compared."""
    return choose(exceeds(x, y), x, y)


@numba.njit(**INNER)
def smaller(x: Any, y: Any) -> Any:
    """The smaller one, lane by lane; `y` where they are equal or not to be compared."""
    return choose(exceeds(y, x), x, y)
