"""Tridiagonal matrices, factored once for many right-hand sides."""

from __future__ import annotations

from copy import copy
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy
from ..core.arrays.chunk import shape_of
from ..core.arrays.validation import check_out
from ..core.backends import common_backend
from ..core.contract.problem import Problem
from ..core.contract.recurrence import ChunkInputs
from ..distributed.expressions import accepts_expressions
from ..solve import solve, solve_with_factors, with_interop
from .api import check_system
from .factors import check_in_host_memory, factor_chunk, solve_chunk


class TridiagonalFactor:
    """Factored tridiagonal matrices, which :func:`mgrec.factor_tridiagonal` returns.

    Attributes
    ----------
    shape : tuple of int
        Shape of the broadcast diagonals.
    dtype : numpy.dtype
        Dtype of each solution.
    labels : xarray.DataArray or None
        Dimensions and coordinates of the diagonals, if these are DataArrays.
    """

    def __init__(
        self, diagonals: tuple[Any, Any, Any], axis: Any, periodic: bool, check_finite: bool
    ) -> None:
        self.labels: Any = None
        self._diagonals, self._periodic, self._check_finite = diagonals, periodic, check_finite
        problem = self._problem(0, axis)
        self.shape, self.dtype = problem.shape, problem.recurrence.dtype
        self._axis = problem.recurrence.axis
        check_in_host_memory("dl, d and du", common_backend(problem.operands))
        self._factors = _factor(problem)
        # Copies, so that a diagonal that is overwritten later has no effect.
        copies = (array if is_lazy(array) else array.copy() for array in problem.operands[:3])
        self._diagonals = getattr(self._factors, "diagonals", None) or tuple(copies)

    def persist(self, **options: Any) -> TridiagonalFactor:
        """Return the same factor with factors of Dask arrays in the memory of the workers.

        Parameters
        ----------
        **options
            Options of ``dask.array.Array.persist``.

        Returns
        -------
        TridiagonalFactor
        """
        persisted = copy(self)
        if is_lazy(self._factors):
            persisted._factors = self._factors.persist(**options)
        return persisted

    def _problem(self, b: Any, axis: Any, rhs_axis: Any = None, out: Any = None) -> Problem:
        options = self._periodic, self._check_finite, out
        return check_system((*self._diagonals, b), axis, rhs_axis, "stream", "auto", *options)

    def __repr__(self) -> str:
        how = "factored" if self._factors is not None else "not factored"
        periodic = ", periodic=True" if self._periodic else ""
        return (
            f"TridiagonalFactor(shape={self.shape}, dtype={self.dtype}, axis={self._axis}{periodic}): {how}"
        )

    @partial(with_interop, labelled=solve_with_factors)
    @accepts_expressions
    def solve(self, b: Any, *, rhs_axis: int | None = None, out: Any = None) -> Any:
        """Solve for right-hand sides.

        Parameters
        ----------
        b : array_like, scalar or dask.array.Array
            Right-hand sides, which broadcast against the diagonals, or have the axis `rhs_axis` in
            addition. Their dtype must promote to that of the factor.
        rhs_axis : int, optional
            Axis of `b` that the diagonals do not have.
        out : array, optional
            C-contiguous array of the shape and dtype of the result, into which x is written. It
            must not share memory with `b`.

        Returns
        -------
        array or dask.array.Array
            x, as :func:`mgrec.solve_tridiagonal` returns it for these diagonals. A DataArray `b` is
            aligned by name with diagonals that were DataArrays. An array without names broadcasts
            by position.

        Raises
        ------
        TypeError, ValueError
            As for :func:`mgrec.solve_tridiagonal`. A dtype that does not promote to that of the
            factor raises TypeError, and so do arrays on a GPU.
        """
        problem = self._problem(b, self._axis_in_result(b, rhs_axis), rhs_axis, out)
        check_in_host_memory("b", common_backend(problem.operands))
        if problem.recurrence.dtype != self.dtype:
            raise TypeError(
                f"b must promote to {self.dtype}, the dtype of the factor; got "
                f"{getattr(b, 'dtype', type(b).__name__)}: factor diagonals of the dtype "
                f"{problem.recurrence.dtype}"
            )
        x = None
        if is_lazy(self._factors):
            from .factor_dask import solve_factored

            x = solve_factored(self._factors, problem)
        elif self._factors is not None and not problem.is_lazy:
            from ..engines.cpu.threads import threads_for

            shape, operands = problem.shape, problem.operands
            target = check_out(out, shape, self.dtype, operands)
            threads = threads_for(prod(shape))
            x = solve_chunk(self._factors, problem.recurrence, shape, operands[3], threads, target)
        return solve(problem) if x is None else x

    def _axis_in_result(self, b: Any, rhs_axis: Any) -> int:
        """Return the axis of the unknowns, from the end, in the result for `b`."""
        axis = self._axis - len(self.shape)
        if not isinstance(rhs_axis, (int, np.integer)):
            return axis
        ndim = max(len(shape_of(b)), 1 + len(self.shape))
        after = -rhs_axis - 1 if rhs_axis < 0 else ndim - 1 - int(rhs_axis)
        return axis - 1 if after < -axis else axis


