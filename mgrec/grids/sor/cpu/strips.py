"""Copies of grids to skewed strips of rows, and back.

As many rows as WIDE bytes have lanes make a strip. Row k of a strip is k columns behind its first
row: step t of the strip is a register whose lane k holds column t − k of row k. So no lane needs
the result of another lane in the same step. A strip has columns + lanes − 1 steps. It holds 0 where
a lane has no column, or the last strip no row.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INNER, compile_kernel
from ....engines.cpu.lanes import BLOCK_BYTES, transpose_block
from ....engines.cpu.simd import FOUR_REGISTERS


@numba.njit(**INNER)
def _block_steps(rows: int, columns: int, lane: int, width: int) -> tuple[int, int]:
    """Return start and stop of the steps that `width` lanes from `lane` on copy by blocks."""
    if rows < width:
        return 0, 0
    first = lane + width - 1
    return first, first + max(0, columns - width + 1) // width * width


@numba.njit(**INNER)
def _copy_steps(
    grid: Any, strips: Any, q: int, lane: int, start: int, stop: int, is_back: bool | None
) -> None:
    """Copy steps of a few rows number by number."""
    rows, columns = grid.shape
    lanes = strips.shape[2]
    last = lane + BLOCK_BYTES // grid.itemsize
    if is_back is None:
        for t in range(start, stop):
            for k in range(lane, last):
                is_inside = q * lanes + k < rows and 0 <= t - k < columns
                strips[q, t, k] = grid[q * lanes + k, t - k] if is_inside else grid.dtype.type(0)
    else:  # row by row: along the lanes, narrow grids take 1.2 times as long
        for k in range(lane, min(last, rows - q * lanes)):
            for t in range(max(start, k), min(stop, columns + k)):
                grid[q * lanes + k, t - k] = strips[q, t, k]


def _copy(grid: Any, strips: Any, start: int, stop: int, is_back: bool | None) -> None:
    """Write strips `start` to `stop` of an array (strips, steps, lanes) from a grid, or back.

    `is_back` is None or True: numba compiles one of both branches.
    """
    rows, columns = grid.shape
    _, steps, lanes = strips.shape
    width = BLOCK_BYTES // grid.itemsize
    for q in range(start, stop):
        for lane in range(0, lanes, width):
            row = q * lanes + lane
            first, last = _block_steps(rows - row, columns, lane, width)
            # numba would also compile the function for the type of the constant 0.
            _copy_steps(grid, strips, q, lane, np.int64(0), first, is_back)
            for t in range(first, last, width):
                point, place = row * columns + t - lane, (q * steps + t) * lanes + lane
                if is_back is None:
                    transpose_block(grid, point, columns - 1, strips, place, lanes)
                else:
                    transpose_block(strips, place, lanes, grid, point, columns - 1)
            _copy_steps(grid, strips, q, lane, last, steps, is_back)


_kernel = compile_kernel(_copy, str(FOUR_REGISTERS))


def skew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write strips `start` to `stop` from a grid."""
    _kernel(grid, strips, start, stop, None)


def unskew(grid: np.ndarray, strips: np.ndarray, start: int, stop: int) -> None:
    """Write the rows of strips `start` to `stop` into a grid."""
    _kernel(grid, strips, start, stop, True)
