"""Numbers side by side in memory: each at a place of its own, or one after the other."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .numbers import BYTES, Numbers, value_of, vectors_of

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def numbers_of(array: Any) -> Numbers:
    """The type of what goes side by side, of an array's numbers."""
    return Numbers(array.dtype, 8 * BYTES // array.dtype.bitwidth)


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Where the numbers of an array begin, or what `pointer_to` has made of one."""
    if isinstance(kind, types.CPointer):
        return value
    return context.make_array(kind)(context, builder, value).data


@intrinsic
def pointer_to(_: Any, array: Any) -> Any:
    """A contiguous array without its owner.

    Passing arrays from function to function counts references, by an instruction that stops all
    others and that threads wait for each other in: 0.5 of 0.8 ns to read a row.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return data_of(context, builder, signature.args[0], values[0])

    return types.CPointer(array.dtype)(array), code


@intrinsic
def shifted(_: Any, pointer: Any, by: Any) -> Any:
    """A pointer to the numbers from number `by` on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return pointer(pointer, types.intp), code


def width_of(array: Any) -> int:
    """How many numbers of an array go side by side."""
    raise NotImplementedError  # compiled code only


@overload(width_of, strict=False)
def _width_of(array: Any) -> Any:
    width = numbers_of(array).width
    return lambda array: width


def _pointers(context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers) -> Any:
    """Of the real and of the imaginary parts: where each number lies."""
    array, places, kind, shift = values[:4]
    data = data_of(context, builder, signature.args[0], array)
    table = data_of(context, builder, signature.args[1], places)
    part = context.get_value_type(numbers.sizes.dtype)
    data = builder.bitcast(data, part.as_pointer())
    parts = 1 if numbers == numbers.sizes else 2
    line = builder.mul(kind, ir.Constant(_I64, numbers.width))
    for lane in range(numbers.width):
        place = builder.load(builder.gep(table, [builder.add(line, ir.Constant(_I64, lane))]))
        first = builder.mul(builder.add(place, shift), ir.Constant(_I64, parts))
        for k in range(parts):
            yield lane, k, builder.gep(data, [builder.add(first, ir.Constant(_I64, k))])


@intrinsic
def read(_: Any, array: Any, places: Any, kind: Any, shift: Any) -> Any:
    """The numbers ``array[places[kind] + shift]`` of a 1-d array."""
    numbers = numbers_of(array)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vector = context.get_value_type(numbers.sizes)
        vectors = [ir.Constant(vector, ir.Undefined)] * (1 if numbers == numbers.sizes else 2)
        for lane, k, pointer in _pointers(context, builder, signature, values, numbers):
            at = ir.Constant(_I32, lane)
            vectors[k] = builder.insert_element(vectors[k], builder.load(pointer), at)
        return value_of(builder, vectors)

    return numbers(array, places, types.int64, types.int64), code


@intrinsic
def write(_: Any, array: Any, places: Any, kind: Any, shift: Any, numbers: Any) -> Any:
    """``array[places[kind] + shift] = numbers``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        vectors = vectors_of(builder, values[4])
        for lane, k, pointer in _pointers(context, builder, signature, values, numbers):
            builder.store(builder.extract_element(vectors[k], ir.Constant(_I32, lane)), pointer)
        return context.get_dummy_value()

    return types.void(array, places, types.int64, types.int64, numbers), code


def _vectors_at(context: Any, builder: Any, signature: Any, values: Any, numbers: Numbers) -> Any:
    """Where the real and the imaginary parts lie that are kept at an index."""
    data = data_of(context, builder, signature.args[0], values[0])
    first = builder.gep(data, [values[1]])
    vector = context.get_value_type(numbers.sizes)
    pointer = builder.bitcast(first, vector.as_pointer())
    parts = 1 if numbers == numbers.sizes else 2
    return [builder.gep(pointer, [ir.Constant(_I64, k)]) for k in range(parts)]


def _loading(array: Any, numbers: Numbers) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = _vectors_at(context, builder, signature, values, numbers)
        align = numbers.sizes.dtype.bitwidth // 8
        return value_of(builder, [builder.load(pointer, align=align) for pointer in pointers])

    return numbers(array, types.intp), code


@intrinsic
def recall(_: Any, array: Any, at: Any) -> Any:
    """What `keep` has written at an index."""
    return _loading(array, numbers_of(array))


@intrinsic
def one_at(_: Any, array: Any, at: Any) -> Any:
    """One number of a 1-d array."""
    return _loading(array, Numbers(array.dtype, 1))


@intrinsic
def keep(_: Any, array: Any, at: Any, numbers: Any) -> Any:
    """Write numbers one after the other; of complex ones, the imaginary parts last."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = _vectors_at(context, builder, signature, values, numbers)
        align = numbers.sizes.dtype.bitwidth // 8
        for vector, pointer in zip(vectors_of(builder, values[2]), pointers, strict=True):
            builder.store(vector, pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, numbers), code