@with_interop
@accepts_expressions
def factor_tridiagonal(
    dl: Any, d: Any, du: Any, *, axis: int = -1, periodic: bool = False, check_finite: bool = True
) -> TridiagonalFactor:
    """Factor tridiagonal matrices for repeated right-hand sides, as in implicit time steps.

    Parameters
    ----------
    dl, d, du : array_like, scalar or dask.array.Array
        Diagonals below, on and above the main one, as for :func:`mgrec.solve_tridiagonal`. At least
        one is an array, whose n entries along `axis` are the unknowns.
    axis : int, optional
        Axis of the unknowns in the broadcast diagonals.
    periodic : bool, optional
        Whether the ends meet.
    check_finite : bool, optional
        Whether nan and inf in the diagonals and in right-hand sides raise an error.

    Returns
    -------
    TridiagonalFactor
        Factor whose ``solve(b)`` is ``solve_tridiagonal(dl, d, du, b)``, up to rounding.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a matrix is singular: a pivot is 0, also in :func:`mgrec.solve_tridiagonal`. NumPy arrays
        raise it in this call, Dask arrays when they are computed.
    TypeError
        If a diagonal is on a GPU: call :func:`mgrec.solve_tridiagonal`. A solve with factors would
        read four numbers an unknown there in place of five, and save at most a fifth of its time.
    TypeError, ValueError
        As for :func:`mgrec.solve_tridiagonal`.

    Notes
    -----
    *Accuracy.* That of LAPACK's ``gttrf`` and ``gttrs``.

    *Cost.* Factors take 3 to 4 numbers an unknown, and a copy of the diagonals. A solve of one long
    system takes half to a third of the time of :func:`mgrec.solve_tridiagonal`. Many short systems
    gain little: see :doc:`/how/tridiagonal`.

    *Dask arrays.* A task factors the systems of a chunk, or the rows of a part of systems, lazily.
    ``persist()`` keeps the factors in the memory of the workers. Without it each computation factors
    again. A solve of whole systems is then one task a chunk. A solve of systems in several chunks
    takes a third to a half of the time of :func:`mgrec.solve_tridiagonal`. Right-hand sides are
    arrays, or Dask arrays with the same chunks.

    *Systems that are not factored.* Their diagonals are stored, and each ``solve`` solves them from
    the start: chunks of systems in several chunks, if a row of the chunk is not diagonally dominant,
    if its rows are nearly singular or if `rhs_axis` is given; Dask right-hand sides of NumPy
    diagonals or with other chunks;
    matrices whose factors overflow or that are singular except for rounding, a single system of at
    least 2**20 unknowns on more than four threads, and periodic systems of less than three unknowns,
    or in which an error of the last unknown would grow; it does not if matrices are diagonally
    dominant. On a cluster use :func:`mgrec.plan` for repeated solves.

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


def _factor(problem: Problem) -> Any:
    """Return the factors of a problem's matrices; None if each solve starts from the matrices.

    Matrices in memory are not factored if their factors overflow, or if they are singular except for
    rounding. Raise LinAlgError if one is singular and not periodic.
    """
    if problem.is_lazy:
        from .factor_dask import factor_chunks

        return factor_chunks(problem)
    starts = (0,) * len(problem.shape)
    inputs = ChunkInputs(problem.operands, starts, starts)
    factors = factor_chunk(problem.recurrence, inputs, problem.shape)
    return factors if factors.lu is not None else None
