"""Wavefront loops of any weights and operators, for one tile in host memory.

Each strategy has a compiled loop, which computes the cells of rows `first` to `last` and columns
`start` to `stop`. `borders` are the row above and the column to the left of a grid, each after the
corner. `operands` are `local` and the weights, their steps, and the floor and whether there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numba
import numpy as np

from ...core.algebra.fingerprint import StepFunction, require_unchanged
from ...core.algebra.operators import Operators
from ...core.contract.kernels import Kernels, TileParts
from ...engines.cpu.compilation import INNER, compile_kernel, writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ...engines.cpu.user_functions import CACHE_SIZE, compile_step
from ..recurrence import antidiagonals, part_of_host
from .api import Borders, Loop, is_compensable, log_strategy

# Rows and columns of a skewed tile: its copies stay in the second-level cache.
_HEIGHT, _WIDTH = 64, 512
# Rows and columns: the first and last columns of four rows are slow.
_TILE = 256, 1024
# Columns up to which "hybrid" may choose compensation.
_FEW_COLUMNS = 512
# Cells of a part, which then takes about a millisecond; a call takes 0.1 ms at most.
_CELLS = 1 << 20
Tile = tuple[int, ...]
"""Start and stop of grids, of rows and of columns."""


def kernels(method: str) -> Kernels:
    """Return the phases; the method "threads" uses all threads."""
    return Kernels(partial(determine_loop, is_threaded=method == "threads"), part=_part)


def _operator(operator: str | StepFunction, number: Any) -> Any:
    """Return a compiled operator of two numbers of a dtype; numba would widen integers."""
    if isinstance(operator, StepFunction):
        require_unchanged("pair of operators", operator.fingerprint, operator.function)
        step = compile_step(operator.function)

        @numba.njit(**INNER)
        def custom(a: Any, b: Any) -> Any:
            return number(step(a, b))

        return custom

    @numba.njit(**INNER)
    def plus(a: Any, b: Any) -> Any:
        return number(a + b)

    @numba.njit(**INNER)
    def times(a: Any, b: Any) -> Any:
        return number(a * b)

    return {"+": plus, "*": times, "max": _larger, "min": _smaller}[operator]


@numba.njit(**INNER)
def _larger(a: Any, b: Any) -> Any:
    return a if (a >= b) | (a != a) else b


@numba.njit(**INNER)
def _smaller(a: Any, b: Any) -> Any:
    return a if (a <= b) | (a != a) else b


@numba.njit(**INNER)
def _row_operands(operands: Any, i: int) -> Any:
    """Return row i of the operands, with their steps along it as unsigned numbers."""
    (local, b0, b1, b2), ((i0, j0), (i1, j1), (i2, j2)), bound = operands
    steps = np.uintp(j0), np.uintp(j1), np.uintp(j2)
    return local[i], b0[i * i0], b1[i * i1], b2[i * i2], steps, bound


@numba.njit(**INNER)
def _before(grid: Any, borders: Any, i: int, start: int) -> Any:
    """Return the row above row i, and the cells to the left of column `start` in both."""
    over, beside = borders
    above = grid[i - 1] if i > 0 else over[1:]
    left = grid[i][start - 1] if start > 0 else beside[i + 1]
    corner = above[start - 1] if start > 0 else beside[i]
    return above, left, corner


def compile_cell(operators: Operators, number: Any) -> tuple[Any, Any]:
    """Return the function of one cell, and that of its terms without the cell to the left."""
    accumulate = _operator(operators.accumulate, number)
    distribute = _operator(operators.distribute, number)

    @numba.njit(**INNER)
    def cell(left: Any, up: Any, corner: Any, row: Any, j: Any) -> Any:
        term, b0, b1, b2, (j0, j1, j2), (floor, has_floor) = row
        value = accumulate(distribute(left, b0[j * j0]), distribute(up, b1[j * j1]))
        value = accumulate(value, distribute(corner, b2[j * j2]))
        value = accumulate(value, term[j])
        return _larger(value, floor) if has_floor else value

    @numba.njit(**INNER)
    def partial_cell(up: Any, corner: Any, row: Any, j: Any) -> Any:
        term, _, b1, b2, (_, j1, j2), (floor, has_floor) = row
        value = accumulate(distribute(up, b1[j * j1]), distribute(corner, b2[j * j2]))
        value = accumulate(value, term[j])
        return _larger(value, floor) if has_floor else value

    return cell, partial_cell


def rows_by_tiles(cell: Any) -> tuple[Any, Any]:
    """Return loops over one row and over several rows, in the order of the loop."""

    @numba.njit(**INNER)
    def fill_row(grid: Any, borders: Any, operands: Any, i: int, start: int, stop: int) -> None:
        above, left, corner = _before(grid, borders, i, start)
        row, row_operands = grid[i], _row_operands(operands, i)
        for column in range(start, stop):
            j = np.uintp(column)
            up = above[j]
            left, corner = cell(left, up, corner, row_operands, j), up
            row[j] = left

    @numba.njit(**INNER)
    def fill_four(grid: Any, borders: Any, operands: Any, i: int, start: int, stop: int) -> None:
        """Compute four rows, each one column behind the row above: their cells are independent."""
        for r in range(3):
            fill_row(grid, borders, operands, i + r, start, start + 3 - r)
        above, _, _ = _before(grid, borders, i, start)
        r0, r1, r2, r3 = grid[i], grid[i + 1], grid[i + 2], grid[i + 3]
        operands0, operands1 = _row_operands(operands, i), _row_operands(operands, i + 1)
        operands2, operands3 = _row_operands(operands, i + 2), _row_operands(operands, i + 3)
        c0, c1, c2 = above[start + 2], r0[start + 1], r1[start]
        a0, a1, a2 = r0[start + 2], r1[start + 1], r2[start]
        _, a3, c3 = _before(grid, borders, i + 3, start)
        one, two, three = np.uintp(1), np.uintp(2), np.uintp(3)
        for column in range(start + 3, stop):
            j = np.uintp(column)
            up = above[j]
            b3 = cell(a3, a2, c3, operands3, j - three)
            b2 = cell(a2, a1, c2, operands2, j - two)
            b1 = cell(a1, a0, c1, operands1, j - one)
            b0 = cell(a0, up, c0, operands0, j)
            c0, c1, c2, c3, a0, a1, a2, a3 = up, a0, a1, a2, b0, b1, b2, b3
            r0[j], r1[j - one], r2[j - two], r3[j - three] = a0, a1, a2, a3
        for r in range(1, 4):
            fill_row(grid, borders, operands, i + r, stop - r, stop)

    @numba.njit(**INNER)
    def fill_rows(grid: Any, borders: Any, operands: Any, rows: Any, start: int, stop: int) -> None:
        first, last = rows
        fours = last - (last - first) % 4 if stop - start >= 4 else first
        for i in range(first, fours, 4):
            fill_four(grid, borders, operands, i, start, stop)
        for i in range(fours, last):
            fill_row(grid, borders, operands, i, start, stop)

    return fill_row, fill_rows


def rows_by_compensation(
    operators: Operators, dtype: np.dtype[Any], cell: Any, partial_cell: Any, fill_row: Any
) -> Any:
    """Return a loop over several rows by compensation (Hou, Wang & Feng 2018).

    It runs the three steps of the paper row by row. Only the weighted scan depends on the cell to
    the left, with two operations a cell instead of four. The other steps are vectorised. `fill_row`
    replaces a row whose sums, added up in another order, overflow at other cells.
    """
    accumulate = _operator(operators.accumulate, dtype.type)
    distribute = _operator(operators.distribute, dtype.type)
    is_like_the_loop = _compile_comparison(cell)
    is_checked = dtype.kind == "f" and operators.accumulate not in ("max", "min")

    @numba.njit(**INNER)
    def without_horizontal(
        above: Any, corner: Any, row: Any, row_operands: Any, start: int, stop: int
    ) -> None:
        """Write the terms that do not depend on the cell to the left (step 1)."""
        first = np.uintp(start)
        row[first] = partial_cell(above[first], corner, row_operands, first)
        for column in range(start + 1, stop):
            j = np.uintp(column)
            row[j] = partial_cell(above[j], above[j - np.uintp(1)], row_operands, j)

    @numba.njit(**INNER)
    def weighted_scan(left: Any, row: Any, row_operands: Any, scanned: Any, start: int, stop: int) -> None:
        """Write B of the row, from the cell to the left of it (step 2)."""
        _, b0, _, _, (j0, _, _), _ = row_operands
        for column in range(start, stop):
            j = np.uintp(column)
            scanned[column - start] = distribute(left, b0[j * j0])
            left = accumulate(scanned[column - start], row[j])

    @numba.njit(**INNER)
    def fill_rows(grid: Any, borders: Any, operands: Any, rows: Any, start: int, stop: int) -> None:
        scanned = np.empty(stop - start, grid.dtype)
        for i in range(rows[0], rows[1]):
            above, left, corner = _before(grid, borders, i, start)
            row, row_operands = grid[i], _row_operands(operands, i)
            without_horizontal(above, corner, row, row_operands, start, stop)
            weighted_scan(left, row, row_operands, scanned, start, stop)
            for column in range(start, stop):  # step 3
                row[column] = accumulate(scanned[column - start], row[column])
            if is_checked and not is_like_the_loop(left, above, corner, row, row_operands, start, stop):
                fill_row(grid, borders, operands, i, start, stop)

    return fill_rows


def _compile_comparison(cell: Any) -> Any:
    @numba.njit(**INNER)
    def is_like_the_loop(
        left: Any, above: Any, corner: Any, row: Any, row_operands: Any, start: int, stop: int
    ) -> bool:
        """Return whether each cell is nan, inf or finite as in the loop, from the cell before."""
        differences = 0
        for column in range(start, stop):
            j = np.uintp(column)
            before = row[j - np.uintp(1)] if column > start else left
            diagonal = above[j - np.uintp(1)] if column > start else corner
            wanted = cell(before, above[j], diagonal, row_operands, j)
            is_same = (wanted == row[j]) | ((wanted != wanted) & (row[j] != row[j]))
            differences += not (is_same | (np.isfinite(wanted) & np.isfinite(row[j])))
        return differences == 0

    return is_like_the_loop


@numba.njit(**INNER)
def _skew(grid: Any, steps: Any, copy: Any, tile: Any) -> None:
    """Write cell (i, j) of a tile to row i + j of a copy."""
    (down, right), (first, last, start, stop) = steps, tile
    for i in range(first, last):
        row = grid[i * down]
        for j in range(start, stop):
            copy[i - first + j - start, i - first] = row[j * right]


@numba.njit(**INNER)
def _write_borders(grid: Any, borders: Any, skewed: Any, tile: Any) -> None:
    """Write the values above and to the left of a tile to its skewed copy."""
    over, beside = borders
    first, last, start, stop = tile
    for j in range(start, stop):
        skewed[j - start + 1, 0] = grid[first - 1, j] if first > 0 else over[j + 1]
    for i in range(first - 1, last):
        plane = i - first + 1
        if start > 0 and i >= 0:
            skewed[plane, plane] = grid[i, start - 1]
        else:
            skewed[plane, plane] = over[start] if i < 0 else beside[i + 1]


def rows_by_hyperplanes(cell: Any) -> Any:
    """Return a loop over several rows by hyperplanes, the diamond tiles of Hou, Wang & Feng (2018).

    A tile is copied so that each of its antidiagonals, i + j = d, lies in one row of memory, and
    copied back afterwards. The cells of an antidiagonal form one vectorised loop. A tile of h rows
    and w columns has h·w cells in (h + w)·h numbers.

    On one core of an EPYC, grids of 2,000 by 2,000 take 1.6 to 2.7 times as long as with
    `rows_by_tiles` if weights are numbers, and 2.0 to 4.0 times if they are arrays, which are
    copied as well.
    """

    @numba.njit(**INNER)
    def fill_plane(skewed: Any, operands: Any, d: int, start: int, stop: int) -> None:
        """Compute an antidiagonal, rows `start` to `stop` of a tile."""
        plane, before, last = skewed[d + 2], skewed[d + 1], skewed[d]
        for row in range(start, stop):
            i = np.uintp(row)
            left, up, corner = before[i + np.uintp(1)], before[i], last[i]
            plane[i + np.uintp(1)] = cell(left, up, corner, operands, i)

    @numba.njit(**INNER)
    def fill_tile(grid: Any, borders: Any, operands: Any, skewed: Any, copies: Any, tile: Any) -> None:
        (local, b0, b1, b2), (s0, s1, s2), bound = operands
        term, w0, w1, w2 = copies[0], copies[1], copies[2], copies[3]
        first, last, start, stop = tile
        height, width = last - first, stop - start
        _write_borders(grid, borders, skewed, tile)
        _skew(local, (1, 1), term, tile)
        varies0, varies1, varies2 = max(s0) > 0, max(s1) > 0, max(s2) > 0
        if varies0:
            _skew(b0, s0, w0, tile)
        if varies1:
            _skew(b1, s1, w1, tile)
        if varies2:
            _skew(b2, s2, w2, tile)
        steps = np.uintp(varies0), np.uintp(varies1), np.uintp(varies2)
        for d in range(height + width - 1):
            u0 = w0[d] if varies0 else b0[0]
            u1 = w1[d] if varies1 else b1[0]
            u2 = w2[d] if varies2 else b2[0]
            plane_operands = term[d], u0, u1, u2, steps, bound
            fill_plane(skewed, plane_operands, d, max(0, d - width + 1), min(height, d + 1))
        for i in range(first, last):
            row = grid[i]
            for j in range(start, stop):
                row[j] = skewed[i - first + j - start + 2, i - first + 1]

    @numba.njit(**INNER)
    def fill_rows(grid: Any, borders: Any, operands: Any, rows: Any, start: int, stop: int) -> None:
        planes = _HEIGHT + _WIDTH + 1
        skewed = np.empty((planes, _HEIGHT + 1), grid.dtype)
        copies = np.empty((4, planes, _HEIGHT), grid.dtype)
        for top in range(rows[0], rows[1], _HEIGHT):
            for left in range(start, stop, _WIDTH):
                tile = top, min(top + _HEIGHT, rows[1]), left, min(left + _WIDTH, stop)
                fill_tile(grid, borders, operands, skewed, copies, tile)

    return fill_rows


def _part(loop: Loop, shape: Sequence[int], side: int) -> TileParts | None:
    return part_of_host(_CELLS, shape, side) if loop.strategy in ("tiles", "hyperplane") else None


def determine_loop(
    loop: Loop,
    local: np.ndarray,
    weights: Sequence[np.ndarray],
    borders: Borders,
    table: np.ndarray,
    is_threaded: bool,
) -> None:
    """Write the table of a tile. Weights broadcast to it; they have as many axes."""
    if table.size == 0:
        return
    rows, columns = table.shape[-2:]
    whole = table if table.flags.c_contiguous else np.empty(table.shape, table.dtype)
    results = whole.reshape(-1, rows, columns)
    operands = tuple(_as_grids(operand, table.shape[:-2]) for operand in (local, *weights))
    strides = np.array([[n > 1 for n in operand.shape] for operand in operands[1:]], np.intp)
    row_and_column = _bordering_row_and_column(borders, table)
    floor = table.dtype.type(0 if loop.floor is None else loop.floor)
    strategy = _fastest(loop, table) if loop.strategy == "hybrid" else loop.strategy
    log_strategy(loop, strategy, table)
    kernel = _compile_loop(loop.operators, table.dtype, strategy)
    has_floor = loop.floor is not None
    fill = partial(kernel, results, *operands, strides, *row_and_column, floor, has_floor)
    threads = threads_for(table.size, is_threaded)
    for tiles in _independent_tiles(results.shape, threads):
        # One call for all tiles of a thread, and no tuples: numba takes long to find their types.
        tile_table = np.array(tiles, np.intp)
        run_in_threads([partial(fill, tile_table[a:b]) for a, b in split_range(len(tiles), threads)])
    if whole is not table:
        table[...] = whole


def _fastest(loop: Loop, table: np.ndarray) -> str:
    """Return the strategy with the least time a cell that keeps the bits of the loop.

    Integers have the same bits in any order. Time of compensation over that of tiles, on one core
    of an EPYC: int32 and int64 0.61 to 0.69 with 256 columns, 0.84 to 1.26 with 1,024 and 1.08 to
    1.30 with 8,192; floats 1.07 to 1.86, 1.19 to 2.60 and 1.47 to 2.79, the most for "+", where
    every row is checked.
    """
    is_exact = table.dtype.kind == "i" and not loop.operators.functions
    is_narrow = table.shape[-1] <= _FEW_COLUMNS
    is_faster = is_exact and is_narrow and is_compensable(loop, table.dtype)
    return "compensation" if is_faster else "tiles"


def _bordering_row_and_column(borders: Borders, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the row above each grid and the column to the left, each after the corner."""
    *batch, rows, columns = table.shape
    row = np.empty((*batch, columns + 1), table.dtype)
    column = np.empty((*batch, rows + 1), table.dtype)
    row[..., 1:], column[..., 1:] = borders.above, borders.left
    row[..., 0] = column[..., 0] = borders.corner
    return row.reshape(-1, columns + 1), column.reshape(-1, rows + 1)


