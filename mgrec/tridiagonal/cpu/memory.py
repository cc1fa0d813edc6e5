"""Loads and stores of numbers side by side: one after the other, scattered, or transposed.

Systems that lie one after the other in memory are loaded in square blocks, as many steps of as
many systems as there are lanes, and transposed. Loaded number by number they took 1 ns a number,
as long as the elimination.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .vectors import BYTES, Numbers, Vectors, value_of, vectors_of

# Numbers from a load to its prefetch: 2,000 systems of 4,095 took 3.4 ns an unknown without, 2.4
# with; 10^5 systems of 16 took 5.4 without, 4.5 with 64 and 2.7 with 256.
PREFETCH_DISTANCE = 256
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def vector_type(array: Any) -> Numbers:
    """Return the type of numbers of an array side by side."""
    return Numbers(array.dtype, 8 * BYTES // array.dtype.bitwidth)


def _parts(numbers: Numbers) -> int:
    """Return 2 for complex numbers, whose real and imaginary parts alternate in memory."""
    return 1 if numbers == numbers.sizes else 2


def _align(numbers: Numbers) -> int:
    return int(numbers.sizes.dtype.bitwidth // 8)


def data_pointer(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    """Return a pointer to the numbers of an array, or of a result of `pointer_to`."""
    if isinstance(array_type, types.CPointer):
        return value
    return context.make_array(array_type)(context, builder, value).data


@intrinsic
def pointer_to(_: Any, array: Any) -> Any:
    """Return a contiguous array without its owner.

    Passing arrays between functions counts references by an atomic instruction, for which threads
    wait: 0.5 of the 0.8 ns to read a row.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return data_pointer(context, builder, signature.args[0], values[0])

    return types.CPointer(array.dtype)(array), code


@intrinsic
def advance_pointer(_: Any, pointer: Any, count: Any) -> Any:
    """Return a pointer `count` numbers further."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return pointer(pointer, types.intp), code


def lane_count(array: Any) -> int:
    """Return how many numbers of an array are side by side. For compiled code only."""
    raise NotImplementedError


@overload(lane_count, strict=False)
def _lane_count(array: Any) -> Any:
    width = vector_type(array).width
    return lambda array: width


def _lane_offsets(context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers) -> Any:
    """Yield the offset ``offsets[row] + shift`` of each lane, from (array, offsets, row, shift)."""
    _, offsets, row, shift = values[:4]
    table = data_pointer(context, builder, signature.args[1], offsets)
    start = builder.mul(row, ir.Constant(_I64, numbers.width))
    for lane in range(numbers.width):
        offset = builder.load(builder.gep(table, [builder.add(start, ir.Constant(_I64, lane))]))
        yield builder.add(offset, shift)


def _scattered_pointers(
    context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers
) -> Any:
    """Yield lane, part (0 real, 1 imaginary) and the pointer to ``array[offsets[row] + shift]``."""
    data = data_pointer(context, builder, signature.args[0], values[0])
    part = context.get_value_type(numbers.sizes.dtype)
    data = builder.bitcast(data, part.as_pointer())
    parts = _parts(numbers)
    for lane, offset in enumerate(_lane_offsets(context, builder, signature, values, numbers)):
        first = builder.mul(offset, ir.Constant(_I64, parts))
        for k in range(parts):
            yield lane, k, builder.gep(data, [builder.add(first, ir.Constant(_I64, k))])


@intrinsic
def gather(_: Any, array: Any, offsets: Any, row: Any, shift: Any) -> Any:
    """Return ``array[offsets[row] + shift]``, a number for each lane; `array` is 1-d."""
    numbers = vector_type(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(numbers.sizes)
        vectors = [ir.Constant(vector, ir.Undefined)] * _parts(numbers)
        pointers = _scattered_pointers(context, builder, signature, values, numbers)
        for lane, k, pointer in pointers:
            index = ir.Constant(_I32, lane)
            vectors[k] = builder.insert_element(vectors[k], builder.load(pointer), index)
        return value_of(builder, vectors)

    return numbers(array, offsets, types.int64, types.int64), code


@intrinsic
def scatter(_: Any, array: Any, offsets: Any, row: Any, shift: Any, numbers: Any) -> Any:
    """Write ``array[offsets[row] + shift] = numbers``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vectors = vectors_of(builder, values[4])
        pointers = _scattered_pointers(context, builder, signature, values, numbers)
        for lane, k, pointer in pointers:
            builder.store(builder.extract_element(vectors[k], ir.Constant(_I32, lane)), pointer)
        return context.get_dummy_value()

    return types.void(array, offsets, types.int64, types.int64, numbers), code


