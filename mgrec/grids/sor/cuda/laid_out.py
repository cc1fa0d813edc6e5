"""Tiles of Dask arrays of CuPy arrays: grids on the device from one sweep to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sweeps import Sweeps
from .grids import determine_relaxation


def lay_out_grids(grids: Any, rhs: Any = None) -> LaidOutGrids:
    """A batch of contiguous grids (..., rows, columns), and right-hand sides, as they are."""
    return LaidOutGrids(grids, rhs)


@dataclass(frozen=True)
class LaidOutGrids:
    """A batch of grids on a device.

    Attributes
    ----------
    values, rhs : array (..., rows, columns)
        `rhs` may be None.
    """

    values: Any
    rhs: Any

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) * (1 if self.rhs is None else 2)

    def row(self, k: int) -> Any:
        """A row (..., columns)."""
        return self.values[..., k, :]

    def column(self, k: int) -> Any:
        """A column (..., rows)."""
        return self.values[..., k]

    def swept(
        self, loop: Sweeps, borders: Sequence[Any], inside: tuple[slice, slice], done: Any
    ) -> tuple[LaidOutGrids, np.ndarray]:
        """The grids after the sweeps of a loop, and the largest update of each.

        Parameters
        ----------
        loop : Sweeps
        borders : four arrays in host memory, or None
            The row above, the column to the left, the row below and the column to the right.
        inside : (slice, slice)
            Which columns the rows have, and which rows the columns.
        done : array of bool, optional
            Grids that stay.
        """
        left = None if done is None else np.flatnonzero(~done)
        with self.values.device:
            # Tasks must not write into what they get.
            swept = LaidOutGrids(self.values.copy(), self.rhs)
            swept._surround(borders, inside)
            updates = determine_relaxation(loop, swept.values, self.rhs, swept.values, left)
        return swept, updates

    def _surround(self, borders: Sequence[Any], inside: tuple[slice, slice]) -> None:
        import cupy

        (above, left, below, right), (down, across) = borders, inside
        for k, row in ((0, above), (-1, below)):
            if row is not None:
                self.row(k)[..., across] = cupy.asarray(row)
        for k, column in ((0, left), (-1, right)):
            if column is not None:
                self.column(k)[..., down] = cupy.asarray(column)

    def write(self) -> Any:
        """The grids as an array."""
        return self.values
