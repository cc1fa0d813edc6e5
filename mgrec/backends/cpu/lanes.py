"""SIMD lanes in numba: a value of type ``Lanes`` is one LLVM vector of 64 bytes.

numba's own vectoriser cannot shift a register by some lanes, which a scan inside a
register needs. LLVM splits the vectors where the processor's are shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, register_model

_I32 = ir.IntType(32)


class Lanes(types.Type):  # type: ignore[misc]
    """numba type of a vector of 64 bytes."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.width = 512 // dtype.bitwidth
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.width))


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    vector = context.get_value_type(Lanes(array_type.dtype))
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


@intrinsic
def load(_: Any, array: Any, at: Any) -> Any:
    """``array[at:at + width]`` of a contiguous array, unaligned."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, array, *values)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp), code


@intrinsic
def store(_: Any, array: Any, at: Any, lanes: Any) -> Any:
    """``array[at:at + width] = lanes``, unaligned."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer(context, builder, array, values[0], values[1])
        builder.store(values[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """`value` in every lane."""
    lanes = Lanes(value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        empty = ir.Constant(context.get_value_type(lanes), ir.Undefined)
        first = builder.insert_element(empty, values[0], ir.Constant(_I32, 0))
        return builder.shuffle_vector(first, empty, _mask([0] * lanes.width))

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
def shift(_: Any, lanes: Any, distance: Any) -> Any:
    """Lane i takes lane i - distance; the first `distance` lanes are 0."""
    if not isinstance(distance, types.IntegerLiteral):
        raise RequireLiteralValue("distance")
    width, d = lanes.width, distance.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zero = ir.Constant(values[0].type, [0.0] * width)
        mask = [width] * min(d, width) + list(range(width - d))
        return builder.shuffle_vector(values[0], zero, _mask(mask))

    return lanes(lanes, distance), code


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, fused where the processor can."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _call(builder, "fmuladd", a, *values)

    return a(a, b, c), code


def _question(compare: Callable[..., Any]) -> Any:
    """A yes-or-no question on the absolute values of all lanes."""

    def typed(_: Any, lanes: Any, *bounds: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            size = _call(builder, "fabs", lanes, values[0])
            return _any(builder, lanes, compare(builder, size, *values[1:]))

        return types.boolean(lanes, *bounds), code

    return typed


@intrinsic
def any_above(_: Any, lanes: Any, bound: Any) -> Any:
    """Some lane is larger than `bound` in size, or nan."""
    return _question(lambda builder, size, top: builder.fcmp_unordered(">", size, top))(
        _, lanes, bound
    )


@intrinsic
def any_outside(_: Any, lanes: Any, low: Any, high: Any) -> Any:
    """Some lane is neither 0 nor between `low` and `high` in size."""

    def outside(builder: Any, size: Any, bottom: Any, top: Any) -> Any:
        zero = ir.Constant(size.type, [0.0] * lanes.width)
        below = builder.fcmp_ordered("<", size, bottom)
        below = builder.and_(below, builder.fcmp_ordered("!=", size, zero))
        return builder.or_(below, builder.fcmp_unordered(">", size, top))

    return _question(outside)(_, lanes, low, high)
