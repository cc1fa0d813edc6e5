"""Grids cut into strips of rows, skewed: row k of a strip is k columns behind its first.

As many rows as WIDE bytes have lanes make a strip. Its step t is a register: lane k holds
column t − k of row k, so that no lane needs another's result of the same step. A strip has
columns + lanes − 1 steps; where a lane has no column, or the last strip no row, it holds 0.
"""

from __future__ import annotations

from typing import Any

import numba

from ....engines.cpu.compilation import INNER, compile_kernel
from ....engines.cpu.simd.arithmetic import FOUR_REGISTERS
from ....engines.cpu.simd.lanes import BLOCK_BYTES, transpose_block


@numba.njit(**INNER)
def _blocks(rows: int, columns: int, lane: int, width: int) -> tuple[int, int]:
    """Begin and end of the steps in which `width` lanes from `lane` on have blocks to turn."""
    if rows < width:
        return 0, 0
    first = lane + width - 1
    return first, first + max(0, columns - width + 1) // width * width


@numba.njit(**INNER)
def _skew_some(grid: Any, strips: Any, q: int, lane: int, begin: int, end: int) -> None:
    """Steps of a few rows, number by number."""
    rows, columns = grid.shape
    lanes = strips.shape[2]
    for t in range(begin, end):
        for k in range(lane, lane + BLOCK_BYTES // grid.itemsize):
            is_inside = q * lanes + k < rows and 0 <= t - k < columns
            strips[q, t, k] = grid[q * lanes + k, t - k] if is_inside else grid.dtype.type(0)


def _skew(grid: Any, strips: Any, begin: int, end: int) -> None:
    """Write strips from `begin` to `end`, an array (strips, steps, lanes), from a grid."""
    rows, columns = grid.shape
    _, steps, lanes = strips.shape
    width = BLOCK_BYTES // grid.itemsize
    for q in range(begin, end):
        for lane in range(0, lanes, width):
            row = q * lanes + lane
            first, last = _blocks(rows - row, columns, lane, width)
            _skew_some(grid, strips, q, lane, 0, first)
            for t in range(first, last, width):
                at, to = row * columns + t - lane, (q * steps + t) * lanes + lane
                transpose_block(grid, at, columns - 1, strips, to, lanes)
            _skew_some(grid, strips, q, lane, last, steps)


@numba.njit(**INNER)
def _straighten_some(strips: Any, grid: Any, q: int, lane: int, begin: int, end: int) -> None:
    """Steps of a few rows, number by number."""
    rows, columns = grid.shape
    lanes = strips.shape[2]
    for k in range(lane, min(lane + BLOCK_BYTES // grid.itemsize, rows - q * lanes)):
        for t in range(max(begin, k), min(end, columns + k)):
            grid[q * lanes + k, t - k] = strips[q, t, k]


def _straighten(strips: Any, grid: Any, begin: int, end: int) -> None:
    """Write the rows of strips from `begin` to `end` into a grid."""
    rows, columns = grid.shape
    _, steps, lanes = strips.shape
    width = BLOCK_BYTES // grid.itemsize
    for q in range(begin, end):
        for lane in range(0, lanes, width):
            row = q * lanes + lane
            first, last = _blocks(rows - row, columns, lane, width)
            _straighten_some(strips, grid, q, lane, 0, first)
            for t in range(first, last, width):
                at, to = row * columns + t - lane, (q * steps + t) * lanes + lane
                transpose_block(strips, to, lanes, grid, at, columns - 1)
            _straighten_some(strips, grid, q, lane, last, steps)


skew, straighten = (compile_kernel(kernel, str(FOUR_REGISTERS)) for kernel in (_skew, _straighten))
