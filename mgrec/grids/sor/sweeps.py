"""The sweeps of a loop over a grid, and what tiles of the grid tell each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
    def sweep_counts(self) -> list[int]:
        """Sweeps up to each checked one, that included; all at once where none is checked.

        Examples
        --------
        >>> Sweeps(1.5, 25, 1e-6, 10).sweep_counts
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
