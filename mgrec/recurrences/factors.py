"""Tridiagonal matrices, factored once for many right-hand sides."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

import numpy as np

from ..arrays.kinds import is_lazy
from ..arrays.layout import shape_of
from ..families.problem import Problem
from ..families.tridiagonal.door import check_system
from ..placement import factors, solve, solve_beside, takes_foreign
from ..placement.expressions import keeps_kind


class TridiagonalFactor:
    """Tridiagonal matrices, ready for right-hand sides: see :func:`mgrec.factor_tridiagonal`.

    Attributes
    ----------
    shape : tuple of int
        Of the broadcast diagonals.
    dtype : numpy.dtype
        Of every solution.
    labels : xarray.DataArray or None
        Of the diagonals' dimensions and coordinates, where these are DataArrays.
    """

    def __init__(
        self, diagonals: tuple[Any, Any, Any], axis: Any, periodic: bool, check_finite: bool
    ) -> None:
        self.labels: Any = None
        self._diagonals, self._periodic, self._check_finite = diagonals, periodic, check_finite
        problem = self._problem(0, axis)
        self.shape, self.dtype = problem.shape, problem.recurrence.dtype
        self._axis = problem.recurrence.axis
        self._factors = factors.factor(problem)
        # Copies: a diagonal that is overwritten later changes nothing.
        self._diagonals = getattr(self._factors, "diagonals", None) or _copied(problem.operands)

    def persist(self, **options: Any) -> TridiagonalFactor:
        """The same, with factors of Dask arrays in the memory of the workers.

        Parameters
        ----------
        **options
            Of ``dask.array.Array.persist``.

        Returns
        -------
        TridiagonalFactor
        """
        own = copy(self)
        if is_lazy(self._factors):
            own._factors = self._factors.persist(**options)
        return own

    def _problem(self, b: Any, axis: Any, rhs_axis: Any = None, out: Any = None) -> Problem:
        dl, d, du = self._diagonals
        options = self._periodic, self._check_finite
        return check_system(dl, d, du, b, axis, rhs_axis, "stream", "auto", *options, out)

    def __repr__(self) -> str:
        how = "factored" if self._factors is not None else "solved anew"
        periodic = ", periodic=True" if self._periodic else ""
        return (
            f"TridiagonalFactor(shape={self.shape}, dtype={self.dtype}, axis={self._axis}"
            f"{periodic}): {how}"
        )

    @partial(takes_foreign, labelled=solve_beside)
    @keeps_kind
    def solve(self, b: Any, *, rhs_axis: int | None = None, out: Any = None) -> Any:
        """Solve for right-hand sides.

        Parameters
        ----------
        b : array_like, scalar or dask.array.Array
            Broadcasts against the diagonals, or has an axis `rhs_axis` besides. Of a dtype that
            promotes to that of the factor.
        rhs_axis : int, optional
            The axis of `b` that the diagonals do not have.
        out : array, optional
            Where to write x: C-contiguous, of its shape and dtype, sharing no memory with `b`.

        Returns
        -------
        array or dask.array.Array
            As :func:`mgrec.solve_tridiagonal` with these diagonals. A DataArray `b` is aligned
            with diagonals that were DataArrays by name; one without names counts axes.

        Raises
        ------
        TypeError, ValueError
            As there; a dtype that does not promote to the factor's is a TypeError.
        """
        problem = self._problem(b, self._axis_beside(b, rhs_axis), rhs_axis, out)
        if problem.recurrence.dtype != self.dtype:
            raise TypeError(
                f"b must promote to {self.dtype}, the dtype of the factor; got "
                f"{getattr(b, 'dtype', type(b).__name__)}: factor diagonals of the dtype "
                f"{problem.recurrence.dtype}"
            )
        x = None
        if self._factors is not None:
            x = factors.solve(self._factors, self._shape_beside(problem), problem)
        return solve(problem) if x is None else x

    def _shape_beside(self, problem: Problem) -> tuple[int, ...]:
        """The shape of the diagonals, with an axis of length 1 for right-hand sides."""
        rhs_axis, shape = problem.recurrence.rhs_axis, problem.shape
        own = (1,) * (len(shape) - len(self.shape) - (rhs_axis is not None)) + self.shape
        return own if rhs_axis is None else (*own[:rhs_axis], 1, *own[rhs_axis:])

    def _axis_beside(self, b: Any, rhs_axis: Any) -> int:
        """The axis of the unknowns, from the end, of the result for `b`."""
        axis = self._axis - len(self.shape)
        if not isinstance(rhs_axis, (int, np.integer)):
            return axis
        ndim = max(len(shape_of(b)), 1 + len(self.shape))
        after = -rhs_axis - 1 if rhs_axis < 0 else ndim - 1 - int(rhs_axis)
        return axis - 1 if after < -axis else axis


def _copied(operands: Any) -> tuple[Any, Any, Any]:
    dl, d, du = (each if is_lazy(each) else each.copy() for each in operands[:3])
    return dl, d, du


@takes_foreign
@keeps_kind
def factor_tridiagonal(
    dl: Any,
    d: Any,
    du: Any,
    *,
    axis: int = -1,
    periodic: bool = False,
    check_finite: bool = True,
) -> TridiagonalFactor:
    """Factor tridiagonal matrices for repeated right-hand sides, as implicit time steps have them.

    Parameters
    ----------
    dl, d, du : array_like, scalar or dask.array.Array
        The diagonals below, on and above the main one, as of :func:`mgrec.solve_tridiagonal`; an
        array at least, which has the n unknowns along `axis`.
    axis : int, optional
        The axis of the unknowns, of the broadcast diagonals.
    periodic : bool, optional
        Whether the ends meet.
    check_finite : bool, optional
        Whether nan and inf in the diagonals, and in right-hand sides, are errors.

    Returns
    -------
    TridiagonalFactor
        Its ``solve(b)`` is ``solve_tridiagonal(dl, d, du, b)``, up to rounding.

    Raises
    ------
    numpy.linalg.LinAlgError
        A matrix is singular: a pivot is 0, in :func:`mgrec.solve_tridiagonal` as well. NumPy
        arrays say so here, Dask arrays when they are computed.
    TypeError, ValueError
        As :func:`mgrec.solve_tridiagonal`.

    Notes
    -----
    *Method.* NumPy matrices are factored by Gaussian elimination with scaled partial pivoting,
    from both ends to the middle. With its pivots and multipliers a solve is two chains of steps
    each way, one line after the other, or lines along a slow axis side by side.

    *Dask arrays.* Where systems are whole in their chunks, a task factors those of a chunk, lazily:
    ``persist()`` keeps the factors in the memory of the workers, and a solve is then one task a
    chunk; without it every computation factors anew. Right-hand sides are Dask arrays in the same
    chunks, or arrays.

    *Where nothing is factored.* CuPy arrays, periodic systems, lines in several chunks, Dask
    right-hand sides of NumPy diagonals or in other chunks, and matrices whose factors overflow or
    are singular but for rounding keep their diagonals and are solved anew each time. So is a
    single line of 2**20 unknowns or more on more than four threads. On a cluster
    :func:`mgrec.plan` makes repeated solves of one shape fast.

    *Accuracy.* That of LAPACK's ``gttrf`` and ``gttrs``.

    *Cost.* Factors take 3 words an unknown of the matrices, and 4 and a byte where rows were
    exchanged, beside a copy of the diagonals. On one core of an AMD EPYC (Zen 4), in float64, a
    solve took 3.0 ns an unknown of one line of 10**5, where `solve_tridiagonal` took 6.0; 3.0 of
    2**22, where that took 9.2; and 4.3 of 4,000 side by side, where that took 7.5. Factoring took
    14 to 25. A call takes 20 µs at least. `solve_tridiagonal` eliminates several lines of up to
    2**17 unknowns at once: of 4,000 lines of 1,000 factors saved a fifth of the time, none where
    `dl` and `du` are numbers, and they took 1.2 times as long where `d` is one as well.

    Examples
    --------
    Three implicit steps of the heat equation:

    >>> import numpy as np, mgrec
    >>> step = mgrec.factor_tridiagonal(-1.0, np.full(5, 3.0), -1.0)
    >>> step
    TridiagonalFactor(shape=(5,), dtype=float64, axis=0): factored
    >>> u = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    >>> for _ in range(3):
    ...     u = step.solve(u)
    >>> u.round(4)
    array([0.071 , 0.1389, 0.179 , 0.1389, 0.071 ])
    """
    return TridiagonalFactor((dl, d, du), axis, periodic, check_finite)
