"""Loads, arithmetic, comparisons and selections of lanes that are integers or floats.

The functions without a number of registers in their name take lanes of any width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compilation import INNER
from .lanes import Lanes, in_every_lane, pointer_to, shuffle_mask

REGISTER = 64 if binding.get_host_cpu_features().get("avx512f") else 32
"""Bytes of a SIMD register."""
# Alignment in int32, ns a cell: two registers 0.13, four 0.09, eight 0.15 with AVX-512, and
# 0.31, 0.24, 0.34 with AVX2, which has 16 registers and spills.
FOUR_REGISTERS = 4 * REGISTER
"""Bytes of four registers: four independent instructions hide the latency of each other."""
_I32 = ir.IntType(32)


def _lanes_of(dtype: Any, size: int = REGISTER) -> Lanes:
    return Lanes(dtype, size * 8 // dtype.bitwidth)


def _mask_of(lanes: Lanes) -> Lanes:
    return Lanes(types.boolean, lanes.width)


def _is_real(lanes: Lanes) -> bool:
    return isinstance(lanes.dtype, types.Float)


def constant_index(value: int) -> Any:
    """Return an index of an array as an LLVM constant."""
    return ir.Constant(ir.IntType(types.intp.bitwidth), value)


def _builds(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return the code generator of an intrinsic that needs only the builder and the values."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return build(builder, *values)

    return code


def _loads(array: Any, lanes: Lanes) -> Callable[..., Any]:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return code


def _splats(lanes: Lanes) -> Callable[..., Any]:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return code


def _truncated_in_every_lane(builder: Any, value: Any, width: int) -> Any:
    empty = ir.Constant(ir.VectorType(_I32, width), ir.Undefined)
    first = builder.insert_element(empty, builder.trunc(value, _I32), ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, shuffle_mask([0] * width))


@intrinsic
def load_register(_: Any, array: Any, index: Any) -> Any:
    """Return one register of a contiguous array from ``array[index]`` on, unaligned."""
    lanes = _lanes_of(array.dtype)
    return lanes(array, types.intp), _loads(array, lanes)


@intrinsic
def load_four(_: Any, array: Any, index: Any) -> Any:
    """Return four registers of a contiguous array from ``array[index]`` on, unaligned."""
    lanes = _lanes_of(array.dtype, FOUR_REGISTERS)
    return lanes(array, types.intp), _loads(array, lanes)


@intrinsic
def load_like(_: Any, array: Any, index: Any, like: Any) -> Any:
    """Return as many numbers from ``array[index]`` on as `like` has."""
    lanes = Lanes(array.dtype, like.width)
    return lanes(array, types.intp, like), _loads(array, lanes)


@intrinsic
def splat_register(_: Any, value: Any) -> Any:
    """Return `value` in each lane of one register."""
    lanes = _lanes_of(value)
    return lanes(value), _splats(lanes)


@intrinsic
def splat_four(_: Any, value: Any) -> Any:
    """Return `value` in each lane of four registers."""
    lanes = _lanes_of(value, FOUR_REGISTERS)
    return lanes(value), _splats(lanes)


@intrinsic
def load_scalar(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]`` without the check for a negative index."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        return builder.load(builder.gep(data, [values[1]]))

    return array.dtype(array, types.intp), code


@intrinsic
def store_scalar(_: Any, array: Any, index: Any, value: Any) -> Any:
    """Set ``array[index] = value`` without the check for a negative index."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        builder.store(values[2], builder.gep(data, [values[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), code


@intrinsic
def store_where(_: Any, array: Any, mask: Any, value: Any) -> Any:
    """Set ``array[k] = value`` of int32 for each lane k in which the mask is true."""
    lanes = Lanes(array.dtype, mask.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], constant_index(0), lanes)
        before = builder.load(pointer, align=4)
        new = _truncated_in_every_lane(builder, values[2], mask.width)
        builder.store(builder.select(values[1], new, before), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, mask, types.intp), code


