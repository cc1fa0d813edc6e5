"""Wavefront loops of any weights and operators, for one tile in host memory.

A tile of several threads is cut into smaller ones; those of an antidiagonal run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numba
import numpy as np

from ....algebra.fingerprint import StepFunction, require_unchanged
from ....algebra.operators import Operators
from ....families.wavefront.loops.recurrence import Borders, Loop
from ..compilation.kernels import INNER, KEPT, compile_kernel, writable
from ..compilation.steps import compile_step
from ..threads import cuts, threads_for, together

# Rows and columns: the first and last columns of four rows are slow.
_TILE = 256, 1024

Part = tuple[int, int, int, int, int, int]
"""Begin and end of grids, of rows and of columns."""


def determine_loop(
    loop: Loop,
    local: np.ndarray,
    weights: Sequence[np.ndarray],
    borders: Borders,
    table: np.ndarray,
    is_shared: bool,
) -> None:
    """Write the table of a tile.

    Parameters
    ----------
    local : array (..., rows, columns)
    weights : three arrays that broadcast to `local`'s shape
        As many axes; those of length 1 are not expanded.
    borders : Borders
        Around the tile.
    table : array (..., rows, columns)
        Written.
    """
    if table.size == 0:
        return
    rows, columns = table.shape[-2:]
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    results = whole.reshape(-1, rows, columns)
    operands = tuple(_grids(operand, table.shape[:-2]) for operand in (local, *weights))
    strides = np.array([[n > 1 for n in operand.shape] for operand in operands[1:]], np.intp)
    around = _around(borders, table)
    floor = table.dtype.type(0 if loop.floor is None else loop.floor)
    kernel = _kernel(loop.operators, table.dtype)
    run = partial(kernel, results, *operands, strides, *around, floor, loop.floor is not None)
    threads = threads_for(table.size) if is_shared else 1
    for parts in _parts(results.shape, threads):
        # All parts of a thread in one call, and no tuples: numba is slow to find their types.
        table_of_parts = np.array(parts, np.intp)
        together([partial(run, table_of_parts[a:b]) for a, b in cuts(len(parts), threads)])
    if whole is not table:
        table[...] = whole


def _around(borders: Borders, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The row above every grid and the column to the left, each after the corner."""
    *batch, rows, columns = table.shape
    over = np.empty((*batch, columns + 1), table.dtype)
    beside = np.empty((*batch, rows + 1), table.dtype)
    over[..., 1:], beside[..., 1:] = borders.above, borders.left
    over[..., 0] = beside[..., 0] = borders.corner
    return over.reshape(-1, columns + 1), beside.reshape(-1, rows + 1)


