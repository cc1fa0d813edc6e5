"""Successive over-relaxation (Young 1954) of the five-point equation, swept row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..family import Arrays, Pack, Shape
from ..kernels import Backend
from ..swept import Swept
from .sweeps import Sides, Sweeps


@dataclass(frozen=True)
class Held:
    """A tile and its neighbours' sides between two sweeps, in the form in which it is swept.

    Attributes
    ----------
    grids : what `hold` of the kernels gives
        With one row or column more where the tile has a neighbour.
    inside : (slice, slice)
        Where the tile is.
    shape : tuple of int
        Of the tile.
    """

    grids: Any
    inside: tuple[slice, slice]
    shape: Shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.grids.dtype

    @property
    def nbytes(self) -> int:
        return self.grids.nbytes

    def __sizeof__(self) -> int:
        return self.nbytes

    @property
    def ends(self) -> tuple[int, int, int, int]:
        """The first and last row, and the first and last column of the tile."""
        (down, across), (rows, columns) = self.inside, self.shape[-2:]
        top, left = down.start or 0, across.start or 0
        return top, top + rows - 1, left, left + columns - 1

    def sides(self, update: np.ndarray) -> Sides:
        (down, across), (first, last, left, right) = self.inside, self.ends
        row, column = self.grids.row, self.grids.column
        return Sides(
            first=np.array(row(first)[..., across]),
            last=np.array(row(last)[..., across]),
            left=np.array(column(left)[..., down]),
            right=np.array(column(right)[..., down]),
            update=update,
        )


@dataclass(frozen=True, kw_only=True)
class Relaxation(Swept):
    """Sweeps over grids, whose outermost rows and columns stay: the last two axes.

    The blocks of a pack are `rhs`, if it is given, and the grid.
    """

    family = "wavefront"
    loop: Sweeps

    @property
    def indexed_by(self) -> str:
        return "a sweep"

    @property
    def runs(self) -> list[int]:
        return self.loop.runs

    def determine(
        self, backend: Backend, pack: Pack, shape: Shape, above: Any, left: Any, out: Arrays = ()
    ) -> tuple[Arrays, Any]:
        """All sweeps over whole grids."""
        *rhs, x = pack.blocks
        result = out[0] if out else backend.empty(shape, self.dtype)
        side = np.broadcast_to(rhs[0], shape) if rhs else None
        backend.kernels(self.family).determine(self.loop, x, side, result)
        return (result,), None

    def sides(self, tile: np.ndarray) -> Sides:
        sides = tile[..., 0, :], tile[..., -1, :], tile[..., 0], tile[..., -1]
        first, last, left, right = map(np.array, sides)
        return Sides(first, last, left, right, np.asarray(np.nan))

    def tile(self, state: Any) -> np.ndarray:
        return state.grids.write()[(..., *state.inside)] if isinstance(state, Held) else state

    def sweep(
        self, backend: Backend, pack: Pack, shape: Shape, around: Arrays, is_last: bool, done: Any
    ) -> tuple[Held, Sides]:
        *rhs, tile = pack.blocks
        held = tile if isinstance(tile, Held) else self._hold(backend, rhs, tile, around)
        if done is not None and done.all():
            return held, held.sides(np.zeros(done.shape))
        loop = replace(self.loop, sweeps=1, tol=self.loop.tol if is_last else None)
        above, left, below, right = around
        borders = (
            None if above is None else above.last,
            None if left is None else left.right,
            None if below is None else below.first,
            None if right is None else right.left,
        )
        grids, update = held.grids.swept(loop, borders, held.inside, done)
        held = replace(held, grids=grids)
        return held, held.sides(update)

    def _hold(self, backend: Backend, rhs: Sequence[Any], tile: Any, around: Arrays) -> Held:
        """A tile before the first sweep; its neighbours' sides come with every sweep."""
        above, left, below, right = (int(side is not None) for side in around)
        *batch, rows, columns = tile.shape
        inside = slice(above, above + rows), slice(left, left + columns)
        shape = (*batch, above + rows + below, left + columns + right)
        arrays = []
        for block in (tile, *rhs):
            arrays.append(np.zeros(shape, self.dtype))
            arrays[-1][(..., *inside)] = block
        return Held(backend.kernels(self.family).hold(*arrays), inside, tile.shape)

    def is_done(self, done: Any, sides: Sequence[Sides]) -> np.ndarray:
        found = np.max([side.update for side in sides], axis=0) < self.loop.tol
        return found if done is None else found | done
