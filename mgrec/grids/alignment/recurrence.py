"""Alignments as grids: a tile needs the edges of those above and to the left."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
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
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Edges]:
        query, target = (block.reshape(-1) for block in inputs.blocks[:2])
        if self.has_matrix and not out:
            out = (backend.empty(shape, self.dtype),)
        i, j = inputs.starts
        entry = enter(self.scoring, above, left, (i, j), (query.size, target.size), self.dtype)
        determine = backend.kernels(self.family).determine
        edges = determine(self.scoring, (query, target), entry, (i, j), self.dtype, *out)
        return out, self.with_best(edges, (i, j), (above, left))

    def with_best(self, edges: Edges, starts: Any, before: tuple[Any, Any]) -> Edges:
        """The edges of a tile with the best of all tiles so far; a global one needs none."""
        found = [edges.best, *(None if tile is None else tile.best for tile in before)]
        size = edges.right.size, edges.below.size - 1
        if self.scoring.mode == "semi-global" and all(size):
            n, m = (start + length for start, length in zip(starts, size, strict=True))
            is_last = n == self.lengths[0], m == self.lengths[1]
            found[0] = best_of_edges(edges, starts, is_last)
        best = None
        for each in found:
            best = each if best is None else best if each is None else better(best, each)
        return replace(edges, best=best)

    def export_edges(self, edges: Edges) -> Edges:
        below, right = to_host(edges.below), to_host(edges.right)
        if edges.below_gaps is None:
            return Edges(below, right, best=edges.best)
        gaps = to_host(edges.below_gaps), to_host(edges.right_gaps)
        return Edges(below, right, *gaps, edges.best)

    def retain_edges(self, edges: Edges) -> Edges:
        return edges

    def start_export(
        self, backend: Backend, edges: Edges, axes: Collection[int]
    ) -> Callable[[], Edges]:
        down, right = (axis in axes for axis in self.axes)
        own = {"below": down, "right": right, "below_gaps": down, "right_gaps": right}
        asked = {name for name, is_asked in own.items() if is_asked}
        waits = {
            name: backend.fetch(getattr(edges, name))
            for name in asked
            if getattr(edges, name) is not None
        }

        def wait() -> Edges:
            found = {name: waits[name]() if name in waits else None for name in own}
            return Edges(best=edges.best, **found)

        return wait

    def end(self, edges: Edges) -> Best:
        """Score and end of the whole, from the edges of the last tile."""
        n, m = self.lengths
        if self.scoring.mode == "global":
            return Best(edges.below[-1].item(), n - 1, m - 1)
        # Without characters there is no end to be free.
        return edges.best or Best(0, n - 1, m - 1)

    def final_result(self, edges: Edges) -> np.ndarray:
        best = self.end(edges)
        return np.array([best.score, best.query_end, best.target_end], self.result_dtype)
