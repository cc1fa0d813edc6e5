"""Phases of banded systems on the CPU: elimination side by side, and partitions of long systems.

A partition of n rows contains the unknowns x[-l] … x[n+u-1]. The rows of its neighbours contain
x[0] … x[u-1] and x[n-l] … x[n-1] of its own unknowns. All others are eliminated, which leaves l + u
equations in the *interfaces* before and after the partition, x[-l] … x[u-1] and x[n-l] … x[n+u-1].

Reflections (Householder) eliminate an unknown from the l + u pending rows and the next row. With
pivots, coefficients of the interface before would grow from row to row, until pending rows are equal up
to rounding; reflections preserve the norms of columns. A step also has no choice that depends on
values: partitions run side by side without selects of rows. Loops over the widths serve all l and u.

Rows come in blocks of S: each step loads a block, with the columns of l + u + S unknowns, and eliminates
S unknowns. S is 1 for banded systems, and l = u = S for block tridiagonal ones.

Whole systems side by side are eliminated with scaled partial pivoting, as by LAPACK's gbtrf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numba
import numpy as np

from ..core.arrays.chunk import Chunk
from ..core.contract.kernels import CacheMiss, Kernels, PreparedSolver, at_once
from ..engines.cpu.compilation import INNER, RARE, compile_kernel, writable
from ..engines.cpu.lanes import CACHE_LINE
from ..engines.cpu.memory import gather, lane_count, load, scatter, store
from ..engines.cpu.pointers import advance_pointer, count_up, pointers_to
from ..engines.cpu.scalars import larger_of, smaller_of
from ..engines.cpu.threads import run_in_threads, split_range, threads_for
from ..engines.cpu.vectors import (
    conjugate,
    constant,
    larger,
    magnitude,
    minus_product,
    scale_of,
    select,
    square_root,
    squared_modulus,
)
from ..tridiagonal.cpu.partitions import lanes_of
from ..tridiagonal.errors import SingularSystemError, check_outcomes
from ..tridiagonal.systems import InterfaceRows, prepared, strides_of
from .recurrence import MAX_WIDTH, BandedEnds, BandedSystem

# Rows of a partition at most if l + u is at most 8, and of whole systems that are eliminated side by side.
LENGTH, MAX_WHOLE = 480, 1 << 13
# Rows of a table of offsets, after the columns of a row and b: the partition's cell, its first unknown,
# and its numbers of rows of the system before and after it, at most MAX_WIDTH.
CELL, RESULT, BEFORE, AFTER, TABLE_ROWS = range(5)
# Numbers of a layout for kernels, before its bases and strides and a table of offsets; from ROWS on the
# indices of pending rows, of the vector of a reflection, of pivot rows of l + u + S + 1 numbers, and of
# unknowns in memory that begins with the numbers 0 … MAX_WIDTH.
STEPS, INNER_ROWS, ROWS_BEFORE, ROWS_AFTER, LOWER, UPPER, BLOCK, PARTS, LENGTH_OF_PARTS = range(9)
ROWS, VECTOR, PIVOTS, UNKNOWNS, BASES = range(9, 14)


class Layout(NamedTuple):
    """The memory layout of a chunk, for kernels."""

    shape: tuple[int, int, int]  # (outer, steps, inner), a step is a block of rows
    bases: np.ndarray  # of each column of the first row, and of b, in numbers from the first of b
    strides: np.ndarray  # (l + u + S + 1, 4), also between rows of a block; 0 along a broadcast axis
    around: tuple[int, int]  # rows of the system before and after the chunk
    widths: tuple[int, int]  # l and u
    block: int  # S
    parts: int
    length: int  # blocks of all partitions but the last


Operands = list[np.ndarray]
"""The diagonals and b: kernels read the diagonals by their distances from b."""


@numba.njit(**INNER)
def _columns_of(layout: Any) -> Any:
    """Return the columns of a row with b, its strides, and the table of offsets."""
    columns = layout[LOWER] + layout[UPPER] + layout[BLOCK] + 1
    strides = advance_pointer(layout, BASES + columns)
    return columns, strides, advance_pointer(strides, 4 * columns)


@numba.njit(**INNER)
def _scratch_of(layout: Any, scratch: Any) -> Any:
    """Return the memory of pending rows, of the vector of a reflection, of pivot rows and of unknowns."""
    vectors = advance_pointer(scratch, layout[ROWS]), advance_pointer(scratch, layout[VECTOR])
    return *vectors, advance_pointer(scratch, layout[PIVOTS]), advance_pointer(scratch, layout[UNKNOWNS])


@numba.njit(**RARE)
def _fill_offsets(
    task: int, stop: int, first_part: int, stop_part: int, layout: Any, cell_size: int, lanes: int
) -> None:
    """Write the offsets of partitions `task` on, a lane each; lanes from `stop` on repeat the last.

    Partitions are numbered over (outer, part, inner), for the parts from `first_part` to `stop_part`.
    """
    steps, inner, block, length = layout[STEPS], layout[INNER_ROWS], layout[BLOCK], layout[LENGTH_OF_PARTS]
    (columns, strides, offsets), count = _columns_of(layout), stop_part - first_part
    for lane in count_up(0, lanes):
        of_lane = smaller_of(task + lane, stop - 1)
        number = of_lane // inner
        outer, column = number // count, of_lane - number * inner
        part = number - outer * count + first_part
        step = part * length
        for k in count_up(0, columns):
            along = outer * strides[4 * k] + step * strides[4 * k + 1] + column * strides[4 * k + 2]
            offsets[k * lanes + lane] = layout[BASES + k] + along
        cell = (outer * inner + column) * (layout[PARTS] + 1) + part
        offsets[(columns + CELL) * lanes + lane] = cell * cell_size
        offsets[(columns + RESULT) * lanes + lane] = ((outer * steps + step) * inner + column) * block
        before = smaller_of(layout[ROWS_BEFORE] + step * block, MAX_WIDTH)
        offsets[(columns + BEFORE) * lanes + lane] = before
        after = layout[ROWS_AFTER] + (steps - smaller_of(step + length, steps)) * block
        offsets[(columns + AFTER) * lanes + lane] = smaller_of(after, MAX_WIDTH)


@numba.njit(**INNER)
def _load_row(
    memory: Any, layout: Any, rows: Any, i: int, row: int, length: int, target: int, around: Any, state: Any
) -> Any:
    """Write the coefficients of a row of block i from rows[target], scaled.

    Return b and the new state. Coefficients outside of the matrix are 0. The state has the least size
    of a row or pivot, and 0, or nan if a row contains nan or inf. `around` are the rows of the system
    around the partition of `length` blocks.
    """
    lower, block, (columns, strides, offsets) = layout[LOWER], layout[BLOCK], _columns_of(layout)
    width, count, (least, nan_seen) = lane_count(memory), columns - 1, state
    zero, size, total = constant(nan_seen, 0.0), constant(least, 0.0), constant(nan_seen, 0.0)
    for k in count_up(0, count):
        shift = i * strides[4 * k + 1] + row * strides[4 * k + 3]
        number, unknown = gather(memory, offsets, k, shift), i * block + k - lower
        if unknown < 0:
            number = select(constant(size, -unknown), around[0], zero, number)
        if unknown >= length * block:
            number = select(constant(size, unknown - length * block + 1), around[1], zero, number)
        store(rows, (target + k) * width, number)
        size = larger(size, magnitude(number))
        # nan is not larger than a number.
        total = total + (number - number)
    scale = scale_of(size)
    for k in count_up(0, count):
        store(rows, (target + k) * width, load(rows, (target + k) * width) * scale)
    rhs = gather(memory, offsets, count, i * strides[4 * count + 1] + row * strides[4 * count + 3])
    return rhs * scale, (select(least, size, size, least), nan_seen + (total + (rhs - rhs)))


@numba.njit(**RARE)
def _clear(memory: Any, rows: Any, wide: int, block: int, columns: int) -> None:
    """Clear coefficients: pending rows lack the last unknowns of a block, and its rows the others."""
    width, zero = lane_count(memory), constant(load(rows, 0), 0.0)
    for r in count_up(0, wide + block):
        start = wide if r < wide else wide + block
        for c in count_up(start, wide + block if r < wide else columns):
            store(rows, (r * columns + c) * width, zero)


@numba.njit(**INNER)
def _reflect(
    memory: Any,
    rows: Any,
    vector: Any,
    wide: int,
    block: int,
    row: int,
    columns: int,
    pivots: Any,
    target: int,
) -> Any:
    """Eliminate column 0 from pending rows and those of a block from `row` on.

    Rows have `columns` numbers: the coefficients of l + u + S unknowns, and others. They contain as many
    unknowns as there are rows.
    The pivot row is that of the first partition's largest coefficient: if that is much larger, other
    rows hardly change, and errors are smaller. Reflections are stable with any row.
    Rows and the columns of unknowns move up by one. The pivot row is written to pivots[target] with
    the inverse pivot first, unless `target` is negative. Return the size of the pivot.
    """
    width, count = lane_count(memory), wide + block - row
    size, pivot, largest = magnitude(load(rows, 0)), 0, abs(rows[0])
    for r in count_up(1, count):
        position = r * columns * width
        size = larger(size, magnitude(load(rows, position)))
        if abs(rows[position]) > largest:
            pivot, largest = r, abs(rows[position])
    for c in count_up(0, columns if pivot > 0 else 0):
        first, position = load(rows, c * width), (pivot * columns + c) * width
        store(rows, c * width, load(rows, position))
        store(rows, position, first)
    one, zero, scale = constant(size, 1.0), constant(size, 0.0), scale_of(size)
    total = zero
    for r in count_up(0, count):
        number = load(rows, r * columns * width) * scale
        store(vector, r * width, number)
        total = total + squared_modulus(number)
    norm, leading = square_root(total), load(vector, 0)
    modulus = square_root(squared_modulus(leading))
    phase = select(modulus, zero, leading / select(modulus, zero, modulus, one), constant(leading, 1.0))
    leading = leading + phase * norm
    beta = select(norm, zero, zero - one / (norm * (norm + modulus)), zero)
    store(vector, 0, leading)
    for k in count_up(1, columns - row):
        c, moved = (k, (k - 1) * width) if k < count else (k + row, (k + row) * width)
        product, position = constant(leading, 0.0), c * width
        for r in count_up(0, count):
            number = conjugate(load(vector, r * width))
            product = minus_product(product, number, load(rows, position))
            position += columns * width
        product, position = product * beta, c * width
        if target >= 0:
            store(pivots, (target + c) * width, minus_product(load(rows, position), leading, product))
        for r in count_up(1, count):
            position += columns * width
            number = minus_product(load(rows, position), load(vector, r * width), product)
            store(rows, moved, number)
            moved += columns * width
    if row == block - 1 and (row > 0 or pivot == wide):
        _clear(memory, rows, wide, block, columns)
    if target >= 0:
        store(pivots, target * width, conjugate(phase) * select(norm, zero, zero - scale / norm, zero))
    return size


@numba.njit(**INNER)
def _pivot(memory: Any, rows: Any, stop: int, row: int, columns: int, pivots: Any, target: int) -> Any:
    """Eliminate column 0 from the rows 0 … stop - 1 by the largest coefficient, as `_reflect`."""
    width, count = lane_count(memory), columns - 1 - row
    for r in count_up(1, stop):
        size, other = magnitude(load(rows, 0)), magnitude(load(rows, r * columns * width))
        for c in count_up(0, columns):
            one, two = load(rows, c * width), load(rows, (r * columns + c) * width)
            store(rows, c * width, select(other, size, two, one))
            store(rows, (r * columns + c) * width, select(other, size, one, two))
    pivot = load(rows, 0)
    store(pivots, target * width, constant(pivot, 1.0) / pivot)
    for c in count_up(1, columns):
        store(pivots, (target + c) * width, load(rows, c * width))
    for r in count_up(1, stop):
        factor = load(rows, r * columns * width) / pivot
        for k in count_up(1, count + 1):
            c, moved = (k, k - 1) if k < count else (columns - 1, columns - 1)
            number, of_pivot = load(rows, (r * columns + c) * width), load(pivots, (target + c) * width)
            number = minus_product(number, factor, of_pivot)
            store(rows, ((r - 1) * columns + moved) * width, number)
        store(rows, ((r - 1) * columns + count - 1) * width, constant(pivot, 0.0))
    return magnitude(pivot)


@numba.njit(**INNER)
def _fill(memory: Any, rows: Any, count: int, value: Any) -> None:
    for k in count_up(0, count):
        store(rows, k * lane_count(memory), value)


@numba.njit(**INNER)
def _around(counts: Any, layout: Any) -> Any:
    """Return the numbers of rows of the system before and after each partition."""
    columns, _, offsets = _columns_of(layout)
    before = gather(counts, offsets, columns + BEFORE, 0)
    return magnitude(before), magnitude(gather(counts, offsets, columns + AFTER, 0))


@numba.njit(**INNER)
def _substitute_back(pivots: Any, unknowns: Any, columns: int, block: int, first: int, stop: int) -> None:
    """Write the unknowns of the blocks stop - 1 … first, each from its pivot row and those after it."""
    width = lane_count(pivots)
    for back in count_up(1, stop - first + 1):
        for k in count_up(0, block):
            row = block - 1 - k
            unknown = (stop - back) * block + row
            start = unknown * columns
            total = load(pivots, (start + columns - 1) * width)
            for c in count_up(1, columns - 1 - row):
                coefficient = load(pivots, (start + c) * width)
                total = minus_product(total, coefficient, load(unknowns, (unknown + c) * width))
            store(unknowns, unknown * width, total * load(pivots, start * width))


def _reduce(arrays: Any, first_part: int, stop_part: int, length: int, start: int, stop: int) -> None:
    """Write the equations of the partitions `start` to `stop`, of one length, to their cells.

    A cell has for each equation the coefficients of the interfaces before and after, and its b.
    """
    memory, layout, scratch, cells = pointers_to(arrays)
    rows, vector, pivots, _ = _scratch_of(layout, scratch)
    wide, block, width = layout[LOWER] + layout[UPPER], layout[BLOCK], lane_count(memory)
    columns, first, task = 2 * wide + block + 1, wide + block, start
    columns_of_layout, _, offsets = _columns_of(layout)
    while task < stop:
        _fill_offsets(task, stop, first_part, stop_part, layout, wide * (2 * wide + 1), width)
        around, zero = _around(scratch, layout), constant(load(rows, 0), 0.0)
        _fill(memory, rows, first * columns, zero)
        # The unknowns that are eliminated first are those of the interface before.
        for r in count_up(0, wide):
            store(rows, (r * columns + r) * width, constant(zero, 1.0))
            store(rows, (r * columns + first + r) * width, constant(zero, -1.0))
        state = magnitude(constant(zero, 1.0)), zero
        for i in count_up(0, length):
            for row in count_up(0, block):
                target = (wide + row) * columns
                b, state = _load_row(memory, layout, rows, i, row, length, target, around, state)
                store(rows, (target + columns - 1) * width, b)
            for row in count_up(0, block):
                size = _reflect(memory, rows, vector, wide, block, row, columns, pivots, np.int64(-1))
                state = select(state[0], size, size, state[0]), state[1]
        for r in count_up(0, wide):
            for c in count_up(0, 2 * wide + 1):
                column = c + first if c < wide else (c - wide if c < 2 * wide else columns - 1)
                number = load(rows, (r * columns + column) * width)
                number = select(state[0], magnitude(zero), number, zero) + state[1]
                position = r * (2 * wide + 1) + c
                scatter(cells, offsets, columns_of_layout + CELL, position, number)
        task += width


def _substitute(arrays: Any, first_part: int, stop_part: int, length: int, start: int, stop: int) -> None:
    """Write the unknowns of partitions, whose interfaces have known values (system, part, l + u).

    The rows are eliminated again, without the known unknowns. The first l + u rows then contain
    no unknown to be eliminated, and are the pending rows.
    """
    memory, layout, scratch, values, result = pointers_to(arrays)
    rows, vector, pivots, unknowns = _scratch_of(layout, scratch)
    lower, block, width = layout[LOWER], layout[BLOCK], lane_count(memory)
    (columns, _, offsets), wide, task = _columns_of(layout), lower + layout[UPPER], start
    while task < stop:
        _fill_offsets(task, stop, first_part, stop_part, layout, wide, width)
        around, zero = _around(scratch, layout), constant(load(rows, 0), 0.0)
        _fill(memory, rows, (wide + block) * columns, zero)
        for k in count_up(0, wide):
            store(unknowns, k * width, gather(values, offsets, columns + CELL, k))
        state = magnitude(constant(zero, 1.0)), zero
        for i in count_up(0, length):
            for row in count_up(0, block):
                target = (wide + row) * columns
                b, state = _load_row(memory, layout, rows, i, row, length, target, around, state)
                for k in count_up(0, wide - i * block):
                    b = b - load(rows, (target + k) * width) * load(unknowns, (i * block + k) * width)
                    store(rows, (target + k) * width, zero)
                store(rows, (target + columns - 1) * width, b)
            for row in count_up(0, block):
                target = (i * block + row) * columns
                _reflect(memory, rows, vector, wide, block, row, columns, pivots, target)
        for k in count_up(0, wide):
            value = gather(values, offsets, columns + CELL, wide + k)
            store(unknowns, (length * block + k) * width, value)
        _substitute_back(pivots, unknowns, columns, block, wide // block, length)
        for i in count_up(0, length):
            for row in count_up(0, block):
                number = load(unknowns, (lower + i * block + row) * width) + state[1]
                position = i * layout[INNER_ROWS] * block + row
                scatter(result, offsets, columns + RESULT, position, number)
        task += width


def _solve_whole(arrays: Any, first_part: int, stop_part: int, length: int, start: int, stop: int) -> int:
    """Write the unknowns of the whole systems `start` to `stop`; return a singular one, or -1."""
    memory, layout, scratch, flags, result = pointers_to(arrays)
    rows, _, pivots, unknowns = _scratch_of(layout, scratch)
    lower, upper, block, width = layout[LOWER], layout[UPPER], layout[BLOCK], lane_count(memory)
    (columns, _, offsets), task, singular = _columns_of(layout), start, -1
    pending = 1 if block > 1 else lower
    while task < stop:
        _fill_offsets(task, stop, first_part, stop_part, layout, lower + upper, width)
        around, zero = _around(scratch, layout), constant(load(rows, 0), 0.0)
        _fill(memory, rows, (lower + block) * columns, zero)
        state = magnitude(constant(zero, 1.0)), zero
        for i in count_up(-pending, length):
            # The last block that contains the unknowns to be eliminated.
            loaded = i + pending
            for k in count_up(lower * columns, (lower + block) * columns if loaded >= length else 0):
                store(rows, k * width, zero)
            for row in count_up(0, block if loaded < length else 0):
                target = (smaller_of(loaded * block, lower) + row) * columns
                b, state = _load_row(memory, layout, rows, loaded, row, length, target, around, state)
                store(rows, (target + columns - 1) * width, b)
                for c in count_up(0, columns - 1 if i < 0 else 0):
                    # The first rows begin with coefficients outside of the matrix.
                    moved = c - i * block
                    number = load(rows, (target + moved) * width) if moved < columns - 1 else zero
                    store(rows, (target + c) * width, number)
            for row in count_up(0, block if i >= 0 else 0):
                stop_row, target = lower + block - row, (i * block + row) * columns
                size = _pivot(memory, rows, stop_row, row, columns, pivots, target)
                state = select(state[0], size, size, state[0]), state[1]
        for k in count_up(0, lower + upper):
            store(unknowns, (length * block + k) * width, zero)
        _substitute_back(pivots, unknowns, columns, block, 0, length)
        for i in count_up(0, length):
            for row in count_up(0, block):
                number = load(unknowns, (i * block + row) * width) + state[1]
                position = i * layout[INNER_ROWS] * block + row
                scatter(result, offsets, columns + RESULT, position, number)
        # nan is not larger than 0, and not equal to it.
        store(flags, task, state[0] + squared_modulus(state[1]))
        for lane in count_up(0, width):
            if flags[task + lane] == 0:
                singular = smaller_of(task + lane, stop - 1)
        task += width
    return singular


@numba.njit(**RARE)
def _triangulate(block: Any, rows: int, wide: int, columns: int, vector: Any, least: Any) -> Any:
    """Eliminate the columns 0 … wide-1 from the rows of a flat block.

    Return the least size of a pivot and `least`.
    """
    for k in count_up(0, wide):
        largest, pivot = abs(block[k * columns + k]), k
        for r in count_up(k + 1, rows):
            if abs(block[r * columns + k]) > largest:
                largest, pivot = abs(block[r * columns + k]), r
        for c in count_up(k, columns if pivot > k else k):
            position = pivot * columns + c
            block[k * columns + c], block[position] = block[position], block[k * columns + c]
        least = smaller_of(least, largest)
        if not largest > 0:
            continue
        total = largest - largest
        for r in count_up(k, rows):
            number = block[r * columns + k] / largest
            vector[r] = number
            total += number.real * number.real + number.imag * number.imag
        norm, leading = math.sqrt(total), vector[k]
        modulus = abs(leading)
        phase = leading / modulus if modulus > 0 else leading + 1
        vector[k] = leading + phase * norm
        beta = 1 / (norm * (norm + modulus))
        block[k * columns + k] = -phase * norm * largest
        for c in count_up(k + 1, columns):
            product = leading - leading
            for r in count_up(k, rows):
                product += block[r * columns + c] * vector[r].conjugate()
            product *= beta
            for r in count_up(k, rows):
                block[r * columns + c] -= product * vector[r]
    return least


@numba.njit(**RARE)
def _load_cell(cells: Any, start: int, block: Any, wide: int, columns: int, least: Any, nan_seen: Any) -> Any:
    """Write the rows of a cell below the pending rows, scaled.

    Return `least`, or 0 if all coefficients are 0, and `nan_seen`, or nan if the cell has nan.
    """
    most = least - least
    for r in count_up(0, wide):
        size, target = least - least, (wide + r) * columns
        for c in count_up(0, 2 * wide):
            size = larger_of(size, abs(cells[start + c]))
        scale = 1 / size if size > 0 else size + 1
        most = larger_of(most, size)
        for c in count_up(0, columns):
            block[target + c] = 0
        for c in count_up(0, 2 * wide):
            block[target + c] = cells[start + c] * scale
        block[target + columns - 1] = cells[start + 2 * wide] * scale
        nan_seen += cells[start + 2 * wide] * 0
        start += 2 * wide + 1
    return smaller_of(least, most), nan_seen


@numba.njit(**RARE)
def _move_pending(block: Any, wide: int, columns: int) -> None:
    """Move the rows after the pivot rows to the first rows, and the next interface to the first columns."""
    for k in count_up(0, wide * columns):
        block[k] = block[wide * columns + k]
    for r in count_up(0, wide):
        for c in count_up(0, wide):
            block[r * columns + c] = block[r * columns + wide + c]
            block[r * columns + wide + c] = 0


def _merge(arrays: Any, systems: int, interfaces: int, wide: int) -> None:
    """Write the equations of chunks from those of their parts; all arrays are flat."""
    cells, block, vector, merged = pointers_to(arrays)
    columns, size = 3 * wide + 1, wide * (2 * wide + 1)
    for system in count_up(0, systems):
        nan_seen = cells[system * interfaces * size] * 0
        for k in count_up(0, wide * columns):
            block[k] = 0
        least = abs(block[0]) + 1
        for r in count_up(0, wide):
            block[r * columns + r], block[r * columns + 2 * wide + r] = 1, -1
        for part in count_up(0, interfaces - 1):
            start = (system * interfaces + part) * size
            least, nan_seen = _load_cell(cells, start, block, wide, columns, least, nan_seen)
            least = _triangulate(block, 2 * wide, wide, columns, vector, least)
            _move_pending(block, wide, columns)
        for r in count_up(0, wide):
            for c in count_up(0, 2 * wide + 1):
                column = c + 2 * wide if c < wide else (c - wide if c < 2 * wide else columns - 1)
                number = block[r * columns + column] if least > 0 else nan_seen * 0
                merged[(system * wide + r) * (2 * wide + 1) + c] = number + nan_seen


@numba.njit(**RARE)
def _solve_triangle(block: Any, start: int, wide: int, size: int, values: Any, interface: int) -> None:
    """Write the values of an interface.

    The rows have its unknowns, those of the next interface, and the right-hand side.
    """
    for k in count_up(0, wide):
        r = wide - 1 - k
        row = start + r * size
        total = block[row + size - 1]
        for c in count_up(r + 1, size - 1):
            total -= block[row + c] * values[interface + c]
        pivot = block[row + r]
        # numba raises an error for complex numbers that are divided by 0.
        values[interface + r] = total / pivot if pivot != 0 else total


def _solve_interfaces(
    arrays: Any, systems: int, interfaces: int, wide: int, lower: int, is_whole: bool
) -> int:
    """Write the values of all interfaces; return a singular system, or -1. `cells` are overwritten.

    All arrays are flat. `known` (system, 2, l + u) has the values of the first interface and of the last.
    Of whole systems only the unknowns outside of the matrix are known, which are 0. `values` have an
    interface of 0 after the last of each system.
    """
    cells, known, block, vector, values = pointers_to(arrays)
    size, singular = 2 * wide + 1, -1
    # Rows of zeros would get rounding errors.
    pending = lower if is_whole else wide
    for system in count_up(0, systems):
        first, last = 2 * system * wide, (2 * system + 1) * wide
        nan_seen = (known[first] + known[last]) * 0
        for k in count_up(0, wide * size):
            block[k] = 0
        least = abs(block[0]) + 1
        for r in count_up(0, wide):
            if r < pending:
                block[r * size + r], block[r * size + size - 1] = 1, known[first + r]
        for part in count_up(0, interfaces - 1):
            start = (system * interfaces + part) * wide * size
            least, nan_seen = _load_cell(cells, start, block, wide, size, least, nan_seen)
            for k in count_up(0, wide * size if pending < wide else 0):
                block[pending * size + k] = block[wide * size + k]
            least = _triangulate(block, pending + wide, wide, size, vector, least)
            for k in count_up(0, wide * size):
                cells[start + k] = block[k]
            _move_pending(block, wide, size)
        interface = (system * (interfaces + 1) + interfaces - 1) * wide
        for r in count_up(0, wide):
            values[interface + r], values[interface + wide + r] = known[last + r], 0
        if is_whole:
            for r in count_up(lower, wide):
                for c in count_up(0, size):
                    block[r * size + c] = 0
                block[r * size + r] = 1
            least = _triangulate(block, wide, wide, size, vector, least)
            _solve_triangle(block, np.int64(0), wide, size, values, interface)
        for k in count_up(1, interfaces):
            part = system * interfaces + interfaces - 1 - k
            _solve_triangle(cells, part * wide * size, wide, size, values, interface - k * wide)
        interface -= (interfaces - 1) * wide
        for r in count_up(0, wide if not is_whole else 0):
            # The known values, without the rounding errors of back substitution.
            values[interface + r] = known[first + r]
        if nan_seen == nan_seen:
            if not least > 0:
                singular = system
        else:
            for k in count_up(0, interfaces * wide):
                values[interface + k] += nan_seen
    return singular


reduce = compile_kernel(_reduce, allocates=False)
substitute = compile_kernel(_substitute, allocates=False)
solve_whole = compile_kernel(_solve_whole, allocates=False)
merge = compile_kernel(_merge, allocates=False)
solve_interfaces = compile_kernel(_solve_interfaces, allocates=False)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; with method "threads" all threads share a call."""
    is_shared = method == "threads"

    def threads_of(block: int, chunk: Chunk) -> int:
        return threads_for(16 * prod(chunk.shape) * block) if is_shared else 1

    def precompute_chunk(ends: BandedEnds, chunk: Chunk) -> InterfaceRows:
        return precompute(ends, chunk, threads_of(ends.block, chunk))

    def determine_chunk(ends: BandedEnds, chunk: Chunk, carry_in: Any, result: Any) -> bool:
        return _determine(*_layout_of(ends, chunk), carry_in, result, threads_of(ends.block, chunk))

    return Kernels(determine_chunk, at_once(precompute_chunk), propagate, prepare_solver=prepare_solver)