def _grids(operand: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """An operand (grids, rows, columns); any may be 1."""
    if any(n != 1 for n in operand.shape[:-2]):
        operand = np.broadcast_to(operand, (*batch, *operand.shape[-2:]))
    return writable(np.ascontiguousarray(operand.reshape(-1, *operand.shape[-2:])))


def _parts(shape: tuple[int, ...], threads: int) -> Iterator[list[Part]]:
    """Parts that need nothing of each other, list by list."""
    grids, rows, columns = shape
    if grids >= threads:
        yield [(a, b, 0, rows, 0, columns) for a, b in cuts(grids, threads)]
        return
    down, right = (cuts(n, -(-n // most)) for n, most in zip(shape[1:], _TILE, strict=True))
    for diagonal in range(len(down) + len(right) - 1):
        first, end = max(0, diagonal - len(right) + 1), min(diagonal + 1, len(down))
        yield [(0, grids, *down[i], *right[diagonal - i]) for i in range(first, end)]


def _operator(operator: str | StepFunction, number: Any) -> Any:
    """An operator of two numbers of a dtype; numba would widen integers."""
    if isinstance(operator, StepFunction):
        require_unchanged("pair of operators", operator.fingerprint, operator.function)
        step = compile_step(operator.function)

        @numba.njit(**INNER)
        def own(a: Any, b: Any) -> Any:
            return number(step(a, b))

        return own

    @numba.njit(**INNER)
    def plus(a: Any, b: Any) -> Any:
        return number(a + b)

    @numba.njit(**INNER)
    def times(a: Any, b: Any) -> Any:
        return number(a * b)

    @numba.njit(**INNER)
    def larger(a: Any, b: Any) -> Any:
        return a if (a >= b) | (a != a) else b

    @numba.njit(**INNER)
    def smaller(a: Any, b: Any) -> Any:
        return a if (a <= b) | (a != a) else b

    return {"+": plus, "*": times, "max": larger, "min": smaller}[operator]


@numba.njit(**INNER)
def _row_of(operands: Any, i: int) -> Any:
    """Row i of `local` and of the weights, with their steps along it, for unsigned indices."""
    (local, b0, b1, b2), ((i0, j0), (i1, j1), (i2, j2)) = operands
    steps = np.uintp(j0), np.uintp(j1), np.uintp(j2)
    return local[i], b0[i * i0], b1[i * i1], b2[i * i2], steps


def _cell_of(operators: Operators, number: Any) -> Any:
    """One cell, compiled for two operators and a dtype."""
    accumulate = _operator(operators.accumulate, number)
    distribute = _operator(operators.distribute, number)
    larger = _operator("max", number)

    @numba.njit(**INNER)
    def cell(left: Any, up: Any, corner: Any, row: Any, j: Any, floor: Any, has_floor: bool) -> Any:
        term, b0, b1, b2, (j0, j1, j2) = row
        value = accumulate(distribute(left, b0[j * j0]), distribute(up, b1[j * j1]))
        value = accumulate(value, distribute(corner, b2[j * j2]))
        value = accumulate(value, term[j])
        return larger(value, floor) if has_floor else value

    return cell


@lru_cache(maxsize=KEPT)
def _kernel(operators: Operators, dtype: np.dtype[Any]) -> Any:
    """The loop over a part, compiled for two operators and a dtype."""
    cell = _cell_of(operators, dtype.type)

    @numba.njit(**INNER)
    def run_row(
        grid: Any, around: Any, operands: Any, floor: Any, has_floor: bool, i: int, begin: int,
        end: int
    ) -> None:  # fmt: skip
        over, beside = around
        above, row, own = grid[i - 1] if i > 0 else over[1:], grid[i], _row_of(operands, i)
        left = row[begin - 1] if begin > 0 else beside[i + 1]
        corner = above[begin - 1] if begin > 0 else beside[i]
        for column in range(begin, end):
            j = np.uintp(column)
            up = above[j]
            left, corner = cell(left, up, corner, own, j, floor, has_floor), up
            row[j] = left

    @numba.njit(**INNER)
    def run_four(
        grid: Any, around: Any, operands: Any, floor: Any, has_floor: bool, i: int, begin: int,
        end: int
    ) -> None:  # fmt: skip
        """Four rows, each a column behind the one above: their cells do not wait for each other."""
        for r in range(3):
            run_row(grid, around, operands, floor, has_floor, i + r, begin, begin + 3 - r)
        over, beside = around
        above = grid[i - 1] if i > 0 else over[1:]
        r0, r1, r2, r3 = grid[i], grid[i + 1], grid[i + 2], grid[i + 3]
        own0, own1 = _row_of(operands, i), _row_of(operands, i + 1)
        own2, own3 = _row_of(operands, i + 2), _row_of(operands, i + 3)
        c0, c1, c2 = above[begin + 2], r0[begin + 1], r1[begin]
        c3 = r2[begin - 1] if begin > 0 else beside[i + 3]
        a0, a1, a2 = r0[begin + 2], r1[begin + 1], r2[begin]
        a3 = r3[begin - 1] if begin > 0 else beside[i + 4]
        one, two, three = np.uintp(1), np.uintp(2), np.uintp(3)
        for column in range(begin + 3, end):
            j = np.uintp(column)
            up = above[j]
            b3 = cell(a3, a2, c3, own3, j - three, floor, has_floor)
            b2 = cell(a2, a1, c2, own2, j - two, floor, has_floor)
            b1 = cell(a1, a0, c1, own1, j - one, floor, has_floor)
            b0 = cell(a0, up, c0, own0, j, floor, has_floor)
            c0, c1, c2, c3, a0, a1, a2, a3 = up, a0, a1, a2, b0, b1, b2, b3
            r0[j], r1[j - one], r2[j - two], r3[j - three] = a0, a1, a2, a3
        for r in range(1, 4):
            run_row(grid, around, operands, floor, has_floor, i + r, end - r, end)

    @numba.njit(**INNER)
    def run_grid(
        grid: Any, around: Any, operands: Any, floor: Any, has_floor: bool, first: int, last: int,
        begin: int, end: int
    ) -> None:  # fmt: skip
        fours = first + (last - first) // 4 * 4 if end - begin >= 4 else first
        for i in range(first, fours, 4):
            run_four(grid, around, operands, floor, has_floor, i, begin, end)
        for i in range(fours, last):
            run_row(grid, around, operands, floor, has_floor, i, begin, end)

    def run(
        table: Any, local: Any, b0: Any, b1: Any, b2: Any, strides: Any, over: Any, beside: Any,
        floor: Any, has_floor: bool, parts: Any
    ) -> None:  # fmt: skip
        down, right = strides[:, 1], strides[:, 2]
        steps = (down[0], right[0]), (down[1], right[1]), (down[2], right[2])
        for part in parts:
            for k in range(part[0], part[1]):
                k0, k1, k2 = k * strides[0, 0], k * strides[1, 0], k * strides[2, 0]
                grids = (local[k], b0[k0], b1[k1], b2[k2]), steps
                run_grid(
                    table[k], (over[k], beside[k]), grids, floor, has_floor,
                    part[2], part[3], part[4], part[5]
                )  # fmt: skip

    pair = operators.accumulate, operators.distribute
    names = [each if isinstance(each, str) else each.fingerprint for each in pair]
    return compile_kernel(run, *names, dtype.str)
