"""Vectors, matrices, sizes and loops of kernels, each with few instructions of LLVM.

numba passes an array of two axes as nine numbers, copies them wherever a function reads an element,
and tests whether an index is negative: most of LLVM's text of a kernel, and of the time to compile
it. An element ``vector[i]`` or ``matrix[i, j]`` of this module is read or written by one
instruction. Indices must not be negative, and must be in bounds. Functions of a kernel take vectors
as a pointer, and matrices as a pointer and a stride.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import RefType, iternext_impl
from numba.core.typing.npydecl import parse_dtype
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from .stack import allocate


class _Matrix(types.Type):  # type: ignore[misc]
    """numba's type of a matrix in row-major order."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Matrix({dtype})")


@register_model(_Matrix)
class _MatrixModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, matrix: Any) -> None:
        members = [("data", types.CPointer(matrix.dtype)), ("stride", types.intp)]
        super().__init__(manager, matrix, members)


_INDEX = types.UniTuple(types.intp, 2)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, keywords: Any) -> Any:
        matrix, *_ = arguments
        return signature(matrix.dtype, matrix, _INDEX) if isinstance(matrix, _Matrix) else None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):  # type: ignore[misc]
    def generic(self, arguments: Any, keywords: Any) -> Any:
        matrix, *_ = arguments
        if not isinstance(matrix, _Matrix):
            return None
        return signature(types.none, matrix, _INDEX, matrix.dtype)


def _element(builder: Any, matrix: Any, index: Any) -> Any:
    data, stride = cgutils.unpack_tuple(builder, matrix)
    row, column = cgutils.unpack_tuple(builder, index)
    return builder.gep(data, [builder.add(builder.mul(row, stride), column)])


