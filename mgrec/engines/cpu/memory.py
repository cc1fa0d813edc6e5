"""Loads and stores of numbers side by side: one after the other, scattered, or transposed.

Systems that lie one after the other in memory are loaded in square blocks, as many steps of as
many systems as there are lanes, and transposed. Loaded number by number they took 1 ns a number,
as long as the elimination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .lanes import in_every_lane, shuffle_mask, transposed
from .vectors import BYTES, Numbers, Vectors, operation

# Numbers from a load to its prefetch: 2,000 systems of 4,095 took 3.4 ns an unknown without, 2.4
# with; 10^5 systems of 16 took 5.4 without, 4.5 with 64 and 2.7 with 256.
PREFETCH_DISTANCE = 256
_I32, _I64 = ir.IntType(32), ir.IntType(64)


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

    def _pointers(self, index: Any, type_: Any, first: int = 0) -> list[Any]:
        """Return pointers to the `parts` values of a type from number `first` on, at an index."""
        pointer = self.builder.bitcast(self.builder.gep(self.data, [index]), type_.as_pointer())
        return [self.builder.gep(pointer, [_I64(first + k)]) for k in range(self.parts)]

    def scalars(self, index: Any) -> list[Any]:
        """Return pointers to the parts of a number."""
        return self._pointers(index, self.vector.element)

    def contiguous(self, index: Any) -> Any:
        """Return a pointer to a vector of numbers, with alternating parts."""
        return self._pointers(index, ir.VectorType(self.vector.element, self.width * self.parts))[0]

    def load(self, index: Any, step: int = 0) -> Vectors:
        """Load the numbers that `store` stored, or those `step` vectors later."""
        pointers = self._pointers(index, self.vector, step * self.parts)
        return [self.builder.load(pointer, align=self.align) for pointer in pointers]

    def store(self, vectors: Vectors, index: Any, step: int = 0) -> None:
        """Store numbers one after the other, of complex ones the imaginary parts last."""
        pointers = self._pointers(index, vectors[0].type, step * self.parts)
        for vector, pointer in zip(vectors, pointers, strict=True):
            self.builder.store(vector, pointer, align=self.align)

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

    def lanes(self, offsets: _Memory, row: Any, shift: Any) -> Iterator[Any]:
        """Yield the index ``offsets[row] + shift`` of each lane."""
        builder, start = self.builder, self.builder.mul(row, _I64(self.width))
        for lane in range(self.width):
            offset = builder.load(builder.gep(offsets.data, [builder.add(start, _I64(lane))]))
            yield builder.add(offset, shift)

    def prefetch(self, pointer: Any, distance: int, is_written: int = 0) -> None:
        """Prefetch the cache line `distance` numbers after a pointer, also outside the array."""
        byte = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        module = self.builder.module
        function = cgutils.get_or_insert_function(module, function_type, "llvm.prefetch.p0i8")
        size = self.align * self.parts
        pointer = self.builder.gep(self.builder.bitcast(pointer, byte), [_I64(distance * size)])
        self.builder.call(function, [pointer, _I32(is_written), _I32(3), _I32(1)])


def _access(result_of: Callable[[Any], Any], width: int | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of ``build(builder, *values)`` as `operation` does; arrays are passed as memory.

    `result_of` returns the type of the result for that of numbers of the first array, `width` of them
    side by side.
    """

    def numbers_of(array: Any) -> Numbers:
        return Numbers(array.dtype, width or 8 * BYTES // array.dtype.bitwidth)

    def convert(context: Any, builder: Any, type_: Any, value: Any) -> Any:
        is_array = isinstance(type_, types.Array | types.CPointer)
        return _Memory(context, builder, type_, value, numbers_of(type_)) if is_array else value

    return operation(lambda array, *_: result_of(numbers_of(array)), convert)


_loads, _stores = _access(lambda numbers: numbers), _access(lambda numbers: types.void)


@_access(lambda numbers: types.intp)
def lane_count(builder: Any, memory: Any) -> Any:
    """Return how many numbers of an array are side by side."""
    return _I64(memory.width)


@_loads
def gather(builder: Any, memory: Any, offsets: Any, row: Any, shift: Any) -> Any:
    """Return ``array[offsets[row] + shift]``, a number for each lane; `array` is 1-d."""
    vectors = [ir.Constant(memory.vector, ir.Undefined)] * memory.parts
    for lane, index in enumerate(memory.lanes(offsets, row, shift)):
        for k, pointer in enumerate(memory.scalars(index)):
            vectors[k] = builder.insert_element(vectors[k], builder.load(pointer), _I32(lane))
    return vectors


@_stores
def scatter(builder: Any, memory: Any, offsets: Any, row: Any, shift: Any, numbers: Any) -> None:
    """Write ``array[offsets[row] + shift] = numbers``."""
    for lane, index in enumerate(memory.lanes(offsets, row, shift)):
        for vector, pointer in zip(numbers, memory.scalars(index), strict=True):
            builder.store(builder.extract_element(vector, _I32(lane)), pointer)


@_loads
def load(builder: Any, memory: Any, index: Any) -> Any:
    """Return the numbers that `store` wrote at an index."""
    return memory.load(index)


def row_loader(count: int, *, is_scalar: bool = False) -> Any:
    """Make a function ``(array, index, spacing)`` that loads `count` numbers as a tuple."""

    @_access(lambda numbers: types.UniTuple(numbers, count), width=1 if is_scalar else None)
    def load_row(builder: Any, memory: Any, index: Any, spacing: Any) -> Any:
        for _ in range(count):
            yield memory.load(index)
            index = builder.add(index, spacing)

    return load_row


@_stores
def store(builder: Any, memory: Any, index: Any, numbers: Any) -> None:
    """Write numbers one after the other; of complex numbers, the imaginary parts last."""
    memory.store(numbers, index)


@_stores
def store_row(builder: Any, memory: Any, index: Any, spacing: Any, row: Any) -> None:
    """Store the numbers of a tuple, `spacing` apart."""
    for numbers in row:
        memory.store(numbers, index)
        index = builder.add(index, spacing)


@_stores
def load_transposed(
    builder: Any, tile: Any, start: Any, memory: Any, offsets: Any, row: Any, shift: Any
) -> None:
    """``store(tile, start + k * width, array[offsets[row] + shift + k])`` for each k < width."""
    pointers = [memory.contiguous(index) for index in memory.lanes(offsets, row, shift)]
    for pointer in pointers:
        memory.prefetch(pointer, PREFETCH_DISTANCE)
    rows = [builder.load(pointer, align=memory.align) for pointer in pointers]
    for step, vector in enumerate(transposed(builder, rows, memory.parts)):
        tile.store(memory.deinterleaved(vector), start, step)


@_stores
def store_transposed(
    builder: Any, tile: Any, start: Any, memory: Any, offsets: Any, row: Any, shift: Any
) -> None:
    """``array[offsets[row] + shift + k] = load(tile, start + k * width)`` for each k < width."""
    vectors = [memory.interleaved(tile.load(start, step)) for step in range(memory.width)]
    indices = memory.lanes(offsets, row, shift)
    for vector, index in zip(transposed(builder, vectors, memory.parts), indices, strict=True):
        pointer = memory.contiguous(index)
        builder.store(vector, pointer, align=memory.align)
        memory.prefetch(pointer, -PREFETCH_DISTANCE, 1)


@_stores
def prefetch(builder: Any, memory: Any, index: Any) -> None:
    """Prefetch the cache line of ``array[index]``, which may lie outside the array."""
    memory.prefetch(builder.gep(memory.data, [index]), 0)


@_loads
def load_contiguous(builder: Any, memory: Any, index: Any) -> Any:
    """Return ``array[index:index + width]``."""
    return memory.deinterleaved(builder.load(memory.contiguous(index), align=memory.align))


@_stores
def store_contiguous(builder: Any, memory: Any, index: Any, numbers: Any) -> None:
    """Write ``array[index:index + width] = numbers``."""
    builder.store(memory.interleaved(numbers), memory.contiguous(index), align=memory.align)


@_loads
def load_broadcast(builder: Any, memory: Any, index: Any) -> Any:
    """Return ``array[index]`` in every lane."""
    loaded = (builder.load(pointer) for pointer in memory.scalars(index))
    return [in_every_lane(builder, number, memory.width) for number in loaded]
