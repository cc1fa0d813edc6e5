"""SIMD lanes in numba: a value of type ``Lanes`` is one LLVM vector.

numba's own vectoriser cannot shift a register by some lanes, as a scan inside a register does. LLVM
splits vectors that are longer than the processor's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, register_model

_I32 = ir.IntType(32)

# 16 lanes of float32 and 8 of float64 were no faster: a shift across 128 bits takes more than one
# instruction, and products of more steps underflow.
SCAN = 4
"""Number of lanes of a scan."""
CACHE_LINE = 64
"""Bytes of a cache line."""
# A line is then not read before it is written (10^7 steps: 0.71 ns a step, not 0.99).
MIN_STREAMED_BYTES = 1 << 24
"""Bytes from which results bypass the caches."""
BLOCK_BYTES = 64
"""Bytes of a row of a block to transpose; the block has as many rows as columns."""


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
    context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: Lanes
) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    vector = context.get_value_type(lanes)
    return builder.bitcast(builder.gep(data, [index]), ir.PointerType(vector))


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
def load(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index:index + SCAN]`` of a contiguous array, unaligned."""
    return _loading(array, Lanes(array.dtype, SCAN))


@intrinsic
def load_64_bytes(_: Any, array: Any, index: Any) -> Any:
    """Return 64 bytes of a contiguous array from ``array[index]`` on, unaligned."""
    return _loading(array, Lanes(array.dtype, 512 // array.dtype.bitwidth))


@intrinsic
def store(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Set ``array[index:index + width] = lanes``, unaligned."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        builder.store(values[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def stream(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Do the same as `store` past the caches, at a multiple of the register's size."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], lanes)
        size = lanes.width * array.dtype.bitwidth // 8
        past = builder.module.add_metadata([ir.Constant(_I32, 1)])
        builder.store(values[2], pointer, align=size).set_metadata("nontemporal", past)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def fence(_: Any) -> Any:
    """Order all writes of `stream` before later writes, for every thread."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """Return `value` in each of SCAN lanes."""
    lanes = Lanes(value, SCAN)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def splat_64_bytes(_: Any, value: Any) -> Any:
    """Return `value` in each lane of 64 bytes."""
    lanes = Lanes(value, 512 // value.bitwidth)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return in_every_lane(context, builder, lanes, values[0])

    return lanes(value), code


@intrinsic
def splat_last(_: Any, lanes: Any) -> Any:
    """Return the last lane in every lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        mask = shuffle_mask([lanes.width - 1] * lanes.width)
        return builder.shuffle_vector(values[0], values[0], mask)

    return lanes(lanes), code


@intrinsic
def last(_: Any, lanes: Any) -> Any:
    """Return the last lane."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.extract_element(values[0], ir.Constant(_I32, lanes.width - 1))

    return lanes.dtype(lanes), code


@intrinsic(prefer_literal=True)
def rotate(_: Any, lanes: Any, distance: Any) -> Any:
    """Return lane i - distance, modulo the width, as lane i.

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
    """Return ``a * b``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fmul(*values)

    return a(a, b), code


@intrinsic
def add(_: Any, a: Any, b: Any) -> Any:
    """Return ``a + b``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(*values)

    return a(a, b), code


@intrinsic
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` of lanes or scalars, fused if the processor can."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return call_llvm(builder, "fmuladd", a, *values)

    return a(a, b, c), code


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """Return a transposed square, by exchanges in squares of 2, 4, 8 and so on."""
    width, rows = len(rows), list(rows)
    distance = 1
    while distance < width:
        first = [width + j - distance if j & distance else j for j in range(width)]
        second = [width + j if j & distance else j + distance for j in range(width)]
        for i in (i for i in range(width) if not i & distance):
            x, y = rows[i], rows[i + distance]
            rows[i] = builder.shuffle_vector(x, y, shuffle_mask(first))
            rows[i + distance] = builder.shuffle_vector(x, y, shuffle_mask(second))
        distance *= 2
    return rows


@intrinsic
def transpose_block(
    _: Any, source: Any, start: Any, stride: Any, target: Any, target_start: Any,
    target_stride: Any,
) -> Any:  # fmt: skip
    """Set ``target[target_start + j * target_stride + i] = source[start + i * stride + j]``.

    The arrays are contiguous, of one dtype, and indexed as if they had one axis. The block has
    BLOCK_BYTES of i and of j.
    """
    align = source.dtype.bitwidth // 8
    lanes = Lanes(source.dtype, BLOCK_BYTES // align)

    def pointers(
        context: Any, builder: Any, array_type: Any, array: Any, index: Any, stride: Any
    ) -> Any:
        for _ in range(lanes.width):
            yield pointer_to(context, builder, array_type, array, index, lanes)
            index = builder.add(index, stride)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sources = pointers(context, builder, signature.args[0], *values[:3])
        rows = [builder.load(pointer, align=align) for pointer in sources]
        targets = pointers(context, builder, signature.args[3], *values[3:])
        for row, pointer in zip(_transpose(builder, rows), targets, strict=True):
            builder.store(row, pointer, align=align)
        return context.get_dummy_value()

    return types.void(source, *(types.intp,) * 2, target, *(types.intp,) * 2), code
