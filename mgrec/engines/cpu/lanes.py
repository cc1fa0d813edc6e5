"""SIMD lanes in numba: a value of type ``Lanes`` is one LLVM vector.

numba's own vectoriser cannot shift a register by some lanes, as a scan inside a register does. LLVM
splits vectors that are longer than the processor's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, register_model

_I32 = ir.IntType(32)
_REAL_BITS = {ir.FloatType(): 32, ir.DoubleType(): 64}

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


def lanes_of(dtype: Any, size: int) -> Lanes:
    """Return the type of `size` bytes of a dtype."""
    return Lanes(dtype, size * 8 // dtype.bitwidth)


def vector_code(signature_of: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of a function that builds LLVM code, ``(builder, *values) -> value``.

    Arrays are passed as pointers to their first number; a list is returned as a tuple.
    `signature_of` returns numba's signature for the types of the arguments.
    """

    def decorate(build: Callable[..., Any]) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pointers_and_values = [
                context.make_array(kind)(context, builder, value).data
                if isinstance(kind, types.Array)
                else value
                for kind, value in zip(signature.args, values, strict=True)
            ]
            result = build(builder, *pointers_and_values)
            if isinstance(result, list):
                return context.make_tuple(builder, signature.return_type, result)
            return context.get_dummy_value() if result is None else result

        def typing(context: Any, *arguments: Any) -> Any:
            return signature_of(*arguments), code

        return intrinsic(update_wrapper(typing, build))

    return decorate


def is_real(value: Any) -> bool:
    """Return whether lanes are floats."""
    return value.type.element in _REAL_BITS


def bits_of(element: Any) -> int:
    """Return the number of bits of a number."""
    return _REAL_BITS.get(element) or int(element.width)


def filled(vector: Any, number: Any) -> Any:
    """Return a constant with the same number in every lane of a vector type."""
    return ir.Constant(vector, [number] * vector.count)


def shuffle_mask(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, len(indices)), indices)


def pointer_to(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: Lanes) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return vector_pointer(builder, data, index, lanes.width)


def vector_pointer(builder: Any, data: Any, index: Any, width: int) -> Any:
    """Return a pointer to `width` numbers from ``data[index]`` on."""
    vector = ir.VectorType(data.type.pointee, width)
    return builder.bitcast(builder.gep(data, [index]), ir.PointerType(vector))


def load_lanes(builder: Any, data: Any, index: Any, width: int) -> Any:
    align = bits_of(data.type.pointee) // 8
    return builder.load(vector_pointer(builder, data, index, width), align=align)


def call_llvm(builder: Any, name: str, *arguments: Any) -> Any:
    """Call a function of LLVM for lanes or scalars, such as ``llvm.fabs.v4f32``."""
    kind = arguments[0].type
    is_vector = isinstance(kind, ir.VectorType)
    element = kind.element if is_vector else kind
    letter = "f" if element in _REAL_BITS else "i"
    width = f"v{kind.count}" if is_vector else ""
    full = f"llvm.{name}.{width}{letter}{bits_of(element)}"
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, full), arguments)


def in_every_lane(builder: Any, value: Any, width: int) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, empty, shuffle_mask([0] * width))


def integers_like(lanes: Any) -> Any:
    """Return the vector type of integers with as many bits as the numbers in lanes."""
    return ir.VectorType(ir.IntType(bits_of(lanes.type.element)), lanes.type.count)


def magnitude(builder: Any, lanes: Any) -> Any:
    """Return the bits without the sign: they order as magnitudes, nan the largest."""
    vector = integers_like(lanes)
    mask = filled(vector, (1 << (vector.element.width - 1)) - 1)
    return builder.and_(builder.bitcast(lanes, vector), mask)


def any_lane(builder: Any, condition: Any) -> Any:
    """Return whether a mask is true in any lane."""
    bits = ir.IntType(condition.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(condition, bits), ir.Constant(bits, 0))


@vector_code(lambda array, index: Lanes(array.dtype, SCAN)(array, types.intp))
def load(builder: Any, data: Any, index: Any) -> Any:
    """Return ``array[index:index + SCAN]`` of a contiguous array, unaligned."""
    return load_lanes(builder, data, index, SCAN)


