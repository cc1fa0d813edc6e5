"""A[i, j] = (A[i, j-1] ∘ b0) ◇ (A[i-1, j] ∘ b1) ◇ (A[i-1, j-1] ∘ b2) ◇ local[i, j]."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.algebra.operators import Operators, check_composes
from ...core.arrays.array_types import to_host
from ...core.arrays.validation import is_one_of
from ...core.contract.kernels import Backend, PreparedSolver
from ...core.contract.recurrence import Arrays, ChunkInputs, Shape
from ..recurrence import Wavefront

STRATEGIES = ("hybrid", "tiles", "compensation", "hyperplane")

logger = logging.getLogger("mgrec")


@dataclass(frozen=True)
class Loop:
    """The body of a wavefront loop, and the order in which cells are computed."""

    operators: Operators
    floor: Any = None
    strategy: str = "hybrid"


def check_strategy(strategy: Any, operators: Operators, kind: str, has_floor: bool) -> None:
    """Raise ValueError if a strategy is unknown, or does not support these operators and dtype."""
    if not is_one_of(strategy, STRATEGIES):
        wanted = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"strategy must be one of {wanted}; got {strategy!r}")
    if strategy != "compensation":
        return
    if has_floor and operators.accumulate != "max":
        raise ValueError(
            "strategy must be 'tiles' or 'hybrid' if there is a floor and ◇ is not 'max', because "
            "the maximum of a sum and the floor is not a scan; got 'compensation'"
        )
    check_composes(operators, kind)


def is_compensable(loop: Loop, dtype: np.dtype[Any]) -> bool:
    """Return whether ``"hybrid"`` may choose compensation."""
    try:
        check_strategy("compensation", loop.operators, dtype.kind, loop.floor is not None)
    except ValueError:
        return False
    return True


def log_strategy(loop: Loop, strategy: str, table: Any) -> None:
    """Log the strategy that ``"hybrid"`` has chosen, at level DEBUG."""
    if loop.strategy == "hybrid" and logger.isEnabledFor(logging.DEBUG):
        logger.debug("wavefront: %s, shape %s, %s", strategy, table.shape, table.dtype)


@dataclass(frozen=True)
class Borders:
    """The values above and to the left of a tile; each array broadcasts to the tile's grids."""

    above: Any  # (..., columns)
    left: Any  # (..., rows)
    corner: Any  # (...): above and to the left of the first cell


@dataclass(frozen=True)
class Edges:
    """The values that the tiles below and to the right need, in host memory.

    `below` (..., columns + 1) is the last row, preceded by the value to the left of it. `right`
    (..., rows + 1) is the last column, preceded by the value above it.
    """

    below: np.ndarray
    right: np.ndarray


@dataclass(frozen=True, kw_only=True)
class WavefrontLoop(Wavefront):
    """A wavefront loop. The blocks of a chunk are b0, b1, b2, above, left, corner and `local`.

    Borders broadcast along the axes that they do not have. Only tiles at the border use them.
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
        local, weights, array_borders, table = self._tile(inputs, result)
        borders = _tile_borders(array_borders, above, left)
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
        """Return `local`, the weights, the borders of the whole array, and the table."""
        *weights, above, left, corner, local = (self._grid(b, result.ndim) for b in inputs.blocks)
        borders = Borders(above[..., 0, :], left[..., :, 0], corner[..., 0, 0])
        return local, weights, borders, self.with_axes_last(result)

    def export_edges(self, edges: tuple[Any, Borders]) -> Edges:
        table, borders = edges
        *batch, rows, columns = table.shape
        above, left, corner = map(to_host, (borders.above, borders.left, borders.corner))
        below = np.empty((*batch, columns + 1), table.dtype)
        right = np.empty((*batch, rows + 1), table.dtype)
        below[..., 1:] = to_host(table[..., -1, :]) if rows else above
        right[..., 1:] = to_host(table[..., :, -1]) if columns else left
        below[..., 0] = left[..., -1] if rows else corner
        right[..., 0] = above[..., -1] if columns else corner
        return Edges(below, right)

    def _grid(self, block: Any, ndim: int) -> Any:
        """Return a block with rows and columns last, and length 1 along broadcast axes."""
        if block.ndim < ndim:
            block = block.reshape((1,) * (ndim - block.ndim) + block.shape)
        return self.with_axes_last(block)


def _tile_borders(array_borders: Borders, above: Edges | None, left: Edges | None) -> Borders:
    """Return the borders of a tile: edges of its neighbours, else borders of the whole array."""
    over, beside, corner = array_borders.above, array_borders.left, array_borders.corner
    if left is not None:
        beside, corner = left.right[..., 1:], left.right[..., 0]
    if above is not None:
        over, corner = above.below[..., 1:], above.below[..., 0]
    return Borders(over, beside, corner)
