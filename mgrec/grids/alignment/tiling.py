"""A tile cut into tiles: their entries, and the edges of all of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .tiles import Best, Edges, Entry, better

Range = tuple[int, int]


def ranges(length: int, parts: int) -> list[Range]:
    """Begins and ends of nearly equal parts of a length.

    Examples
    --------
    >>> ranges(10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    ends = [length * k // parts for k in range(parts + 1)]
    return list(pairwise(ends))


class Tiling:
    """What crosses the borders inside of a tile, while its parts are determined.

    Parts may come in any order in which those above and to the left come before.

    Parameters
    ----------
    rows, columns : list of (int, int)
        Their ranges inside of the tile.
    entry : Entry
        Of the tile.
    """

    def __init__(self, rows: list[Range], columns: list[Range], entry: Entry) -> None:
        self.rows, self.columns = rows, columns
        self._below = [
            (entry.above[begin : end + 1], _part(entry.above_gaps, begin, end))
            for begin, end in columns
        ]
        self._right = [
            (entry.left[begin:end], _part(entry.left_gaps, begin, end)) for begin, end in rows
        ]
        self._best: Best | None = None

    def entry(self, row: int, column: int) -> Entry:
        """What a part needs, once those before it are put."""
        (above, above_gaps), (left, left_gaps) = self._below[column], self._right[row]
        return Entry(above, left, above_gaps, left_gaps)

    def put(self, row: int, column: int, edges: Edges) -> None:
        """Take the edges of a part."""
        self._below[column] = edges.below, edges.below_gaps
        self._right[row] = edges.right, edges.right_gaps
        if edges.best is not None:
            self._best = edges.best if self._best is None else better(self._best, edges.best)

    def edges(self) -> Edges:
        """The edges of the tile, when all parts are put."""
        below, below_gaps = zip(*self._below, strict=True)
        right, right_gaps = zip(*self._right, strict=True)
        below = below[0][:1], *(edge[1:] for edge in below)
        gaps = _joined(below_gaps), _joined(right_gaps)
        return Edges(_joined(below), _joined(right), gaps[0], gaps[1], self._best)


def _part(gaps: Any, begin: int, end: int) -> Any:
    return None if gaps is None else gaps[begin:end]


def _joined(edges: tuple[Any, ...]) -> Any:
    return None if edges[0] is None else np.concatenate(edges)
