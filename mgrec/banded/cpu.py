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


class Scratch(NamedTuple):
    """Memory of one call of a kernel, flat but for the offsets (rows, lanes)."""

    offsets: np.ndarray
    counts: np.ndarray  # 0 … MAX_WIDTH
    rows: np.ndarray  # pending rows
    vector: np.ndarray  # of a reflection
    pivots: np.ndarray  # l + u + S + 1 numbers a row
    unknowns: np.ndarray
    flags: np.ndarray  # the least pivot of each lane, real


@numba.njit(**RARE)
def _fill_offsets(task: int, stop: int, parts: Any, layout: Any, cell_size: int, offsets: Any) -> None:
    """Write the offsets of partitions `task` on, a lane each; lanes from `stop` on repeat the last.

    Partitions are numbered over (outer, part, inner), for the parts from parts[0] to parts[1].
    """
    (_, steps, inner), block = layout.shape, layout.block
    columns, count = len(layout.bases), parts[1] - parts[0]
    for lane in range(offsets.shape[1]):
        number, column = divmod(smaller_of(task + lane, stop - 1), inner)
        outer, part = divmod(number, count)
        part += parts[0]
        step = part * layout.length
        for k in range(columns):
            along = outer * layout.strides[k, 0] + step * layout.strides[k, 1]
            offsets[k, lane] = layout.bases[k] + along + column * layout.strides[k, 2]
        cell = (outer * inner + column) * (layout.parts + 1) + part
        offsets[columns + CELL, lane] = cell * cell_size
        offsets[columns + RESULT, lane] = ((outer * steps + step) * inner + column) * block
        offsets[columns + BEFORE, lane] = smaller_of(layout.around[0] + step * block, MAX_WIDTH)
        after = layout.around[1] + (steps - smaller_of(step + layout.length, steps)) * block
        offsets[columns + AFTER, lane] = smaller_of(after, MAX_WIDTH)


@numba.njit(**INNER)
def _load_row(
    memory: Any,
    scratch: Any,
    layout: Any,
    i: int,
    row: int,
    length: int,
    target: int,
    around: Any,
    state: Any,
) -> Any:
    """Write the coefficients of a row of block i from scratch.rows[target], scaled.

    Return b and the new state. Coefficients outside of the matrix are 0. The state has the least size
    of a row or pivot, and 0, or nan if a row contains nan or inf. `around` are the rows of the system
    around the partition of `length` blocks.
    """
    lower, block, count = layout.widths[0], layout.block, len(layout.bases) - 1
    width, rows, (least, nan_seen) = lane_count(memory), scratch.rows, state
    zero, size, total = constant(nan_seen, 0.0), constant(least, 0.0), constant(nan_seen, 0.0)
    for k in range(count):
        shift = i * layout.strides[k, 1] + row * layout.strides[k, 3]
        number, unknown = gather(memory, scratch.offsets, k, shift), i * block + k - lower
        if unknown < 0:
            number = select(constant(size, -unknown), around[0], zero, number)
        if unknown >= length * block:
            number = select(constant(size, unknown - length * block + 1), around[1], zero, number)
        store(rows, (target + k) * width, number)
        size = larger(size, magnitude(number))
        # nan is not larger than a number.
        total = total + (number - number)
    scale = scale_of(size)
    for k in range(count):
        store(rows, (target + k) * width, load(rows, (target + k) * width) * scale)
    shift = i * layout.strides[count, 1] + row * layout.strides[count, 3]
    rhs = gather(memory, scratch.offsets, count, shift)
    return rhs * scale, (select(least, size, size, least), nan_seen + (total + (rhs - rhs)))


