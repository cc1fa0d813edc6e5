"""Loads and stores of numbers side by side: one after the other, scattered, or transposed.

Systems that lie one after the other in memory are loaded in square blocks, as many steps of as
many systems as there are lanes, and transposed. Loaded number by number they took 1 ns a number,
as long as the elimination.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...engines.cpu.lanes import in_every_lane, shuffle_mask, transposed
from .vectors import BYTES, Numbers, Vectors, emitted, value_of, vectors_of

# Numbers from a load to its prefetch: 2,000 systems of 4,095 took 3.4 ns an unknown without, 2.4
# with; 10^5 systems of 16 took 5.4 without, 4.5 with 64 and 2.7 with 256.
PREFETCH_DISTANCE = 256
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def vector_type(array: Any) -> Numbers:
    """Return the type of numbers of an array side by side."""
    return Numbers(array.dtype, 8 * BYTES // array.dtype.bitwidth)


@emitted
def lane_count(_: Any, array: Any) -> Any:
    """Return how many numbers of an array are side by side."""
    width = vector_type(array).width

    def emit(context: Any, builder: Any, _: Any) -> Any:
        return context.get_constant(types.intp, width)

    return types.intp(array), emit


class _Memory:
    """Emits loads and stores of `numbers` in an array, or at a pointer of it.

    Loads and stores are aligned to `align` bytes. Complex numbers have 2 `parts`, which alternate
    in memory: real and imaginary parts.
    """

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any, numbers: Numbers):
        self.builder, self.width = builder, numbers.width
        self.data = array
        if not isinstance(array_type, types.CPointer):
            self.data = context.make_array(array_type)(context, builder, array).data
        self.parts = 1 if numbers == numbers.sizes else 2
        self.align = int(numbers.sizes.dtype.bitwidth // 8)
        self.vector = context.get_value_type(numbers.sizes)

    def pointer(self, index: Any, type_: Any) -> Any:
        """Return a pointer to a number."""
        return self.builder.bitcast(self.builder.gep(self.data, [index]), type_.as_pointer())

    def scalars(self, index: Any) -> list[Any]:
        """Return pointers to the parts of a number."""
        return self._pointers(self.pointer(index, self.vector.element), 0)

    def stored(self, index: Any, step: int = 0) -> list[Any]:
        """Return pointers to vectors of the parts of the numbers that `store` writes."""
        return self._pointers(self.pointer(index, self.vector), step * self.parts)

    def _pointers(self, pointer: Any, first: int) -> list[Any]:
        return [self.builder.gep(pointer, [_I64(first + k)]) for k in range(self.parts)]

    def contiguous(self, index: Any) -> Any:
        """Return a pointer to a vector of numbers, with alternating parts."""
        return self.pointer(index, ir.VectorType(self.vector.element, self.width * self.parts))

    def deinterleaved(self, vector: Any) -> Vectors:
        """Return the parts of a vector of numbers."""
        if self.parts == 1:
            return [vector]
        masks = (list(range(k, 2 * self.width, 2)) for k in range(2))
        shuffle = self.builder.shuffle_vector
        return [shuffle(vector, vector, shuffle_mask(mask)) for mask in masks]

    def interleaved(self, vectors: Vectors) -> Any:
        """Return a vector of numbers: the inverse of `deinterleaved`."""
        if len(vectors) == 1:
            return vectors[0]
        mask = [k for lane in range(self.width) for k in (lane, self.width + lane)]
        return self.builder.shuffle_vector(*vectors, shuffle_mask(mask))

    def load(self, pointers: list[Any]) -> Vectors:
        return [self.builder.load(pointer, align=self.align) for pointer in pointers]

    def store(self, vectors: Vectors, pointers: list[Any]) -> None:
        for vector, pointer in zip(vectors, pointers, strict=True):
            self.builder.store(vector, pointer, align=self.align)

    def prefetch(self, pointer: Any, distance: int, is_written: int = 0) -> None:
        """Prefetch the cache line `distance` numbers after a pointer, also outside the array."""
        byte = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        module = self.builder.module
        function = cgutils.get_or_insert_function(module, function_type, "llvm.prefetch.p0i8")
        size = self.align * self.parts
        pointer = self.builder.gep(self.builder.bitcast(pointer, byte), [_I64(distance * size)])
        self.builder.call(function, [pointer, _I32(is_written), _I32(3), _I32(1)])


def _lane_indices(
    context: Any, memory: _Memory, offsets_type: Any, offsets: Any, row: Any, shift: Any
) -> Iterator[Any]:
    """Yield the index ``offsets[row] + shift`` of each lane."""
    builder = memory.builder
    table = _Memory(context, builder, offsets_type, offsets, Numbers(types.int64, memory.width))
    start = builder.mul(row, _I64(memory.width))
    for lane in range(memory.width):
        offset = builder.load(builder.gep(table.data, [builder.add(start, _I64(lane))]))
        yield builder.add(offset, shift)


@emitted
def gather(_: Any, array: Any, offsets: Any, row: Any, shift: Any) -> Any:
    """Return ``array[offsets[row] + shift]``, a number for each lane; `array` is 1-d."""
    numbers = vector_type(array)

    def emit(context: Any, builder: Any, value: Any, *table: Any) -> Any:
        memory = _Memory(context, builder, array, value, numbers)
        vectors = [ir.Constant(memory.vector, ir.Undefined)] * memory.parts
        for lane, index in enumerate(_lane_indices(context, memory, offsets, *table)):
            for k, pointer in enumerate(memory.scalars(index)):
                number = builder.load(pointer)
                vectors[k] = builder.insert_element(vectors[k], number, _I32(lane))
        return value_of(builder, vectors)

    return numbers(array, offsets, types.int64, types.int64), emit


@emitted
def scatter(_: Any, array: Any, offsets: Any, row: Any, shift: Any, numbers: Any) -> Any:
    """Write ``array[offsets[row] + shift] = numbers``."""

    def emit(context: Any, builder: Any, value: Any, *values: Any) -> None:
        memory = _Memory(context, builder, array, value, numbers)
        *table, stored = values
        for lane, index in enumerate(_lane_indices(context, memory, offsets, *table)):
            pointers = memory.scalars(index)
            for vector, pointer in zip(vectors_of(builder, stored), pointers, strict=True):
                builder.store(builder.extract_element(vector, _I32(lane)), pointer)

    return types.void(array, offsets, types.int64, types.int64, numbers), emit


def _load(array: Any, numbers: Numbers) -> Any:
    def emit(context: Any, builder: Any, value: Any, index: Any) -> Any:
        memory = _Memory(context, builder, array, value, numbers)
        return value_of(builder, memory.load(memory.stored(index)))

    return numbers(array, types.intp), emit


@emitted
def load(_: Any, array: Any, index: Any) -> Any:
    """Return the numbers that `store` wrote at an index."""
    return _load(array, vector_type(array))


@emitted
def load_scalar(_: Any, array: Any, index: Any) -> Any:
    """Return one number of a 1-d array."""
    return _load(array, Numbers(array.dtype, 1))


def row_loader(count: int, *, is_scalar: bool = False) -> Any:
    """Make a function ``(array, index, spacing)`` that loads `count` numbers as a tuple.

    The numbers are `spacing` apart. Each is as that of `load`, or of `load_scalar`.
    """

    @emitted
    def load_row(_: Any, array: Any, index: Any, spacing: Any) -> Any:
        numbers = Numbers(array.dtype, 1) if is_scalar else vector_type(array)
        row = types.UniTuple(numbers, count)

        def emit(context: Any, builder: Any, value: Any, index: Any, spacing: Any) -> Any:
            memory, items = _Memory(context, builder, array, value, numbers), []
            for _ in range(count):
                items.append(value_of(builder, memory.load(memory.stored(index))))
                index = builder.add(index, spacing)
            return context.make_tuple(builder, row, items)

        return row(array, types.intp, types.intp), emit

    return load_row


@emitted
def store(_: Any, array: Any, index: Any, numbers: Any) -> Any:
    """Write numbers one after the other; of complex numbers, the imaginary parts last."""

    def emit(context: Any, builder: Any, value: Any, index: Any, stored: Any) -> None:
        memory = _Memory(context, builder, array, value, numbers)
        memory.store(vectors_of(builder, stored), memory.stored(index))

    return types.void(array, types.intp, numbers), emit


@emitted
def load_transposed(_: Any, tile: Any, index: Any, array: Any, offsets: Any, row: Any, shift: Any) -> Any:
    """``store(tile, index + k * width, array[offsets[row] + shift + k])`` for each k < width."""
    numbers = vector_type(array)

    def emit(context: Any, builder: Any, target: Any, start: Any, value: Any, *table: Any) -> None:
        memory = _Memory(context, builder, array, value, numbers)
        indices = _lane_indices(context, memory, offsets, *table)
        pointers = [memory.contiguous(index) for index in indices]
        for pointer in pointers:
            memory.prefetch(pointer, PREFETCH_DISTANCE)
        stored = _Memory(context, builder, tile, target, numbers)
        steps = transposed(builder, memory.load(pointers), memory.parts)
        for step, vector in enumerate(steps):
            stored.store(memory.deinterleaved(vector), stored.stored(start, step))

    return types.void(tile, types.intp, array, offsets, types.int64, types.int64), emit


@emitted
def store_transposed(_: Any, tile: Any, index: Any, array: Any, offsets: Any, row: Any, shift: Any) -> Any:
    """``array[offsets[row] + shift + k] = load(tile, index + k * width)`` for each k < width."""
    numbers = vector_type(array)

    def emit(context: Any, builder: Any, source: Any, start: Any, value: Any, *table: Any) -> None:
        memory = _Memory(context, builder, array, value, numbers)
        stored = _Memory(context, builder, tile, source, numbers)
        vectors = [
            memory.interleaved(stored.load(stored.stored(start, step))) for step in range(numbers.width)
        ]
        indices = _lane_indices(context, memory, offsets, *table)
        rows = transposed(builder, vectors, memory.parts)
        for vector, index in zip(rows, indices, strict=True):
            pointer = memory.contiguous(index)
            memory.store([vector], [pointer])
            memory.prefetch(pointer, -PREFETCH_DISTANCE, 1)

    return types.void(tile, types.intp, array, offsets, types.int64, types.int64), emit


@emitted
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``, which may lie outside the array."""

    def emit(context: Any, builder: Any, value: Any, index: Any) -> None:
        memory = _Memory(context, builder, array, value, vector_type(array))
        memory.prefetch(builder.gep(memory.data, [index]), 0)

    return types.void(array, types.intp), emit