def _stored_pointers(
    context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers
) -> Any:
    """Return the pointers to the real and the imaginary parts that `store` writes at an index."""
    data = data_pointer(context, builder, signature.args[0], values[0])
    first = builder.gep(data, [values[1]])
    vector = context.get_value_type(numbers.sizes)
    pointer = builder.bitcast(first, vector.as_pointer())
    return [builder.gep(pointer, [ir.Constant(_I64, k)]) for k in range(_parts(numbers))]


def _load(array: Any, numbers: Numbers) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = _stored_pointers(context, builder, signature, values, numbers)
        align = _align(numbers)
        return value_of(builder, [builder.load(pointer, align=align) for pointer in pointers])

    return numbers(array, types.intp), code


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """Return the numbers that `store` wrote at an index."""
    return _load(array, vector_type(array))


@intrinsic
def load_scalar(_: Any, array: Any, index: Any) -> Any:
    """Return one number of a 1-d array."""
    return _load(array, Numbers(array.dtype, 1))


@intrinsic
def store(_: Any, array: Any, index: Any, numbers: Any) -> Any:
    """Write numbers one after the other; of complex numbers, the imaginary parts last."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = _stored_pointers(context, builder, signature, values, numbers)
        for vector, pointer in zip(vectors_of(builder, values[2]), pointers, strict=True):
            builder.store(vector, pointer, align=_align(numbers))
        return context.get_dummy_value()

    return types.void(array, types.intp, numbers), code


def _vector_pointer(context: Any, builder: Any, pointer: Any, numbers: Numbers) -> Any:
    """Return a pointer to a vector in memory order, with alternating parts of complex numbers."""
    part = context.get_value_type(numbers.sizes.dtype)
    vector = ir.VectorType(part, numbers.width * _parts(numbers))
    return builder.bitcast(pointer, vector.as_pointer())


def _shuffled(builder: Any, x: Any, y: Any, indices: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(_I32, len(indices)), indices)
    return builder.shuffle_vector(x, y, mask)


def _deinterleave(builder: Any, vector: Any, numbers: Numbers) -> Vectors:
    """Return the real and the imaginary parts of a vector in memory order."""
    parts = _parts(numbers)
    if parts == 1:
        return [vector]
    count = numbers.width * parts
    return [_shuffled(builder, vector, vector, list(range(k, count, parts))) for k in range(parts)]


def _interleave(builder: Any, vectors: Vectors) -> Any:
    """Return a vector in memory order: the inverse of `_deinterleave`."""
    if len(vectors) == 1:
        return vectors[0]
    width = vectors[0].type.count
    real, imaginary = vectors
    return _shuffled(
        builder, real, imaginary, [k for lane in range(width) for k in (lane, width + lane)]
    )


def _transpose(builder: Any, vectors: Vectors, numbers: Numbers) -> Vectors:
    """Transpose a square block: number j of vector i becomes number i of vector j."""
    width, parts, rows = numbers.width, _parts(numbers), list(vectors)

    def mixed(i: int, other: int, sources: list[tuple[int, int]]) -> Any:
        indices = [(which * width + k) * parts + p for which, k in sources for p in range(parts)]
        return _shuffled(builder, rows[i], rows[other], indices)

    distance = 1
    while distance < width:
        for i in range(width):
            if i & distance:
                continue
            first = [(1, j - distance) if j & distance else (0, j) for j in range(width)]
            second = [(1, j) if j & distance else (0, j + distance) for j in range(width)]
            pair = mixed(i, i + distance, first), mixed(i, i + distance, second)
            rows[i], rows[i + distance] = pair
        distance *= 2
    return rows


def _row_pointers(context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers) -> Any:
    """Yield for each lane a pointer to the numbers from ``array[offsets[row] + shift]``."""
    data = data_pointer(context, builder, signature.args[0], values[0])
    for offset in _lane_offsets(context, builder, signature, values, numbers):
        yield _vector_pointer(context, builder, builder.gep(data, [offset]), numbers)


def _tile_pointers(
    context: Any, builder: Any, array_type: Any, values: Any, numbers: Numbers
) -> Any:
    """Yield the pointers to the parts that `store` writes, for as many steps as lanes."""
    tile, index = values[:2]
    data = data_pointer(context, builder, array_type, tile)
    vector = context.get_value_type(numbers.sizes)
    pointer = builder.bitcast(builder.gep(data, [index]), vector.as_pointer())
    for step in range(numbers.width):
        first = step * _parts(numbers)
        yield [builder.gep(pointer, [ir.Constant(_I64, first + k)]) for k in range(_parts(numbers))]


def _prefetch(context: Any, builder: Any, pointer: Any, distance: Any, is_written: int = 0) -> None:
    """Prefetch the cache line `distance` bytes after a pointer; it may lie outside the array."""
    byte = ir.IntType(8).as_pointer()
    function_type = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
    pointer = builder.gep(builder.bitcast(pointer, byte), [distance])
    builder.call(function, [pointer, _I32(is_written), _I32(3), _I32(1)])


@intrinsic
def load_transposed(
    _: Any, tile: Any, index: Any, array: Any, offsets: Any, row: Any, shift: Any
) -> Any:
    """``store(tile, index + k * width, array[offsets[row] + shift + k])`` for each k < width."""
    numbers = vector_type(array)
    align = _align(numbers)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source = types.void(*signature.args[2:])
        pointers = list(_row_pointers(context, builder, source, values[2:], numbers))
        for pointer in pointers:
            distance = _I64(PREFETCH_DISTANCE * numbers.dtype.bitwidth // 8)
            _prefetch(context, builder, pointer, distance)
        vectors = [builder.load(pointer, align=align) for pointer in pointers]
        targets = _tile_pointers(context, builder, signature.args[0], values, numbers)
        for vector, target in zip(_transpose(builder, vectors, numbers), targets, strict=True):
            parts = _deinterleave(builder, vector, numbers)
            for part, pointer in zip(parts, target, strict=True):
                builder.store(part, pointer, align=align)
        return context.get_dummy_value()

    return types.void(tile, types.intp, array, offsets, types.int64, types.int64), code


@intrinsic
def store_transposed(
    _: Any, tile: Any, index: Any, array: Any, offsets: Any, row: Any, shift: Any
) -> Any:
    """``array[offsets[row] + shift + k] = load(tile, index + k * width)`` for each k < width."""
    numbers = vector_type(array)
    align = _align(numbers)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        sources = _tile_pointers(context, builder, signature.args[0], values, numbers)
        vectors = [
            _interleave(builder, [builder.load(pointer, align=align) for pointer in source])
            for source in sources
        ]
        target = types.void(*signature.args[2:])
        pointers = _row_pointers(context, builder, target, values[2:], numbers)
        for vector, pointer in zip(_transpose(builder, vectors, numbers), pointers, strict=True):
            builder.store(vector, pointer, align=align)
            distance = _I64(-PREFETCH_DISTANCE * numbers.dtype.bitwidth // 8)
            _prefetch(context, builder, pointer, distance, 1)
        return context.get_dummy_value()

    return types.void(tile, types.intp, array, offsets, types.int64, types.int64), code


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``, which may lie outside the array."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_pointer(context, builder, signature.args[0], values[0])
        _prefetch(context, builder, builder.gep(data, [values[1]]), _I64(0))
        return context.get_dummy_value()

    return types.void(array, types.intp), code


@intrinsic
def load_contiguous(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index:index + width]``."""
    numbers = vector_type(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_pointer(context, builder, signature.args[0], values[0])
        pointer = _vector_pointer(context, builder, builder.gep(data, [values[1]]), numbers)
        vector = builder.load(pointer, align=_align(numbers))
        return value_of(builder, _deinterleave(builder, vector, numbers))

    return numbers(array, types.intp), code


@intrinsic
def store_contiguous(_: Any, array: Any, index: Any, numbers: Any) -> Any:
    """Write ``array[index:index + width] = numbers``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_pointer(context, builder, signature.args[0], values[0])
        pointer = _vector_pointer(context, builder, builder.gep(data, [values[1]]), numbers)
        vector = _interleave(builder, vectors_of(builder, values[2]))
        builder.store(vector, pointer, align=_align(numbers))
        return context.get_dummy_value()

    return types.void(array, types.intp, numbers), code


@intrinsic
def load_broadcast(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]`` in every lane."""
    numbers = vector_type(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = data_pointer(context, builder, signature.args[0], values[0])
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
