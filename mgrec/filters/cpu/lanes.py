"""SIMD intrinsics of filters: loads and stores, products with small matrices, lane shifts."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic

from ...engines.cpu.simd.lanes import Lanes, call_llvm, in_every_lane, pointer_to, shuffle_mask

# Number of samples in a block, and of lanes in a register: 64 bytes of float64.
WIDTH = 8
_I32 = ir.IntType(32)


def _literal(value: Any, name: str) -> int:
    if not isinstance(value, types.IntegerLiteral):
        raise RequireLiteralValue(name)
    return int(value.literal_value)


@intrinsic(prefer_literal=True)
def load_lanes(_: Any, array: Any, index: Any, width: Any) -> Any:
    """Return ``array[index:index + width]`` of contiguous float32 or float64, as float64.

    `width` is a literal.
    """
    lanes = Lanes(types.float64, _literal(width, "width"))
    stored = Lanes(array.dtype, lanes.width)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = pointer_to(context, builder, array, values[0], values[1], stored)
        loaded = builder.load(pointer, align=array.dtype.bitwidth // 8)
        if stored.dtype == lanes.dtype:
            return loaded
        return builder.fpext(loaded, context.get_value_type(lanes))

    return lanes(array, types.intp, width), code


@intrinsic
def store_rounded(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Set ``array[index:index + width] = lanes``, rounded to the dtype, unless `array` is None."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if array == types.none:
            return context.get_dummy_value()
        stored, value = Lanes(array.dtype, lanes.width), values[2]
        if stored.dtype.bitwidth < lanes.dtype.bitwidth:
            value = builder.fptrunc(value, context.get_value_type(stored))
        pointer = pointer_to(context, builder, array, values[0], values[1], stored)
        builder.store(value, pointer, align=stored.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic(prefer_literal=True)
def load_columns(_: Any, table: Any, index: Any, count: Any) -> Any:
    """Return `count` consecutive columns of WIDTH numbers each, from ``table[index]`` on."""
    lanes, columns = Lanes(table.dtype, WIDTH), _literal(count, "count")

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        loaded = []
        for k in range(columns):
            index = builder.add(values[1], ir.Constant(values[1].type, k * WIDTH))
            pointer = pointer_to(context, builder, table, values[0], index, lanes)
            loaded.append(builder.load(pointer, align=table.dtype.bitwidth // 8))
        return context.make_tuple(builder, signature.return_type, loaded)

    return types.UniTuple(lanes, columns)(table, types.intp, count), code


@intrinsic
def add_columns(_: Any, initial: Any, columns: Any, array: Any, index: Any) -> Any:
    """Return ``initial + sum(columns[k] * array[index + k])``: a matrix times part of an array."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total, matrix, data, start = values
        base = context.make_array(array)(context, builder, data).data
        for k in range(columns.count):
            index = builder.add(start, ir.Constant(start.type, k))
            number = builder.load(builder.gep(base, [index]))
            factor = in_every_lane(builder, number, initial.width)
            column = builder.extract_value(matrix, k)
            total = call_llvm(builder, "fmuladd", column, factor, total)
        return total

    return initial(initial, columns, array, types.intp), code


@intrinsic
def add_last_lanes(_: Any, start: Any, columns: Any, lanes: Any) -> Any:
    """Return `start` plus a matrix times the last lanes of a register.

    Odd and even columns are summed separately, so that the result waits for half the additions.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        matrix, register = values[1], values[2]
        sums = [values[0], None]
        for k in range(columns.count):
            lane = lanes.width - columns.count + k
            factor = builder.shuffle_vector(register, register, shuffle_mask([lane] * lanes.width))
            column = builder.extract_value(matrix, k)
            half = k % 2
            if sums[half] is None:
                sums[half] = builder.fmul(column, factor)
            else:
                sums[half] = call_llvm(builder, "fmuladd", column, factor, sums[half])
        return sums[0] if sums[1] is None else builder.fadd(*sums)

    return start(start, columns, lanes), code


@intrinsic
def shift_down(_: Any, lanes: Any, value: Any) -> Any:
    """Shift each lane down by one and put `value` in the last: one instruction with its load."""
    width = lanes.width

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        entering = in_every_lane(builder, values[1], lanes.width)
        return builder.shuffle_vector(values[0], entering, shuffle_mask(list(range(1, width + 1))))

    return lanes(lanes, value), code


@intrinsic
def first_lane(_: Any, lanes: Any) -> Any:
    """Return the first lane, which can be stored without a shuffle."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.extract_element(values[0], ir.Constant(_I32, 0))

    return lanes.dtype(lanes), code
