"""Tridiagonal systems of linear equations, and the validation of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import isnan
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, computed_dtype, in_one_memory
from ..core.arrays.chunk import shape_of
from ..core.arrays.validation import (
    as_array,
    as_axis,
    as_flag,
    as_integer,
    as_scalar,
    broadcast_shape,
    is_one_of,
)
from ..core.contract.problem import Composed, Problem
from ..core.contract.recurrence import varying
from ..solve import prepared_function
from .errors import NAMES
from .p_scheme import solve_by_p_scheme
from .recurrence import TridiagonalSystem

_COMPUTED = "fdFD"


@partial(prepared_function, takes_group=True)
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
        Axis of the unknowns in the broadcast operands. The default is the last, or the index of
        a DataFrame.
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
    group : mgrec.collective.Group, optional
        Processes that call the function together, each with its part of the axis. See
        :ref:`guide-ranks`.

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
        If an operand is not an array of numbers.
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
    operands = dl, d, du, b
    problem = check_system(operands, axis, rhs_axis, memory, method, periodic, check_finite, out)
    if method != "p-scheme":
        return problem
    if problem.recurrence.dtype.kind == "c":
        raise TypeError("dl, d, du and b must be real for method 'p-scheme'; got complex numbers")
    return Composed("method 'p-scheme'", partial(solve_by_p_scheme, problem))


def check_system(
    values: Any,
    axis: Any,
    rhs_axis: Any,
    memory: str,
    method: str,
    periodic: Any,
    check_finite: Any,
    out: Any,
) -> Problem:
    """Return the problem of the arguments of ``solve_tridiagonal``; raise if one is invalid."""
    arguments = dict(zip(NAMES, values, strict=True))
    operands = {name: as_array(name, value) for name, value in arguments.items()}
    *diagonals, b_pair = operands.items()
    operands |= zip(NAMES, in_one_memory([b_pair], diagonals), strict=False)
    dtype = _common_dtype(operands)
    if rhs_axis is not None:
        operands, rhs_axis = insert_rhs_axis(operands, axis, rhs_axis)
    shape = _broadcast_shape(operands, arguments)
    is_periodic = as_flag("periodic", periodic)
    unsupported = set(TridiagonalSystem.methods) - set(TridiagonalSystem.pivoting_methods)
    if is_periodic and is_one_of(method, unsupported):
        raise ValueError(f"method must be 'auto' or 'partition' for periodic systems; got {method!r}")
    system = (_system if isinstance(method, str) else _system.__wrapped__)(
        dtype,
        shape,
        tuple([shape_of(value) for value in operands.values()]),
        axis=as_axis(axis, shape),
        rhs_axis=None if rhs_axis is None else rhs_axis % len(shape),
        method=method,
        check_finite=as_flag("check_finite", check_finite),
        is_periodic=is_periodic,
    )
    promoted = [
        cast(value, dtype) if hasattr(value, "dtype") else as_scalar(name, value, dtype)
        for name, value in operands.items()
    ]
    return Problem(system, tuple(promoted), (), shape, memory, out)


@lru_cache(maxsize=256)
def _system(
    dtype: np.dtype[Any],
    shape: tuple[Any, ...],
    shapes: Sequence[tuple[Any, ...]],
    *,
    axis: int,
    **options: Any,
) -> TridiagonalSystem:
    return TridiagonalSystem(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand_shape, shape) for operand_shape in shapes),
        block_dtypes=(dtype,) * len(shapes),
        axis=axis,
        state_dtype=dtype,
        states=4,
        length=-1 if isnan(shape[axis]) else int(shape[axis]),
        **options,
    )


def _common_dtype(operands: dict[str, Any]) -> np.dtype[Any]:
    dtypes = [getattr(value, "dtype", value) for value in operands.values()]
    is_one = isinstance(dtypes[0], np.dtype) and dtypes.count(dtypes[0]) == len(dtypes)
    dtype = computed_dtype(dtypes[0] if is_one else np.result_type(*dtypes))
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.char not in _COMPUTED:
        raise TypeError(f"dl, d, du and b must be of 32 bits a component or more; got {dtype}")
    return dtype


def _broadcast_shape(operands: dict[str, Any], arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Return the shape of the result; an error lists the shapes of the caller's arguments."""
    try:
        return broadcast_shape(operands)
    except ValueError as error:
        shapes = {name: shape_of(value) for name, value in arguments.items()}
        if not any(shapes.values()):
            raise
        got = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"shapes of dl, d, du and b must broadcast, those of the diagonals without the "
            f"rhs_axis of b if it is given; got {got}. Give rhs_axis where b has an axis of "
            f"right-hand sides that the diagonals do not have. Where dl and du have one entry less "
            f"than there are unknowns, put a 0 before dl and one after du"
        ) from error


def insert_rhs_axis(operands: dict[str, Any], axis: Any, rhs_axis: Any) -> tuple[dict[str, Any], int]:
    """Insert an axis of length 1 into the diagonals where b has its right-hand sides.

    `axis` and `rhs_axis` are axes of the result. The returned `rhs_axis` counts from the end.
    """
    *diagonals, b = operands.values()
    ndims = [len(shape_of(operand)) for operand in (*diagonals, b)]
    ndim = max(ndims[3], 1 + max(ndims[:3]))
    number = as_integer("rhs_axis", rhs_axis)
    if not -ndim <= number < ndim:
        raise ValueError(f"rhs_axis must be from {-ndim} to {ndim - 1}, an axis of b; got {number}")
    if number % ndim == as_integer("axis", axis) % ndim:
        raise ValueError(
            f"rhs_axis must be another axis than axis={axis}, that of the unknowns; got {number}"
        )
    axes_after = ndim - 1 - number % ndim
    if ndims[3] <= axes_after:
        raise ValueError(
            f"b must have the axis rhs_axis={rhs_axis} of {ndim} axes, one more than the "
            f"diagonals; got shape {shape_of(b)}"
        )
    widened = (*(insert_axis(diagonal, axes_after) for diagonal in diagonals), b)
    return dict(zip(operands, widened, strict=True)), -axes_after - 1


def insert_axis(array: Any, axes_after: int) -> Any:
    """Return an array with an axis of length 1 before its last `axes_after` axes."""
    axes_before = len(shape_of(array)) - axes_after
    if axes_before <= 0:
        return array
    return array[(slice(None),) * axes_before + (None,)]
