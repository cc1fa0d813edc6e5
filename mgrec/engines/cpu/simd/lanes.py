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

# Lanes of a scan: 16 lanes of float32 and 8 of float64 were no faster, since crossing 128 bits
# takes more than one instruction, and products of more steps underflow.
SCAN = 4

# Bytes of a line of memory. Results of LARGE bytes go past the caches, which they would leave
# anyway: a line is then not read before it is written (10^7 steps: 0.71 ns a step, not 0.99).
LINE, LARGE = 64, 1 << 24


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


def pointer_to(
    context: Any, builder: Any, array_type: Any, array: Any, at: Any, lanes: Lanes
) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    vector = context.get_value_type(lanes)
    return builder.bitcast(builder.gep(data, [at]), ir.PointerType(vector))


def shuffle_mask(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, len(indices)), indices)


def call_llvm(builder: Any, name: str, lanes: Any, *arguments: Any) -> Any:
    vector = arguments[0].type
    if isinstance(lanes, Lanes):
        full = f"llvm.{name}.v{lanes.width}f{lanes.dtype.bitwidth}"
    else:
        full = f"llvm.{name}.f{lanes.bitwidth}"
    signature = ir.FunctionType(vector, [vector] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, full), arguments)


def in_every_lane(context: Any, builder: Any, lanes: Lanes, value: Any) -> Any:
    empty = ir.Constant(context.get_value_type(lanes), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, shuffle_mask([0] * lanes.width))


def _loading(array: Any, lanes: Lanes) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
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
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        builder.store(values[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def stream(_: Any, array: Any, at: Any, lanes: Any) -> Any:
    """`store` past the caches, at an address that is a multiple of the register's size."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        size = lanes.width * array.dtype.bitwidth // 8
        past = builder.module.add_metadata([ir.Constant(_I32, 1)])
        builder.store(values[2], pointer, align=size).set_metadata("nontemporal", past)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def fence(_: Any) -> Any:
    """Order what `stream` has written before all that follows, for every thread."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """`value` in each of SCAN lanes."""
    lanes = Lanes(value, SCAN)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def splat_wide(_: Any, value: Any) -> Any:
    """`value` in each lane of 64 bytes."""
    lanes = Lanes(value, 512 // value.bitwidth)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def splat_last(_: Any, lanes: Any) -> Any:
    """The last lane in every lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        mask = shuffle_mask([lanes.width - 1] * lanes.width)
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
    """Lane i takes lane i - distance, modulo the width.

    A shift that fills with zeros compiled to an instruction that takes three times as long.
    """
    if not isinstance(distance, types.IntegerLiteral):
        raise RequireLiteralValue("distance")
    width, d = lanes.width, distance.literal_value

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        mask = [(lane - d) % width for lane in range(width)]
        return builder.shuffle_vector(values[0], values[0], shuffle_mask(mask))

    return lanes(lanes, distance), code


@intrinsic
def multiply(_: Any, a: Any, b: Any) -> Any:
    """``a * b``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fmul(*values)

    return a(a, b), code


@intrinsic
def add(_: Any, a: Any, b: Any) -> Any:
    """``a + b``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(*values)

    return a(a, b), code


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, fused where the processor can; of lanes or of scalars."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return call_llvm(builder, "fmuladd", a, *values)

    return a(a, b, c), code
