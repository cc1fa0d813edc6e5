"""Squares of a summed-area table in SIMD registers, with the bits of a plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ....engines.cpu.lanes import (
    BLOCK_BYTES,
    bits_of,
    in_every_lane,
    is_real,
    load_lanes,
    shuffle_mask,
    transposed,
    vector_pointer,
)

_INTEGER_ROWS = 8
"""Rows of integers. A store of 16 of them fills a line of a cache, and in tables of 2,048 columns
rows fall into the same sets: 2,048 × 2,048 took 1.6 ms by 16 rows, 0.9 ms by 8 and by 4."""


def have_squares(x_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether there are squares for numbers of `x_dtype` and sums of `dtype`."""
    codes = {"f": "f", "i": "iu", "u": "u"}.get(dtype.kind, "")
    return x_dtype.kind in codes and x_dtype.itemsize <= dtype.itemsize >= 4


def sides_of_square(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the rows and columns of a square, whose rows fill a line of a cache."""
    width = BLOCK_BYTES // dtype.itemsize
    return width if dtype.kind == "f" else _INTEGER_ROWS, width


@intrinsic
def add_up_square(_: Any, x: Any, right: Any, below: Any, table: Any, row: Any, column: Any) -> Any:
    """Write a square, and update the sums above and to the left of it.

    Rows are written into the caches: past them, new tables, whose pages are cleared at the first
    write, took 1.5 to 2.8 times as long (2,048 × 2,048 and more), and others no less.
    """
    signature = types.void(x, right, below, table, types.intp, types.intp)
    is_signed = getattr(x.dtype, "signed", False)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        arrays = [
            context.make_array(array_type)(context, builder, value)
            for array_type, value in zip(signature.args[:4], values[:4], strict=True)
        ]
        row, column = values[4:]
        source, lefts, above, target = (array.data for array in arrays)
        pitch = builder.extract_value(arrays[3].shape, 1)
        index = builder.add(builder.mul(row, pitch), column)
        size = bits_of(target.type.pointee) // 8
        vector = ir.VectorType(target.type.pointee, BLOCK_BYTES // size)
        steps = _Steps(builder, vector, is_signed)
        rows, at = [], index
        for _ in range(vector.count if steps.is_real else _INTEGER_ROWS):
            rows.append(steps.converted(load_lanes(builder, source, at, vector.count)))
            at = builder.add(at, pitch)
        add_along = steps.add_columns if steps.is_real else steps.add_lanes
        edge = vector_pointer(builder, above, column, vector.count)
        total = builder.load(edge, align=size)
        for sums in add_along(rows, lefts, row):
            total = steps.add(total, sums)
            pointer = vector_pointer(builder, target, index, vector.count)
            builder.store(total, pointer, align=size)
            index = builder.add(index, pitch)
        builder.store(total, edge, align=size)
        return context.get_dummy_value()

    return signature, code


class _Steps:
    """Sums along the rows of a square, from those to the left of it, in ``lefts[row:]``."""

    def __init__(self, builder: Any, vector: Any, is_signed: bool) -> None:
        self.builder, self.vector, self.is_signed = builder, vector, is_signed
        self.is_real = vector.element in (ir.FloatType(), ir.DoubleType())
        self.add = builder.fadd if self.is_real else builder.add

    def converted(self, lanes: Any) -> Any:
        if lanes.type == self.vector:
            return lanes
        if is_real(lanes):
            return self.builder.fpext(lanes, self.vector)
        return (self.builder.sext if self.is_signed else self.builder.zext)(lanes, self.vector)

    def add_columns(self, rows: list[Any], lefts: Any, row: Any) -> list[Any]:
        """Add one column after the other to the sums of all rows: floats round in this order."""
        edge = vector_pointer(self.builder, lefts, row, self.vector.count)
        size = bits_of(self.vector.element) // 8
        sums, columns = self.builder.load(edge, align=size), []
        for column in transposed(self.builder, rows):
            sums = self.add(sums, column)
            columns.append(sums)
        self.builder.store(sums, edge, align=size)
        return transposed(self.builder, columns)

    def add_lanes(self, rows: list[Any], lefts: Any, row: Any) -> list[Any]:
        """Add lanes at distances of 1, 2, 4 and so on: integers wrap around in any order."""
        builder, width = self.builder, self.vector.count
        zero, results = ir.Constant(self.vector, [0] * width), []
        for k, sums in enumerate(rows):
            distance = 1
            while distance < width:
                mask = [width + lane - distance if lane >= distance else 0 for lane in range(width)]
                sums = self.add(sums, builder.shuffle_vector(zero, sums, shuffle_mask(mask)))
                distance *= 2
            edge = builder.gep(lefts, [builder.add(row, ir.Constant(row.type, k))])
            sums = self.add(sums, in_every_lane(builder, builder.load(edge), width))
            last = ir.Constant(ir.IntType(32), width - 1)
            builder.store(builder.extract_element(sums, last), edge)
            results.append(sums)
        return results
