"""Alignments as grids: of one pair of sequences, and of many pairs in one call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.grid import Bands
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront
from .scoring import Scoring
from .sequences import Sequences
from .tiles import Best, Edges, best_cell, best_of_edges, carry_in_from

# Shorter sequences are not shared by GPUs: one of them aligns 50,000 letters in 10 ms.
LEAST = 1 << 15


@dataclass(frozen=True, kw_only=True)
class AlignmentGrid(Wavefront):
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
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Edges]:  # fmt: skip
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
        kernels = backend.kernels(self.family)
        return kernels.launch_bands is not None and not self.has_matrix and min(shape) >= LEAST

    @property
    def shared_by_bands(self) -> tuple[int, int]:
        """Bytes of the memory in which bands of two GPUs pass on a row, and the largest tag.

        See ``cuda/tile.cuh``: up to four words a column, a tag for each band of 64 rows or more.
        """
        return 32 * self.lengths[1], self.lengths[0] // 64 + 2

    def launch_bands(
        self, backend: Backend, sequences: Sequence[list[Any]], bands: Bands
    ) -> Callable[[Callable[[], bool]], Callable[[Best | None], Edges]]:
        """Launch a run of bands of the grid, of sequences in chunks.

        The returned function waits, as long as its argument returns False. It returns a function
        of the best cell of the runs before, which returns the edges of the run.
        """
        launch = backend.kernels(self.family).launch_bands
        assert launch is not None
        carry_in = carry_in_from(self.scoring, None, None, (0, 0), self.lengths, self.dtype)
        wait = launch(self.scoring, sequences, carry_in, self.dtype, bands)

        def finish(is_abandoned: Callable[[], bool]) -> Callable[[Best | None], Edges]:
            edges, row = wait(is_abandoned)
            return lambda best: self.with_best(
                edges, (row, 0), (Edges(None, None, best=best), None)
            )

        return finish

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

    def start_export(
        self, backend: Backend, edges: Edges, axes: Collection[int]
    ) -> Callable[[], Edges]:
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
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, above: Any, left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, np.ndarray]:  # fmt: skip
        pairs = map(Sequences, inputs.blocks, self.offsets)
        determine_pairs = backend.kernels(self.family).determine_pairs
        return (), determine_pairs(self.scoring, *pairs, self.dtype)

    def final_result(self, edges: np.ndarray) -> np.ndarray:
        return edges
