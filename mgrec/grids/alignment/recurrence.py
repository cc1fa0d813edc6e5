"""Alignments as grids of tiles: borders, edges and the best cell, for one or many pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.grid import Banded, Bands
from ...core.contract.kernels import Backend, Kernels
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront
from .scoring import Scoring
from .sequences import Sequences

Range = tuple[int, int]
"""Start and stop of rows or columns."""
# Shorter sequences are not shared by GPUs: one of them aligns 50,000 letters in 10 ms.
LEAST = 1 << 15


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

    `row`, array (m + 1,): h of the cell before the row, which is the corner of the tile below, then
      H of the row.
    `column`, array (n,): h of the column.
    `row_gaps`, `column_gaps`, array (m,), array (n,), or None: f of the next row and E of the next
      column; None if gaps are linear. Values below 0 of a local alignment are arbitrary: they are
      never a maximum.
    `best`: the best cell of the tile; None if the alignment is not local.
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
    scoring: Scoring,
    above: Edges | None,
    left: Edges | None,
    starts: tuple[int, int],
    shape: tuple[int, int],
    dtype: Any,
) -> Edges:
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


Launched = Callable[[bool], tuple[Edges, int]]
"""Waits for a run of bands, and returns the edges of its rows and the number of the first row.

If the argument is True, the run ends at once."""


@dataclass(frozen=True, kw_only=True)
class AlignmentKernels(Kernels):
    """The phases of alignments, and kernels that no other family has.

    `determine_pairs`, ``(scoring, queries, targets, dtype) -> array (pairs, 3)``: return score,
      query_end and target_end of many pairs of sequences.
    `launch_bands`, ``(scoring, sequences, carry_in, dtype, bands) -> Launched``: launch a run of
      bands of the whole grid.
    """

    determine_pairs: Callable[..., np.ndarray]
    launch_bands: Callable[..., Launched] | None = None


def kernels_of(backend: Backend) -> AlignmentKernels:
    """Return the kernels of alignments on a backend."""
    kernels = backend.kernels("grids.alignment")
    assert isinstance(kernels, AlignmentKernels)
    return kernels


@dataclass(frozen=True, kw_only=True)
class AlignmentGrid(Wavefront, Banded):
    """The grid of two sequences: the query downwards, the target to the right.

    The result is H if `has_matrix`, else the best score only. `lengths` are those of the whole
    sequences. Edges contain the best cell of all tiles so far.
    """

    family: ClassVar[str] = "grids.alignment"
    scoring: Scoring
    lengths: tuple[int, int]
    has_matrix: bool = False

    @property
    def algebra(self) -> Scoring:
        return self.scoring

    @property
    def results(self) -> int:
        return int(self.has_matrix)

    @property
    def indexed_by(self) -> str:
        return "an alignment"

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Edges]:
        query, target = (block.reshape(-1) for block in inputs.blocks[:2])
        if self.has_matrix and not out:
            out = (backend.empty(shape, self.dtype),)
        i, j = inputs.starts
        size = query.size, target.size
        carry_in = carry_in_from(self.scoring, above, left, (i, j), size, self.dtype)
        determine = backend.kernels(self.family).determine
        edges = determine(self.scoring, (query, target), carry_in, (i, j), self.dtype, *out)
        return out, self.with_best(edges, (i, j), (above, left))

    def has_bands(self, backend: Backend, shape: Shape) -> bool:
        if self.has_matrix or min(shape) < LEAST:
            return False
        return kernels_of(backend).launch_bands is not None

    @property
    def shared_by_bands(self) -> tuple[int, int]:
        # See tile.cuh: up to four words a column, a tag for each band of 64 rows or more.
        return 32 * self.lengths[1], self.lengths[0] // 64 + 2

    def launch_bands(
        self, backend: Backend, sequences: Sequence[list[Any]], bands: Bands
    ) -> Callable[[bool], Callable[[Best | None], Edges]]:
        launch = kernels_of(backend).launch_bands
        assert launch is not None
        carry_in = carry_in_from(self.scoring, None, None, (0, 0), self.lengths, self.dtype)
        wait = launch(self.scoring, sequences, carry_in, self.dtype, bands)

        def wait_for_edges(is_abandoned: bool) -> Callable[[Best | None], Edges]:
            edges, row = wait(is_abandoned)
            return lambda best: self.with_best(edges, (row, 0), (Edges(None, None, best=best), None))

        return wait_for_edges

    def with_best(self, edges: Edges, starts: Any, before: tuple[Any, Any]) -> Edges:
        """Return the edges of a tile with the best cell of all tiles so far.

        A global alignment needs none: it ends in the last cell.
        """
        cells = [edges.best, *(None if tile is None else tile.best for tile in before)]
        size = edges.column.size, edges.row.size - 1
        if self.scoring.mode == "semi-global" and all(size):
            n, m = (start + length for start, length in zip(starts, size, strict=True))
            is_last = n == self.lengths[0], m == self.lengths[1]
            cells[0] = best_of_edges(edges, starts, is_last)
        return replace(edges, best=best_cell(*cells))

    def export_edges(self, edges: Edges) -> Edges:
        return edges.map_arrays(to_host)

    def retain_edges(self, edges: Edges) -> Edges:
        return edges

    def start_export(self, backend: Backend, edges: Edges, axes: Collection[int]) -> Callable[[], Edges]:
        if self.axes[0] not in axes:
            edges = replace(edges, row=None, row_gaps=None)
        if self.axes[1] not in axes:
            edges = replace(edges, column=None, column_gaps=None)
        waits = edges.map_arrays(backend.fetch)
        return lambda: waits.map_arrays(lambda wait: wait())

    def end(self, edges: Edges) -> Best:
        """Return the score and the end of the alignment, from the edges of the last tile."""
        n, m = self.lengths
        if self.scoring.mode == "global":
            return Best(edges.row[-1].item(), n - 1, m - 1)
        # Edges of an empty sequence have no best cell.
        return edges.best or Best(0, n - 1, m - 1)

    def final_result(self, edges: Edges) -> np.ndarray:
        best = self.end(edges)
        return np.array([best.score, best.query_end, best.target_end], self.result_dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class PairsGrid(Wavefront):
    """Many pairs of :class:`.sequences.Sequences`, with their offsets: one call of a kernel."""

    family: ClassVar[str] = "grids.alignment"
    scoring: Scoring
    offsets: tuple[np.ndarray, np.ndarray]

    @property
    def results(self) -> int:
        return 0

    def determine(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, np.ndarray]:
        pairs = map(Sequences, inputs.blocks, self.offsets)
        return (), kernels_of(backend).determine_pairs(self.scoring, *pairs, self.dtype)

    def final_result(self, edges: np.ndarray) -> np.ndarray:
        return edges
