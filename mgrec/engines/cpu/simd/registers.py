"""One of the processor's registers of lanes, for loops that keep many of them.

The functions of choice.py take lanes of any width, these among them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .lanes import Lanes, in_every_lane, pointer_to, shuffle_mask

REGISTER = 64 if binding.get_host_cpu_features().get("avx512f") else 32
"""Bytes of a register."""
_I32 = ir.IntType(32)


def _lanes_of(dtype: Any) -> Lanes:
    return Lanes(dtype, REGISTER * 8 // dtype.bitwidth)


def index(value: int) -> Any:
    """A constant that counts numbers of an array."""
    return ir.Constant(ir.IntType(types.intp.bitwidth), value)


def _load(context: Any, builder: Any, kind: Any, array: Any, at: Any, width: int) -> Any:
    pointer = pointer_to(context, builder, kind, array, at, Lanes(kind.dtype, width))
    return builder.load(pointer, align=kind.dtype.bitwidth // 8)


@intrinsic
def load_one(_: Any, array: Any, at: Any) -> Any:
    """A register of a contiguous array from ``array[at]`` on, unaligned."""
    lanes = _lanes_of(array.dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _load(context, builder, array, values[0], values[1], lanes.width)

    return lanes(array, types.intp), code


@intrinsic
def read(_: Any, array: Any, at: Any) -> Any:
    """``array[at]``, where `at` is known not to count from the end."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        return builder.load(builder.gep(data, [values[1]]))

    return array.dtype(array, types.intp), code


@intrinsic
def write(_: Any, array: Any, at: Any, value: Any) -> Any:
    """``array[at] = value``, where `at` is known not to count from the end."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(array)(context, builder, values[0]).data
        builder.store(values[2], builder.gep(data, [values[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), code


@intrinsic
def splat_one(_: Any, value: Any) -> Any:
    """`value` in each lane of a register."""
    lanes = _lanes_of(value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def load_beside(_: Any, array: Any, at: Any, like: Any) -> Any:
    """As many numbers from ``array[at]`` on as `like` has."""
    lanes = Lanes(array.dtype, like.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _load(context, builder, array, values[0], values[1], lanes.width)

    return lanes(array, types.intp, like), code


@intrinsic
def converted(_: Any, x: Any, like: Any) -> Any:
    """Numbers of the dtype of `like`, from such or from integers of fewer bits."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if x.dtype == like.dtype:
            return values[0]
        vector = context.get_value_type(like)
        widen = builder.sitofp if isinstance(like.dtype, types.Float) else builder.sext
        return widen(values[0], vector)

    return like(x, like), code


@intrinsic
def add_saturated(_: Any, x: Any, y: Any) -> Any:
    """``x + y``; integers of 8 and 16 bits stop at the ends of their range."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(x.dtype, types.Float):
            return builder.fadd(*values)
        if x.dtype.bitwidth > 16:
            return builder.add(*values)
        name = f"llvm.sadd.sat.v{x.width}i{x.dtype.bitwidth}"
        kind = ir.FunctionType(values[0].type, [values[0].type] * 2)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    return x(x, y), code


@intrinsic
def floored(_: Any, x: Any, floor: Any) -> Any:
    """The larger one; `x` where `add_saturated` stops at the floor by itself."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(x.dtype, types.Float):
            return builder.select(builder.fcmp_ordered(">", *values), *values)
        if x.dtype.bitwidth > 16:
            return builder.select(builder.icmp_signed(">", *values), *values)
        return values[0]

    return x(x, floor), code


@intrinsic
def everywhere(_: Any, lanes: Any) -> Any:
    """A condition that holds in every lane, known when this is compiled."""
    mask = Lanes(types.boolean, lanes.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(context.get_value_type(mask), [1] * lanes.width)

    return mask(lanes), code


@intrinsic
def is_within(_: Any, step: Any, size: Any, like: Any) -> Any:
    """``0 <= step - r < size`` in lane r, below 2^31."""
    mask = Lanes(types.boolean, like.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers = ir.Constant(ir.VectorType(_I32, like.width), list(range(like.width)))
        step, size = (_everywhere(builder, value, like.width) for value in values[:2])
        return builder.icmp_unsigned("<", builder.sub(step, numbers), size)

    return mask(types.intp, types.intp, like), code


def _everywhere(builder: Any, value: Any, width: int) -> Any:
    empty = ir.Constant(ir.VectorType(_I32, width), ir.Undefined)
    first = builder.insert_element(empty, builder.trunc(value, _I32), ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, shuffle_mask([0] * width))


@intrinsic
def holds_anywhere(_: Any, mask: Any) -> Any:
    """Whether a condition holds in any lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        bits = ir.IntType(mask.width)
        return builder.icmp_unsigned("!=", builder.bitcast(values[0], bits), ir.Constant(bits, 0))

    return types.boolean(mask), code


@intrinsic
def note(_: Any, array: Any, mask: Any, value: Any) -> Any:
    """``array[r] = value`` of int32 where a condition holds."""
    lanes = Lanes(array.dtype, mask.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], index(0), lanes)
        before = builder.load(pointer, align=4)
        new = _everywhere(builder, values[2], mask.width)
        builder.store(builder.select(values[1], new, before), pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, mask, types.intp), code
