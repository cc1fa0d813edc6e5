"""Successive over-relaxation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.contract.problem import Problem
from ...solve import solved_by_kind
from .arguments import check_relaxation


@partial(solved_by_kind, is_on_host=False)
def sor(
    x: Any,
    rhs: Any = None,
    *,
    omega: float = 1.0,
    sweeps: int = 1,
    tol: float | None = None,
    check_every: int = 10,
    callback: Callable[[int, float], None] | None = None,
    out: Any = None,
) -> Problem:
    """Apply sweeps of successive over-relaxation to a grid, point after point in row order.

    One sweep (Young [1]_) is the loop ::

        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = x[i-1, j] + x[i, j-1] + x[i+1, j] + x[i, j+1] - rhs[i, j]
                x[i, j] = (1 - omega) * x[i, j] + omega / 4 * around

    Its fixed point is the discrete Poisson equation with unit spacing, x[i-1, j] + x[i, j-1] +
    x[i+1, j] + x[i, j+1] − 4·x[i, j] = rhs[i, j]. The outermost rows and columns are the Dirichlet
    boundary and do not change. `omega` = 1 is the Gauss-Seidel method.

    Parameters
    ----------
    x : array_like or dask.array.Array
        Initial values and boundary (..., rows, columns) of float32, float64 or integers, which are
        converted to float64. Axes before the last two are a batch of grids.
    rhs : array_like, scalar or dask.array.Array, optional
        Right-hand side times the square of the spacing. It broadcasts to `x`. Its outermost rows
        and columns are ignored. The default is 0.
    omega : float, optional
        Relaxation factor between 0 and 2.
    sweeps : int, optional
        Maximum number of sweeps.
    tol : float, optional
        Tolerance. A grid is finished after a checked sweep whose largest update |new − old| is
        below `tol`. An update is omega/4 times the residual of its point. Each grid of a batch
        is finished on its own.
    check_every : int, optional
        Number of sweeps between two checks, if `tol` or `callback` is given.
    callback : callable, ``(sweeps, update) -> None``, optional
        Function that is called after each checked sweep with the number of sweeps so far and their
        largest update. It is supported for one grid, and not for Dask arrays.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which the result is written.
        Not supported for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        Grid after the sweeps, of the shape and the chunks of `x`.

    Raises
    ------
    TypeError
        If a dtype is not supported, or an option has the wrong type.
    ValueError
        If `x` has fewer than two axes, `rhs` does not broadcast to it, `omega`, `sweeps`, `tol` or
        `check_every` is out of range, or `callback` is given for several grids.
    RuntimeError
        If a CUDA graph that is being captured cannot contain the call; see
        :ref:`guide-cuda-graphs`.

    Notes
    -----
    *Accuracy.* Results have the bits of the loop, nan and inf included, for any chunks and threads.
    The loop runs in the dtype of the result, to which 1 − omega and omega/4 are rounded.

    *Cost.* Several sweeps in one call are faster than one call for each, because they pass through
    the caches together; a GPU reads and writes the grid once for at most 16 sweeps. A call needs
    memory for one more array, and for another one if `rhs` is given. Over Dask one task computes a
    chunk and a sweep. :doc:`/how/grids` has the details.

    References
    ----------
    .. [1] D. M. Young, "Iterative methods for solving partial difference equations of elliptic
       type", Trans. Amer. Math. Soc. 76 (1954); "Iterative Solution of Large Linear Systems",
       1971.

    Examples
    --------
    A plate of 0 degrees, one edge of which is kept at 100:

    >>> import numpy as np, mgrec
    >>> plate = np.zeros((4, 4))
    >>> plate[0] = 100
    >>> mgrec.sor(plate, omega=1.2, sweeps=200, tol=1e-6).round(2)
    array([[100. , 100. , 100. , 100. ],
           [  0. ,  37.5,  37.5,   0. ],
           [  0. ,  12.5,  12.5,   0. ],
           [  0. ,   0. ,   0. ,   0. ]])
    """
    return check_relaxation(x, rhs, omega, sweeps, tol, check_every, callback, out)
