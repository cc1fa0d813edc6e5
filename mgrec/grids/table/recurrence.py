"""Summed-area tables: the recurrence, and the edges of its tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront


@dataclass(frozen=True)
class Sums:
    """Edges of a tile: its last row of S, and its last column of R.

    `right` is None if the tile is the whole array and no other tile needs it.
    """

    below: Any
    right: Any


@dataclass(frozen=True, kw_only=True)
class SummedAreaTable(Wavefront):
    """Prefix sums along two axes: S[i, j] = S[i-1, j] + R[i, j], R[i, j] = R[i, j-1] + x[i, j].

    S crosses the lower border of a tile, and R the right border. So every sum is added up in the
    order of ``numpy.cumsum`` along the second axis, then the first: the same bits.
    """

    family: ClassVar[str] = "grids.table"
    is_asynchronous: ClassVar[bool] = True

    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Sums]:
        result = out[0] if out else backend.empty(shape, self.dtype)
        tile, table = map(self.with_axes_last, (*inputs.blocks, result))
        before = None if above is None else above.below, None if left is None else left.right
        return (result,), backend.kernels(self.family).determine(self, tile, before, table)

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        tile, table = map(self.with_axes_last, (*inputs.blocks, *results))
        return None if prepare is None else prepare(self, tile, (None, None), table)

    def export_edges(self, edges: Sums) -> Sums:
        return Sums(to_host(edges.below), to_host(edges.right))

    def retain_edges(self, edges: Sums) -> Sums:
        return edges

    def start_export(
        self, backend: Backend, edges: Sums, axes: Collection[int]
    ) -> Callable[[], Sums]:
        down, right = self.axes
        waits = (
            backend.fetch(edges.below) if down in axes else None,
            backend.fetch(edges.right) if right in axes else None,
        )
        return lambda: Sums(*(wait and wait() for wait in waits))