@numba.njit(**RARE)
def _clear(memory: Any, rows: Any, wide: int, block: int, columns: int) -> None:
    """Clear coefficients: pending rows lack the last unknowns of a block, and its rows the others."""
    width, zero = lane_count(memory), constant(load(rows, 0), 0.0)
    for r in range(wide + block):
        start, stop = (wide, wide + block) if r < wide else (wide + block, columns)
        for c in range(start, stop):
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
    # Arrays as arguments, in place of Scratch and Layout, save a tenth of the time to compile.
    width, count = lane_count(memory), wide + block - row
    size, pivot, largest = magnitude(load(rows, 0)), 0, abs(rows[0])
    for r in range(1, count):
        position = r * columns * width
        size = larger(size, magnitude(load(rows, position)))
        if abs(rows[position]) > largest:
            pivot, largest = r, abs(rows[position])
    for c in range(columns if pivot > 0 else 0):
        first, position = load(rows, c * width), (pivot * columns + c) * width
        store(rows, c * width, load(rows, position))
        store(rows, position, first)
    one, zero, scale = constant(size, 1.0), constant(size, 0.0), scale_of(size)
    total = zero
    for r in range(count):
        number = load(rows, r * columns * width) * scale
        store(vector, r * width, number)
        total = total + squared_modulus(number)
    norm, leading = square_root(total), load(vector, 0)
    modulus = square_root(squared_modulus(leading))
    phase = select(modulus, zero, leading / select(modulus, zero, modulus, one), constant(leading, 1.0))
    leading = leading + phase * norm
    beta = select(norm, zero, zero - one / (norm * (norm + modulus)), zero)
    store(vector, 0, leading)
    for k in range(1, columns - row):
        c, moved = (k, (k - 1) * width) if k < count else (k + row, (k + row) * width)
        product, position = constant(leading, 0.0), c * width
        for r in range(count):
            number = conjugate(load(vector, r * width))
            product = minus_product(product, number, load(rows, position))
            position += columns * width
        product, position = product * beta, c * width
        if target >= 0:
            store(pivots, (target + c) * width, minus_product(load(rows, position), leading, product))
        for r in range(1, count):
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
    for r in range(1, stop):
        size, other = magnitude(load(rows, 0)), magnitude(load(rows, r * columns * width))
        for c in range(columns):
            one, two = load(rows, c * width), load(rows, (r * columns + c) * width)
            store(rows, c * width, select(other, size, two, one))
            store(rows, (r * columns + c) * width, select(other, size, one, two))
    pivot = load(rows, 0)
    store(pivots, target * width, constant(pivot, 1.0) / pivot)
    for c in range(1, columns):
        store(pivots, (target + c) * width, load(rows, c * width))
    for r in range(1, stop):
        factor = load(rows, r * columns * width) / pivot
        for k in range(1, count + 1):
            c, moved = (k, k - 1) if k < count else (columns - 1, columns - 1)
            number, of_pivot = load(rows, (r * columns + c) * width), load(pivots, (target + c) * width)
            number = minus_product(number, factor, of_pivot)
            store(rows, ((r - 1) * columns + moved) * width, number)
        store(rows, ((r - 1) * columns + count - 1) * width, constant(pivot, 0.0))
    return magnitude(pivot)


@numba.njit(**INNER)
def _fill(memory: Any, rows: Any, count: int, value: Any) -> None:
    for k in range(count):
        store(rows, k * lane_count(memory), value)


@numba.njit(**INNER)
def _around(counts: Any, offsets: Any, columns: int) -> Any:
    """Return the numbers of rows of the system before and after each partition."""
    before = gather(counts, offsets, columns + BEFORE, 0)
    return magnitude(before), magnitude(gather(counts, offsets, columns + AFTER, 0))


@numba.njit(**INNER)
def _substitute_back(pivots: Any, unknowns: Any, columns: int, block: int, first: int, stop: int) -> None:
    """Write the unknowns of the blocks stop - 1 … first, each from its pivot row and those after it."""
    width = lane_count(pivots)
    for i in range(stop - 1, first - 1, -1):
        for row in range(block - 1, -1, -1):
            unknown = i * block + row
            start = unknown * columns
            total = load(pivots, (start + columns - 1) * width)
            for k in range(1, columns - 1 - row):
                coefficient = load(pivots, (start + k) * width)
                total = minus_product(total, coefficient, load(unknowns, (unknown + k) * width))
            store(unknowns, unknown * width, total * load(pivots, start * width))


