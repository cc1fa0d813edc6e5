"""Tiles of an alignment: borders, edges, the best cell, and tiles divided into tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from .scoring import Scoring

Range = tuple[int, int]
"""Start and stop of rows or columns."""


@dataclass(frozen=True)
class Best:
    """The best score of a grid and its cell; 0, −1, −1 if no score of a local one is above 0."""

    score: float = 0
    query_end: int = -1
    target_end: int = -1


def best_cell(*cells: Best | None) -> Best | None:
    """Return the best of some cells: the largest score, then the smallest target_end, query_end.

    This is parasail's rule, except for a local score of 0, whose end parasail gives as (0, 0).
    The order and the grouping of cells do not matter.
    """
    return max(filter(None, cells), key=_rank, default=None)


def _rank(best: Best) -> tuple[float, int, int]:
    return best.score, -best.target_end, -best.query_end


@dataclass(frozen=True)
class Edges:
    """A row and a column of cells at the border of a tile of n rows and m columns.

    The carry-in of a tile has the row above it and the column to its left. Its carry-out has its
    last row, its last column and its best cell.

    Attributes
    ----------
    row : array (m + 1,)
        H of the cell before the row, which is the corner of the tile below, then H of the row.
    column : array (n,)
        H of the column.
    row_gaps, column_gaps : array (m,), array (n,), or None
        F of the next row and E of the next column; None if gaps are linear. Values below 0 of a
        local alignment are arbitrary: they are never a maximum.
    best : Best or None
        The best cell of the tile; None if the alignment is not local.
    """

    row: Any
    column: Any
    row_gaps: Any = None
    column_gaps: Any = None
    best: Best | None = None

    def map_arrays(self, function: Callable[[Any], Any]) -> Edges:
        arrays = self.row, self.column, self.row_gaps, self.column_gaps
        mapped: list[Any] = [None if array is None else function(array) for array in arrays]
        return Edges(*mapped, best=self.best)  # type: ignore[misc]

    def part(self, rows: Range, columns: Range) -> Edges:
        """Return the edges next to these rows and columns."""
        row, column = self.row[columns[0] : columns[1] + 1], self.column[slice(*rows)]
        return Edges(row, column, _part(self.row_gaps, *columns), _part(self.column_gaps, *rows))


def edges_of_empty(scoring: Scoring, carry_in: Edges) -> Edges:
    """Return the edges of a tile without rows or columns: its carry-in."""
    row = carry_in.column[-1:] if carry_in.column.size else carry_in.row
    return replace(carry_in, row=row, best=Best() if scoring.is_local else None)


@lru_cache(maxsize=64)
def _zeros(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), (size,))


def _border(scoring: Scoring, start: int, size: int, dtype: Any) -> tuple[Any, Any]:
    """Return H[−1, start − 1 : start + size], and F of the first row or None for linear gaps.

    H[−1, −1] = 0 and H[−1, j] = gap + j · extend, the score of a gap, if the alignment is global.
    Else the ends of sequences are free: zeros, one number in memory.
    """
    gap = np.asarray(scoring.gap, dtype) if scoring.is_affine else None
    if scoring.mode != "global":
        gaps = None if gap is None else np.broadcast_to(gap, (size,))
        return _zeros(size + 1, np.dtype(dtype)), gaps
    columns = np.arange(start - 1, start + size)
    border = scoring.gap + columns * np.asarray(scoring.extend, dtype)
    border = np.where(columns < 0, 0, border).astype(dtype)
    return border, None if gap is None else border[1:] + gap


def carry_in_from(
    scoring: Scoring, above: Edges | None, left: Edges | None, starts: tuple[int, int],
    shape: tuple[int, int], dtype: Any,
) -> Edges:  # fmt: skip
    """Return the carry-in of a tile from its neighbours' edges, None at the grid's border.

    At the left border a gap of the other sequence starts: gaps in both would cost twice.
    """
    if above is None:
        row, row_gaps = _border(scoring, starts[1], shape[1], dtype)
    else:
        row, row_gaps = above.row, above.row_gaps
    if left is not None:
        return Edges(row, left.column, row_gaps, left.column_gaps)
    column, column_gaps = _border(scoring, starts[0], shape[0], dtype)
    return Edges(row, column[1:], row_gaps, column_gaps)


def best_of_edges(edges: Edges, starts: tuple[int, int], is_last: tuple[bool, bool]) -> Best | None:
    """Return the best cell of a tile in the last row and column of the grid; None if neither.

    `is_last`: whether the tile, which is not empty, has that row and that column.
    """
    (i, j), (n, m) = starts, (edges.column.size, edges.row.size - 1)
    cells = []
    if is_last[0]:
        column = int(np.argmax(edges.row[1:]))
        cells.append(Best(edges.row[1 + column].item(), i + n - 1, j + column))
    if is_last[1]:
        row = int(np.argmax(edges.column))
        cells.append(Best(edges.column[row].item(), i + row, j + m - 1))
    return best_cell(*cells)


def ranges(start: int, stop: int, parts: int) -> list[Range]:
    """Return the starts and stops of nearly equal parts of a range."""
    return list(pairwise(start + (stop - start) * k // parts for k in range(parts + 1)))


class Tiling:
    """A tile divided into ranges of rows and columns: the edges between its parts.

    A part may be put once the parts above and to the left of it are put.
    """

    def __init__(self, rows: list[Range], columns: list[Range], carry_in: Edges) -> None:
        self.rows, self.columns = rows, columns
        top, left = rows[0][0], columns[0][0]
        self._above = [
            (carry_in.row[a - left : b - left + 1], _part(carry_in.row_gaps, a - left, b - left))
            for a, b in columns
        ]
        self._left = [
            (carry_in.column[a - top : b - top], _part(carry_in.column_gaps, a - top, b - top))
            for a, b in rows
        ]
        self._best: Best | None = None

    def carry_in(self, row: int, column: int) -> Edges:
        """Return the carry-in of a part, once the parts before it are put."""
        (above, above_gaps), (left, left_gaps) = self._above[column], self._left[row]
        return Edges(above, left, above_gaps, left_gaps)

    def put(self, row: int, column: int, edges: Edges) -> None:
        """Store the edges of a part."""
        self._above[column] = edges.row, edges.row_gaps
        self._left[row] = edges.column, edges.column_gaps
        self._best = best_cell(self._best, edges.best)

    def edges(self) -> Edges:
        """Return the edges of the tile, once all parts are put."""
        above, above_gaps = zip(*self._above, strict=True)
        left, left_gaps = zip(*self._left, strict=True)
        row = np.concatenate([above[0][:1], *(edge[1:] for edge in above)])
        gaps = _joined(above_gaps), _joined(left_gaps)
        return Edges(row, np.concatenate(left), gaps[0], gaps[1], self._best)


def _part(gaps: Any, start: int, stop: int) -> Any:
    return None if gaps is None else gaps[start:stop]


def _joined(gaps: tuple[Any, ...]) -> Any:
    return None if gaps[0] is None else np.concatenate(gaps)
