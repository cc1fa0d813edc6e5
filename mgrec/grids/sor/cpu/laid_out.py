"""Tiles of Dask arrays: grids that stay strips from one sweep to the next.

Tasks must not write into what they get, so that a sweep copies the strips. Grids that were
skewed and straightened in every sweep took 3.4 ns a point on one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..sweeps import Sweeps
from .grids import Strips, strips_shape
from .strips import skew, straighten


def lay_out_grids(grids: np.ndarray, rhs: np.ndarray | None = None) -> LaidOutGrids:
    """A batch of contiguous grids (..., rows, columns), and right-hand sides, as strips."""
    return LaidOutGrids(_strips_of(grids), None if rhs is None else _strips_of(rhs), grids.shape)


def _strips_of(grids: np.ndarray) -> np.ndarray:
    found = np.empty((*grids.shape[:-2], *strips_shape(grids)), grids.dtype)
    for k in np.ndindex(grids.shape[:-2]):
        skew(grids[k], found[k], 0, found.shape[-3])
    return found


@dataclass(frozen=True)
class LaidOutGrids:
    """A batch of grids as strips.

    Attributes
    ----------
    values, rhs : array (..., strips, steps, lanes)
        `rhs` may be None.
    shape : tuple of int
        Of the batch as an array.
    """

    values: np.ndarray
    rhs: np.ndarray | None
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        return self.values.nbytes * (1 if self.rhs is None else 2)

    def row(self, k: int) -> np.ndarray:
        """A row (..., columns), which may be written."""
        q, lane = divmod(k, self.values.shape[-1])
        return self.values[..., q, lane : lane + self.shape[-1], lane]

    def column(self, k: int) -> np.ndarray:
        """A copy of a column (..., rows)."""
        return self.values[self._places(k, slice(None))]

    def _places(self, k: int, rows: slice) -> tuple[Any, ...]:
        """Where points of a column are."""
        q, lanes = np.divmod(np.arange(self.shape[-2])[rows], self.values.shape[-1])
        return ..., q, k + lanes, lanes

    def swept(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[LaidOutGrids, np.ndarray]:
        """The grids after the sweeps of a loop, and the largest update of each.

        Parameters
        ----------
        loop : Sweeps
        borders : four arrays, or None
            The row above, the column to the left, the row below and the column to the right.
        inside : (slice, slice)
            Which columns the rows have, and which rows the columns.
        done : array of bool, optional
            Grids that stay.
        """
        swept, updates = replace(self, values=self.values.copy()), np.full(self.shape[:-2], np.nan)
        swept._surround(borders, inside)
        for k in np.ndindex(updates.shape):
            if done is not None and done[k]:
                continue
            rhs = None if self.rhs is None else self.rhs[k]
            strips = Strips(swept.values[k], rhs, self.shape[-2:], loop.omega)
            if loop.tol is None:
                strips.sweep(loop.sweeps)
            else:
                updates[k] = strips.update(loop.sweeps)
        return swept, updates

    def _surround(self, borders: Sequence[Any], inside: tuple[slice, slice]) -> None:
        (above, left, below, right), (down, across) = borders, inside
        rows, columns = self.shape[-2:]
        for k, row in ((0, above), (rows - 1, below)):
            if row is not None:
                self.row(k)[..., across] = row
        for k, column in ((0, left), (columns - 1, right)):
            if column is not None:
                self.values[self._places(k, down)] = column

    def write(self) -> np.ndarray:
        """The grids as an array."""
        grids = np.empty(self.shape, self.dtype)
        for k in np.ndindex(self.shape[:-2]):
            straighten(self.values[k], grids[k], 0, self.values.shape[-3])
        return grids