def _reduce(
    memory: Any, layout: Any, cells: Any, scratch: Any, parts: Any, length: int, start: int, stop: int
) -> None:
    """Write the equations of the partitions `start` to `stop`, of one length, to their cells.

    A cell has for each equation the coefficients of the interfaces before and after, and its b.
    """
    wide, block, width = layout.widths[0] + layout.widths[1], layout.block, lane_count(memory)
    columns, rows, first = 2 * wide + block + 1, scratch.rows, wide + block
    for task in range(start, stop, width):
        _fill_offsets(task, stop, parts, layout, wide * (2 * wide + 1), scratch.offsets)
        around = _around(scratch.counts, scratch.offsets, len(layout.bases))
        zero = constant(load(rows, 0), 0.0)
        _fill(memory, rows, first * columns, zero)
        # The unknowns that are eliminated first are those of the interface before.
        for r in range(wide):
            store(rows, (r * columns + r) * width, constant(zero, 1.0))
            store(rows, (r * columns + first + r) * width, constant(zero, -1.0))
        state = magnitude(constant(zero, 1.0)), zero
        for i in range(length):
            for row in range(block):
                target = (wide + row) * columns
                b, state = _load_row(memory, scratch, layout, i, row, length, target, around, state)
                store(rows, (target + columns - 1) * width, b)
            for row in range(block):
                size = _reflect(memory, rows, scratch.vector, wide, block, row, columns, scratch.pivots, -1)
                state = select(state[0], size, size, state[0]), state[1]
        for r in range(wide):
            for c in range(2 * wide + 1):
                column = c + first if c < wide else (c - wide if c < 2 * wide else columns - 1)
                number = load(rows, (r * columns + column) * width)
                number = select(state[0], magnitude(zero), number, zero) + state[1]
                position = r * (2 * wide + 1) + c
                scatter(cells, scratch.offsets, len(layout.bases) + CELL, position, number)