@emitted
def load_contiguous(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index:index + width]``."""
    numbers = vector_type(array)

    def emit(context: Any, builder: Any, value: Any, index: Any) -> Any:
        memory = _Memory(context, builder, array, value, numbers)
        (vector,) = memory.load([memory.contiguous(index)])
        return value_of(builder, memory.deinterleaved(vector))

    return numbers(array, types.intp), emit


@emitted
def store_contiguous(_: Any, array: Any, index: Any, numbers: Any) -> Any:
    """Write ``array[index:index + width] = numbers``."""

    def emit(context: Any, builder: Any, value: Any, index: Any, stored: Any) -> None:
        memory = _Memory(context, builder, array, value, numbers)
        vector = memory.interleaved(vectors_of(builder, stored))
        memory.store([vector], [memory.contiguous(index)])

    return types.void(array, types.intp, numbers), emit


@emitted
def load_broadcast(_: Any, array: Any, index: Any) -> Any:
    """Return ``array[index]`` in every lane."""
    numbers = vector_type(array)

    def emit(context: Any, builder: Any, value: Any, index: Any) -> Any:
        pointers = _Memory(context, builder, array, value, numbers).scalars(index)
        loaded = (builder.load(pointer) for pointer in pointers)
        vectors = [in_every_lane(builder, number, numbers.width) for number in loaded]
        return value_of(builder, vectors)

    return numbers(array, types.intp), emit
