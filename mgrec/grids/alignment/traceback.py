"""Traceback: the path of an alignment, through one array or from chunk to chunk (FastLSA).

H, E and F of some rows and columns of a grid are stored during the forward pass. From the end the
path goes back tile by tile. Each tile on the path is divided again, until its H fits into memory
(Driga et al. 2006). Memory grows with the sum of the lengths, as with the divisions of Myers &
Miller (1988), but only tiles along the path are computed again: of 8 × 8 tiles at most 15. All
passes run forwards, so that floating-point scores are computed again with the same bits.

Over chunks the edges of all chunks are the checkpoints: of chunks of c × c cells 1/c of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.grid import Traceback
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from .recurrence import AlignmentGrid, Edges, Range, Tiling, carry_in_from, ranges
from .results import PathColumns, TracedAlignment, columns_of, join_columns
from .scoring import Scoring
from .sequences import Alphabet

# Cells of the largest tile whose H is stored.
LARGEST_TABLE = 1 << 18
# A larger tile is divided into so many parts each way, but not into sides shorter than _SIDE.
PARTS, _SIDE = 8, 64


@dataclass
class Path:
    """The path from a cell to the end of an alignment."""

    # The cell where the traceback continues, in the whole grid; −1 before the first character.
    row: int
    column: int
    # Operations backwards, with counts: "M" (aligned), "I" (query alone), "D" (target alone).
    runs: list[tuple[str, int]] = field(default_factory=list)
    # The gap "I" or "D" that contains the cell, or "". Its character in the next row or column is
    # counted already; F of that row or E of that column is its score.
    gap: str = ""
    is_done: bool = False  # whether the alignment starts after the cell

    def add(self, operation: str, count: int) -> None:
        if self.runs and self.runs[-1][0] == operation:
            count += self.runs.pop()[1]
        if count:
            self.runs.append((operation, count))

    def extend_to_border(self, mode: str, at_border: tuple[bool, bool] = (True, True)) -> None:
        """Add the gaps at the start of a global alignment.

        `at_border`: whether the path has reached the left border, and the upper one.
        """
        if mode == "global":
            if at_border[0]:
                self.add("I", self.row + 1)
                self.row = -1
            if at_border[1]:
                self.add("D", self.column + 1)
                self.column = -1


@dataclass(frozen=True)
class ScoredTile:
    """A tile with H of every cell, in host memory; it starts at this row and column of the grid."""

    scoring: Scoring
    h: np.ndarray
    carry_in: Edges
    query: np.ndarray
    target: np.ndarray
    starts: tuple[int, int]

    def walk(self, path: Path) -> None:
        """Follow a path, whose cell is in this tile, until it leaves the tile or is done.

        Of equal alignments the one with two aligned characters wins, then the one with a gap of
        one character, then one with a longer gap; of equal gaps the one in the target. If a gap
        may start at several cells, it starts at the last of them. The choice depends on H, E
        and F of a cell and of the one before only: the path is the same for any tiles. Scores
        are compared exactly, since the same operations compute them again.
        """
        h, gap, (top, left) = self.h, self.scoring.gap, self.starts
        i, j = path.row - top, path.column - left
        while i >= 0 and j >= 0 and not path.is_done:
            if path.gap:
                scores = self._gap_scores(path.gap, i, j)
                i, j = self._follow_gap(path, path.gap, scores, i, j)
            elif self.scoring.is_local and h[i, j] == 0:
                path.is_done = True
            elif h[i, j] == self._h(i - 1, j - 1) + self._score(i, j):
                path.add("M", 1)
                i, j = i - 1, j - 1
            elif h[i, j] == self._h(i - 1, j) + gap:
                path.add("I", 1)
                i -= 1
            elif h[i, j] == self._h(i, j - 1) + gap:
                path.add("D", 1)
                j -= 1
            else:
                operation, scores = "I", self._gap_scores("I", i - 1, j)
                if scores[1][-1] != h[i, j]:
                    operation, scores = "D", self._gap_scores("D", i, j - 1)
                i, j = self._follow_gap(path, operation, scores, i, j)
        path.row, path.column = top + i, left + j

    def _h(self, i: int, j: int) -> Any:
        if i < 0:
            return self.carry_in.row[j + 1]
        return self.h[i, j] if j >= 0 else self.carry_in.column[i]

    def _score(self, i: int, j: int) -> Any:
        scoring, a, b = self.scoring, self.query[i], self.target[j]
        if scoring.table is not None:
            return scoring.table[a][b]
        return scoring.match if a == b else scoring.mismatch

    def _gap_scores(self, operation: str, i: int, j: int) -> tuple[list[Any], list[Any]]:
        """Return scores of gaps that start after each cell up to (i, j), and E or F after them."""
        edges = self.carry_in
        before, cells, gaps, index = (
            (edges.row[j + 1], self.h[: i + 1, j], edges.row_gaps, j)
            if operation == "I"
            else (edges.column[i], self.h[i, : j + 1], edges.column_gaps, i)
        )
        opened = [score + self.scoring.gap for score in (before.item(), *cells.tolist())]
        first, extend = opened[0] if gaps is None else gaps[index].item(), self.scoring.extend
        best = accumulate(opened[1:], lambda e, new: max(new, e + extend), initial=first)
        return opened, list(best)

    def _follow_gap(
        self, path: Path, operation: str, scores: tuple[list[Any], list[Any]], i: int, j: int
    ) -> tuple[int, int]:
        """Return the cell before a gap, or before the tile's border if the gap starts outside."""
        opened, best = scores
        start = len(best) - 1
        while start > 0 and best[start] != opened[start]:
            start -= 1
        path.add(operation, (i if operation == "I" else j) + 1 - start)
        path.gap = "" if best[start] == opened[start] else operation
        return (start - 1, j) if operation == "I" else (i, start - 1)


