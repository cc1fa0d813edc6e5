"""Tridiagonal systems of linear equations."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.contract.problem import Composed, Problem
from ..solve import prepared_function
from .arguments import check_system
from .p_scheme import solve_by_p_scheme


@prepared_function
def solve_tridiagonal(
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    *,
    axis: int = -1,
    rhs_axis: int | None = None,
    memory: str = "stream",
    method: str = "auto",
    periodic: bool = False,
    check_finite: bool = True,
    out: Any = None,
) -> Problem | Composed:
    """Solve dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i along an axis, with partial pivoting.

    Parameters
    ----------
    dl, d, du : array_like, scalar or dask.array.Array
        Diagonals below, on and above the main one, each constant or with n entries along `axis`.
        Unless `periodic`, the first entry of `dl` and the last one of `du` are ignored, as in
        cuSPARSE and JAX. The rows of SciPy's ``solve_banded`` are shifted against this layout.
    b : array_like, scalar or dask.array.Array
        Right-hand sides. All four operands broadcast; other axes contain separate systems.
    axis : int, optional
        Axis of the unknowns in the broadcast operands.
    rhs_axis : int, optional
        Axis of `b`, and of the result, along which right-hand sides of the same matrix lie. The
        diagonals do not have this axis. SciPy's ``b`` (n, k) with diagonals (n,) is
        ``axis=0, rhs_axis=1``.
    memory : {"stream", "two-pass"}, optional
        Memory use of Dask arrays. All chunks are read before the first one is solved. "stream"
        keeps all operands until then, in the workers' memory or on their disks; "two-pass" reads
        each chunk again instead.
    method : {"auto", "partition", "thomas", "cyclic-reduction", "pcr", "p-scheme"}, optional
        "auto" and "partition" pivot and solve every regular system. "auto" solves systems of at
        most 2**17 unknowns side by side if a chunk has enough of them, and uses partitions
        otherwise. The other methods do not pivot [2]_ [3]_; see Notes.
    periodic : bool, optional
        Whether the ends meet: the first entry of `dl` is the coefficient of the last unknown in
        the first row, and the last entry of `du` that of the first unknown in the last row. In
        systems of one or two unknowns, coefficients of the same unknown add up.
    check_finite : bool, optional
        Whether nan or inf in an operand raises an error. If False, a system that contains one
        becomes nan, and no other system does. False is not faster, and slower over Dask by "auto".
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which x is written. It must
        not share memory with an operand. Not supported for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        x, of the broadcast shape and of the dtype ``numpy.result_type`` of the operands; float64
        for integers. A Dask result has the chunks of the last operand that is a Dask array.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a pivot is 0: the system is singular, except with a method that does not pivot. The
        message has its index over all axes but `axis` and `rhs_axis`. Dask arrays raise it when
        they are computed.
    TypeError
        If an operand is not an array of numbers, or is float16.
    ValueError
        If shapes do not match; if the sizes of Dask chunks along `axis` are unknown; if there are
        several of these chunks and `method` needs whole systems; or if an operand contains nan
        or inf. Dask arrays raise the last one when they are computed.
    RuntimeError
        If a CUDA graph is being captured: the host waits for the outcome of the elimination.

    Notes
    -----
    *Accuracy.* On the twenty matrices of [1]_, some with condition numbers above 1e15, the median
    error is at most five times that of LAPACK's ``gtsv``, for any chunks. Errors of the methods
    that do not pivot have no bound unless the matrix is diagonally dominant. With CuPy arrays,
    "p-scheme" takes subnormal float32 numbers for 0, as CuPy's arithmetic does.

    *Cost.* A GPU first tries to read the operands once, without pivoting, which succeeds for
    diagonally dominant systems that fit in a block. Partitions read them twice, and three times if
    `periodic`. Over Dask each chunk sends ten numbers a system. :doc:`/how/tridiagonal` describes
    all methods, with their operations and memory.

    *Other arrays and repeated calls.* See :ref:`guide-dlpack`, :ref:`guide-xarray` and
    :ref:`guide-prepared-calls`.

    References
    ----------
    .. [1] C. Klein and R. Strzodka, "Tridiagonal GPU solver with scaled partial pivoting at
       maximum bandwidth", ICPP 2021.
    .. [2] A. Wakatani, Future Computing 2012, equations 4 to 6: "p-scheme".
    .. [3] X. S. Pogorelskih and L. V. Loganova, ITNT 2019, CEUR 2416: SERICR and PARACR.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> u = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    >>> mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, u).round(4)
    array([0.0556, 0.1667, 0.4444, 0.1667, 0.0556])
    """
    problem = check_system(
        dl, d, du, b, axis, rhs_axis, memory, method, periodic, check_finite, out
    )
    if method != "p-scheme":
        return problem
    if problem.recurrence.dtype.kind == "c":
        raise TypeError("dl, d, du and b must be real for method 'p-scheme'; got complex numbers")
    return Composed("method 'p-scheme'", partial(solve_by_p_scheme, problem))
