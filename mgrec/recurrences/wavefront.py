"""Wavefront loops of any weights and operators (Hou, Wang & Feng 2018)."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..families.problem import Problem
from ..families.wavefront.loops.door import check_loop
from ..placement import solved_by_kind


@partial(solved_by_kind, is_on_host=False)
def wavefront(
    local: Any,
    *,
    weights: tuple[Any, Any, Any],
    operators: tuple[str, str] = ("+", "*"),
    above: Any = None,
    left: Any = None,
    corner: Any = None,
    floor: Any = None,
    strategy: str = "hybrid",
    axes: tuple[int, int] = (-2, -1),
    out: Any = None,
) -> Problem:
    """Run a loop over a grid whose entries depend on those to the left, above and in between.

    The wavefront loop of [1]_, with a term of each cell's own::

        for i in range(rows):
            for j in range(columns):
                a = (A[i, j-1] ∘ b0[i, j]) ◇ (A[i-1, j] ∘ b1[i, j])
                a = (a ◇ (A[i-1, j-1] ∘ b2[i, j])) ◇ local[i, j]
                A[i, j] = a if floor is None else max(a, floor)

    Parameters
    ----------
    local : array_like, CuPy or dask.array.Array
        int32, int64, float32 or float64; two axes or more.
    weights : (b0, b1, b2), each a scalar, array_like, CuPy or dask.array.Array
        Of the cells to the left, above, and above to the left. Each broadcasts to the shape of
        `local`: a scalar, a row (columns,), a column (rows, 1) or a whole array.
    operators : (str, str), optional
        ◇ and ∘: ("+", "*"), ("max", "+"), ("min", "+") or ("+", "+"). Either may also be a
        plain Python function of two numbers, as those of :class:`mgrec.TransferMap` are, beside
        another one or "+", "*", "max" or "min"; ∘ must then distribute over ◇, or be the same
        function, which is tested on random numbers. On a GPU it is traced, as those of
        :class:`mgrec.TransferMap` are: ``np.maximum(a, b)`` in place of ``max(a, b)``.
    above, left, corner : scalar, array_like, CuPy or dask.array.Array, optional
        A[-1, :], A[:, -1] and A[-1, -1]: scalars, or of the shape of `local` without the first
        of `axes`, the second, and both. The identity of ◇ when not given: 0; for "max" and
        "min" an infinity, or half of the lowest or highest integer, so that weights can be
        added to it. Needed where ◇ is a function.
    floor : scalar, optional
        The least result.
    strategy : {"hybrid", "tiles", "compensation", "hyperplane"}, optional
        "tiles" computes cells in the order of the loop, those of an antidiagonal side by side.
        "compensation" goes row by row in the three steps of [1]_: the part without the
        horizontal dependency, a weighted scan along the row, and both combined; not with a
        floor where ◇ is not "max", and functions must be associative, ◇ also commutative.
        "hyperplane" computes cells as "tiles" does, over copies in which antidiagonals are
        contiguous, as the diamond tiles that [1]_ compares with; it is slower than "tiles".
        "hybrid" takes what is faster for the shape, the operators and the machine, and logs it
        at level DEBUG, by the logger ``mgrec``.
    axes : (int, int), optional
        Down (i) and to the right (j); the last two when not given. Along others there is one
        grid an index.
    out : array, optional
        Where to write A: C-contiguous, of its shape and dtype, sharing no memory with an
        operand. Not for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        A, of the kind, the shape and the chunks of `local`, and of the dtype to which all
        operands promote.

    Raises
    ------
    RuntimeError
        A CUDA graph is being captured: every launch needs a number of its own.
    TypeError
        The operands promote to another dtype, one of them is no array of numbers, NumPy arrays
        stand beside CuPy arrays, or a function cannot be traced for a GPU.
    ValueError
        `operators` are no such pair, or ∘ does not distribute over ◇; `weights` are not three,
        shapes do not fit, `axes` are not two different axes of `local`, or `strategy` is not
        known or does not do for the operators.

    See Also
    --------
    mgrec.summed_area_table, mgrec.smith_waterman, mgrec.sor : the usual loops, which are faster.

    Notes
    -----
    *Accuracy.* Integers, which wrap around, are those of the loop above for every strategy. Of
    "tiles" and "hyperplane" floats have its bits, for any chunks, threads and devices. Of
    "compensation" with named operators they differ by at most 8·(rows + columns)·u·W, where u is
    half of ``numpy.finfo(dtype).eps`` and W what the loop makes of the absolute values of all
    finite operands, with "max" in place of "min"; nan and inf stand where the loop has them, since
    rows where a scan would put them elsewhere are run cell by cell. nan is what
    ``numpy.maximum`` makes of it. "hybrid" takes compensation for integers alone in host memory,
    in short rows, and for all dtypes on a GPU.

    *Cost.* By tiles, those of an antidiagonal run side by side: on the threads of this machine,
    or in the warps of a GPU, which own strips of rows and hand their last rows on through
    memory. Compensation gives a GPU's blocks strips of columns, each a few rows behind the one
    to the left: it is faster where rows are few and long. Where columns are, a GPU goes along
    these, over copies, unless "compensation" is asked for; tiles have the bits of the loop then
    too. Over Dask a chunk starts as soon as the chunks above and to the left of it are done; one
    row and one column cross each border. :func:`mgrec.plan` and :func:`mgrec.dask.solve` need no
    graph.

    References
    ----------
    .. [1] K. Hou, H. Wang, W. Feng, J. S. Vetter and S. Lee, "Highly efficient
       compensation-based parallelism for wavefront loops on GPUs", IPDPS 2018.

    Examples
    --------
    How many paths of steps to the right and down lead from the first corner to each cell:

    >>> import numpy as np, mgrec
    >>> first = np.zeros((3, 5), dtype=np.int64)
    >>> first[0, 0] = 1
    >>> mgrec.wavefront(first, weights=(1, 1, 0))
    array([[ 1,  1,  1,  1,  1],
           [ 1,  2,  3,  4,  5],
           [ 1,  3,  6, 10, 15]])

    The edit distance of two words, with b2 = 1 where letters differ:

    >>> one, other = (np.array(list(word)) for word in ("kitten", "sitting"))
    >>> differ = (one[:, None] != other).astype(np.int64)
    >>> distance = mgrec.wavefront(
    ...     np.full(differ.shape, 99), weights=(1, 1, differ), operators=("min", "+"),
    ...     above=np.arange(1, 8), left=np.arange(1, 7), corner=0,
    ... )
    >>> int(distance[-1, -1])
    3

    The widest bottleneck on the way to each cell, by a pair of functions:

    >>> widths = np.array([[5, 3, 9], [4, 8, 2], [7, 6, 1]])
    >>> mgrec.wavefront(
    ...     np.zeros_like(widths), weights=(widths, widths, 0), corner=0, above=[9, 0, 0], left=0,
    ...     operators=(lambda a, b: max(a, b), lambda a, b: min(a, b)),
    ... )
    array([[5, 3, 3],
           [4, 4, 2],
           [4, 4, 1]])
    """
    borders = {"above": above, "left": left, "corner": corner}
    return check_loop(local, weights, operators, borders, floor, strategy, axes, out)
