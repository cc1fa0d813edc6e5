"""The borders of a grid: H before the first characters, and the gaps that begin there."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .scoring import Scoring
from .tiles import Best, Edges, Entry, better


def border_above(scoring: Scoring, start: int, size: int, dtype: Any) -> np.ndarray:
    """H[−1, start − 1 : start + size], above a tile that begins at column `start`.

    0 where the ends of sequences are free, else the score of as long a gap:

        H[−1, −1] = 0,    H[−1, j] = gap + j · extend.

    Zeros, and what is added to them, are one number in memory.
    """
    if scoring.mode != "global":
        return _zeros(size + 1, np.dtype(dtype))
    columns = np.arange(start - 1, start + size)
    gaps = scoring.gap + columns * np.asarray(scoring.extend, dtype)
    return np.where(columns < 0, 0, gaps).astype(dtype)


@lru_cache(maxsize=64)
def _zeros(size: int, dtype: np.dtype[Any]) -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), (size,))


def enter(
    scoring: Scoring,
    above: Edges | None,
    left: Edges | None,
    starts: tuple[int, int],
    shape: tuple[int, int],
    dtype: Any,
) -> Entry:
    """The entry of a tile from the edges of its neighbours, None at the border of the grid.

    The border to the left is the one above with the sequences exchanged. There a gap of the
    other sequence begins, since gaps in both would cost twice.
    """
    (i, j), (n, m) = starts, shape
    gap = np.asarray(scoring.gap, dtype) if scoring.is_affine else None
    if above is None:
        row = border_above(scoring, j, m, dtype)
        row_gaps = None if gap is None else _opened(row[1:], gap)
    else:
        row, row_gaps = above.below, above.below_gaps
    if left is None:
        column = border_above(scoring, i, n, dtype)[1:]
        column_gaps = None if gap is None else _opened(column, gap)
    else:
        column, column_gaps = left.right, left.right_gaps
    return Entry(row, column, row_gaps, column_gaps)


def _opened(border: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """The gaps that begin at a border."""
    if border.strides != (0,):
        return border + gap
    return np.broadcast_to(gap, border.shape)


def best_of_edges(edges: Edges, starts: tuple[int, int], is_last: tuple[bool, bool]) -> Best | None:
    """The best cell of a tile in the last row and the last column of the grid; None if neither.

    Parameters
    ----------
    edges : Edges
        Of a tile with rows and columns.
    starts : tuple of two ints
        Its first row and column in the whole grid.
    is_last : tuple of two bools
        Whether the tile has the last row of the grid, and its last column.
    """
    (i, j), (n, m) = starts, (edges.right.size, edges.below.size - 1)
    found = []
    if is_last[0]:
        column = int(np.argmax(edges.below[1:]))
        found.append(Best(edges.below[1 + column].item(), i + n - 1, j + column))
    if is_last[1]:
        row = int(np.argmax(edges.right))
        found.append(Best(edges.right[row].item(), i + row, j + m - 1))
    return better(*found) if len(found) == 2 else next(iter(found), None)
