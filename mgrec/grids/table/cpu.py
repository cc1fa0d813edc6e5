"""Summed-area tables of tiles in host memory, by squares in SIMD registers, with a loop's bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...core.contract.kernels import Kernels, TileParts
from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.lanes import (
    BLOCK_BYTES,
    bits_of,
    in_every_lane,
    is_real,
    load_lanes,
    shuffle_mask,
    transposed,
    vector_pointer,
)
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import antidiagonals, part_of_host
from .api import Sums

_INTEGER_ROWS = 8
"""Rows of integers. A store of 16 of them fills a line of a cache, and in tables of 2,048 columns
rows fall into the same sets: 2,048 × 2,048 took 1.6 ms by 16 rows, 0.9 ms by 8 and by 4."""
# Cells of a part, which then takes about a millisecond; a call takes 0.1 ms at most.
_CELLS = 1 << 20
# Parts of the rows per thread, if threads share a table: each thread waits so often for the others.
_PARTS = 8
# Cells that take as long as a step of a recurrence: threads share large tables only. 2,048 × 2,048
# took 0.9 ms on one thread, 1.4 on two.
_CELLS_OF_STEP = 16


def kernels(method: str) -> Kernels:
    """Return the phases of a tile; the method "threads" uses all threads."""
    return Kernels(partial(determine_table, is_threaded=method == "threads"), part=_part)


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


def _part(recurrence: Any, shape: Sequence[int], side: int) -> TileParts:
    return part_of_host(_CELLS, shape, side)


def _add_up(x: Any, below: Any, right: Any, table: Any, images: Any, rows: Any, columns: Any) -> None:
    """Write a part of every table; `below` and `right` are the edges before it, then its own.

    It adds up four rows at once: their sums along the rows are independent, and a sum in `below`
    is read and written once.
    """
    number = table.dtype.type
    for k in range(images[0], images[1]):
        i = rows[0]
        while i + 4 <= rows[1]:
            a, b, c, d = right[k, i], right[k, i + 1], right[k, i + 2], right[k, i + 3]
            for j in range(columns[0], columns[1]):
                a += number(x[k, i, j])
                b += number(x[k, i + 1, j])
                c += number(x[k, i + 2, j])
                d += number(x[k, i + 3, j])
                total = below[k, j] + a
                table[k, i, j] = total
                total += b
                table[k, i + 1, j] = total
                total += c
                table[k, i + 2, j] = total
                total += d
                table[k, i + 3, j] = total
                below[k, j] = total
            right[k, i], right[k, i + 1], right[k, i + 2], right[k, i + 3] = a, b, c, d
            i += 4
        while i < rows[1]:
            a = right[k, i]
            for j in range(columns[0], columns[1]):
                a += number(x[k, i, j])
                below[k, j] += a
                table[k, i, j] = below[k, j]
            right[k, i] = a
            i += 1


_add_up_remainder = numba.njit(**INNER)(_add_up)


def _add_up_squares(
    sides: Any, x: Any, below: Any, right: Any, table: Any, images: Any, rows: Any, columns: Any
) -> None:
    """Do the same in squares with `sides` rows and columns, and what remains by `_add_up`."""
    height, width = sides
    for k in range(images[0], images[1]):
        image, i = (k, k + 1), rows[0]
        while i + height <= rows[1]:
            part, j = (i, i + height), columns[0]
            while j + width <= columns[1]:
                add_up_square(x[k], right[k], below[k], table[k], i, j)
                j += width
            _add_up_remainder(x, below, right, table, image, part, (j, columns[1]))
            i += height
        _add_up_remainder(x, below, right, table, image, (i, rows[1]), columns)


_kernel, _kernel_of_squares = (
    compile_kernel(_add_up, allocates=False),
    compile_kernel(_add_up_squares, allocates=False),
)


def determine_table(
    recurrence: Any,
    x: np.ndarray,
    edges: tuple[np.ndarray | None, np.ndarray | None],
    table: np.ndarray,
    is_threaded: bool,
) -> Sums:
    """Write the table of a tile (..., rows, columns), and return its edges.

    `edges` are the table in the row above and the sums along the rows to the left; None for 0.
    """
    *others, rows, columns = x.shape
    below, right = (
        np.zeros((*others, length), table.dtype) if edge is None else np.array(edge)
        for edge, length in zip(edges, (columns, rows), strict=True)
    )
    if x.size == 0:
        return Sums(below, right)
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    operand = writable(np.ascontiguousarray(x)).reshape(-1, rows, columns)
    sums = below.reshape(-1, columns), right.reshape(-1, rows)
    arrays = operand, *sums, whole.reshape(operand.shape)
    kernel = partial(_kernel, *arrays)
    if have_squares(operand.dtype, table.dtype):
        kernel = partial(_kernel_of_squares, sides_of_square(table.dtype), *arrays)
    _call_on_threads(kernel, operand.shape, is_threaded)
    if whole is not table:
        table[...] = whole
    return Sums(below, right)


def _call_on_threads(kernel: Any, shape: tuple[int, ...], is_threaded: bool) -> None:
    """Call a kernel for all images of a batch; few images are split into rows and columns."""
    count, rows, columns = shape
    threads = threads_for(count * rows * columns // _CELLS_OF_STEP, is_threaded)
    if threads == 1 or count >= threads:
        run_in_threads(
            [partial(kernel, part, (0, rows), (0, columns)) for part in split_range(count, threads)]
        )
        return
    # A part needs the sums above and to the left of it: parts of an antidiagonal are independent.
    # From left to right, so that a thread keeps its columns: 2,048 × 2,048 took 5.0 ms, and 8.2 in
    # the other order.
    for parts in antidiagonals(split_range(rows, _PARTS * threads), split_range(columns, threads)):
        run_in_threads([partial(kernel, (0, count), *part) for part in reversed(parts)])
