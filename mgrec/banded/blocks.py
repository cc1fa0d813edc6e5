"""Block tridiagonal systems of linear equations, and the validation of their arguments."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import Any

from ..core.arrays.array_types import cast, in_one_memory
from ..core.arrays.chunk import shape_of
from ..core.arrays.elements import broadcast_shape, merge_numbers
from ..core.arrays.validation import as_array, as_axis, as_flag
from ..core.contract.problem import Problem
from ..solve import StepLabels, prepared_function
from .api import common_dtype
from .recurrence import MAX_WIDTH, BlockTridiagonalSystem

_LABELS = StepLabels(("dl", "d", "du"), (("steps", "entries"),))


@partial(prepared_function, is_on_host=False, takes_group=True, labelled=_LABELS)
def solve_block_tridiagonal(
    dl: Any,
    d: Any,
    du: Any,
    b: Any,
    *,
    axis: int = -1,
    memory: str = "stream",
    periodic: bool = False,
    check_finite: bool = True,
    out: Any = None,
) -> Problem:
    """Solve dl_i·x_{i-1} + d_i·x_i + du_i·x_{i+1} = b_i along an axis, for blocks of k × k.

    Parameters
    ----------
    dl, d, du : array_like or dask.array.Array
        Blocks (..., n, k, k) below, on and above the main diagonal, with k from 1 to 8; (k, k) if
        all are equal. Unless `periodic`, the first block of `dl` and the last one of `du` are
        ignored.
    b : array_like or dask.array.Array
        Right-hand sides (..., n, k). The leading axes of all four operands broadcast; those other
        than `axis` contain separate systems.
    axis : int, optional
        Axis of the blocks among the leading axes. The default is the last of these.
    memory : {"stream", "two-pass"}, optional
        Memory use of Dask arrays, as for :func:`mgrec.solve_tridiagonal`.
    periodic : bool, optional
        Whether the ends meet: the first block of `dl` has the coefficients of the last unknowns,
        and the last block of `du` those of the first ones. In systems of one or two blocks,
        coefficients of the same unknown add up.
    check_finite : bool, optional
        Whether nan or inf in an operand raises an error. If False, a system that contains one
        becomes nan, and no other system does.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which x is written. It must
        not share memory with an operand. Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that call the function together, each with its part of the blocks. See
        :ref:`guide-ranks`.

    Returns
    -------
    array or dask.array.Array
        x (..., n, k), of the dtype ``numpy.result_type`` of the operands; float64 for integers.

    Raises
    ------
    numpy.linalg.LinAlgError
        If elimination meets a pivot of 0: the system is singular. Dask arrays raise it when they are
        computed.
    TypeError
        If an operand is not an array of numbers.
    ValueError
        If shapes do not match, if k is not from 1 to 8, or if an operand contains nan or inf. Dask
        arrays raise the last one when they are computed.

    See Also
    --------
    solve_tridiagonal : faster for blocks of one number.
    solve_banded : for matrices given by their diagonals.

    Notes
    -----
    Rows are eliminated one by one, and the pivot is the largest coefficient of all rows that contain
    the unknown: no block of the diagonal needs to be regular. Systems of at most 2**13 unknowns are
    eliminated side by side, with scaled partial pivoting. Longer ones and chunks are split into
    partitions, from which reflections eliminate all but the two blocks at each end, as interface
    rows do in [1]_. Over Dask each chunk sends 2k(4k + 1) numbers a system. Periodic systems are
    solved so at any length: no matrix is split off that may be singular although the system is not.

    References
    ----------
    .. [1] C. Klein and R. Strzodka, "Tridiagonal GPU solver with scaled partial pivoting at
       maximum bandwidth", ICPP 2021.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> side, main = -np.eye(2), np.array([[4.0, -1.0], [-1.0, 4.0]])
    >>> mgrec.solve_block_tridiagonal(side, main, side, [[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]).round(4)
    array([[0.2948, 0.0861],
           [0.0932, 0.0497],
           [0.0282, 0.0195]])
    """
    operands = {name: as_array(name, value) for name, value in (("dl", dl), ("d", d), ("du", du), ("b", b))}
    size = _block_size(operands)
    *matrices, b_pair = operands.items()
    dtype = common_dtype(operands)
    moved = [*in_one_memory([b_pair], matrices), b_pair[1]]
    counts = (2, 2, 2, 1)
    shapes = {
        name: shape_of(array)[:-count] for (name, array), count in zip(operands.items(), counts, strict=True)
    }
    shape = broadcast_shape(shapes, "the axes before those of blocks")
    if not shape:
        raise ValueError(f"b must have an axis of blocks, (..., n, {size}); got shape {shape_of(b_pair[1])}")
    axis = as_axis(axis, shape)
    blocks = [merge_numbers(cast(array, dtype), count) for array, count in zip(moved, counts, strict=True)]
    system = BlockTridiagonalSystem.over(
        blocks,
        shape,
        dtype,
        axis=axis,
        state_dtype=dtype,
        states=4 * size,
        length=-1 if isnan(shape[axis]) else int(shape[axis]),
        lower=size,
        upper=size,
        block=size,
        check_finite=as_flag("check_finite", check_finite),
        is_periodic=as_flag("periodic", periodic),
    )
    return Problem(system, tuple(blocks), (), (*shape, size), memory, out)


def _block_size(operands: dict[str, Any]) -> int:
    """Return k; raise ValueError unless all operands have blocks of k × k or k numbers."""
    shape = shape_of(operands["d"])
    size = shape[-1] if len(shape) > 1 else 0
    if shape[-2:] != (size, size) or not 1 <= size <= MAX_WIDTH:
        raise ValueError(f"d must have shape (..., k, k), with k from 1 to {MAX_WIDTH}; got {shape}")
    for name, wanted in (("dl", (size, size)), ("du", (size, size)), ("b", (size,))):
        shape = shape_of(operands[name])
        if shape[-len(wanted) :] != wanted:
            text = ", ".join(map(str, wanted))
            raise ValueError(
                f"{name} must have shape (..., {text}), as d has blocks of {size} by {size}; got {shape}"
            )
    return int(size)
