"""Tridiagonal systems of linear equations."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..families.problem import Composed, Problem
from ..families.tridiagonal.door import check_system
from ..placement import solved_by_kind
from .p_scheme import solve_by_p_scheme


@partial(solved_by_kind, is_on_host=False)
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
        The diagonals below, on and above the main one, each of n entries along `axis`, or
        constant. Unless `periodic`, the first entry of `dl` and the last one of `du` do not
        count, whatever they are, as in cuSPARSE and JAX; SciPy's ``solve_banded`` has its rows
        shifted against it.
    b : array_like, scalar or dask.array.Array
        Right-hand sides. All four broadcast against each other: other axes are systems of
        their own.
    axis : int, optional
        The axis of the unknowns, of the broadcast operands.
    rhs_axis : int, optional
        An axis of `b`, of right-hand sides of the same matrices, that the diagonals do not have:
        these broadcast against `b` without it. Both axes are those of the result. So SciPy's
        ``b`` (n, k) beside diagonals (n,) is ``axis=0, rhs_axis=1``. When not given, all four
        broadcast as they are.
    memory : {"stream", "two-pass"}, optional
        For Dask arrays. Every chunk is read before the first is solved: "stream" holds all
        operands until then, in the workers' memory or on their disks; "two-pass" reads every
        chunk again instead.
    method : {"auto", "partition", "thomas", "cyclic-reduction", "pcr", "p-scheme"}, optional
        "auto" and "partition" pivot and solve every system that is not singular. "auto" takes
        systems of up to 2**17 unknowns side by side, each by the elimination of LAPACK's
        ``gtsv``, where there are enough of them in a chunk (64 bytes of numbers), and
        partitions otherwise. The others do not pivot, see Notes.
    periodic : bool, optional
        Whether the ends meet: the first entry of `dl` is the coefficient of the last unknown in the
        first row, and the last one of `du` that of the first unknown in the last row. Where
        coefficients of one unknown meet, as in systems of one or two, they add up.
    check_finite : bool, optional
        Whether nan and inf in an operand are errors. A system that holds one becomes nan, and no
        other, which is what False gives; so finite operands are not read once more. False is not
        faster, and over Dask by "auto" slower: see Cost.
    out : array, optional
        Where to write x: C-contiguous, of its shape and dtype, sharing no memory with an operand.
        Not for Dask arrays.

    Returns
    -------
    array or dask.array.Array
        x, of the broadcast shape and of dtype ``numpy.result_type`` of the operands, float64
        where these are integers. In the chunks of the last operand that is a Dask array.

    Raises
    ------
    numpy.linalg.LinAlgError
        A system is singular: a pivot is 0. The message names it by its index over all axes but
        `axis` and `rhs_axis`. From Dask arrays when they are computed. A system that is singular
        but for rounding has large numbers instead, as in LAPACK. Where 1 by the condition number
        is below the smallest number of the dtype, a pivot may also underflow to 0.
    TypeError
        An operand is no array of numbers, or is float16.
    ValueError
        Shapes do not fit, Dask chunks along `axis` are of unknown sizes, or there are several
        for a method that needs whole systems, or an operand holds nan or inf (the message names
        it and the index); in Dask arrays when they are computed.
    RuntimeError
        A CUDA graph is being captured: the host waits to see whether systems are solved.

    Notes
    -----
    *Partitions.* The rows of a partition (up to 192, or a chunk) are reduced by Gaussian
    elimination to two rows in its first and its last unknown and the unknowns beside them. The
    reduced system of all partitions is banded and solved with partial pivoting; within a
    partition the elimination is done again, and its pivot rows give the other unknowns. That is
    RPTS [1]_ but for the pivot, which is the largest of all rows of the partition that have the
    unknown, each scaled by a power of two beforehand: a partition whose inside would be singular
    on its own does no harm, where the whole system is not. Where coefficients of the unknowns
    before and after a partition would grow beyond 8, these unknowns are eliminated as well.

    *Systems side by side.* One in each lane of a register, by Gaussian elimination with partial
    pivoting between two rows, each scaled by a power of two beforehand: 19 operations an unknown,
    one of them a division, and three numbers in memory for each unknown of the systems under
    way. 2,000 systems of 4,095 take 2.8 ns an unknown of float64 on one thread of an EPYC.

    *Methods without pivoting* find the solution where the matrix is diagonally dominant by rows
    or columns; "thomas" and "cyclic-reduction", which is elimination in another order, also where
    it is symmetric positive definite. For other matrices their errors have no bound, however
    well-conditioned the matrix is, and a pivot of 0 raises LinAlgError whether or not the matrix
    is singular. Operations an unknown, of n in a system:

    ===================  ==========================  =============================================
    method               operations                  memory
    ===================  ==========================  =============================================
    "thomas"             9, one of them a division   as of systems side by side; one number an
                                                     unknown where there are too few of them
    "cyclic-reduction"   17, three divisions         8 numbers an unknown of one system a thread
    "pcr"                12·log2(n), two divisions   8 numbers an unknown of one system a thread
                         each level
    ===================  ==========================  =============================================

    "cyclic-reduction" (SERICR of [3]_) keeps every other row on each of log2(n) levels, and all
    levels in memory; "pcr" (PARACR of [3]_) reduces every row on each level. They are here to be
    compared with: on a CPU "thomas" is faster than either. These three need whole systems in a
    chunk.

    On a GPU "thomas" has a system a thread: it is for thousands of systems. Their rows go through
    shared memory 128 bytes at a time, so that contiguous and interleaved systems are read alike.
    The other two have a system a block where systems are contiguous and fit in shared memory:
    227 KB hold 14,000 unknowns of float32 for "cyclic-reduction", 7,264 for "pcr" and, with its a
    and c elsewhere, 14,528; half as many of float64. Other systems go level by level, each a launch
    over rows in memory. Numbers an unknown:

    =============================  ===========================  =================
    method                         read and written             further memory
    =============================  ===========================  =================
    "thomas"                       9                            1
    either, in shared memory       5                            none
    "cyclic-reduction", in memory  23                           4
    "pcr", half in shared memory   7 + 4·log2(n), much of it    4
                                   in caches
    "pcr", in memory               3 + 8·log2(n)                8
    =============================  ===========================  =================

    These calls wait until the kernels have ended, in order to raise LinAlgError.

    A periodic system is a line whose ends meet. The elimination leaves of all its rows two, in its
    first and its last unknown, which are solved with pivoting. Nothing is split off the matrix,
    as by Sherman and Morrison's formula, whose rest may be singular where the matrix is not.

    *Accuracy.* On the twenty matrices of [1]_, some with condition numbers of 1e15 and above, the
    median of the forward errors over right-hand sides is at most five times that of LAPACK's
    ``gtsv``, for any chunks; single errors scatter around that.

    *On a GPU* "auto" first tries to read every operand once. Blocks solve windows of a few thousand
    rows without pivoting: whole systems where one fits, else with a halo of 17 to 84 rows (9 to
    36 of complex128) on either side, that other blocks solve as well. The kernel measures what this
    rests on: no row is more than 4 times its pivot, and what is beyond a halo counts for less than
    an eighth of the rounding error of the largest unknown nearby. Where a single window fails,
    all is solved by partitions, with pivoting; trying costs 25 to 50 microseconds. Diagonally
    dominant systems pass, where they fit a block always (4,352 unknowns of float32, 4,608 of
    float64), longer ones where they forget their ends within the halo.

    Partitions on a GPU are of 32 rows (16 of complex128), one a thread, in shared memory, which it
    eliminates from both ends to the middle. Their interface rows are merged by 16 (8), level by
    level. A call waits for the merging, in order to raise LinAlgError, but not for the unknowns.

    What was checked and chosen for CuPy arrays is kept for later calls of the same kind: of arrays
    of the same shapes, dtypes and strides at addresses that are as far from multiples of 16 bytes,
    and of the same scalars and options.

    *Cost.* By windows one reading and one writing, 5 words an unknown. By partitions two readings
    of the operands and one writing, 9 words an unknown, a twentieth of `b` in memory (two fifths
    on a GPU); three readings where `periodic`. Over Dask every chunk sends ten numbers a system to
    one task, which solves the small system, and gets four back. Systems that are whole in their
    chunks are solved by one task a chunk, which loads them once.

    The first of two readings over Dask, and of three where `periodic`, is left out by "auto" in
    chunks that forget: where in all systems of a chunk of 2,048 rows or more its first unknown
    depends on those 1,024 rows on (or a 64th of the chunk) by less than an eighth of the rounding
    error, and its last one likewise. Elimination with pivoting of these rows alone tells, and gives
    the ten numbers; otherwise all rows are reduced. Dominant systems forget, and random ones. As
    such a chunk cannot tell the others that it holds nan, this is for `check_finite` alone.

    *P-scheme.* Gaussian elimination from the first row to the last one and back, by a rational
    recurrence for p_i = du_i/(d_i - dl_i·p_{i-1}), and linear ones for q_i = (b_i - dl_i·q_{i-1}) /
    (d_i - dl_i·p_{i-1}) and x_i = q_i - p_i·x_{i+1}, each in three phases over the chunks. It does
    not pivot: it is stable for diagonally dominant matrices, and others may lose all digits without
    a sign of it. A pivot of 0 is a LinAlgError, though the system need not
    be singular. It takes 75 ns an unknown on four cores where "partition" takes 2.2, and three
    rounds over Dask; :func:`mgrec.plan` does not take it.

    References
    ----------
    .. [1] C. Klein and R. Strzodka, "Tridiagonal GPU solver with scaled partial pivoting at
       maximum bandwidth", ICPP 2021.
    .. [2] A. Wakatani, "Implementation and evaluation of recurrence equation solvers on GPGPU
       systems using rearrangement of array configurations", Future Computing 2012, equations 4
       to 6.
    .. [3] X. S. Pogorelskih and L. V. Loganova, "Research of parallel algorithms for solving
       three-diagonal systems of linear algebraic equations on a graphical computing device",
       ITNT 2019, CEUR 2416.

    Examples
    --------
    The heat equation, one implicit step:

    >>> import numpy as np, mgrec
    >>> u = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    >>> mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, u).round(4)
    array([0.0556, 0.1667, 0.4444, 0.1667, 0.0556])

    Two right-hand sides of one matrix, side by side:

    >>> b = np.array([[2.0, 1.0], [4.0, 1.0], [2.0, 1.0]])
    >>> mgrec.solve_tridiagonal(1.0, [2.0, 4.0, 2.0], 1.0, b, axis=0, rhs_axis=1).round(4)
    array([[0.6667, 0.5   ],
           [0.6667, 0.    ],
           [0.6667, 0.5   ]])

    On a ring:

    >>> mgrec.solve_tridiagonal(-1.0, 3.0, -1.0, u, periodic=True).round(4)
    array([0.0909, 0.1818, 0.4545, 0.1818, 0.0909])

    A huge system in chunks, with a matrix that needs pivoting:

    >>> import dask.array as da
    >>> b = da.ones(10**5, chunks=10**4)
    >>> x = mgrec.solve_tridiagonal(1.0, 0.01, -1.0, b)
    >>> residual = x[:-2] + 0.01 * x[1:-1] - x[2:] - 1
    >>> bool(abs(residual).max().compute() < 1e-9)
    True
    """
    problem = check_system(
        dl, d, du, b, axis, rhs_axis, memory, method, periodic, check_finite, out
    )
    if method != "p-scheme":
        return problem
    if problem.recurrence.dtype.kind == "c":
        raise TypeError("dl, d, du and b must be real for method 'p-scheme'; got complex numbers")
    return Composed("method 'p-scheme'", partial(solve_by_p_scheme, problem))