@intrinsic
def convert_like(_: Any, x: Any, like: Any) -> Any:
    """Return numbers in the dtype of `like`, from that dtype or from integers of fewer bits."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if x.dtype == like.dtype:
            return values[0]
        vector = context.get_value_type(like)
        convert = builder.sitofp if isinstance(like.dtype, types.Float) else builder.sext
        return convert(values[0], vector)

    return like(x, like), code


@intrinsic
def shift_in(_: Any, lanes: Any, value: Any) -> Any:
    """Return in each lane the lane before it, and `value` in the first lane."""

    def build(builder: Any, before: Any, first: Any) -> Any:
        empty = ir.Constant(before.type, ir.Undefined)
        first = builder.insert_element(empty, first, ir.Constant(_I32, 0))
        mask = [lanes.width, *range(lanes.width - 1)]
        return builder.shuffle_vector(before, first, shuffle_mask(mask))

    return lanes(lanes, lanes.dtype), _builds(build)


@intrinsic
def shift_back(_: Any, lanes: Any, value: Any) -> Any:
    """Return in each lane the lane after it, and `value` in the last lane."""

    def build(builder: Any, after: Any, last: Any) -> Any:
        empty = ir.Constant(after.type, ir.Undefined)
        last = builder.insert_element(empty, last, ir.Constant(_I32, 0))
        return builder.shuffle_vector(after, last, shuffle_mask([*range(1, lanes.width + 1)]))

    return lanes(lanes, lanes.dtype), _builds(build)


@intrinsic
def extract_lane(_: Any, lanes: Any, number: Any) -> Any:
    """Return one lane, whose number need not be known at compilation."""
    return lanes.dtype(lanes, types.intp), _builds(lambda b, x, k: b.extract_element(x, k))


@intrinsic
def plus(_: Any, x: Any, y: Any) -> Any:
    """Return ``x + y``; integers wrap around."""
    return x(x, y), _builds(lambda b, *values: (b.fadd if _is_real(x) else b.add)(*values))


@intrinsic
def minus(_: Any, x: Any, y: Any) -> Any:
    """Return ``x - y``; integers wrap around."""
    return x(x, y), _builds(lambda b, *values: (b.fsub if _is_real(x) else b.sub)(*values))


@intrinsic
def add_saturated(_: Any, x: Any, y: Any) -> Any:
    """Return ``x + y``; integers of 8 and 16 bits stop at the ends of their range."""

    def build(builder: Any, *values: Any) -> Any:
        if _is_real(x):
            return builder.fadd(*values)
        if x.dtype.bitwidth > 16:
            return builder.add(*values)
        name = f"llvm.sadd.sat.v{x.width}i{x.dtype.bitwidth}"
        signature = ir.FunctionType(values[0].type, [values[0].type] * 2)
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        return builder.call(function, values)

    return x(x, y), _builds(build)


@intrinsic
def clamp_below(_: Any, x: Any, floor: Any) -> Any:
    """Return the larger one; return `x` for dtypes in which `add_saturated` stops at the floor."""

    def build(builder: Any, *values: Any) -> Any:
        if _is_real(x):
            return builder.select(builder.fcmp_ordered(">", *values), *values)
        if x.dtype.bitwidth > 16:
            return builder.select(builder.icmp_signed(">", *values), *values)
        return values[0]

    return x(x, floor), _builds(build)


@intrinsic
def exceeds(_: Any, x: Any, y: Any) -> Any:
    """Return the mask ``x > y``."""

    def build(builder: Any, *values: Any) -> Any:
        compare = builder.fcmp_ordered if _is_real(x) else builder.icmp_signed
        return compare(">", *values)

    return _mask_of(x)(x, y), _builds(build)


@intrinsic
def equals(_: Any, x: Any, y: Any) -> Any:
    """Return the mask ``x == y`` of integers."""
    return _mask_of(x)(x, y), _builds(lambda b, *values: b.icmp_signed("==", *values))


@intrinsic
def is_index(_: Any, x: Any, size: Any) -> Any:
    """Return the mask ``0 <= x < size`` of integers."""
    return _mask_of(x)(x, size), _builds(lambda b, *values: b.icmp_unsigned("<", *values))


@intrinsic
def is_within(_: Any, step: Any, size: Any, like: Any) -> Any:
    """Return the mask ``0 <= step - k < size`` for each lane k; `step` is below 2^31."""
    mask = _mask_of(like)

    def build(builder: Any, step: Any, size: Any, like_value: Any) -> Any:
        numbers = ir.Constant(ir.VectorType(_I32, like.width), list(range(like.width)))
        step = _truncated_in_every_lane(builder, step, like.width)
        size = _truncated_in_every_lane(builder, size, like.width)
        return builder.icmp_unsigned("<", builder.sub(step, numbers), size)

    return mask(types.intp, types.intp, like), _builds(build)


@intrinsic
def all_true(_: Any, lanes: Any) -> Any:
    """Return a mask that is true in each lane, as a constant."""
    mask = _mask_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(mask), [1] * lanes.width)

    return mask(lanes), code


@intrinsic
def any_true(_: Any, mask: Any) -> Any:
    """Return whether a mask is true in any lane."""

    def build(builder: Any, value: Any) -> Any:
        bits = ir.IntType(mask.width)
        return builder.icmp_unsigned("!=", builder.bitcast(value, bits), ir.Constant(bits, 0))

    return types.boolean(mask), _builds(build)


@intrinsic
def both(_: Any, first: Any, second: Any) -> Any:
    """Return the conjunction of two masks."""
    return first(first, second), _builds(lambda b, *values: b.and_(*values))


@intrinsic
def choose(_: Any, condition: Any, x: Any, y: Any) -> Any:
    """Return `x` where the mask is true, otherwise `y`."""
    return x(condition, x, y), _builds(lambda b, *values: b.select(*values))


@numba.njit(**INNER)
def larger(x: Any, y: Any) -> Any:
    """Return the larger one, lane by lane; `y` where they are equal or unordered."""
    return choose(exceeds(x, y), x, y)


@numba.njit(**INNER)
def smaller(x: Any, y: Any) -> Any:
    """Return the smaller one, lane by lane; `y` where they are equal or unordered."""
    return choose(exceeds(y, x), x, y)


@intrinsic
def magnitude_bits(_: Any, x: Any) -> Any:
    """Return the bits without the sign, as integers: they order as magnitudes, nan the largest."""
    bits = x.dtype.bitwidth
    lanes = Lanes(types.Integer.from_bitwidth(bits), x.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(lanes)
        mask = ir.Constant(vector, [(1 << (bits - 1)) - 1] * x.width)
        return builder.and_(builder.bitcast(values[0], vector), mask)

    return lanes(x), code
