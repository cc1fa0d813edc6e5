"""Alignments as grids: a tile needs the edges of those above and to the left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....arrays.kinds import to_host
from ...family import Arrays, Pack, Shape
from ...kernels import Backend
from ..recurrence import Wavefront
from .borders import best_of_edges, enter
from .scoring import Scoring
from .tiles import Best, Edges, better


@dataclass(frozen=True, kw_only=True)
class Alignment(Wavefront):
    """The query downwards and the target to the right.

    Attributes
    ----------
    lengths : tuple of two ints
        Of the whole sequences.
    has_matrix : bool
        The result is H; else the best score alone. Edges carry the best of all tiles before:
        the last one knows that of the grid.
    """

    scoring: Scoring
    lengths: tuple[int, int]
    has_matrix: bool = False

    @property
    def results(self) -> int:
        return int(self.has_matrix)

    @property
    def indexed_by(self) -> str:
        return "an alignment"

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Edges]:
        query, target = (block.reshape(-1) for block in pack.blocks)
        results: Arrays = ()
        if self.has_matrix:
            results = out or (backend.empty(shape, self.dtype),)
        i, j = pack.starts
        size = query.size, target.size
        entry = enter(self.scoring, above, left, (i, j), size, self.dtype)
        determine = backend.kernels(self.family).determine
        edges = determine(self.scoring, (query, target), entry, (i, j), self.dtype, *results)
        return results, replace(edges, best=self._best(edges, pack, size, (above, left)))

    def _best(
        self, edges: Edges, pack: Pack, size: tuple[int, int], before: tuple[Any, Any]
    ) -> Best | None:
        """The best so far; of a global alignment the last cell counts alone."""
        found = [edges.best, *(None if tile is None else tile.best for tile in before)]
        if self.scoring.mode == "semi-global" and all(size):
            ends = zip(pack.starts, size, self.lengths, strict=True)
            is_last = tuple(start + count == length for start, count, length in ends)
            found[0] = best_of_edges(edges, pack.starts, is_last)  # type: ignore[arg-type]
        best = None
        for each in found:
            best = each if best is None else best if each is None else better(best, each)
        return best

    def hand_on(self, edges: Edges) -> Edges:
        below, right = to_host(edges.below), to_host(edges.right)
        if edges.below_gaps is None:
            return Edges(below, right, best=edges.best)
        gaps = to_host(edges.below_gaps), to_host(edges.right_gaps)
        return Edges(below, right, *gaps, edges.best)

    def leave(self, edges: Edges) -> np.ndarray:
        n, m = self.lengths
        best = edges.best
        if self.scoring.mode == "global":
            best = Best(edges.below[-1].item(), n - 1, m - 1)
        elif best is None:  # without characters no end of one is crossed
            best = Best(0, n - 1, m - 1)
        return np.array([best.score, best.query_end, best.target_end], self.result_dtype)