def prepare_solver(
    ends: BandedEnds, chunk: Chunk, carry_in: None, result: np.ndarray
) -> PreparedSolver | None:
    """Return a solver for whole systems of the shape of a chunk, on the calling thread.

    It takes the addresses of diagonals, and b as an array.
    """
    if ends.block > 1:
        return None
    (_, layout), size = _layout_of(ends, chunk), chunk.dtype.itemsize

    def solve(operands: Sequence[Any], results: Sequence[Any]) -> bool:
        *diagonals, b = operands
        last = b.ctypes.data
        if (diagonals[0] - last) % size:
            raise CacheMiss
        bases = np.array([*[(address - last) // size for address in diagonals], 0])
        return _determine([b], layout._replace(bases=bases), None, results[0].reshape(layout.shape), 1)

    return prepared(solve)


def precompute(ends: BandedEnds, chunk: Chunk, threads: int) -> InterfaceRows:
    """Return the equations of a chunk in its interfaces, whose operands are the diagonals and b."""
    cells = _reduced(*_layout_of(ends, chunk), threads)
    return InterfaceRows(merged(cells).reshape(*chunk.row_shape, *cells.shape[2:]))


def merged(cells: np.ndarray) -> np.ndarray:
    """Return the equations of chunks (system, l + u, ...) from the cells of their parts."""
    systems, interfaces, wide, size = cells.shape
    if interfaces == 2:
        return cells[:, 0]
    rows = np.empty((systems, wide, size), cells.dtype)
    arrays = cells.reshape(-1), *_block_of(wide, cells.dtype), rows.reshape(-1)
    merge(arrays, systems, interfaces, wide)
    return rows


def propagate(system: BandedSystem, summaries: Sequence[InterfaceRows]) -> list[np.ndarray]:
    """Return the values of the interfaces before and after each chunk, (outer, inner, 2, l + u)."""
    outer, inner, wide, size = summaries[0].rows.shape
    cells = np.empty((outer * inner, len(summaries) + 1, wide, size), summaries[0].rows.dtype)
    for k, summary in enumerate(summaries):
        cells[:, k] = summary.rows.reshape(-1, wide, size)
    known = values = solve_periodic_ends(cells) if system.is_periodic else None
    if values is None or len(summaries) > 1:
        values = solved_interfaces(cells, known, system.lower, 1)
    values = values.reshape(outer, inner, -1, wide)
    return [values[:, :, k : k + 2] for k in range(len(summaries))]


def solve_periodic_ends(cells: np.ndarray) -> np.ndarray:
    """Return the values of the first interface, and of the last one, (system, 2, l + u).

    Both have the same unknowns, of which the merged equations are a system. Raise SingularSystemError if
    one is singular. The arguments are those of `merged`.
    """
    rows, wide = merged(cells), cells.shape[2]
    matrices = rows[..., :wide] + rows[..., wide:-1]
    sizes = abs(matrices).max(-1, keepdims=True)
    sizes[sizes == 0] = 1
    try:
        values = np.linalg.solve(matrices / sizes, rows[..., -1:] / sizes)[..., 0]
    except np.linalg.LinAlgError:
        is_singular = np.linalg.slogdet(matrices / sizes)[0] == 0
        raise SingularSystemError(int(is_singular.argmax())) from None
    return np.stack([values, values], 1)


def _determine(
    operands: Operands, layout: Layout, carry_in: np.ndarray | None, result: np.ndarray, threads: int
) -> bool:
    """Write the unknowns of a chunk; return whether all operands are finite."""
    flat, wide = result.reshape(-1), sum(layout.widths)
    if carry_in is None and layout.shape[1] * layout.block <= MAX_WHOLE:
        lanes = lanes_of(flat.dtype)
        flags = np.empty(-(-layout.shape[0] * layout.shape[2] // lanes) * lanes, flat.dtype.char.lower())
        check_outcomes(_call(solve_whole, operands, layout, flags, threads, flat))
        checked = result[:, 0]
    else:
        known = None if carry_in is None else np.ascontiguousarray(carry_in).reshape(-1, 2, wide)
        if known is not None and layout.parts == 1:
            # The equations of all rows have been reduced: no system is singular.
            values, checked = known, result[:, 0]
        else:
            cells = _reduced(operands, layout, threads)
            values = checked = solved_interfaces(cells, known, layout.widths[0], threads)
        _call(substitute, operands, layout, values.reshape(-1), threads, flat)
    return np.count_nonzero(np.isfinite(checked)) == checked.size


def _reduced(operands: Operands, layout: Layout, threads: int) -> np.ndarray:
    systems, wide = layout.shape[0] * layout.shape[2], sum(layout.widths)
    cells = np.empty((systems, layout.parts + 1, wide, 2 * wide + 1), operands[-1].dtype)
    _call(reduce, operands, layout, cells.reshape(-1), threads)
    return cells


def solved_interfaces(cells: np.ndarray, known: np.ndarray | None, lower: int, threads: int) -> np.ndarray:
    """Return the values of all interfaces (system, interface, l + u) from the cells of parts.

    One more cell follows those of each system.
    """
    systems, interfaces, wide, _ = cells.shape
    values = np.empty((systems, interfaces + 1, wide), cells.dtype)
    is_whole = known is None
    if known is None:
        known = np.zeros((systems, 2, wide), cells.dtype)

    def solve(start: int, stop: int) -> int:
        flat, flat_known, flat_values = (array[start:stop].reshape(-1) for array in (cells, known, values))
        arrays = flat, flat_known, *_block_of(wide, cells.dtype), flat_values
        singular = solve_interfaces(arrays, stop - start, interfaces, wide, lower, is_whole)
        return singular + start if singular >= 0 else -1

    check_outcomes(_call_all([partial(solve, *part) for part in split_range(systems, threads)]))
    return values[:, :-1]


def _block_of(wide: int, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(2 * wide * (3 * wide + 1), dtype), np.empty(2 * wide, dtype)


def _call_all(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    return run_in_threads(calls) if len(calls) > 1 else [call() for call in calls]


def _call(
    kernel: Any, operands: Operands, layout: Layout, cells: np.ndarray, threads: int, *result: np.ndarray
) -> list[Any]:
    """Call a kernel over all partitions, for each group of one length and each thread."""
    (outer, steps, inner), memory = layout.shape, writable(operands[-1][:1]).reshape(-1)
    lanes, calls = lanes_of(memory.dtype), []
    last = steps - (layout.parts - 1) * layout.length
    full = layout.parts - (last != layout.length)
    for first, stop_part, length in ((0, full, layout.length), (full, layout.parts, last)):
        count = outer * inner * (stop_part - first)
        for start, stop in split_range(-(-count // lanes), threads):
            arrays = memory, *_memory_of(layout, memory.dtype, lanes), cells, *result
            calls.append(
                partial(kernel, arrays, first, stop_part, length, start * lanes, min(stop * lanes, count))
            )
    return _call_all(calls)


_FIRST = CACHE_LINE // 4
"""Numbers at the start of a scratch: 0 … MAX_WIDTH, and others up to the end of a cache line."""
_COUNTS = np.arange(_FIRST)


def _memory_of(layout: Layout, dtype: np.dtype[Any], lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of a layout with memory for a table of offsets, and the scratch of a kernel."""
    (lower, upper), block, columns = layout.widths, layout.block, len(layout.bases)
    count, unknowns = lower + upper + block, layout.length * block
    vector = _FIRST + count * (columns + lower + upper) * lanes
    pivots = vector + count * lanes
    after_pivots = pivots + columns * unknowns * lanes
    size = after_pivots + (unknowns + lower + upper) * lanes
    scratch = np.empty(size + CACHE_LINE // dtype.itemsize, dtype)
    # Whole systems took 1.15 times as long where vectors lie across cache lines.
    scratch = scratch[-scratch.ctypes.data % CACHE_LINE // dtype.itemsize :]
    scratch[:_FIRST] = _COUNTS
    _, *sizes = layout.shape
    numbers = np.empty(BASES + columns * (5 + lanes) + TABLE_ROWS * lanes, np.int64)
    numbers[:ROWS] = *sizes, *layout.around, lower, upper, block, layout.parts, layout.length
    numbers[ROWS:BASES] = _FIRST, vector, pivots, after_pivots
    numbers[BASES : BASES + columns] = layout.bases
    numbers[BASES + columns : BASES + 5 * columns] = layout.strides.reshape(-1)
    return numbers, scratch


def _layout_of(ends: BandedEnds, chunk: Chunk) -> tuple[Operands, Layout]:
    """Return the operands, whose addresses are multiples of the size of a number, and their layout."""
    operands, size, block = [*chunk.operands], chunk.dtype.itemsize, ends.block
    addresses = [array.ctypes.data for array in operands]
    for k, address in enumerate(addresses):
        if address % size:
            operands[k] = operands[k].copy()
            addresses[k] = operands[k].ctypes.data
    *others, last = addresses
    bases = [(address - last) // size + column for address in others for column in range(block)]
    # The interfaces of a partition take (l + u)³ operations. With blocks of 8 × 8, 10^6 unknowns took 280 ms
    # in partitions of 480 rows, and 240 in those of 960.
    unknowns, most = chunk.steps * block, LENGTH * max(ends.lower + ends.upper, 8) // 8
    parts = 1 if unknowns <= MAX_WHOLE and ends.is_whole else -(-unknowns // most)
    length = -(-chunk.steps // parts)
    if parts > 1:
        # Partitions an odd number of cache lines apart: otherwise those side by side compete for few sets.
        numbers = max(CACHE_LINE // (size * block * block), 1)
        length = (-(-length // numbers) | 1) * numbers
    parts = -(-chunk.steps // length)
    strides = _strides_of(tuple([strides_of(array, chunk.shape) for array in operands]), block)
    widths = ends.lower, ends.upper
    layout = Layout(chunk.shape, np.array([*bases, 0]), strides, ends.around, widths, block, parts, length)
    return operands, layout


@lru_cache(maxsize=256)
def _strides_of(operands: tuple[tuple[int, int, int], ...], block: int) -> np.ndarray:
    """Return the strides of the columns of a row, and of b, from those of the operands."""
    strides: list[list[Any]] = []
    for of_operand in operands:
        columns = 1 if len(strides) == block * (len(operands) - 1) else block
        strides += [[*(columns * block * stride for stride in of_operand), columns]] * columns
    return np.array(strides)
