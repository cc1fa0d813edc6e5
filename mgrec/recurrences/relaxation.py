"""Successive over-relaxation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..families.problem import Problem
from ..families.wavefront.door import check_relaxation
from ..placement import solved_by_kind


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
    """Sweep a grid by successive over-relaxation (Young [1]_), point after point in row order.

    One sweep is the loop ::

        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = x[i-1, j] + x[i, j-1] + x[i+1, j] + x[i, j+1] - rhs[i, j]
                x[i, j] = (1 - omega) * x[i, j] + omega / 4 * around

    whose fixed point is the discrete Poisson equation with unit spacing,
    x[i-1, j] + x[i, j-1] + x[i+1, j] + x[i, j+1] − 4·x[i, j] = rhs[i, j]. The outermost rows and
    columns are the Dirichlet border, and stay. With `omega` = 1 this is Gauss and Seidel's
    method.

    Parameters
    ----------
    x : array_like or dask.array.Array
        First guess and border (..., rows, columns), float32, float64 or integers, which count
        as float64. Axes before the last two are a batch of grids.
    rhs : array_like, scalar or dask.array.Array, optional
        Right-hand side, times the spacing squared; it broadcasts to `x`. 0 when not given. Its
        outermost rows and columns do not count.
    omega : float, optional
        The relaxation factor, between 0 and 2.
    sweeps : int, optional
        How many sweeps, at most.
    tol : float, optional
        A grid is done after a checked sweep whose largest update, the size of new − old, is
        below `tol`. An update is omega/4 times the residual that its point had. Every grid of a
        batch stops by itself.
    check_every : int, optional
        Every how many sweeps that is checked, where `tol` or `callback` is given.
    callback : callable, ``(sweeps, update) -> None``, optional
        Called after every checked sweep with the number of sweeps so far and their largest
        update, to show progress or draw convergence. Of one grid; not for Dask arrays.
    out : array, optional
        Where to write the result: C-contiguous, of its shape and dtype. Not for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        Of the shape and the chunks of `x`.

    Raises
    ------
    TypeError
        An array is of another dtype, or an option of another kind.
    ValueError
        `x` has fewer than two axes, `rhs` does not broadcast to it, or `omega`, `sweeps`, `tol`
        or `check_every` is out of range; `callback` is given for several grids.
    RuntimeError
        A CUDA graph is being captured: see below.

    Notes
    -----
    *Accuracy.* Every point is computed by the operations of the loop above in their order, in
    the dtype of the result, to which 1 − omega and omega/4 are rounded. Results have the bits
    of the loop, nan and inf included, for any chunks and threads.

    *Cost.* Rows and sweeps are pipelined in SIMD registers and on all threads. Memory for one
    more array, and for one more where `rhs` is given, of rows that are 31 columns longer in float32
    and 15 in float64; of a batch, for one grid a thread. Several sweeps at once are faster than
    calls of one each: they pass through the caches together.

    *On a GPU* up to 16 sweeps read and write the grid once; multiples of 4 go best. They take as
    long as the longest chain of points, about three times the rows and the columns, or as
    memory takes if that is longer: a small grid alone does not fill a GPU. Rows tell each
    other numbers in 32 MB, or in less than the grid takes. A grid that is not contiguous is
    copied, and so is an `rhs` that is broadcast along rows or columns. With `tol` the host waits
    for every checked sweep. A CUDA graph captures sweeps without `tol` of grids of few rows, in
    float32 of 255 for one sweep, 124 for four together and 48 for 16; others raise, since every
    launch needs a number of its own.

    *Dask.* The sides of a chunk alone cross its border, and it starts as soon as those around
    it are there: a sweep begins while others still run elsewhere. One task a chunk and sweep.
    With `tol`, all chunks of a grid wait for each other every `check_every` sweeps; tasks of
    sweeps that are not needed any more hand on what they get.

    References
    ----------
    .. [1] D. M. Young, "Iterative methods for solving partial difference equations of elliptic
       type", Trans. Amer. Math. Soc. 76 (1954); "Iterative Solution of Large Linear Systems",
       1971.
    .. [2] K. Hou, H. Wang, W. Feng, J. S. Vetter and S. Lee, "Highly efficient
       compensation-based parallelism for wavefront loops on GPUs", IPDPS 2018, whose loop
       x ← (x + its four neighbours) / 5 is `omega` = 4/5.

    Examples
    --------
    A plate of 0 degrees, one edge of which is kept at 100:

    >>> import numpy as np, mgrec
    >>> plate = np.zeros((5, 5))
    >>> plate[0] = 100
    >>> mgrec.sor(plate, omega=1.2, sweeps=200, tol=1e-6).round(2)
    array([[100.  , 100.  , 100.  , 100.  , 100.  ],
           [  0.  ,  42.86,  52.68,  42.86,   0.  ],
           [  0.  ,  18.75,  25.  ,  18.75,   0.  ],
           [  0.  ,   7.14,   9.82,   7.14,   0.  ],
           [  0.  ,   0.  ,   0.  ,   0.  ,   0.  ]])

    How far it is from its solution after every tenth sweep:

    >>> show = lambda sweeps, update: print(f"{sweeps} sweeps: {update:.0e}")
    >>> solved = mgrec.sor(plate, omega=1.2, sweeps=200, tol=1e-6, callback=show)
    10 sweeps: 3e-05
    20 sweeps: 5e-12
    """
    return check_relaxation(x, rhs, omega, sweeps, tol, check_every, callback, out)
