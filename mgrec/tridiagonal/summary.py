"""What a chunk of a tridiagonal system says of the unknowns at its ends: two rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class InterfaceRows:
    """The rows of a chunk without its inner unknowns.

    A chunk of n rows, ``dl[i]·x[i-1] + d[i]·x[i] + du[i]·x[i+1] = b[i]`` for i = 0 … n-1, holds
    the unknowns x[-1] … x[n]. Eliminating x[1] … x[n-2] leaves, for r = 0 and 1::

        rows[r, 0]·x[-1] + rows[r, 1]·x[0] + rows[r, 2]·x[n-1] + rows[r, 3]·x[n] = rows[r, 4]

    A chunk of one row counts its unknown twice: the second row is ``x[0] - x[n-1] = 0``.

    Attributes
    ----------
    rows : array (2, 5, outer, inner), or None
        Axis 1: the coefficients of x before the chunk, of its first, of its last and of the
        one after it, and the right-hand side. Where the chunk's operands hold nan or inf, nan;
        where its inner columns depend on each other, so that the system is singular, 0. None
        for a chunk of no rows.
    starts, shape : tuple of int
        Where the chunk begins, and its shape: for messages.
    """

    rows: np.ndarray | None
    starts: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
