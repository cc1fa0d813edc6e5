"""The path of an alignment through a grid, walked from its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
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
        The gap that the path is in: its character in the next row or column is counted already,
        and F of that row or E of that column is its score.
    is_done : bool
        The alignment begins after the cell.
    """

    row: int
    column: int
    runs: list[tuple[str, int]] = field(default_factory=list)
    gap: str = ""
    is_done: bool = False

    def add(self, kind: str, count: int) -> None:
        if self.runs and self.runs[-1][0] == kind:
            count += self.runs.pop()[1]
        if count:
            self.runs.append((kind, count))

    def finish(self, mode: str, at_border: tuple[bool, bool] = (True, True)) -> None:
        """Begin the alignment at a border of the grid, where ends of a global one cost gaps.

        `at_border`: the path has come to the left border, and to the upper one.
        """
        if mode == "global":
            if at_border[0]:
                self.add("I", self.row + 1)
                self.row = -1
            if at_border[1]:
                self.add("D", self.column + 1)
                self.column = -1


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

        Of equal alignments that with two characters beside each other counts, then that with a
        gap of one character, then that with a longer gap; of equal ones a gap in the target.
        Where a gap may begin at several cells it begins at the last of them. What decides is H, E
        and F of a cell and the one before: the same path wherever a grid is cut. Every score is
        met exactly, since it is computed again as it was.
        """
        i, j = path.row - self.starts[0], path.column - self.starts[1]
        while i >= 0 and j >= 0 and not path.is_done:
            if path.gap:
                i, j = self._along(path, path.gap, self._scores_of(path.gap, i, j, 1), i, j)
            elif self.scoring.is_local and self.h[i, j] == 0:
                path.is_done = True
            elif self.h[i, j] == self._at(i - 1, j - 1) + self._score(i, j):
                path.add("M", 1)
                i, j = i - 1, j - 1
            else:
                i, j = self._into_gap(path, i, j)
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

    def _into_gap(self, path: Path, i: int, j: int) -> tuple[int, int]:
        """The cell before the gap that ends with a cell, or before the border of this tile."""
        score, before = self.h[i, j], {"I": (i - 1, j), "D": (i, j - 1)}
        for kind, cell in before.items():
            if self._at(*cell) + self.scoring.gap == score:
                path.add(kind, 1)
                return cell
        for kind in before:
            scores = self._scores_of(kind, i, j, 0)
            if scores[1][-1] == score:
                return self._along(path, kind, scores, i, j)
        raise AssertionError("a score comes from one of the cells before it")

    def _scores_of(self, kind: str, i: int, j: int, more: int) -> tuple[list[Any], list[Any]]:
        """Of gaps up to a cell, and `more` behind it: those that begin there, and E or F."""
        before, gaps, line = (
            (self.entry.above[j + 1], self.entry.above_gaps, self.h[: i + more, j])
            if kind == "I"
            else (self.entry.left[i], self.entry.left_gaps, self.h[i, : j + more])
        )
        begun = [score + self.scoring.gap for score in (before.item(), *line.tolist())]
        first = begun[0] if gaps is None else gaps[j if kind == "I" else i].item()
        extend = self.scoring.extend
        best = accumulate(begun[1:], lambda e, own: max(own, e + extend), initial=first)
        return begun, list(best)

    def _along(
        self, path: Path, kind: str, scores: tuple[list[Any], list[Any]], i: int, j: int
    ) -> tuple[int, int]:
        """The cell before a gap, or before the border of this tile where it begins farther on."""
        begun, best = scores
        at, end = len(best) - 1, i if kind == "I" else j
        while at > 0 and best[at] != begun[at]:
            at -= 1
        path.add(kind, end + 1 - at)
        path.gap = "" if best[at] == begun[at] else kind
        return (at - 1, j) if kind == "I" else (i, at - 1)
