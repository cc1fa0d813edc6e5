"""The path of an alignment through a grid, walked from its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .scoring import Scoring
from .tiles import Entry


@dataclass
class Path:
    """The cells from one cell on to the end of an alignment.

    Attributes
    ----------
    row, column : int
        The cell before those on the path, in the whole grid; what comes to it is asked next.
        −1 before the first character.
    runs : list of (str, int)
        Backwards: "M" for two characters beside each other, "I" for one of the query alone, "D"
        for one of the target alone, and how many.
    gap : {"", "I", "D"}
        The gap that the path is in, where it goes on in the cell.
    state : int or float
        F of the next row or E of the next column, which the gap has there.
    is_done : bool
        The alignment begins after the cell.
    """

    row: int
    column: int
    runs: list[tuple[str, int]] = field(default_factory=list)
    gap: str = ""
    state: Any = None
    is_done: bool = False

    def add(self, kind: str, count: int) -> None:
        if self.runs and self.runs[-1][0] == kind:
            count += self.runs.pop()[1]
        if count:
            self.runs.append((kind, count))

    def finish(self, mode: str) -> None:
        """Begin the alignment at the border of the grid, where ends of a global one cost gaps."""
        if mode == "global":
            self.add("I", self.row + 1)
            self.add("D", self.column + 1)
            self.row = self.column = -1


@dataclass(frozen=True)
class Traced:
    """A tile whose H is known entirely, in host memory.

    Attributes
    ----------
    h : numpy.ndarray (n, m)
    entry : Entry
    query, target : numpy.ndarray (n,), (m,)
    starts : tuple of two ints
        Its first row and column in the whole grid.
    """

    scoring: Scoring
    h: np.ndarray
    entry: Entry
    query: np.ndarray
    target: np.ndarray
    starts: tuple[int, int]

    def walk(self, path: Path) -> None:
        """Follow a path, whose cell is in this tile, until it leaves the tile or begins.

        Of equal alignments that with two characters beside each other counts, then that with
        the shorter gap, then that with a gap in the target. Every score is met exactly, since it
        is computed again as it was.
        """
        i, j = path.row - self.starts[0], path.column - self.starts[1]
        while i >= 0 and j >= 0 and not path.is_done:
            if path.gap:
                i, j = self._along_gap(path, path.state, i, j)
            elif self.scoring.is_local and self.h[i, j] == 0:
                path.is_done = True
            elif self.h[i, j] == self._at(i - 1, j - 1) + self._score(i, j):
                path.add("M", 1)
                i, j = i - 1, j - 1
            else:
                i, j = self._along_gap(path, self.h[i, j], i, j)
        path.row, path.column = self.starts[0] + i, self.starts[1] + j

    def _at(self, i: int, j: int) -> Any:
        if i < 0:
            return self.entry.above[j + 1]
        return self.h[i, j] if j >= 0 else self.entry.left[i]

    def _score(self, i: int, j: int) -> Any:
        scoring, a, b = self.scoring, self.query[i], self.target[j]
        if scoring.table is not None:
            return scoring.table[a][b]
        return scoring.match if a == b else scoring.mismatch

    def _along_gap(self, path: Path, state: Any, i: int, j: int) -> tuple[int, int]:
        """The cell before a gap that gives a state, or before the border of this tile.

        A gap that the path is in already has a character in the next row or column.
        """
        done = 1 if path.gap else 0
        ends = {"I": (i + done, j), "D": (i, j + done)}
        ends = {path.gap: ends[path.gap]} if path.gap else ends
        for length in range(1, max(i, j) + 2 + done):
            for kind, (row, column) in ends.items():
                before = (row - length, column) if kind == "I" else (row, column - length)
                is_inside = min(before) >= -1
                if (
                    is_inside
                    and self._extended(self._at(*before) + self.scoring.gap, length - 1) == state
                ):
                    path.add(kind, length - done)
                    path.gap = ""
                    return before
        for kind, (row, column) in ends.items():
            gaps, at, size = (
                (self.entry.above_gaps, column, row)
                if kind == "I"
                else (self.entry.left_gaps, row, column)
            )
            if gaps is not None and self._extended(gaps[at], size) == state:
                path.add(kind, size + 1 - done)
                path.gap, path.state = kind, gaps[at]
                return (-1, column) if kind == "I" else (row, -1)
        raise AssertionError("a score comes from one of the cells before it")

    def _extended(self, state: Any, count: int) -> Any:
        """A gap with so many characters more, as the recurrence adds them up."""
        if isinstance(self.scoring.extend, int):
            return state + count * self.scoring.extend
        for _ in range(count):
            state = state + self.scoring.extend
        return state
