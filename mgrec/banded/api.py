"""Banded systems of linear equations, and the validation of their arguments."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, chunked_like, computed_dtype, in_one_memory, is_lazy
from ..core.arrays.chunk import move_axis, shape_of
from ..core.arrays.validation import as_array, as_axis, as_flag, as_integer, as_scalar, broadcast_shape
from ..core.contract.problem import Problem
from ..distributed.groups.calls import CALL
from ..distributed.groups.ends import beyond, outermost
from ..solve import prepared_function, solve_labelled
from ..solve.functions import concatenate, full_like
from .recurrence import BandedSystem

_COMPUTED, _MOST = "fdFD", 4


_by_value = partial(solve_labelled, by_value=("l_and_u", "ab"))


@partial(prepared_function, by_value=("l_and_u",), takes_group=True, labelled=_by_value)
def solve_banded(
    l_and_u: Any,
    ab: Any,
    b: Any,
    *,
    axis: int = -1,
    memory: str = "stream",
    periodic: bool = False,
    check_finite: bool = True,
    out: Any = None,
) -> Problem:
    """Solve banded systems A·x = b, with the arguments of ``scipy.linalg.solve_banded``.

    Parameters
    ----------
    l_and_u : (int, int)
        Number of diagonals below and above the main one, l and u, each from 0 to 4.
    ab : array_like or dask.array.Array
        The diagonals (..., l + u + 1, n): ``ab[..., u + i - j, j]`` is ``A[..., i, j]``. Unless
        `periodic`, entries outside of the matrix are ignored. Leading axes contain separate
        matrices.
    b : array_like or dask.array.Array
        Right-hand sides. Axes other than `axis` broadcast with the leading axes of `ab`.
    axis : int, optional
        Axis of the unknowns in `b`, and in the result. The default is the last, or the index of a
        DataFrame. SciPy's ``b`` (n, k) is ``axis=0``.
    memory : {"stream", "two-pass"}, optional
        Memory use of Dask arrays, as for :func:`mgrec.solve_tridiagonal`.
    periodic : bool, optional
        Whether the ends meet: entries outside of the matrix are coefficients of the unknowns at the
        other end, so that ``ab[..., r, j]`` is in row (j + r - u) mod n. In systems of less than
        l + u + 1 unknowns, coefficients of the same unknown in the same row add up.
    check_finite : bool, optional
        Whether nan or inf in an operand raises an error. If False, a system that contains one
        becomes nan, and no other system does.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which x is written. It must
        not share memory with an operand. Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that call the function together, each with its part of `b` and its columns of
        `ab`. See :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        x, of the dtype ``numpy.result_type`` of the operands; float64 for integers.

    Raises
    ------
    numpy.linalg.LinAlgError
        If elimination meets a pivot of 0: the system is singular. Dask arrays raise it when they are
        computed.
    TypeError
        If an operand is not an array of numbers.
    ValueError
        If shapes do not match, if l or u is not from 0 to 4, or if an operand contains nan or inf.
        Dask arrays raise the last one when they are computed.

    See Also
    --------
    solve_tridiagonal : faster for l = u = 1.

    Notes
    -----
    Systems of at most 2**13 unknowns are eliminated side by side, with scaled partial pivoting.
    Longer ones and chunks are split into partitions, from which reflections eliminate all but the
    unknowns at the ends, and over Dask each chunk sends (l + u)(2l + 2u + 1) numbers a system.
    Periodic systems are solved so at any length: no matrix is split off that may be singular
    although the system is not.
    Pivots of a singular matrix may then be rounding errors instead of 0, as in LAPACK.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> ab = np.array([[0, 0, 1, 1], [0, -4, -4, -4], [6, 6, 6, 6], [-4, -4, -4, 0], [1, 1, 0, 0]])
    >>> mgrec.solve_banded((2, 2), ab, [0.0, 1.0, 0.0, 0.0]).round(4)
    array([0.5714, 1.0857, 0.9143, 0.4286])
    """
    lower, upper = as_widths(l_and_u)
    operands = {name: as_array(name, value) for name, value in (("ab", ab), ("b", b))}
    if len(shape_of(operands["ab"])) < 2 or not shape_of(operands["b"]):
        raise ValueError(
            f"ab must have an axis of diagonals and one of unknowns, and b one of unknowns; got shapes "
            f"{shape_of(operands['ab'])} and {shape_of(operands['b'])}"
        )
    dtype = common_dtype(operands)
    b = cast(operands["b"], dtype)
    (ab,) = in_one_memory([("b", b)], [("ab", operands["ab"])])
    ab = cast(ab, dtype)
    if ab.shape[-2] != lower + upper + 1:
        raise ValueError(
            f"ab must have the l + u + 1 = {lower + upper + 1} diagonals along its second to last axis; "
            f"got shape {ab.shape}"
        )
    ndim = max(ab.ndim - 1, b.ndim)
    axis = as_axis(axis, (1,) * ndim)
    is_periodic = as_flag("periodic", periodic)
    rows = diagonals_of(ab, lower, upper, is_periodic)
    diagonals = [_at_axis(diagonal, ndim, axis) for diagonal in rows]
    if lower + upper == 0:
        # Kernels need an unknown at the ends of chunks.
        lower, diagonals = 1, [as_scalar("ab", 0, dtype), *diagonals]
    blocks = (*diagonals, b)
    shape = broadcast_shape({"the diagonals of ab": diagonals[-1], "b": b})
    length = ab.shape[-1]
    axis_of_b = b.ndim - ndim + axis
    entries = b.shape[axis_of_b] if axis_of_b >= 0 else 1
    if entries != length and not isnan(length) and not isnan(shape[axis]):
        raise ValueError(f"b must have {length} entries along axis {axis}, as ab has columns; got {b.shape}")
    system = BandedSystem.over(
        blocks,
        shape,
        dtype,
        axis=axis,
        state_dtype=dtype,
        states=2 * (lower + upper),
        length=-1 if isnan(shape[axis]) else int(shape[axis]),
        lower=lower,
        upper=upper,
        check_finite=as_flag("check_finite", check_finite),
        is_periodic=is_periodic,
    )
    return Problem(system, blocks, (), shape, memory, out, arguments=(ab, b))


def as_widths(l_and_u: Any) -> tuple[int, int]:
    """Return l and u; raise ValueError unless they are from 0 to 4."""
    try:
        lower, upper = l_and_u
    except (TypeError, ValueError):
        raise ValueError(f"l_and_u must be two integers, (l, u); got {l_and_u!r}") from None
    widths = as_integer("l of l_and_u", lower), as_integer("u of l_and_u", upper)
    if not all(0 <= width <= _MOST for width in widths):
        raise ValueError(f"l_and_u must be two integers from 0 to {_MOST}; got {l_and_u!r}")
    return widths


def common_dtype(operands: dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype of the computation; raise TypeError unless there are kernels of it."""
    dtype = computed_dtype(np.result_type(*(array.dtype for array in operands.values())))
    if dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.char not in _COMPUTED:
        *others, last = operands
        raise TypeError(f"{', '.join(others)} and {last} must be of 32 bits a component or more; got {dtype}")
    return dtype