@dataclass(frozen=True)
class GridPart:
    """A part of the grid: its rows, its columns and its carry-in."""

    rows: Range
    columns: Range
    carry_in: Edges

    @property
    def starts(self) -> tuple[int, int]:
        return self.rows[0], self.columns[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    def up_to(self, path: Path) -> GridPart:
        """Return the rows and columns up to the path's cell."""
        (top, left), row, column = self.starts, path.row + 1, path.column + 1
        carry_in = self.carry_in.part((0, row - top), (0, column - left))
        return GridPart((top, row), (left, column), carry_in)


@dataclass(frozen=True)
class Checkpoints:
    """Two sequences in memory, whose grid is determined again along a path."""

    recurrence: AlignmentGrid
    backend: Backend
    query: Any
    target: Any

    def divide(self, whole: GridPart) -> tuple[list[GridPart], Edges]:
        """Return the parts of a tile, the last ones first, and the edges of the tile."""
        tiling, parts = Tiling(_divided(whole.rows), _divided(whole.columns), whole.carry_in), []
        for i, rows in enumerate(tiling.rows):
            for j, columns in enumerate(tiling.columns):
                part = GridPart(rows, columns, tiling.carry_in(i, j))
                tiling.put(i, j, self._determine(part))
                parts.append(part)
        return parts[::-1], tiling.edges()

    def _sequences(self, part: GridPart) -> tuple[Any, Any]:
        return self.query[slice(*part.rows)], self.target[slice(*part.columns)]

    def _determine(self, part: GridPart, *table: Any) -> Edges:
        recurrence, sequences = self.recurrence, self._sequences(part)
        determine = self.backend.kernels(recurrence.family).determine
        edges: Edges = determine(
            recurrence.scoring, sequences, part.carry_in, part.starts, recurrence.dtype, *table
        )
        return edges

    def follow(self, path: Path, parts: list[GridPart]) -> None:
        """Follow a path through parts, the last ones first, until it leaves them or is done."""
        for part in parts:
            if path.is_done or min(path.row, path.column) < 0:
                return
            if part.rows[0] > path.row or part.columns[0] > path.column:
                continue
            part = part.up_to(path)
            if prod(part.shape) <= LARGEST_TABLE:
                self._score(part).walk(path)
            else:
                self.follow(path, self.divide(part)[0])

    def _score(self, part: GridPart) -> ScoredTile:
        """Compute H of every cell of a part."""
        table = self.backend.empty(part.shape, self.recurrence.dtype)
        self._determine(part, table)
        carry_in, (query, target) = part.carry_in.map_arrays(to_host), self._sequences(part)
        return ScoredTile(
            self.recurrence.scoring, to_host(table), carry_in, to_host(query), to_host(target), part.starts
        )


def _divided(whole: Range) -> list[Range]:
    return ranges(*whole, min(PARTS, max(1, (whole[1] - whole[0]) // _SIDE)))


@dataclass(frozen=True, kw_only=True)
class TracebackOverChunks(AlignmentGrid, Traceback):
    """The alignment of two sequences in chunks: the path goes from chunk to chunk.

    If there is an alphabet, the last two blocks are the sequences as letters.
    """

    alphabet: Alphabet | None = None

    def start_path(self, edges: Edges) -> Path:
        best = self.end(edges)
        return Path(best.query_end, best.target_end)

    def follow(
        self, backend: Backend, inputs: ChunkInputs, above: Any, left: Any, paths: Sequence[Path]
    ) -> tuple[Path, PathColumns | None]:
        path = min(paths, key=lambda path: (path.row + path.column, not path.is_done))
        (i, j), blocks = inputs.starts, [block.reshape(-1) for block in inputs.blocks]
        if path.is_done or 0 < i > path.row or 0 < j > path.column:
            return path, None
        local = replace(path, row=path.row - i, column=path.column - j, runs=[])
        n, m = blocks[0].size, blocks[1].size
        carry_in = carry_in_from(self.scoring, above, left, (i, j), (n, m), self.dtype)
        chunk = GridPart((0, n), (0, m), carry_in)
        Checkpoints(self, backend, blocks[0], blocks[1]).follow(local, [chunk])
        at_border = j + local.column < 0, i + local.row < 0
        local.extend_to_border(self.scoring.mode, at_border)
        piece = self._columns(blocks, local)
        return replace(local, row=local.row + i, column=local.column + j, runs=[]), piece

    def _columns(self, blocks: list[Any], path: Path) -> PathColumns | None:
        starts = path.row + 1, path.column + 1
        return columns_of(blocks[-2:], self.alphabet, starts, path.runs[::-1]) if path.runs else None

    def join(self, edges: Edges, path: Path, pieces: Sequence[PathColumns | None]) -> TracedAlignment:
        columns = [piece for piece in pieces if piece is not None]
        return join_columns(self.end(edges), (path.row + 1, path.column + 1), columns)


@dataclass(frozen=True, kw_only=True)
class TracebackInMemory(TracebackOverChunks):
    """The alignment of two sequences in memory; its final result is a TracedAlignment."""

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        blocks, (n, m) = [block.reshape(-1) for block in inputs.blocks], self.lengths
        carry_in = carry_in_from(self.scoring, None, None, (0, 0), (n, m), self.dtype)
        grid = Checkpoints(self, backend, *blocks[:2])
        parts, edges = grid.divide(GridPart((0, n), (0, m), carry_in))
        edges = self.with_best(edges, (0, 0), (None, None))
        path = self.start_path(edges)
        grid.follow(path, parts)
        path.extend_to_border(self.scoring.mode)
        return (), self.join(edges, path, [self._columns(blocks, path)])

    def final_result(self, edges: Any) -> Any:
        return edges
