"""A[i, j] = (A[i, j-1] ∘ b0) ◇ (A[i-1, j] ∘ b1) ◇ (A[i-1, j-1] ∘ b2) ◇ local[i, j]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....algebra.operators import Operators
from ...family import Arrays, Pack, Shape
from ...kernels import Backend
from ..recurrence import Wavefront


@dataclass(frozen=True)
class Loop:
    """What a wavefront loop does in every cell.

    Attributes
    ----------
    operators : Operators
    floor : scalar, optional
        The least result.
    """

    operators: Operators
    floor: Any = None


@dataclass(frozen=True)
class Borders:
    """What stands around a tile above and to the left, or what its neighbours need of it.

    Attributes
    ----------
    row : array (..., columns + 1)
        The row above a tile, or its own last row, after the corner to the left of it.
    column : array (..., rows + 1)
        The column to the left, or its own last column, after the corner above it.
    """

    row: np.ndarray
    column: np.ndarray


@dataclass(frozen=True, kw_only=True)
class WavefrontLoop(Wavefront):
    """The blocks of a pack are b0, b1, b2, the borders above, left and corner, and `local`.

    Borders broadcast along the axes that they lack; only tiles at the border use them.
    """

    loop: Loop

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Borders]:
        determine = backend.kernels(self.family).determine
        result = out[0] if out else backend.empty(shape, self.dtype)
        *weights, over, beside, corner, local = (self._grid(b, len(shape)) for b in pack.blocks)
        table = np.moveaxis(result, self.axes, (-2, -1))
        *batch, rows, columns = table.shape
        row = np.empty((*batch, columns + 1), self.dtype)
        column = np.empty((*batch, rows + 1), self.dtype)
        row[..., 1:], column[..., 1:] = over[..., 0, :], beside[..., :, 0]
        row[..., 0] = column[..., 0] = corner[..., 0, 0]
        if left is not None:
            column[...] = left.column
            row[..., 0] = column[..., 0]
        if above is not None:
            row[...] = above.row
            column[..., 0] = row[..., 0]
        determine(self.loop, local, weights, Borders(row, column), table)
        return (result,), _edges(table, row, column)

    def _grid(self, block: Any, ndim: int) -> Any:
        """A block with rows and columns last, and axes of length 1 where it is broadcast."""
        block = block.reshape((1,) * (ndim - block.ndim) + block.shape)
        return np.moveaxis(block, self.axes, (-2, -1))


def _edges(table: np.ndarray, row: np.ndarray, column: np.ndarray) -> Borders:
    """Of a tile, from the row above it and the column to the left of it."""
    *_, rows, columns = table.shape
    below, right = row.copy(), column.copy()
    below[..., 0], right[..., 0] = column[..., -1], row[..., -1]
    if rows:
        below[..., 1:] = table[..., -1, :]
    if columns:
        right[..., 1:] = table[..., :, -1]
    return Borders(below, right)