def diagonals_of(ab: Any, lower: int, upper: int, is_periodic: bool) -> list[Any]:
    """Return the diagonals -lower … upper of ab (..., n), of which entry i belongs to row i.

    Unless `is_periodic`, entries outside of the matrix have any values, and the diagonals of arrays in
    memory are views.
    """
    count, length = ab.shape[-2:]
    is_view = not is_lazy(ab) and count > 1 and ab.size > 0 and ab.flags.c_contiguous
    if is_view and not is_periodic and CALL.get() is None:
        flat = ab.reshape(*ab.shape[:-2], count * length)
        starts = [(upper - k) * length + k for k in range(-lower, upper + 1)]
        return [flat[..., start : start + length] for start in starts]
    wide = extended(ab, lower, upper, is_periodic)
    return [
        chunked_like(wide[..., upper - k, lower + k : lower + k + length], ab[..., 0, :])
        for k in range(-lower, upper + 1)
    ]


def extended(values: Any, before: int, after: int, is_periodic: bool = False) -> Any:
    """Return an array with so many more elements at both ends of its last axis.

    They are those of neighbours on the ranks of a group. At the end of all parts they are those of
    the other end if `is_periodic`, and 0 otherwise.
    """
    pieces, axis = [values], values.ndim - 1
    for step, count in ((-1, before), (1, after)):
        outer = [] if CALL.get() is None else [beyond(values, axis, step, count)]
        missing = count - sum(piece.shape[-1] for piece in outer)
        edge = [full_like(values[..., :1], 0)] * missing
        if is_periodic:
            first, last = outermost(values, axis, count)
            edge = [_repeated(last if step < 0 else first, step, missing)]
        pieces = [*edge, *outer, *pieces] if step < 0 else [*pieces, *outer, *edge]
    return concatenate(pieces, -1) if len(pieces) > 1 else values


def _repeated(values: Any, step: int, count: int) -> Any:
    """Return the first `count` elements of a sequence that repeats, or with step -1 the last ones."""
    length = values.shape[-1]
    if 0 < length < count:
        values = concatenate([values] * -(-count // length), -1)
    return values[..., :count] if step > 0 else values[..., max(values.shape[-1] - count, 0) :]


def _at_axis(diagonal: Any, ndim: int, axis: int) -> Any:
    """Return a diagonal (..., n) with n along an axis of `ndim`, and the others as those of b."""
    axes_after = ndim - 1 - axis
    if diagonal.ndim == 1:
        return diagonal[(slice(None), *(None,) * axes_after)]
    diagonal = diagonal[(None,) * (ndim - diagonal.ndim)]
    return move_axis(diagonal, -1, axis)
