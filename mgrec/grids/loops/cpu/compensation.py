"""Rows of a wavefront loop by compensation (Hou, Wang & Feng 2018).

The three steps of the paper, row by row. Of these the weighted scan alone goes from cell to cell,
through two operations a cell in place of four; the others are vectorised.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ....core.algebra.operators import Operators
from ....engines.cpu.compilation import INNER
from .cell import cell_of, operator_of, row_of


def rows_by_compensation(operators: Operators, dtype: np.dtype[Any], run_row: Any) -> Any:
    """Compiled for two operators and a dtype: what runs a part of several rows.

    Parameters
    ----------
    run_row : callable
        Runs a part of a row cell by cell, where sums in another order overflow elsewhere.
    """
    number = dtype.type
    cell = cell_of(operators, number)
    accumulate = operator_of(operators.accumulate, number)
    distribute = operator_of(operators.distribute, number)
    larger = operator_of("max", number)
    is_checked = dtype.kind == "f" and operators.accumulate not in ("max", "min")

    @numba.njit(**INNER)
    def term_of(up: Any, corner: Any, own: Any, j: Any, floor: Any, has_floor: bool) -> Any:
        term, _, b1, b2, (_, j1, j2) = own
        value = accumulate(distribute(up, b1[j * j1]), distribute(corner, b2[j * j2]))
        value = accumulate(value, term[j])
        return larger(value, floor) if has_floor else value

    @numba.njit(**INNER)
    def without_horizontal(
        above: Any, corner: Any, row: Any, own: Any, floor: Any, has_floor: bool, begin: int,
        end: int
    ) -> None:  # fmt: skip
        """Step 1: what does not depend on the cell to the left, written to the row."""
        first = np.uintp(begin)
        row[first] = term_of(above[first], corner, own, first, floor, has_floor)
        for column in range(begin + 1, end):
            j = np.uintp(column)
            row[j] = term_of(above[j], above[j - np.uintp(1)], own, j, floor, has_floor)

    @numba.njit(**INNER)
    def weighted_scan(left: Any, row: Any, own: Any, scanned: Any, begin: int, end: int) -> None:
        """Step 2: B of the row, from the cell to the left of it."""
        _, b0, _, _, (j0, _, _) = own
        for column in range(begin, end):
            j = np.uintp(column)
            scanned[column - begin] = distribute(left, b0[j * j0])
            left = accumulate(scanned[column - begin], row[j])

    @numba.njit(**INNER)
    def combine(row: Any, scanned: Any, begin: int, end: int) -> None:
        """Step 3."""
        for column in range(begin, end):
            row[column] = accumulate(scanned[column - begin], row[column])

    @numba.njit(**INNER)
    def is_like_the_loop(
        left: Any, above: Any, corner: Any, row: Any, own: Any, floor: Any, has_floor: bool,
        begin: int, end: int
    ) -> bool:  # fmt: skip
        """Whether every cell is nan, inf or finite as the loop has it after the one before."""
        odd = 0
        for column in range(begin, end):
            j = np.uintp(column)
            before = row[j - np.uintp(1)] if column > begin else left
            diagonal = above[j - np.uintp(1)] if column > begin else corner
            wanted = cell(before, above[j], diagonal, own, j, floor, has_floor)
            is_same = (wanted == row[j]) | ((wanted != wanted) & (row[j] != row[j]))
            odd += not (is_same | (np.isfinite(wanted) & np.isfinite(row[j])))
        return odd == 0

    @numba.njit(**INNER)
    def run_rows(
        grid: Any, around: Any, operands: Any, floor: Any, has_floor: bool, first: int, last: int,
        begin: int, end: int
    ) -> None:  # fmt: skip
        over, beside = around
        scanned = np.empty(end - begin, grid.dtype)
        for i in range(first, last):
            above, row, own = grid[i - 1] if i > 0 else over[1:], grid[i], row_of(operands, i)
            left = row[begin - 1] if begin > 0 else beside[i + 1]
            corner = above[begin - 1] if begin > 0 else beside[i]
            without_horizontal(above, corner, row, own, floor, has_floor, begin, end)
            weighted_scan(left, row, own, scanned, begin, end)
            combine(row, scanned, begin, end)
            if is_checked and not is_like_the_loop(
                left, above, corner, row, own, floor, has_floor, begin, end
            ):
                run_row(grid, around, operands, floor, has_floor, i, begin, end)

    return run_rows
