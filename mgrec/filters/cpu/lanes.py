"""SIMD intrinsics of filters: loads and stores, products with small matrices, lane shifts."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...engines.cpu.lanes import (
    Lanes,
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


@cache
def load_columns(count: int) -> Any:
    """Return a function that loads `count` consecutive columns of WIDTH numbers each."""

    @vector_code(
        lambda table, index: types.UniTuple(Lanes(table.dtype, WIDTH), count)(table, types.intp)
    )
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
