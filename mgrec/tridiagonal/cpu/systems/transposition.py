"""Blocks of memory in which systems lie one after the other, turned so that they lie side by side.

A block is as many steps of as many systems as there are lanes. Read number by number it took
1 ns a number, as long as the elimination.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..arithmetic import Vectors
from ..memory import data_of, numbers_of
from ..numbers import Numbers, value_of, vectors_of

# Numbers from what is read to what is asked for: 2,000 systems of 4,095 took 3.4 ns an unknown, so
# 2.4; 10^5 of 16 took 5.4, 4.5 with 64 and 2.7 with 256.
AHEAD = 256
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _parts(numbers: Numbers) -> int:
    """2 of complex numbers, whose real and imaginary parts alternate in memory."""
    return 1 if numbers == numbers.sizes else 2


def _line_type(context: Any, numbers: Numbers) -> Any:
    """The vector type of numbers as memory has them."""
    part = context.get_value_type(numbers.sizes.dtype)
    return ir.VectorType(part, numbers.width * _parts(numbers))


def _shuffled(builder: Any, x: Any, y: Any, indices: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(indices)), indices)
    return builder.shuffle_vector(x, y, mask)


def _parted(builder: Any, line: Any, numbers: Numbers) -> Vectors:
    """Real and imaginary parts of numbers as memory has them."""
    parts = _parts(numbers)
    if parts == 1:
        return [line]
    count = numbers.width * parts
    return [_shuffled(builder, line, line, list(range(k, count, parts))) for k in range(parts)]


def _joined(builder: Any, vectors: Vectors) -> Any:
    """The inverse of `_parted`."""
    if len(vectors) == 1:
        return vectors[0]
    width = vectors[0].type.count
    real, imaginary = vectors
    return _shuffled(
        builder, real, imaginary, [k for lane in range(width) for k in (lane, width + lane)]
    )


def _transpose(builder: Any, lines: Vectors, numbers: Numbers) -> Vectors:
    """Number j of line i becomes number i of line j."""
    width, parts, lines = numbers.width, _parts(numbers), list(lines)

    def mixed(i: int, other: int, chosen: list[tuple[int, int]]) -> Any:
        indices = [(which * width + k) * parts + p for which, k in chosen for p in range(parts)]
        return _shuffled(builder, lines[i], lines[other], indices)

    apart = 1
    while apart < width:
        for i in range(width):
            if i & apart:
                continue
            first = [(1, j - apart) if j & apart else (0, j) for j in range(width)]
            second = [(1, j) if j & apart else (0, j + apart) for j in range(width)]
            pair = mixed(i, i + apart, first), mixed(i, i + apart, second)
            lines[i], lines[i + apart] = pair
        apart *= 2
    return lines


def _line_pointers(
    context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers
) -> Any:
    """Where the line of each lane begins: ``array[places[kind] + shift]``."""
    array, places, kind, shift = values
    data = data_of(context, builder, signature.args[0], array)
    table = data_of(context, builder, signature.args[1], places)
    row = builder.mul(kind, ir.Constant(_I64, numbers.width))
    for lane in range(numbers.width):
        place = builder.load(builder.gep(table, [builder.add(row, ir.Constant(_I64, lane))]))
        pointer = builder.gep(data, [builder.add(place, shift)])
        yield builder.bitcast(pointer, _line_type(context, numbers).as_pointer())


def _tile_pointers(context: Any, builder: Any, kind: Any, values: Any, numbers: Numbers) -> Any:
    """Where `keep` has the numbers of each of as many steps as there are lanes."""
    tile, at = values[:2]
    data = data_of(context, builder, kind, tile)
    vector = context.get_value_type(numbers.sizes)
    pointer = builder.bitcast(builder.gep(data, [at]), vector.as_pointer())
    for step in range(numbers.width):
        first = step * _parts(numbers)
        yield [builder.gep(pointer, [ir.Constant(_I64, first + k)]) for k in range(_parts(numbers))]


def _fetch(context: Any, builder: Any, pointer: Any, distance: Any, is_written: int = 0) -> None:
    """Ask for the line of memory so many bytes after a pointer, which may lie anywhere."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    pointer = builder.gep(builder.bitcast(pointer, byte), [distance])
    builder.call(fetch, [pointer, _I32(is_written), _I32(3), _I32(1)])