@lower_builtin(operator.getitem, _Matrix, types.UniTuple)
def _read(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.load(_element(builder, *values))


@lower_builtin(operator.setitem, _Matrix, types.UniTuple, types.Any)
def _write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    matrix, index, value = values
    builder.store(value, _element(builder, matrix, index))


@intrinsic
def pointers_to(_: Any, arrays: Any) -> Any:
    """``pointers_to(arrays)`` is a vector for each array of a tuple: see :func:`pointer_to`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers = [
            context.make_array(array_type)(context, builder, array).data
            for array_type, array in zip(arrays, cgutils.unpack_tuple(builder, values[0]), strict=True)
        ]
        return context.make_tuple(builder, signature.return_type, pointers)

    return types.Tuple([types.CPointer(array.dtype) for array in arrays])(arrays), code


@intrinsic
def pointer_to(_: Any, array: Any) -> Any:
    """``pointer_to(array)`` is a vector of all numbers of an array in C order."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.make_array(array)(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), code


@intrinsic
def advance_pointer(_: Any, vector: Any, start: Any) -> Any:
    """``advance_pointer(vector, start)`` is the part of a vector from an index on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.gep(values[0], [values[1]])

    return vector(vector, types.intp), code


@intrinsic
def copy_numbers(_: Any, source: Any, target: Any, count: Any) -> Any:
    """``copy_numbers(source, target, count)`` copies the first numbers of a vector to another one."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        itemsize = context.get_abi_sizeof(context.get_data_type(source.dtype))
        cgutils.raw_memcpy(builder, values[1], values[0], values[2], itemsize)
        return context.get_dummy_value()

    return types.none(source, target, types.intp), code


@intrinsic
def inputs_of(_: Any, model: Any) -> Any:
    """``inputs_of((operands, strides))`` is a vector for each flat operand, and its three strides.

    `strides` is an array: numba reads a tuple of integers by more instructions than most kernels have.
    """
    operands, strides = model
    types_of_strides = types.UniTuple(types.UniTuple(types.intp, 3), len(operands))

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointers, numbers = signature.return_type
        arrays, strides_array = cgutils.unpack_tuple(builder, values[0])
        data = context.make_array(strides)(context, builder, strides_array).data
        vectors, rows = [], []
        for k, (array_type, array) in enumerate(
            zip(operands, cgutils.unpack_tuple(builder, arrays), strict=True)
        ):
            vectors.append(context.make_array(array_type)(context, builder, array).data)
            axes = [
                builder.load(builder.gep(data, [context.get_constant(types.intp, 3 * k + axis)]))
                for axis in range(3)
            ]
            rows.append(context.make_tuple(builder, numbers.dtype, axes))
        pair = context.make_tuple(builder, pointers, vectors), context.make_tuple(builder, numbers, rows)
        return context.make_tuple(builder, signature.return_type, pair)

    vectors = types.Tuple([types.CPointer(array.dtype) for array in operands])
    return types.Tuple([vectors, types_of_strides])(model), code


@intrinsic
def advance_pointers(_: Any, vectors: Any, strides: Any, step: Any) -> Any:
    """``advance_pointers(vectors, strides, (x, step, y))`` are the parts of operands from a step on.

    `strides` has for each vector those along the three axes.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        unpacked = [cgutils.unpack_tuple(builder, value) for value in values]
        advanced = []
        for vector, axes in zip(*unpacked[:2], strict=True):
            for stride, number in zip(cgutils.unpack_tuple(builder, axes), unpacked[2], strict=True):
                vector = builder.gep(vector, [builder.mul(stride, number)])
            advanced.append(vector)
        return context.make_tuple(builder, signature.return_type, advanced)

    return vectors(vectors, strides, step), code


def _pair(context: Any, builder: Any, pair_type: Any, first: Any, second: Any) -> Any:
    pair = ir.Constant(context.get_value_type(pair_type), ir.Undefined)
    return builder.insert_value(builder.insert_value(pair, first, 0), second, 1)


@intrinsic
def as_matrix(_: Any, vector: Any, columns: Any) -> Any:
    """``as_matrix(vector, columns)`` is a matrix of the numbers of a vector."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _pair(context, builder, signature.return_type, *values)

    return _Matrix(vector.dtype)(vector, types.intp), code


@intrinsic
def submatrix(_: Any, matrix: Any, row: Any, column: Any) -> Any:
    """``submatrix(matrix, row, column)`` is the part of a matrix from an element on."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, stride = cgutils.unpack_tuple(builder, values[0])
        pointer = _element(builder, values[0], context.make_tuple(builder, _INDEX, values[1:]))
        return _pair(context, builder, matrix, pointer, stride)

    return matrix(matrix, types.intp, types.intp), code


def _memory(context: Any, builder: Any, dtype: Any, size: Any) -> Any:
    itemsize = context.get_constant(types.intp, dtype.bitwidth // 8)
    memory = allocate(builder, builder.mul(size, itemsize))
    return builder.bitcast(memory, context.get_data_type(dtype).as_pointer())


@intrinsic
def stack_vector(_: Any, size: Any, dtype: Any) -> Any:
    """``stack_vector(size, dtype)`` is a vector on the stack: see :mod:`.stack`."""
    item_type = parse_dtype(dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _memory(context, builder, item_type, values[0])

    return types.CPointer(item_type)(types.intp, dtype), code


@intrinsic
def stack_matrix(_: Any, rows: Any, columns: Any, dtype: Any) -> Any:
    """``stack_matrix(rows, columns, dtype)`` is a matrix on the stack: see :mod:`.stack`."""
    item_type = parse_dtype(dtype)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = _memory(context, builder, item_type, builder.mul(values[0], values[1]))
        return _pair(context, builder, signature.return_type, data, values[1])

    return _Matrix(item_type)(types.intp, types.intp, dtype), code


class _Count(types.SimpleIteratorType):  # type: ignore[misc]
    """numba's type of the numbers that :func:`count_up` counts."""

    def __init__(self) -> None:
        super().__init__("Count", types.intp)


_COUNT = _Count()


@register_model(_Count)
class _CountModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, count: Any) -> None:
        members = [("next", types.CPointer(types.intp)), ("stop", types.intp)]
        super().__init__(manager, count, members)


@intrinsic
def count_up(_: Any, start: Any, stop: Any) -> Any:
    """``count_up(start, stop)`` is ``range(start, stop)``, with a tenth of the instructions."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first, last = values
        number = cgutils.alloca_once(builder, first.type)
        builder.store(first, number)
        return _pair(context, builder, _COUNT, number, last)

    return _COUNT(types.intp, types.intp), code


@lower_builtin("getiter", _Count)
def _iterate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return values[0]


@lower_builtin("iternext", _Count)
@iternext_impl(RefType.UNTRACKED)
def _count(context: Any, builder: Any, signature: Any, values: Any, result: Any) -> None:
    memory, stop = cgutils.unpack_tuple(builder, values[0])
    number = builder.load(memory)
    builder.store(builder.add(number, number.type(1), flags=["nsw"]), memory)
    result.set_valid(builder.icmp_signed("<", number, stop))
    result.yield_(number)


@intrinsic
def length(_: Any, size: Any) -> Any:
    """``length(size)`` is a size that is given as a number or as a tuple: see :mod:`.columns`."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(size, types.BaseTuple):
            return context.get_constant(types.intp, len(size))
        return values[0]

    return types.intp(size), code
