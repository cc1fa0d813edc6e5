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
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ...core.contract.traceback import Traceback
from .recurrence import AlignmentGrid
from .results import Columns, TracedAlignment, columns_of, join_columns
from .scoring import Scoring
from .sequences import Alphabet
from .tiles import Edges, IncomingEdges, Range, Tiling, carry_in_from, ranges

# Cells of the largest tile whose H is stored.
LARGEST_TABLE = 1 << 18
# A larger tile is divided into so many parts each way, but not into sides shorter than _SIDE.
PARTS, _SIDE = 8, 64


@dataclass
class Path:
    """The path from a cell to the end of an alignment.

    Attributes
    ----------
    row, column : int
        The cell where the traceback continues, in the whole grid; −1 before the first character.
    runs : list of (str, int)
        Operations backwards, with counts: "M" (aligned), "I" (query alone), "D" (target alone).
    gap : {"", "I", "D"}
        The gap that contains the cell. Its character in the next row or column is counted
        already; F of that row or E of that column is its score.
    is_done : bool
        Whether the alignment starts after the cell.
    """

    row: int
    column: int
    runs: list[tuple[str, int]] = field(default_factory=list)
    gap: str = ""
    is_done: bool = False

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
    carry_in: IncomingEdges
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
        i, j = path.row - self.starts[0], path.column - self.starts[1]
        while i >= 0 and j >= 0 and not path.is_done:
            if path.gap:
                i, j = self._follow_gap(path, path.gap, self._gap_scores(path.gap, i, j, 1), i, j)
            elif self.scoring.is_local and self.h[i, j] == 0:
                path.is_done = True
            elif self.h[i, j] == self._h(i - 1, j - 1) + self._score(i, j):
                path.add("M", 1)
                i, j = i - 1, j - 1
            else:
                i, j = self._enter_gap(path, i, j)
        path.row, path.column = self.starts[0] + i, self.starts[1] + j

    def _h(self, i: int, j: int) -> Any:
        if i < 0:
            return self.carry_in.above[j + 1]
        return self.h[i, j] if j >= 0 else self.carry_in.left[i]

    def _score(self, i: int, j: int) -> Any:
        scoring, a, b = self.scoring, self.query[i], self.target[j]
        if scoring.table is not None:
            return scoring.table[a][b]
        return scoring.match if a == b else scoring.mismatch

    def _enter_gap(self, path: Path, i: int, j: int) -> tuple[int, int]:
        """Return the cell before the gap that ends with this cell, or before the tile's border."""
        score, before = self.h[i, j], {"I": (i - 1, j), "D": (i, j - 1)}
        for operation, cell in before.items():
            if self._h(*cell) + self.scoring.gap == score:
                path.add(operation, 1)
                return cell
        for operation in before:
            scores = self._gap_scores(operation, i, j, 0)
            if scores[1][-1] == score:
                return self._follow_gap(path, operation, scores, i, j)
        raise AssertionError("a score must come from one of the cells before it")

    def _gap_scores(
        self, operation: str, i: int, j: int, after: int
    ) -> tuple[list[Any], list[Any]]:
        """Return scores of gaps that start at each cell up to (i, j), and E or F of the cells.

        `after`: number of cells after (i, j) to include.
        """
        before, gaps, cells = (
            (self.carry_in.above[j + 1], self.carry_in.above_gaps, self.h[: i + after, j])
            if operation == "I"
            else (self.carry_in.left[i], self.carry_in.left_gaps, self.h[i, : j + after])
        )
        opened = [score + self.scoring.gap for score in (before.item(), *cells.tolist())]
        first = opened[0] if gaps is None else gaps[j if operation == "I" else i].item()
        extend = self.scoring.extend
        best = accumulate(opened[1:], lambda e, new: max(new, e + extend), initial=first)
        return opened, list(best)

    def _follow_gap(
        self, path: Path, operation: str, scores: tuple[list[Any], list[Any]], i: int, j: int
    ) -> tuple[int, int]:
        """Return the cell before a gap, or before the tile's border if the gap starts outside."""
        opened, best = scores
        start, end = len(best) - 1, i if operation == "I" else j
        while start > 0 and best[start] != opened[start]:
            start -= 1
        path.add(operation, end + 1 - start)
        path.gap = "" if best[start] == opened[start] else operation
        return (start - 1, j) if operation == "I" else (i, start - 1)


@dataclass(frozen=True)
class GridPart:
    """A part of the grid: its rows, its columns and its carry-in."""

    rows: Range
    columns: Range
    carry_in: IncomingEdges

    @property
    def cells(self) -> int:
        return (self.rows[1] - self.rows[0]) * (self.columns[1] - self.columns[0])

    def contains(self, path: Path) -> bool:
        return self.rows[0] <= path.row and self.columns[0] <= path.column

    def up_to(self, path: Path) -> GridPart:
        """Return the rows and columns up to the path's cell."""
        n, m = path.row + 1 - self.rows[0], path.column + 1 - self.columns[0]
        carry_in, gaps = self.carry_in, (None, None)
        if carry_in.above_gaps is not None:
            gaps = carry_in.above_gaps[:m], carry_in.left_gaps[:n]
        carry_in = IncomingEdges(carry_in.above[: m + 1], carry_in.left[:n], *gaps)
        return GridPart((self.rows[0], path.row + 1), (self.columns[0], path.column + 1), carry_in)