def load_of(size: int) -> Any:
    """Return a function that loads `size` bytes of a contiguous array, unaligned."""

    @vector_code(lambda array, index: lanes_of(array.dtype, size)(array, types.intp))
    def load_bytes(builder: Any, data: Any, index: Any) -> Any:
        """Return `size` bytes of a contiguous array from ``array[index]`` on, unaligned."""
        return load_lanes(builder, data, index, size * 8 // bits_of(data.type.pointee))

    return load_bytes


@vector_code(lambda value: Lanes(value, SCAN)(value))
def splat(builder: Any, value: Any) -> Any:
    """Return `value` in each of SCAN lanes."""
    return in_every_lane(builder, value, SCAN)


def splat_of(size: int) -> Any:
    """Return a function that repeats a number in each lane of `size` bytes."""

    @vector_code(lambda value: lanes_of(value, size)(value))
    def splat_bytes(builder: Any, value: Any) -> Any:
        """Return `value` in each lane of `size` bytes."""
        return in_every_lane(builder, value, size * 8 // bits_of(value.type))

    return splat_bytes


load_64_bytes, splat_64_bytes = load_of(64), splat_of(64)


@vector_code(lambda array, index, lanes: types.void(array, types.intp, lanes))
def store(builder: Any, data: Any, index: Any, lanes: Any) -> None:
    """Set ``array[index:index + width] = lanes``, unaligned."""
    pointer = vector_pointer(builder, data, index, lanes.type.count)
    builder.store(lanes, pointer, align=bits_of(data.type.pointee) // 8)


@vector_code(lambda array, index, lanes: types.void(array, types.intp, lanes))
def stream(builder: Any, data: Any, index: Any, lanes: Any) -> None:
    """Do the same as `store` past the caches, at a multiple of the register's size."""
    pointer = vector_pointer(builder, data, index, lanes.type.count)
    size = lanes.type.count * bits_of(data.type.pointee) // 8
    past = builder.module.add_metadata([ir.Constant(_I32, 1)])
    builder.store(lanes, pointer, align=size).set_metadata("nontemporal", past)


@vector_code(lambda: types.void())
def fence(builder: Any) -> None:
    """Order all writes of `stream` before later writes, for every thread."""
    builder.fence("seq_cst")


@vector_code(lambda lanes: lanes(lanes))
def splat_last(builder: Any, lanes: Any) -> Any:
    """Return the last lane in every lane."""
    width = lanes.type.count
    return builder.shuffle_vector(lanes, lanes, shuffle_mask([width - 1] * width))


@vector_code(lambda lanes: lanes.dtype(lanes))
def last(builder: Any, lanes: Any) -> Any:
    """Return the last lane."""
    return builder.extract_element(lanes, ir.Constant(_I32, lanes.type.count - 1))


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


@vector_code(lambda a, b: a(a, b))
def multiply(builder: Any, a: Any, b: Any) -> Any:
    """Return ``a * b``."""
    return builder.fmul(a, b)


@vector_code(lambda a, b, c: a(a, b, c))
def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` of lanes or scalars, fused if the processor can."""
    return call_llvm(builder, "fmuladd", a, b, c)


def transposed(builder: Any, rows: list[Any], parts: int = 1) -> list[Any]:
    """Return a transposed square, by exchanges in squares of 2, 4, 8 and so on.

    Number j of row i becomes number i of row j. A number has so many parts, one after the other.
    """
    width, rows, distance = len(rows), list(rows), 1

    def mixed(i: int, numbers: list[int]) -> Any:
        mask = [number * parts + part for number in numbers for part in range(parts)]
        return builder.shuffle_vector(rows[i], rows[i + distance], shuffle_mask(mask))

    while distance < width:
        first = [width + j - distance if j & distance else j for j in range(width)]
        second = [width + j if j & distance else j + distance for j in range(width)]
        for i in (i for i in range(width) if not i & distance):
            rows[i], rows[i + distance] = mixed(i, first), mixed(i, second)
        distance *= 2
    return rows


@vector_code(
    lambda source, start, stride, target, target_start, target_stride: types.void(
        source, types.intp, types.intp, target, types.intp, types.intp
    )
)
def transpose_block(
    builder: Any, source: Any, start: Any, stride: Any, target: Any, target_start: Any, target_stride: Any
) -> None:
    """Set ``target[target_start + j * target_stride + i] = source[start + i * stride + j]``.

    The arrays are contiguous, of one dtype, and indexed as if they had one axis. The block has
    BLOCK_BYTES of i and of j.
    """
    align = bits_of(source.type.pointee) // 8
    width = BLOCK_BYTES // align

    def pointers(data: Any, index: Any, stride: Any) -> Any:
        for _ in range(width):
            yield vector_pointer(builder, data, index, width)
            index = builder.add(index, stride)

    rows = [builder.load(pointer, align=align) for pointer in pointers(source, start, stride)]
    targets = pointers(target, target_start, target_stride)
    for row, pointer in zip(transposed(builder, rows), targets, strict=True):
        builder.store(row, pointer, align=align)