def _substitute(
    memory: Any,
    layout: Any,
    values: Any,
    scratch: Any,
    parts: Any,
    length: int,
    start: int,
    stop: int,
    result: Any,
) -> None:
    """Write the unknowns of partitions, whose interfaces have known values (system, part, l + u).

    The rows are eliminated again, without the known unknowns. The first l + u rows then contain
    no unknown to be eliminated, and are the pending rows.
    """
    wide, block, width = layout.widths[0] + layout.widths[1], layout.block, lane_count(memory)
    columns, rows, unknowns = len(layout.bases), scratch.rows, scratch.unknowns
    for task in range(start, stop, width):
        _fill_offsets(task, stop, parts, layout, wide, scratch.offsets)
        around, zero = _around(scratch.counts, scratch.offsets, columns), constant(load(rows, 0), 0.0)
        _fill(memory, rows, (wide + block) * columns, zero)
        for k in range(wide):
            store(unknowns, k * width, gather(values, scratch.offsets, columns + CELL, k))
        state = magnitude(constant(zero, 1.0)), zero
        for i in range(length):
            for row in range(block):
                target = (wide + row) * columns
                b, state = _load_row(memory, scratch, layout, i, row, length, target, around, state)
                for k in range(wide - i * block):
                    b = b - load(rows, (target + k) * width) * load(unknowns, (i * block + k) * width)
                    store(rows, (target + k) * width, zero)
                store(rows, (target + columns - 1) * width, b)
            for row in range(block):
                target = (i * block + row) * columns
                _reflect(memory, rows, scratch.vector, wide, block, row, columns, scratch.pivots, target)
        for k in range(wide):
            value = gather(values, scratch.offsets, columns + CELL, wide + k)
            store(unknowns, (length * block + k) * width, value)
        _substitute_back(scratch.pivots, unknowns, columns, block, wide // block, length)
        for i in range(length):
            for row in range(block):
                number = load(unknowns, (layout.widths[0] + i * block + row) * width) + state[1]
                position = i * layout.shape[2] * block + row
                scatter(result, scratch.offsets, columns + RESULT, position, number)


def _solve_whole(
    memory: Any,
    layout: Any,
    values: Any,
    scratch: Any,
    parts: Any,
    length: int,
    start: int,
    stop: int,
    result: Any,
) -> int:
    """Write the unknowns of the whole systems `start` to `stop`; return a singular one, or -1."""
    (lower, upper), block, width = layout.widths, layout.block, lane_count(memory)
    columns, rows, unknowns, singular = len(layout.bases), scratch.rows, scratch.unknowns, -1
    pending = 1 if block > 1 else lower
    for task in range(start, stop, width):
        _fill_offsets(task, stop, parts, layout, lower + upper, scratch.offsets)
        around, zero = _around(scratch.counts, scratch.offsets, columns), constant(load(rows, 0), 0.0)
        _fill(memory, rows, (lower + block) * columns, zero)
        state = magnitude(constant(zero, 1.0)), zero
        for i in range(-pending, length):
            # The last block that contains the unknowns to be eliminated.
            loaded = i + pending
            for k in range(lower * columns, (lower + block) * columns if loaded >= length else 0):
                store(rows, k * width, zero)
            for row in range(block if loaded < length else 0):
                target = (smaller_of(loaded * block, lower) + row) * columns
                b, state = _load_row(memory, scratch, layout, loaded, row, length, target, around, state)
                store(rows, (target + columns - 1) * width, b)
                for c in range(columns - 1 if i < 0 else 0):
                    # The first rows begin with coefficients outside of the matrix.
                    moved = c - i * block
                    number = load(rows, (target + moved) * width) if moved < columns - 1 else zero
                    store(rows, (target + c) * width, number)
            for row in range(block if i >= 0 else 0):
                stop_row, target = lower + block - row, (i * block + row) * columns
                size = _pivot(memory, rows, stop_row, row, columns, scratch.pivots, target)
                state = select(state[0], size, size, state[0]), state[1]
        for k in range(lower + upper):
            store(unknowns, (length * block + k) * width, zero)
        _substitute_back(scratch.pivots, unknowns, columns, block, 0, length)
        for i in range(length):
            for row in range(block):
                number = load(unknowns, (i * block + row) * width) + state[1]
                position = i * layout.shape[2] * block + row
                scatter(result, scratch.offsets, columns + RESULT, position, number)
        # nan is not larger than 0, and not equal to it.
        store(scratch.flags, 0, state[0] + squared_modulus(state[1]))
        for lane in range(scratch.offsets.shape[1]):
            if scratch.flags[lane] == 0:
                singular = smaller_of(task + lane, stop - 1)
    return singular


@numba.njit(**RARE)
def _triangulate(block: Any, rows: int, wide: int, columns: int, vector: Any, least: Any) -> Any:
    """Eliminate the columns 0 … wide-1 from the rows of a flat block.

    Return the least size of a pivot and `least`.
    """
    for k in range(wide):
        largest, pivot = abs(block[k * columns + k]), k
        for r in range(k + 1, rows):
            if abs(block[r * columns + k]) > largest:
                largest, pivot = abs(block[r * columns + k]), r
        for c in range(k, columns if pivot > k else k):
            position = pivot * columns + c
            block[k * columns + c], block[position] = block[position], block[k * columns + c]
        least = smaller_of(least, largest)
        if not largest > 0:
            continue
        total = largest - largest
        for r in range(k, rows):
            number = block[r * columns + k] / largest
            vector[r] = number
            total += number.real * number.real + number.imag * number.imag
        norm, leading = np.sqrt(total), vector[k]
        modulus = abs(leading)
        phase = leading / modulus if modulus > 0 else leading + 1
        vector[k] = leading + phase * norm
        beta = 1 / (norm * (norm + modulus))
        block[k * columns + k] = -phase * norm * largest
        for c in range(k + 1, columns):
            product = leading - leading
            for r in range(k, rows):
                product += block[r * columns + c] * np.conj(vector[r])
            product *= beta
            for r in range(k, rows):
                block[r * columns + c] -= product * vector[r]
    return least


@numba.njit(**RARE)
def _load_cell(cells: Any, start: int, block: Any, wide: int, columns: int, least: Any, nan_seen: Any) -> Any:
    """Write the rows of a cell below the pending rows, scaled.

    Return `least`, or 0 if all coefficients are 0, and `nan_seen`, or nan if the cell has nan.
    """
    most = least - least
    for r in range(wide):
        size, target = least - least, (wide + r) * columns
        for c in range(2 * wide):
            size = larger_of(size, abs(cells[start + c]))
        scale = 1 / size if size > 0 else size + 1
        most = larger_of(most, size)
        for c in range(columns):
            block[target + c] = 0
        for c in range(2 * wide):
            block[target + c] = cells[start + c] * scale
        block[target + columns - 1] = cells[start + 2 * wide] * scale
        nan_seen += cells[start + 2 * wide] * 0
        start += 2 * wide + 1
    return smaller_of(least, most), nan_seen


@numba.njit(**RARE)
def _move_pending(block: Any, wide: int, columns: int) -> None:
    """Move the rows after the pivot rows to the first rows, and the next interface to the first columns."""
    for k in range(wide * columns):
        block[k] = block[wide * columns + k]
    for r in range(wide):
        for c in range(wide):
            block[r * columns + c] = block[r * columns + wide + c]
            block[r * columns + wide + c] = 0


def _merge(cells: Any, sizes: Any, block: Any, vector: Any, merged: Any) -> None:
    """Write the equations of chunks from those of their parts; all arrays are flat."""
    systems, interfaces, wide = sizes
    columns, size = 3 * wide + 1, wide * (2 * wide + 1)
    for system in range(systems):
        nan_seen = cells[system * interfaces * size] * 0
        for k in range(wide * columns):
            block[k] = 0
        least = abs(block[0]) + 1
        for r in range(wide):
            block[r * columns + r], block[r * columns + 2 * wide + r] = 1, -1
        for part in range(interfaces - 1):
            start = (system * interfaces + part) * size
            least, nan_seen = _load_cell(cells, start, block, wide, columns, least, nan_seen)
            least = _triangulate(block, 2 * wide, wide, columns, vector, least)
            _move_pending(block, wide, columns)
        for r in range(wide):
            for c in range(2 * wide + 1):
                column = c + 2 * wide if c < wide else (c - wide if c < 2 * wide else columns - 1)
                number = block[r * columns + column] if least > 0 else nan_seen * 0
                merged[(system * wide + r) * (2 * wide + 1) + c] = number + nan_seen


@numba.njit(**RARE)
def _solve_triangle(block: Any, start: int, wide: int, size: int, values: Any, interface: int) -> None:
    """Write the values of an interface.

    The rows have its unknowns, those of the next interface, and the right-hand side.
    """
    for r in range(wide - 1, -1, -1):
        row = start + r * size
        total = block[row + size - 1]
        for c in range(r + 1, size - 1):
            total -= block[row + c] * values[interface + c]
        pivot = block[row + r]
        # numba raises an error for complex numbers that are divided by 0.
        values[interface + r] = total / pivot if pivot != 0 else total


def _solve_interfaces(
    cells: Any, sizes: Any, known: Any, lower: int, is_whole: bool, block: Any, vector: Any, values: Any
) -> int:
    """Write the values of all interfaces; return a singular system, or -1. `cells` are overwritten.

    All arrays are flat. `known` (system, 2, l + u) has the values of the first interface and of the last.
    Of whole systems only the unknowns outside of the matrix are known, which are 0. `values` have an
    interface of 0 after the last of each system.
    """
    systems, interfaces, wide = sizes
    size, singular = 2 * wide + 1, -1
    # Rows of zeros would get rounding errors.
    pending = lower if is_whole else wide
    for system in range(systems):
        first, last = 2 * system * wide, (2 * system + 1) * wide
        nan_seen = (known[first] + known[last]) * 0
        for k in range(wide * size):
            block[k] = 0
        least = abs(block[0]) + 1
        for r in range(wide):
            if r < pending:
                block[r * size + r], block[r * size + size - 1] = 1, known[first + r]
        for part in range(interfaces - 1):
            start = (system * interfaces + part) * wide * size
            least, nan_seen = _load_cell(cells, start, block, wide, size, least, nan_seen)
            for k in range(wide * size if pending < wide else 0):
                block[pending * size + k] = block[wide * size + k]
            least = _triangulate(block, pending + wide, wide, size, vector, least)
            for k in range(wide * size):
                cells[start + k] = block[k]
            _move_pending(block, wide, size)
        interface = (system * (interfaces + 1) + interfaces - 1) * wide
        for r in range(wide):
            values[interface + r], values[interface + wide + r] = known[last + r], 0
        if is_whole:
            for r in range(lower, wide):
                for c in range(size):
                    block[r * size + c] = 0
                block[r * size + r] = 1
            least = _triangulate(block, wide, wide, size, vector, least)
            _solve_triangle(block, 0, wide, size, values, interface)
        for part in range(interfaces - 2, -1, -1):
            interface -= wide
            _solve_triangle(cells, (system * interfaces + part) * wide * size, wide, size, values, interface)
        for r in range(wide if not is_whole else 0):
            # The known values, without the rounding errors of back substitution.
            values[interface + r] = known[first + r]
        if nan_seen == nan_seen:
            if not least > 0:
                singular = system
        else:
            for k in range(interfaces * wide):
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
    merge(cells.reshape(-1), (systems, interfaces, wide), *_block_of(wide, cells.dtype), rows.reshape(-1))
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
        check_outcomes(_call(solve_whole, operands, layout, np.empty(0, flat.dtype), threads, flat))
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
        block, sizes = _block_of(wide, cells.dtype), (stop - start, interfaces, wide)
        flat, flat_known, flat_values = (array[start:stop].reshape(-1) for array in (cells, known, values))
        singular = solve_interfaces(flat, sizes, flat_known, lower, is_whole, *block, flat_values)
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
    for parts, length in (((0, full), layout.length), ((full, layout.parts), last)):
        count = outer * inner * (parts[1] - parts[0])
        for start, stop in split_range(-(-count // lanes), threads):
            scratch = _scratch_of(layout, memory.dtype)
            tasks = start * lanes, min(stop * lanes, count)
            calls.append(partial(kernel, memory, layout, cells, scratch, parts, length, *tasks, *result))
    return _call_all(calls)


def _scratch_of(layout: Layout, dtype: np.dtype[Any]) -> Scratch:
    lanes, wide, block, columns = lanes_of(dtype), sum(layout.widths), layout.block, len(layout.bases)
    count, rows_of_part = wide + block, layout.length * block
    sizes = count * (columns + wide), count, columns * rows_of_part, rows_of_part + wide
    rows, vector, pivots, unknowns = (np.empty(size * lanes, dtype) for size in sizes)
    offsets = np.empty((columns + TABLE_ROWS, lanes), np.int64)
    counts, flags = np.arange(MAX_WIDTH + 1).astype(dtype), np.empty(lanes, dtype.char.lower())
    return Scratch(offsets, counts, rows, vector, pivots, unknowns, flags)


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