@dataclass(frozen=True)
class Checkpoints:
    """Two sequences in memory, whose grid is determined again along a path."""

    recurrence: AlignmentGrid
    backend: Backend
    query: Any
    target: Any

    def divide(
        self, rows: Range, columns: Range, carry_in: IncomingEdges
    ) -> tuple[list[GridPart], Edges]:
        """Return the parts of a tile, the last ones first, and the edges of the tile."""
        tiling, parts = Tiling(_divided(rows), _divided(columns), carry_in), []
        for i, (top, bottom) in enumerate(tiling.rows):
            for j, (left, right) in enumerate(tiling.columns):
                part = GridPart(
                    (top + rows[0], bottom + rows[0]),
                    (left + columns[0], right + columns[0]),
                    tiling.carry_in(i, j),
                )
                tiling.put(i, j, self._determine(part))
                parts.append(part)
        return parts[::-1], tiling.edges()

    def _determine(self, part: GridPart, *table: Any) -> Edges:
        recurrence, starts = self.recurrence, (part.rows[0], part.columns[0])
        determine = self.backend.kernels(recurrence.family).determine
        sequences = self.query[slice(*part.rows)], self.target[slice(*part.columns)]
        edges: Edges = determine(
            recurrence.scoring, sequences, part.carry_in, starts, recurrence.dtype, *table
        )
        return edges

    def follow(self, path: Path, parts: list[GridPart]) -> None:
        """Follow a path through parts, the last ones first, until it leaves them or is done."""
        for part in parts:
            if path.is_done or min(path.row, path.column) < 0:
                return
            if not part.contains(path):
                continue
            part = part.up_to(path)
            if part.cells <= LARGEST_TABLE:
                self._walk(path, part)
            else:
                self.follow(path, self.divide(part.rows, part.columns, part.carry_in)[0])

    def _walk(self, path: Path, part: GridPart) -> None:
        n, m = part.rows[1] - part.rows[0], part.columns[1] - part.columns[0]
        table = self.backend.empty((n, m), self.recurrence.dtype)
        self._determine(part, table)
        carry_in = part.carry_in
        edges = carry_in.above, carry_in.left, carry_in.above_gaps, carry_in.left_gaps
        tile = ScoredTile(
            self.recurrence.scoring,
            to_host(table),
            IncomingEdges(*(None if edge is None else to_host(edge) for edge in edges)),
            to_host(self.query[slice(*part.rows)]),
            to_host(self.target[slice(*part.columns)]),
            (part.rows[0], part.columns[0]),
        )
        tile.walk(path)


def _divided(whole: Range) -> list[Range]:
    length = whole[1] - whole[0]
    return ranges(length, min(PARTS, max(1, length // _SIDE)))


@dataclass(frozen=True, kw_only=True)
class TracebackInMemory(AlignmentGrid):
    """The alignment of two sequences in memory; its final result is a TracedAlignment.

    If there is an alphabet, the last two blocks are the sequences as letters.
    """

    alphabet: Alphabet | None = None

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Any]:  # fmt: skip
        query, target, *letters = (block.reshape(-1) for block in inputs.blocks)
        carry_in = carry_in_from(self.scoring, None, None, (0, 0), self.lengths, self.dtype)
        grid = Checkpoints(self, backend, query, target)
        parts, edges = grid.divide((0, query.size), (0, target.size), carry_in)
        best = self.end(self.with_best(edges, (0, 0), (None, None)))
        path = Path(best.query_end, best.target_end)
        grid.follow(path, parts)
        path.extend_to_border(self.scoring.mode)
        starts = path.row + 1, path.column + 1
        columns = columns_of(letters or (query, target), self.alphabet, starts, path.runs[::-1])
        return (), join_columns(best, starts, [columns])

    def final_result(self, edges: Any) -> Any:
        return edges


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
    ) -> tuple[Path, Columns | None]:
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
        starts = local.row + 1, local.column + 1
        runs = local.runs[::-1]
        piece = columns_of(blocks[-2:], self.alphabet, starts, runs) if runs else None
        return replace(local, row=local.row + i, column=local.column + j, runs=[]), piece

    def join(self, edges: Edges, path: Path, pieces: Sequence[Columns | None]) -> TracedAlignment:
        columns = [piece for piece in pieces if piece is not None]
        return join_columns(self.end(edges), (path.row + 1, path.column + 1), columns)
