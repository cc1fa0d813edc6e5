"""Wavefront loops of any weights and operators, for one tile in host memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ....core.algebra.operators import Operators
from ....core.contract.kernels import Kernels, Part
from ....engines.cpu.compilation import CACHE_SIZE, compile_kernel, writable
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ...recurrence import antidiagonals, part_of_host
from ..recurrence import Borders, Loop, is_compensable, log_strategy
from .rows import compile_cell, rows_by_compensation, rows_by_hyperplanes, rows_by_tiles

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


def _part(loop: Loop, shape: Sequence[int], side: int) -> Part | None:
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
    run = partial(kernel, results, *operands, strides, *row_and_column, floor, has_floor)
    threads = threads_for(table.size, is_threaded)
    for tiles in _independent_tiles(results.shape, threads):
        # One call for all tiles of a thread, and no tuples: numba takes long to find their types.
        tile_table = np.array(tiles, np.intp)
        run_in_threads([partial(run, tile_table[a:b]) for a, b in split_range(len(tiles), threads)])
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
    run_row, run_rows = rows_by_tiles(cell)
    if strategy == "compensation":
        run_rows = rows_by_compensation(operators, dtype, cell, partial_cell, run_row)
    elif strategy == "hyperplane":
        run_rows = rows_by_hyperplanes(cell)

    def run(
        table: Any, local: Any, b0: Any, b1: Any, b2: Any, strides: Any, over: Any, beside: Any,
        floor: Any, has_floor: bool, tiles: Any
    ) -> None:  # fmt: skip
        down, right = strides[:, 1], strides[:, 2]
        steps = (down[0], right[0]), (down[1], right[1]), (down[2], right[2])
        for tile in tiles:
            for k in range(tile[0], tile[1]):
                k0, k1, k2 = k * strides[0, 0], k * strides[1, 0], k * strides[2, 0]
                operands = (local[k], b0[k0], b1[k1], b2[k2]), steps, (floor, has_floor)
                run_rows(
                    table[k], (over[k], beside[k]), operands, (tile[2], tile[3]), tile[4], tile[5]
                )

    pair = operators.accumulate, operators.distribute
    names = [name if isinstance(name, str) else name.fingerprint for name in pair]
    return compile_kernel(run, *names, dtype.str, strategy)
