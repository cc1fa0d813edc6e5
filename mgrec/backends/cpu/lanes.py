"""SIMD lanes in numba: a value of type ``Lanes`` is one LLVM vector.

numba's own vectoriser cannot shift a register by some lanes, which a scan inside a
register needs. LLVM splits the vectors where the processor's are shorter.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, register_model

_I32 = ir.IntType(32)

# Lanes of a scan: with 16 and 8 lanes float32 and float64 were no faster, since lanes cross
# 128 bits in more than one instruction, and products of more steps underflow.
SCAN = 4


class Lanes(types.Type):  # type: ignore[misc]
    """numba type of a vector of `width` numbers."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Lanes({dtype}, {width})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.width))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lanes: Lanes) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    vector = context.get_value_type(lanes)
    return builder.bitcast(builder.gep(data, [at]), ir.PointerType(vector))


def _mask(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, len(indices)), indices)


def _call(builder: Any, name: str, lanes: Lanes, *arguments: Any) -> Any:
    vector = arguments[0].type
    full = f"llvm.{name}.v{lanes.width}f{lanes.dtype.bitwidth}"
    signature = ir.FunctionType(vector, [vector] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, full), arguments)


def _any(builder: Any, lanes: Lanes, condition: Any) -> Any:
    bits = ir.IntType(lanes.width)
    return builder.icmp_unsigned("!=", builder.bitcast(condition, bits), ir.Constant(bits, 0))


def _size_bits(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """The bits without the sign, as integers: they order as the sizes do, nan the largest."""
    vector = context.get_value_type(_bits_of(lanes))
    mask = (1 << (lanes.dtype.bitwidth - 1)) - 1
    return builder.and_(builder.bitcast(value, vector), ir.Constant(vector, [mask] * lanes.width))


def _bits_of(lanes: Lanes) -> Lanes:
    bits = types.Integer.from_bitwidth(lanes.dtype.bitwidth, signed=False)
    return Lanes(bits, lanes.width)


def _bits_everywhere(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    """The bits of a scalar without its sign, in every lane."""
    return _size_bits(context, builder, lanes, _everywhere(context, builder, lanes, value))


def _everywhere(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    empty = ir.Constant(context.get_value_type(lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, _mask([0] * lanes.width))


def _loading(array: Any, lanes: Lanes) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, array, values[0], values[1], lanes)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp), code


@intrinsic
def load(_: Any, array: Any, at: Any) -> Any:
    """``array[at:at + SCAN]`` of a contiguous array, unaligned."""
    return _loading(array, Lanes(array.dtype, SCAN))


@intrinsic
def load_wide(_: Any, array: Any, at: Any) -> Any:
    """64 bytes of a contiguous array from ``array[at]`` on, unaligned."""
    return _loading(array, Lanes(array.dtype, 512 // array.dtype.bitwidth))


@intrinsic
def store(_: Any, array: Any, at: Any, lanes: Any) -> Any:
    """``array[at:at + width] = lanes``, unaligned."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, array, values[0], values[1], lanes)
        builder.store(values[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """`value` in each of SCAN lanes."""
    lanes = Lanes(value, SCAN)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _everywhere(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def splat_last(_: Any, lanes: Any) -> Any:
    """The last lane in every lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        mask = _mask([lanes.width - 1] * lanes.width)
        return builder.shuffle_vector(values[0], values[0], mask)

    return lanes(lanes), code


@intrinsic
def last(_: Any, lanes: Any) -> Any:
    """The last lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.extract_element(values[0], ir.Constant(_I32, lanes.width - 1))

    return lanes.dtype(lanes), code


@intrinsic(prefer_literal=True)
def rotate(_: Any, lanes: Any, distance: Any) -> Any:
    """Lane i takes lane i - distance, from the other end where that is negative.

    A shift that fills with zeros became an instruction that takes three times as long.
    """
    if not isinstance(distance, types.IntegerLiteral):
        raise RequireLiteralValue("distance")
    width, d = lanes.width, distance.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        mask = [(lane - d) % width for lane in range(width)]
        return builder.shuffle_vector(values[0], values[0], _mask(mask))

    return lanes(lanes, distance), code


@intrinsic(prefer_literal=True)
def with_head(_: Any, lanes: Any, count: Any, value: Any) -> Any:
    """The lanes with the first `count` of them set to `value`; both are literals."""
    if not isinstance(count, types.IntegerLiteral) or not isinstance(value, types.IntegerLiteral):
        raise RequireLiteralValue("count and value")
    width, head = lanes.width, count.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        constant = ir.Constant(values[0].type, [float(value.literal_value)] * width)
        mask = [width + lane if lane < head else lane for lane in range(width)]
        return builder.shuffle_vector(values[0], constant, _mask(mask))

    return lanes(lanes, count, value), code


@intrinsic
def deinterleave(_: Any, lower: Any, upper: Any) -> Any:
    """(even, odd) elements of two registers."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        masks = [_mask(list(range(first, 2 * lower.width, 2))) for first in (0, 1)]
        halves = [builder.shuffle_vector(*values, mask) for mask in masks]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(lower, 2)(lower, upper), code


@intrinsic
def interleave(_: Any, even: Any, odd: Any) -> Any:
    """(lower, upper) register of even and odd elements."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        width = even.width
        order = [lane + width * odd_one for lane in range(width) for odd_one in (0, 1)]
        halves = [
            builder.shuffle_vector(*values, _mask(half)) for half in (order[:width], order[width:])
        ]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(even, 2)(even, odd), code


@intrinsic
def multiply(_: Any, a: Any, b: Any) -> Any:
    """``a * b``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fmul(*values)

    return a(a, b), code


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, fused where the processor can."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call(builder, "fmuladd", a, *values)

    return a(a, b, c), code


@intrinsic
def extremes(_: Any, lanes: Any) -> Any:
    """(largest, smallest) of no lanes at all: what `widen` starts from."""
    bits = _bits_of(lanes)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(bits)
        ends = [ir.Constant(vector, [end] * bits.width) for end in (0, -1)]
        return context.make_tuple(builder, signature.return_type, ends)

    return types.UniTuple(bits, 2)(lanes), code


@intrinsic
def widen(_: Any, ends: Any, lanes: Any) -> Any:
    """(largest, smallest) size so far in each lane; 0 counts as larger than all else below.

    A comparison of masks for every register took half of a block's time; these are two
    integer operations for either end, and one question a block.
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
