"""Successive over-relaxation (Young 1954) of the five-point equation, swept row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..family import Arrays, Pack, Shape, Swept
from ..kernels import Backend


@dataclass(frozen=True)
class Sweeps:
    """The sweeps of a loop over a grid.

    Attributes
    ----------
    omega : float
        The relaxation factor.
    sweeps : int
        At most, 1 or more.
    tol : float, optional
        A checked sweep whose largest update is below it is the last one. None: none is checked.
    check_every : int
        From one checked sweep to the next; the last of all is checked as well.
    """

    omega: float
    sweeps: int = 1
    tol: float | None = None
    check_every: int = 1

    @property
    def runs(self) -> list[int]:
        """Sweeps up to each checked one, that included; all at once where none is checked.

        Examples
        --------
        >>> Sweeps(1.5, 25, 1e-6, 10).runs
        [10, 10, 5]
        """
        if self.tol is None:
            return [self.sweeps]
        whole, rest = divmod(self.sweeps, self.check_every)
        return [self.check_every] * whole + [rest] * bool(rest)


@dataclass(frozen=True)
class Sides:
    """The outermost rows and columns of a tile, and the largest update of its last sweep.

    Attributes
    ----------
    first, last : array (..., columns)
        Rows.
    left, right : array (..., rows)
        Columns.
    update : array (...)
        nan where the sweep was not checked.
    """

    first: np.ndarray
    last: np.ndarray
    left: np.ndarray
    right: np.ndarray
    update: np.ndarray


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

    def sides(self, tile: np.ndarray, update: Any = np.nan) -> Sides:
        first, last, left, right = map(
            np.array, (tile[..., 0, :], tile[..., -1, :], tile[..., 0], tile[..., -1])
        )
        return Sides(first, last, left, right, np.asarray(update))

    def sweep(
        self, backend: Backend, pack: Pack, shape: Shape, around: Arrays, is_last: bool, done: Any
    ) -> tuple[np.ndarray, Sides]:
        *rhs, x = pack.blocks
        if done is not None and done.all():
            return x, self.sides(x, np.zeros(done.shape))
        inside = _inside(around)
        grid = _surrounded(x, around, inside)
        side = None
        if rhs:
            side = np.zeros_like(grid)
            side[inside] = rhs[0]
        loop = replace(self.loop, sweeps=1, tol=self.loop.tol if is_last else None)
        update = backend.kernels(self.family).determine(loop, grid, side, grid)
        tile = grid[inside]
        if done is not None:
            tile = np.where(done[..., None, None], x, tile)
        return tile, self.sides(tile, update)

    def is_done(self, done: Any, sides: Sequence[Sides]) -> np.ndarray:
        found = np.max([side.update for side in sides], axis=0) < self.loop.tol
        return found if done is None else found | done


def _inside(around: Arrays) -> tuple[Any, ...]:
    """Where a tile is in a grid that has its neighbours' sides as well."""
    above, left, below, right = (None if side is None else 1 for side in around)
    return ..., slice(above, below and -1), slice(left, right and -1)


def _surrounded(tile: np.ndarray, around: Arrays, inside: tuple[Any, ...]) -> np.ndarray:
    """A tile between its neighbours' sides; the corners, which no point needs, are 0."""
    above, left, below, right = around
    *batch, rows, columns = tile.shape
    rows += sum(side is not None for side in (above, below))
    columns += sum(side is not None for side in (left, right))
    grid, (_, down, across) = np.zeros((*batch, rows, columns), tile.dtype), inside
    grid[inside] = tile
    if above is not None:
        grid[..., 0, across] = above.last
    if left is not None:
        grid[..., down, 0] = left.right
    if below is not None:
        grid[..., -1, across] = below.first
    if right is not None:
        grid[..., down, -1] = right.left
    return grid