def _as_grids(operand: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Return an operand as (grids, rows, columns), each of which may be 1."""
    if any(n != 1 for n in operand.shape[:-2]):
        operand = np.broadcast_to(operand, (*batch, *operand.shape[-2:]))
    return writable(np.ascontiguousarray(operand.reshape(-1, *operand.shape[-2:])))


def _independent_tiles(shape: tuple[int, ...], threads: int) -> Iterator[list[Tile]]:
    """Yield lists of tiles that do not depend on each other: batches, or antidiagonals."""
    grids, rows, columns = shape
    if grids >= threads:
        yield [(a, b, 0, rows, 0, columns) for a, b in split_range(grids, threads)]
        return
    sides = (split_range(n, -(-n // most)) for n, most in zip(shape[1:], _TILE, strict=True))
    for tiles in antidiagonals(*sides):
        yield [(0, grids, *down, *right) for down, right in tiles]


@lru_cache(maxsize=CACHE_SIZE)
def _compile_loop(operators: Operators, dtype: np.dtype[Any], strategy: str) -> Any:
    """Return the loop over tiles, compiled for two operators and a dtype."""
    cell, partial_cell = compile_cell(operators, dtype.type)
    fill_row, fill_rows = rows_by_tiles(cell)
    if strategy == "compensation":
        fill_rows = rows_by_compensation(operators, dtype, cell, partial_cell, fill_row)
    elif strategy == "hyperplane":
        fill_rows = rows_by_hyperplanes(cell)

    def fill(
        table: Any,
        local: Any,
        b0: Any,
        b1: Any,
        b2: Any,
        strides: Any,
        over: Any,
        beside: Any,
        floor: Any,
        has_floor: bool,
        tiles: Any,
    ) -> None:
        down, right = strides[:, 1], strides[:, 2]
        steps = (down[0], right[0]), (down[1], right[1]), (down[2], right[2])
        for tile in tiles:
            for k in range(tile[0], tile[1]):
                k0, k1, k2 = k * strides[0, 0], k * strides[1, 0], k * strides[2, 0]
                operands = (local[k], b0[k0], b1[k1], b2[k2]), steps, (floor, has_floor)
                fill_rows(table[k], (over[k], beside[k]), operands, (tile[2], tile[3]), tile[4], tile[5])

    pair = operators.accumulate, operators.distribute
    names = [name if isinstance(name, str) else name.fingerprint for name in pair]
    return compile_kernel(fill, *names, dtype.str, strategy)
