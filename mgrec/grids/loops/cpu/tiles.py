"""Rows of a wavefront loop in the order of the loop, four of them side by side."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....engines.cpu.compilation import INNER
from .cell import row_of


def rows_by_tiles(cell: Any) -> tuple[Any, Any]:
    """Compiled for a cell: what runs a part of one row, and what runs that of several."""

    @numba.njit(**INNER)
    def run_row(
        grid: Any, around: Any, operands: Any, floor: Any, has_floor: bool, i: int, begin: int,
        end: int
    ) -> None:  # fmt: skip
        over, beside = around
        above, row, own = grid[i - 1] if i > 0 else over[1:], grid[i], row_of(operands, i)
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
        own0, own1 = row_of(operands, i), row_of(operands, i + 1)
        own2, own3 = row_of(operands, i + 2), row_of(operands, i + 3)
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

    return run_row, run_grid
