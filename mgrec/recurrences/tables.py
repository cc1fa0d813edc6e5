"""Summed-area tables."""

from __future__ import annotations

from typing import Any

from ..families.problem import Problem
from ..families.wavefront.door import check_table
from ..placement import solved


@solved
def summed_area_table(
    x: Any, axes: tuple[int, int] = (-2, -1), *, dtype: Any = None, out: Any = None
) -> Problem:
    """Sum an array over all rectangles that begin at its first corner.

    S[i, j] is the sum of x[:i + 1, :j + 1] (Crow [1]_; the integral image of computer vision),
    so that the sum over any rectangle takes four numbers.

    Parameters
    ----------
    x : array_like or dask.array.Array
        bool, integers, float32, float64 or complex numbers; two axes or more.
    axes : (int, int), optional
        The two axes; the last two when not given. Along others there is one table an index.
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
        `x` or `dtype` is of another kind.
    ValueError
        `axes` are not two different axes of `x`.
    NotImplementedError
        `x` is on a GPU.

    Notes
    -----
    *Accuracy.* Sums are added up in the order of
    ``x.cumsum(axes[1], dtype).cumsum(axes[0])``, whatever the chunks are: the same bits.

    *Cost.* One reading and one writing, on all threads. Over Dask a chunk starts as soon as the chunks above
    and to the left of it are done; one row and one column of sums cross each border.

    References
    ----------
    .. [1] F. C. Crow, "Summed-area tables for texture mapping", SIGGRAPH 1984.

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
    """
    return check_table(x, axes, dtype, out)
