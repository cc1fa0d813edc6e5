"""Summed-area tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays.kinds import is_lazy
from ..arrays.layout import contiguous
from ..arrays.out import check_out
from ..families.problem import Composed, Problem
from ..families.wavefront.door import check_table
from ..placement import solve, solved_by_kind
from .linear import linear_recurrence


@partial(solved_by_kind, is_on_host=False)
def summed_area_table(
    x: Any, axes: tuple[int, ...] = (-2, -1), *, dtype: Any = None, out: Any = None
) -> Problem | Composed:
    """Sum an array over all rectangles, or boxes, that begin at its first corner.

    S[i, j] is the sum of x[:i + 1, :j + 1] (Crow [1]_; the integral image of computer vision),
    so that the sum over any rectangle takes four numbers. Over three axes it is the integral
    volume: the sum over any box takes eight numbers.

    Parameters
    ----------
    x : array_like, cupy.ndarray or dask.array.Array
        bool, integers, float32, float64 or complex numbers; two axes or more.
    axes : tuple of two ints or more, optional
        The axes; the last two when not given. Along others there is one table an index.
    dtype : dtype, optional
        In which sums are added up, as of ``numpy.cumsum``; the platform's integer at least
        where `x` is narrower, when not given.
    out : array, optional
        Where to write the table: C-contiguous, of its shape and dtype. Not for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        Of the shape and the chunks of `x`.

    Raises
    ------
    TypeError
        `x` or `dtype` is of another kind, or `dtype` of another byte order.
    ValueError
        `axes` are not two or more different axes of `x`.
    RuntimeError
        The stream is being captured into a CUDA graph, and images have more than one strip.

    Notes
    -----
    *Accuracy.* In host memory sums are added up in the order of
    ``x.cumsum(axes[1], dtype).cumsum(axes[0])``, whatever the chunks are: the same bits. Over more
    axes the table of the last two is summed along the others by :func:`mgrec.linear_recurrence`:
    integers have the bits of ``cumsum``, and others that function's error in addition, with nan and
    inf where ``cumsum`` has them.

    On a GPU integers have the same bits too. Other sums are added up in an order that follows from
    shape and dtypes, and over Dask from the chunks: the same bits in every run and on every GPU
    whose blocks have 100 KB of shared memory (compute capability 8.0 and above).
    Their error is at most (m + n)·u·A[i, j] (to first order in u), where u is the unit roundoff,
    m and n are the lengths along `axes` and A is the table of abs(x); the sequential loop has the
    same bound. nan and inf stand where the loop has them, unless finite sums overflow.

    *Cost.* One reading and one writing, on all threads, and one more of each for every axis beyond
    two. Over Dask a chunk starts as soon as the chunks above and to the left of it are done; one
    row and one column of sums cross each border. :func:`mgrec.plan` and :func:`mgrec.dask.solve`
    need no graph, whose tasks take longer than a GPU takes for a chunk of 10^9 numbers.

    *On a GPU* blocks walk strips of an image, down or to the right, and tell each other the sums
    across the strips [2]_ as soon as a tile is read: a word of 64 bits for every 64 or 128 numbers
    of float32. Where columns (the second axis) are not neighbours in memory `x` is copied first.
    A CUDA graph can capture a call only where every image is one strip: images of a few dozen rows
    and columns, or many images of a few dozen columns.

    References
    ----------
    .. [1] F. C. Crow, "Summed-area tables for texture mapping", SIGGRAPH 1984.
    .. [2] D. Merrill and M. Garland, "Single-pass parallel prefix scan with decoupled look-back",
       NVIDIA Technical Report NVR-2016-002.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> table = mgrec.summed_area_table(np.arange(12, dtype=np.uint8).reshape(3, 4))
    >>> table
    array([[ 0,  1,  3,  6],
           [ 4, 10, 18, 28],
           [12, 27, 45, 66]], dtype=uint64)

    The sum of x[1:3, 2:4]:

    >>> int(table[2, 3] - table[0, 3] - table[2, 1] + table[0, 1])
    34

    An integral volume; its last number is the sum of all:

    >>> volume = np.arange(24.0).reshape(2, 3, 4)
    >>> float(mgrec.summed_area_table(volume, axes=(0, 1, 2))[-1, -1, -1])
    276.0
    """
    problem, others = check_table(x, axes, dtype, out)
    if not others:
        return problem
    return Composed("summed_area_table over more than two axes", partial(_sum_on, problem, others))


def _sum_on(problem: Problem, others: tuple[int, ...]) -> Any:
    """The table of a problem, summed along further axes."""
    out, shape = problem.out, problem.shape
    if out is not None:
        check_out(out, shape, problem.recurrence.dtype, problem.operands)
    table = solve(replace(problem, out=None))
    for axis in reversed(others):
        is_last = axis == others[0]
        table = _sum_along(axis, table, out if is_last else None)
    return table


def _sum_along(axis: int, table: Any, out: Any) -> Any:
    """Sums along an axis; those of complex numbers part by part, as (1 + 0j)·inf has a nan."""
    if table.dtype.kind != "c":
        return linear_recurrence(1, table, axis=axis, out=out)
    if not is_lazy(table):
        room = None if out is None else _parts(out)
        sums = _joined(linear_recurrence(1, _parts(table), axis=axis, out=room))
        return sums if out is None else out
    chunks, meta = table.chunks, _parts(table._meta)
    parts = table.map_blocks(_parts, chunks=(*chunks, (2,)), new_axis=table.ndim, meta=meta)
    sums = linear_recurrence(1, parts, axis=axis)
    return sums.map_blocks(_joined, chunks=chunks, drop_axis=table.ndim, meta=table._meta)


def _parts(table: Any) -> Any:
    """The real and imaginary parts of complex numbers, along a new last axis."""
    return contiguous(table).view(table.real.dtype).reshape(*table.shape, 2)


def _joined(parts: Any) -> Any:
    """Complex numbers of their parts along the last axis."""
    return contiguous(parts).view(np.result_type(parts.dtype, np.complex64))[..., 0]
