"""Successive over-relaxation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, check_same_device, is_lazy
from ...core.arrays.chunk import shape_of
from ...core.arrays.validation import as_array, as_integer, as_real, as_scalar, broadcasts_to
from ...core.contract.problem import Problem, varying
from ...solve import prepared_function
from .recurrence import Relaxation, Sweeps


@partial(prepared_function, is_on_host=False)
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
    return _check_relaxation(x, rhs, omega, sweeps, tol, check_every, callback, out)


def _check_relaxation(
    x: Any, rhs: Any, omega: Any, sweeps: Any, tol: Any, check_every: Any, callback: Any, out: Any
) -> Problem:
    """Return the problem of a call of ``sor``, validated."""
    arguments = {"x": x} if rhs is None else {"x": x, "rhs": rhs}
    arrays = {name: as_array(name, value) for name, value in arguments.items()}
    check_same_device(list(arrays.items()), [])
    shape = shape_of(arrays["x"])
    if len(shape) < 2:
        raise ValueError(f"x must have two axes or more; got shape {shape}")
    dtype = _common_dtype(arrays)
    loop = _as_sweeps(omega, sweeps, tol, check_every)
    # x is the last operand: a result has the chunks of the last one.
    operands = tuple(_as_operand(name, arrays[name], dtype) for name in reversed(arrays))
    for rhs in operands[:-1]:
        if not broadcasts_to(rhs.shape, shape):
            raise ValueError(f"rhs must broadcast to {shape}, the shape of x; got {rhs.shape}")
    recurrence = Relaxation(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, shape) for operand in operands),
        block_dtypes=(dtype,) * len(operands),
        axes=(len(shape) - 2, len(shape) - 1),
        loop=loop,
        callback=_as_callback(callback, operands, shape),
    )
    return Problem(recurrence, operands, (), shape, out=out)


def _as_callback(callback: Any, operands: Any, shape: tuple[Any, ...]) -> Any:
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"callback must be callable or None; got {callback!r}")
    if any(map(is_lazy, operands)):
        raise TypeError(
            "callback must be None where an operand is a Dask array, which is swept later: use "
            "mgrec.dask.progress"
        )
    if prod(shape[:-2]) != 1:
        raise ValueError(f"callback must be None where x is several grids; got shape {shape}")
    return callback


def _common_dtype(arrays: dict[str, Any]) -> np.dtype[Any]:
    dtype = np.result_type(*(getattr(value, "dtype", value) for value in arrays.values()))
    dtype = np.dtype(np.float64) if dtype.kind in "iu" else dtype
    if dtype.char not in "fd":
        names = " and ".join(arrays)
        raise TypeError(f"{names} must be of integers, float32 or float64; got {dtype}")
    return dtype


def _as_operand(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if hasattr(value, "dtype"):
        return cast(value, dtype)
    return as_scalar(name, value, dtype)


def _as_sweeps(omega: Any, sweeps: Any, tol: Any, check_every: Any) -> Sweeps:
    factor = as_real("omega", omega, "a number between 0 and 2")
    if not 0 < factor < 2:
        raise ValueError(f"omega must be a number between 0 and 2; got {omega!r}")
    counts = {"sweeps": sweeps, "check_every": check_every}
    for name, value in counts.items():
        counts[name] = as_integer(name, value)
        if counts[name] < 1:
            raise ValueError(f"{name} must be 1 or more; got {value!r}")
    if tol is not None and not as_real("tol", tol) > 0:
        raise ValueError(f"tol must be above 0, or None; got {tol!r}")
    return Sweeps(factor, tol=None if tol is None else float(tol), **counts)
