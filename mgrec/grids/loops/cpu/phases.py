"""Wavefront loops of any weights and operators, for one tile in host memory.

A tile of several threads is cut into smaller ones; those of an antidiagonal run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ....core.algebra.operators import Operators
from ....core.contract.kernels import Kernels, Part
from ....engines.cpu.compilation import CACHE_SIZE, compile_kernel, writable
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ...parts import part_of_host
from ..recurrence import Borders, Loop
from ..strategy import is_compensable, log_picked
from .cell import cell_of
from .compensation import rows_by_compensation
from .hyperplane import rows_by_hyperplanes
from .tiles import rows_by_tiles

# Rows and columns: the first and last columns of four rows are slow.
_TILE = 256, 1024
# Columns.
_SHORT = 512
# Of a part, which takes about a millisecond then; a call takes 0.1 at most.
_CELLS = 1 << 20

Piece = tuple[int, int, int, int, int, int]
"""Begin and end of grids, of rows and of columns."""


def kernels(method: str) -> Kernels:
    """The phases of a tile, on all threads by "threads"."""
    return Kernels(partial(_determine, is_shared=method == "threads"), part=_part)


def _part(loop: Loop, shape: Sequence[int], side: int) -> Part | None:
    return part_of_host(_CELLS, shape, side) if loop.strategy in ("tiles", "hyperplane") else None


def _determine(
    loop: Loop, local: Any, weights: Any, borders: Borders, table: Any, is_shared: bool
) -> Any:
    return determine_loop(loop, local, weights, borders, table, is_shared)


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
    strategy = _fastest(loop, table) if loop.strategy == "hybrid" else loop.strategy
    log_picked(loop, strategy, table)
    kernel = _kernel(loop.operators, table.dtype, strategy)
    run = partial(kernel, results, *operands, strides, *around, floor, loop.floor is not None)
    threads = threads_for(table.size) if is_shared else 1
    for parts in _parts(results.shape, threads):
        # All parts of a thread in one call, and no tuples: numba is slow to find their types.
        table_of_parts = np.array(parts, np.intp)
        run_in_threads(
            [partial(run, table_of_parts[a:b]) for a, b in split_range(len(parts), threads)]
        )
    if whole is not table:
        table[...] = whole


def _fastest(loop: Loop, table: np.ndarray) -> str:
    """By the time of a cell: integers in any order have the same bits.

    Compensation over tiles, on one core of an EPYC: int32 and int64 0.61 to 0.69 with 256
    columns, 0.84 to 1.26 with 1,024 and 1.08 to 1.30 with 8,192; floats 1.07 to 1.86, 1.19 to
    2.60 and 1.47 to 2.79, the more for "+", where every row is checked.
    """
    is_exact = table.dtype.kind == "i" and not loop.operators.functions
    is_short = table.shape[-1] <= _SHORT
    is_faster = is_exact and is_short and is_compensable(loop, table.dtype)
    return "compensation" if is_faster else "tiles"


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


def _parts(shape: tuple[int, ...], threads: int) -> Iterator[list[Piece]]:
    """Parts that need nothing of each other, list by list."""
    grids, rows, columns = shape
    if grids >= threads:
        yield [(a, b, 0, rows, 0, columns) for a, b in split_range(grids, threads)]
        return
    down, right = (split_range(n, -(-n // most)) for n, most in zip(shape[1:], _TILE, strict=True))
    for diagonal in range(len(down) + len(right) - 1):
        first, end = max(0, diagonal - len(right) + 1), min(diagonal + 1, len(down))
        yield [(0, grids, *down[i], *right[diagonal - i]) for i in range(first, end)]


@lru_cache(maxsize=CACHE_SIZE)
def _kernel(operators: Operators, dtype: np.dtype[Any], strategy: str) -> Any:
    """The loop over parts, compiled for two operators and a dtype."""
    cell = cell_of(operators, dtype.type)
    run_row, run_rows = rows_by_tiles(cell)
    if strategy == "compensation":
        run_rows = rows_by_compensation(operators, dtype, run_row)
    elif strategy == "hyperplane":
        run_rows = rows_by_hyperplanes(cell)

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
                run_rows(
                    table[k], (over[k], beside[k]), grids, floor, has_floor,
                    part[2], part[3], part[4], part[5]
                )  # fmt: skip

    pair = operators.accumulate, operators.distribute
    names = [each if isinstance(each, str) else each.fingerprint for each in pair]
    return compile_kernel(run, *names, dtype.str, strategy)
