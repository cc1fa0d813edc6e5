"""A[i, j] = (A[i, j-1] ∘ b0) ◇ (A[i-1, j] ∘ b1) ◇ (A[i-1, j-1] ∘ b2) ◇ local[i, j]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.algebra.operators import Operators
from ...core.arrays.array_types import to_host
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront


@dataclass(frozen=True)
class Loop:
    """What a wavefront loop does in every cell.

    Attributes
    ----------
    operators : Operators
    floor : scalar, optional
        The least result.
    strategy : str
        In which order cells are computed: one of :data:`.strategy.STRATEGIES`.
    """

    operators: Operators
    floor: Any = None
    strategy: str = "hybrid"


@dataclass(frozen=True)
class Borders:
    """What stands around a tile above and to the left; each broadcasts to the tile's grids.

    Attributes
    ----------
    above : array (..., columns)
    left : array (..., rows)
    corner : array (...)
        Above to the left of the first cell.
    """

    above: Any
    left: Any
    corner: Any


@dataclass(frozen=True)
class Edges:
    """What tiles below and to the right need of a tile, in host memory.

    Attributes
    ----------
    below : array (..., columns + 1)
        The last row, after what stands to the left of it.
    right : array (..., rows + 1)
        The last column, after what stands above it.
    """

    below: np.ndarray
    right: np.ndarray


@dataclass(frozen=True, kw_only=True)
class WavefrontLoop(Wavefront):
    """The blocks of a pack are b0, b1, b2, the borders above, left and corner, and `local`.

    Borders broadcast along the axes that they lack; only tiles at the border use them.
    """

    family: ClassVar[str] = "grids.loops"
    loop: Loop

    @property
    def algebra(self) -> Loop:
        return self.loop

    def determine(
        self,
        backend: Backend,
        inputs: ChunkInputs,
        shape: Shape,
        above: Any,
        left: Any,
        out: Arrays = (),
    ) -> tuple[Arrays, Any]:
        determine = backend.kernels(self.family).determine
        result = out[0] if out else backend.empty(shape, self.dtype)
        local, weights, given, table = self._tile(inputs, result)
        borders = _around(given, above, left)
        determine(self.loop, local, weights, borders, table)
        return (result,), (table, borders)

    def solver_arguments(self, operands: Sequence[Any], initial: Sequence[Any]) -> list[Any]:
        *others, local = operands
        return [local, *others]

    def prepare_solver(
        self, backend: Backend, inputs: ChunkInputs, shape: Shape, initial: Arrays, results: Arrays
    ) -> PreparedSolver | None:
        prepare = backend.kernels(self.family).prepare_solver
        return None if prepare is None else prepare(self.loop, *self._tile(inputs, *results))

    def _tile(self, inputs: ChunkInputs, result: Any) -> tuple[Any, list[Any], Borders, Any]:
        """`local`, the weights, the borders that are given, and the table."""
        *weights, over, beside, corner, local = (self._grid(b, result.ndim) for b in inputs.blocks)
        given = Borders(over[..., 0, :], beside[..., :, 0], corner[..., 0, 0])
        return local, weights, given, self._moved(result)

    def export_edges(self, edges: tuple[Any, Borders]) -> Edges:
        table, borders = edges
        *batch, rows, columns = table.shape
        over, beside, corner = map(to_host, (borders.above, borders.left, borders.corner))
        below = np.empty((*batch, columns + 1), table.dtype)
        right = np.empty((*batch, rows + 1), table.dtype)
        below[..., 1:] = to_host(table[..., -1, :]) if rows else over
        right[..., 1:] = to_host(table[..., :, -1]) if columns else beside
        below[..., 0] = beside[..., -1] if rows else corner
        right[..., 0] = over[..., -1] if columns else corner
        return Edges(below, right)

    def _grid(self, block: Any, ndim: int) -> Any:
        """A block with rows and columns last, and axes of length 1 where it is broadcast."""
        if block.ndim < ndim:
            block = block.reshape((1,) * (ndim - block.ndim) + block.shape)
        return self._moved(block)

    def _moved(self, array: Any) -> Any:
        are_last = self.axes == (array.ndim - 2, array.ndim - 1)
        return array if are_last else np.moveaxis(array, self.axes, (-2, -1))


def _around(given: Borders, above: Edges | None, left: Edges | None) -> Borders:
    """The borders of a tile: those given, or what its neighbours hand on."""
    over, beside, corner = given.above, given.left, given.corner
    if left is not None:
        beside, corner = left.right[..., 1:], left.right[..., 0]
    if above is not None:
        over, corner = above.below[..., 1:], above.below[..., 0]
    return Borders(over, beside, corner)