@intrinsic
def turn_in(_: Any, tile: Any, at: Any, array: Any, places: Any, kind: Any, shift: Any) -> Any:
    """``keep(tile, at + k * width, array[places[kind] + shift + k])`` for each k < width."""
    numbers = numbers_of(array)
    align = numbers.sizes.dtype.bitwidth // 8

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        inner = types.void(*signature.args[2:])
        pointers = _line_pointers(context, builder, inner, values[2:], numbers)
        pointers = list(pointers)
        for pointer in pointers:
            _fetch(context, builder, pointer, _I64(AHEAD * numbers.dtype.bitwidth // 8))
        lines = [builder.load(pointer, align=align) for pointer in pointers]
        targets = _tile_pointers(context, builder, signature.args[0], values, numbers)
        for line, target in zip(_transpose(builder, lines, numbers), targets, strict=True):
            for vector, pointer in zip(_parted(builder, line, numbers), target, strict=True):
                builder.store(vector, pointer, align=align)
        return context.get_dummy_value()

    return types.void(tile, types.intp, array, places, types.int64, types.int64), code


@intrinsic
def turn_out(_: Any, tile: Any, at: Any, array: Any, places: Any, kind: Any, shift: Any) -> Any:
    """``array[places[kind] + shift + k] = recall(tile, at + k * width)`` for each k < width."""
    numbers = numbers_of(array)
    align = numbers.sizes.dtype.bitwidth // 8

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sources = _tile_pointers(context, builder, signature.args[0], values, numbers)
        lines = [
            _joined(builder, [builder.load(pointer, align=align) for pointer in source])
            for source in sources
        ]
        inner = types.void(*signature.args[2:])
        pointers = _line_pointers(context, builder, inner, values[2:], numbers)
        for line, pointer in zip(_transpose(builder, lines, numbers), pointers, strict=True):
            builder.store(line, pointer, align=align)
            _fetch(context, builder, pointer, _I64(-AHEAD * numbers.dtype.bitwidth // 8), 1)
        return context.get_dummy_value()

    return types.void(tile, types.intp, array, places, types.int64, types.int64), code


@intrinsic
def fetch(_: Any, array: Any, at: Any) -> Any:
    """Ask for the line of memory of ``array[at]``, which may lie outside."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_of(context, builder, signature.args[0], values[0])
        _fetch(context, builder, builder.gep(data, [values[1]]), _I64(0))
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@intrinsic
def line_at(_: Any, array: Any, at: Any) -> Any:
    """``array[at:at + width]``, side by side."""
    numbers = numbers_of(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_of(context, builder, signature.args[0], values[0])
        pointer = builder.gep(data, [values[1]])
        pointer = builder.bitcast(pointer, _line_type(context, numbers).as_pointer())
        line = builder.load(pointer, align=numbers.sizes.dtype.bitwidth // 8)
        return value_of(builder, _parted(builder, line, numbers))

    return numbers(array, types.intp), code


@intrinsic
def line_to(_: Any, array: Any, at: Any, numbers: Any) -> Any:
    """``array[at:at + width] = numbers``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_of(context, builder, signature.args[0], values[0])
        pointer = builder.gep(data, [values[1]])
        pointer = builder.bitcast(pointer, _line_type(context, numbers).as_pointer())
        line = _joined(builder, vectors_of(builder, values[2]))
        builder.store(line, pointer, align=numbers.sizes.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, numbers), code


@intrinsic
def same_at(_: Any, array: Any, at: Any) -> Any:
    """``array[at]`` in every lane."""
    numbers = numbers_of(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_of(context, builder, signature.args[0], values[0])
        part = context.get_value_type(numbers.sizes.dtype)
        pointer = builder.bitcast(builder.gep(data, [values[1]]), part.as_pointer())
        vector = context.get_value_type(numbers.sizes)
        empty, vectors = ir.Constant(vector, ir.Undefined), []
        for k in range(_parts(numbers)):
            number = builder.load(builder.gep(pointer, [ir.Constant(_I64, k)]))
            first = builder.insert_element(empty, number, ir.Constant(_I32, 0))
            vectors.append(_shuffled(builder, first, empty, [0] * numbers.width))
        return value_of(builder, vectors)

    return numbers(array, types.intp), code
