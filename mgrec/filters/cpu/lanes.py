"""SIMD intrinsics of filters: loads and stores, products with small matrices, lane shifts."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...engines.cpu.lanes import (
    Lanes,
    bits_of,
    call_llvm,
    in_every_lane,
    load_lanes,
    pointer_to,
    shuffle_mask,
    vector_code,
)

# Number of samples in a block, and of lanes in a register: 64 bytes of float64.
WIDTH = 8


@cache
def load_float64(width: int) -> Any:
    """Return a function that loads `width` numbers of contiguous float32 or float64 as float64."""
    wide = ir.VectorType(ir.DoubleType(), width)

    @vector_code(lambda array, index: Lanes(types.float64, width)(array, types.intp))
    def load(builder: Any, data: Any, index: Any) -> Any:
        loaded = load_lanes(builder, data, index, width)
        return loaded if loaded.type == wide else builder.fpext(loaded, wide)

    return load


@intrinsic
def store_rounded(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Set ``array[index:index + width] = lanes``, rounded to the dtype."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        stored, value = Lanes(array.dtype, lanes.width), values[2]
        if stored.dtype.bitwidth < lanes.dtype.bitwidth:
            value = builder.fptrunc(value, context.get_value_type(stored))
        pointer = pointer_to(context, builder, array, values[0], values[1], stored)
        builder.store(value, pointer, align=stored.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@vector_code(lambda array, index: types.int64(array, types.intp))
def magnitude_at(builder: Any, data: Any, index: Any) -> Any:
    """Return the bits of ``array[index]`` without its sign; of both parts the larger ones.

    Bits have the order of absolute values, and nan is above inf. The array is contiguous.
    `array.view` takes numba half a second to compile.
    """
    number, result = data.type.pointee, ir.IntType(64)
    parts = number.elements if isinstance(number, ir.LiteralStructType) else [number]
    bits = ir.IntType(bits_of(parts[0]))
    data = builder.bitcast(data, bits.as_pointer())
    mask = ir.Constant(result, (1 << (bits.width - 1)) - 1)
    sizes = []
    for part in range(len(parts)):
        at = builder.mul(index, ir.Constant(index.type, len(parts)))
        at = builder.add(at, ir.Constant(index.type, part))
        loaded = builder.load(builder.gep(data, [at]))
        loaded = loaded if loaded.type == result else builder.zext(loaded, result)
        sizes.append(builder.and_(loaded, mask))
    largest = sizes[0]
    for size in sizes[1:]:
        largest = builder.select(builder.icmp_signed(">", size, largest), size, largest)
    return largest


@vector_code(lambda bits, array: types.int64(types.int64, array))
def float64_bits(builder: Any, bits: Any, data: Any) -> Any:
    """Return the bits in float64 of a real number whose bits in the array's dtype are given."""
    number = data.type.pointee
    if number != ir.FloatType():
        return bits
    value = builder.bitcast(builder.trunc(bits, ir.IntType(32)), number)
    return builder.bitcast(builder.fpext(value, ir.DoubleType()), bits.type)


@vector_code(lambda bits: types.float64(types.int64))
def from_bits(builder: Any, bits: Any) -> Any:
    """Return the number of float64 with these bits."""
    return builder.bitcast(bits, ir.DoubleType())


@cache
def load_columns(count: int) -> Any:
    """Return a function that loads `count` consecutive columns of WIDTH numbers each."""

    @vector_code(lambda table, index: types.UniTuple(Lanes(table.dtype, WIDTH), count)(table, types.intp))
    def load(builder: Any, data: Any, index: Any) -> Any:
        steps = [ir.Constant(index.type, k * WIDTH) for k in range(count)]
        return [load_lanes(builder, data, builder.add(index, step), WIDTH) for step in steps]

    return load


@vector_code(lambda total, matrix, array, index: total(total, matrix, array, types.intp))
def add_columns(builder: Any, total: Any, matrix: Any, data: Any, start: Any) -> Any:
    """Return ``total + sum(matrix[k] * array[start + k])``: a matrix times part of an array."""
    for k in range(matrix.type.count):
        index = builder.add(start, ir.Constant(start.type, k))
        number = builder.load(builder.gep(data, [index]))
        factor = in_every_lane(builder, number, total.type.count)
        column = builder.extract_value(matrix, k)
        total = call_llvm(builder, "fmuladd", column, factor, total)
    return total


@vector_code(lambda start, matrix, lanes: start(start, matrix, lanes))
def add_last_lanes(builder: Any, start: Any, matrix: Any, lanes: Any) -> Any:
    """Return `start` plus a matrix times the last lanes of a register.

    Odd and even columns are summed separately, so that the result waits for half the additions.
    """
    sums, width, count = [start, None], lanes.type.count, matrix.type.count
    for k in range(count):
        factor = builder.shuffle_vector(lanes, lanes, shuffle_mask([width - count + k] * width))
        column = builder.extract_value(matrix, k)
        half = k % 2
        if sums[half] is None:
            sums[half] = builder.fmul(column, factor)
        else:
            sums[half] = call_llvm(builder, "fmuladd", column, factor, sums[half])
    return sums[0] if sums[1] is None else builder.fadd(*sums)
