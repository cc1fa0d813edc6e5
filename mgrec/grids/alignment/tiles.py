"""Tiles of an alignment: borders, edges, the best cell, and tiles divided into tiles."""

from __future__ import annotations

from dataclasses import dataclass
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

    Examples
    --------
    >>> best_cell(Best(7, 4, 9), None, Best(7, 6, 8))
    Best(score=7, query_end=6, target_end=8)
    """
    return max(filter(None, cells), key=_rank, default=None)


def _rank(best: Best) -> tuple[float, int, int]:
    return best.score, -best.target_end, -best.query_end


@dataclass(frozen=True)
class IncomingEdges:
    """The carry-in of a tile of n rows and m columns.

    Attributes
    ----------
    above : array (m + 1,)
        The corner H[−1, −1], then H of the row above.
    left : array (n,)
        H of the column to the left.
    above_gaps, left_gaps : array (m,), array (n,), or None
        F[0, j] of the first row, and E[i, 0] of the first column; None if gaps are linear.
    """

    above: Any
    left: Any
    above_gaps: Any = None
    left_gaps: Any = None


@dataclass(frozen=True)
class Edges:
    """The cells of a tile that the tiles below and to the right need, and its best cell.

    Attributes
    ----------
    below : array (m + 1,)
        H[n−1, −1], the corner of the tile below, then H of the last row.
    right : array (n,)
        H of the last column.
    below_gaps, right_gaps : array (m,), array (n,), or None
        F[n, j] of the row below the tile, and E[i, m] of the column to the right; None if gaps
        are linear. Values below 0 of a local alignment are arbitrary: they are never a maximum.
    best : Best or None
        The best cell of the tile; None if the alignment is not local.
    """

    below: Any
    right: Any
    below_gaps: Any = None
    right_gaps: Any = None
    best: Best | None = None


def border_above(scoring: Scoring, start: int, size: int, dtype: Any) -> np.ndarray:
    """Return H[−1, start − 1 : start + size], above a tile that starts at column `start`.

    H[−1, −1] = 0 and H[−1, j] = gap + j · extend, the score of a gap, if the alignment is global.
    Else the ends of sequences are free: zeros, one number in memory.
    """
    if scoring.mode != "global":
        return _zeros(size + 1, np.dtype(dtype))
    columns = np.arange(start - 1, start + size)
    gaps = scoring.gap + columns * np.asarray(scoring.extend, dtype)
    return np.where(columns < 0, 0, gaps).astype(dtype)


@lru_cache(maxsize=64)
def _zeros(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), (size,))


def carry_in_from(
    scoring: Scoring, above: Edges | None, left: Edges | None, starts: tuple[int, int],
    shape: tuple[int, int], dtype: Any,
) -> IncomingEdges:  # fmt: skip
    """Return the carry-in of a tile from its neighbours' edges, None at the grid's border.

    At the left border a gap of the other sequence starts: gaps in both would cost twice.
    """
    (i, j), (n, m) = starts, shape
    gap = np.asarray(scoring.gap, dtype) if scoring.is_affine else None
    if above is None:
        row = border_above(scoring, j, m, dtype)
        row_gaps = None if gap is None else _gaps_from(row[1:], gap)
    else:
        row, row_gaps = above.below, above.below_gaps
    if left is None:
        column = border_above(scoring, i, n, dtype)[1:]
        column_gaps = None if gap is None else _gaps_from(column, gap)
    else:
        column, column_gaps = left.right, left.right_gaps
    return IncomingEdges(row, column, row_gaps, column_gaps)


def _gaps_from(border: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the scores of gaps that start at a border."""
    if border.strides != (0,):
        return border + gap
    return np.broadcast_to(gap, border.shape)


def best_of_edges(edges: Edges, starts: tuple[int, int], is_last: tuple[bool, bool]) -> Best | None:
    """Return the best cell of a tile in the last row and column of the grid; None if neither.

    `is_last`: whether the tile, which is not empty, has that row and that column.
    """
    (i, j), (n, m) = starts, (edges.right.size, edges.below.size - 1)
    cells = []
    if is_last[0]:
        column = int(np.argmax(edges.below[1:]))
        cells.append(Best(edges.below[1 + column].item(), i + n - 1, j + column))
    if is_last[1]:
        row = int(np.argmax(edges.right))
        cells.append(Best(edges.right[row].item(), i + row, j + m - 1))
    return best_cell(*cells)


def ranges(length: int, parts: int) -> list[Range]:
    """Return the starts and stops of nearly equal parts of a length.

    Examples
    --------
    >>> ranges(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    stops = [length * k // parts for k in range(parts + 1)]
    return list(pairwise(stops))


class Tiling:
    """A tile divided into ranges of rows and columns: the edges between its parts.

    A part may be put once the parts above and to the left of it are put.
    """

    def __init__(self, rows: list[Range], columns: list[Range], carry_in: IncomingEdges) -> None:
        self.rows, self.columns = rows, columns
        self._below = [
            (carry_in.above[start : stop + 1], _part(carry_in.above_gaps, start, stop))
            for start, stop in columns
        ]
        self._right = [
            (carry_in.left[start:stop], _part(carry_in.left_gaps, start, stop))
            for start, stop in rows
        ]
        self._best: Best | None = None

    def carry_in(self, row: int, column: int) -> IncomingEdges:
        """Return the carry-in of a part, once the parts before it are put."""
        (above, above_gaps), (left, left_gaps) = self._below[column], self._right[row]
        return IncomingEdges(above, left, above_gaps, left_gaps)

    def put(self, row: int, column: int, edges: Edges) -> None:
        """Store the edges of a part."""
        self._below[column] = edges.below, edges.below_gaps
        self._right[row] = edges.right, edges.right_gaps
        self._best = best_cell(self._best, edges.best)

    def edges(self) -> Edges:
        """Return the edges of the tile, once all parts are put."""
        below, below_gaps = zip(*self._below, strict=True)
        right, right_gaps = zip(*self._right, strict=True)
        below = below[0][:1], *(edge[1:] for edge in below)
        gaps = _joined(below_gaps), _joined(right_gaps)
        return Edges(_joined(below), _joined(right), gaps[0], gaps[1], self._best)


def _part(gaps: Any, start: int, stop: int) -> Any:
    return None if gaps is None else gaps[start:stop]


def _joined(edges: tuple[Any, ...]) -> Any:
    return None if edges[0] is None else np.concatenate(edges)
