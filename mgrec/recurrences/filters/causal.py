"""Filters of any order: the recurrences of signal processing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ...arrays.kinds import check_together
from ...arrays.segments import as_reset
from ...families.family import Arrays
from ...families.filters.door import as_zf, check_polynomials, check_sections
from ...families.filters.segments import with_marks
from ...families.problem import Problem
from ...placement import solved_by_kind
from .chunks import without_empty_chunks


@partial(solved_by_kind, by_value=("b", "a"))
def lfilter(
    b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None, *, reset: Any = None, out: Any = None
) -> Problem:
    """Filter data along an axis with a rational transfer function.

    Computes

        a_0·y_n = b_0·x_n + … + b_M·x_{n−M} − a_1·y_{n−1} − … − a_N·y_{n−N}

    with the arguments, results and states of ``scipy.signal.lfilter``.

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d, of any lengths; a[0] need not be 1. Kept in float64
        or complex128 whatever `x` is.
    x : array_like, CuPy or dask.array.Array
    axis : int, optional
        The axis along which the filter runs.
    zi : array_like, CuPy or dask.array.Array, optional
        States before the first sample: the shape of `x` with max(len(a), len(b)) − 1 along
        `axis`; other axes may have length 1. As ``lfilter_zi`` and ``lfiltic`` give them.
    reset : array_like, optional
        Where the states start anew, from `zi`, or from 0: a mask of bool, or labels whose every
        change starts anew. 1-d along `axis`, or broadcast to `x`. Each segment is then filtered
        as by a call of its own.
    out : array, optional
        Where to write y: a C-contiguous array of its shape and dtype that shares no memory
        with `x` or `zi`. Saves the allocation, which for large arrays costs as much as the
        filter. Not for Dask arrays.

    Returns
    -------
    y : array or dask.array.Array
        Of the shape and the chunks of `x`, and of ``numpy.result_type(b, a, x, zi)``; `out`,
        where it was given.
    zf : array or dask.array.Array
        States after the last sample; only if `zi` was given. Lazy if `y` is. Of a DataArray they
        have the dimension "state" in place of `axis`, or that which `zi` has.

    Raises
    ------
    NotImplementedError
        The result would not be float32, float64, complex64 or complex128; integers alone
        are refused, as by SciPy.
    TypeError
        An array is masked or of another dtype than numbers of up to 64 bits a
        component, or `out` is not of its kind, or is given for a Dask array.
    ValueError
        a[0] is 0, or shapes do not fit, also that of `out`.

    See Also
    --------
    sosfilt : the better conditioned form for orders above 4 or so.

    Notes
    -----
    *Accuracy.* Everything is computed in float64, or complex128, whatever the dtype is. The
    rounding errors, as root mean squares over white signals, are those of SciPy's loop within a
    factor of 8, also where poles crowd and both lose digits: where several steps at once would
    lose more, each output is computed on its own. Single signals vary: a constant through a
    high-pass filter at 0.001 of the sampling rate had errors of 1e-9 to 1e-5, 100 times SciPy's.
    The last bits depend on the number of threads and on chunks. Coefficients are divided by a[0]
    once, before the first step. SciPy divides complex numbers in every step: of 310,000 random
    filters with a complex a[0], 3 had more than 8 times its errors, one of them 14 times, and half
    had less than 0.73 times.

    *Special values.* A row that comes near overflow, or has nan or inf, is done again by
    SciPy's loop in SciPy's order and dtype, complex64 too, so that an unstable filter gives
    what SciPy gives. Complex filters have two exceptions. Where a[0] is not 1, SciPy's division
    in every step may overflow at other samples. Where a is a[0] alone, SciPy convolves, and a
    number that is not finite may have nan in either part.

    *On a GPU* a row is cut into segments of several thousand samples, each filtered by one lane, in
    float64. A lane computes the entry of its segment from the samples before it, as far back as
    the filter remembers, or from powers of the filter's matrix. It is compared with the exit of
    the segment before, and the segment is done again where digits would be lost, such as where a
    signal falls silent shortly before it. No CUDA graph can capture a filter: its kernels share
    memory that is of one call alone, and RuntimeError says so.

    *Many calls.* What was checked, designed and compiled for a CuPy array, or a NumPy array of up
    to 65,536 numbers, is kept for later calls of the same kind, with the same coefficients: see
    :func:`mgrec.linear_recurrence`. `zi` must lie in memory as the states of each row side by side
    do: that of one row, or along the first axis.

    *Cost.* One pass over the memory, two of reading where a filter remembers more than a
    segment of a GPU; over Dask chunks `x` is read twice, once to summarise and once to filter,
    and max(len(a), len(b)) − 1 scalars cross each boundary. Chunks in host memory of 2**19
    numbers or more, sixteen times as long as the filter remembers, are filtered at once from
    states of 0, and the response to the true ones is added until it is below 2**-75 of the
    outputs. Filter designs are float64, and so is the result of filtering float32 with one, as in
    SciPy: with coefficients cast to float32 it takes half of the memory, and on a GPU two thirds
    of the time. NumPy data of a smaller dtype than the result are cast to it first, in one more
    array, along other axes than the last one and where sections follow each other.

    References
    ----------
    .. [1] A. Wakatani, the P-scheme (2004) and, for GPUs, P-scheme/G (2012, 2013).

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import lfilter
    >>> lfilter([1.0], [1.0, -0.5], np.ones(5))
    array([1.    , 1.5   , 1.75  , 1.875 , 1.9375])

    In two parts, the states handed over:

    >>> first, state = lfilter([1.0], [1.0, -0.5], np.ones(3), zi=np.zeros(1))
    >>> lfilter([1.0], [1.0, -0.5], np.ones(2), zi=state)[0]
    array([1.875 , 1.9375])

    Differences that a DPCM coder with the predictor a·y sends are decoded by ``[1.0]`` over
    ``[1.0, -a]``:

    >>> lfilter([1.0], [1.0, -0.5], np.array([4.0, 1.0, -1.0]))
    array([4. , 3. , 0.5])

    Recordings one after the other, each from states of 0:

    >>> lfilter([1.0], [1.0, -0.5], np.ones(4), reset=np.array([1, 1, 2, 2]))
    array([1. , 1.5, 1. , 1.5])

    A Dask array stays lazy, and is filtered across its chunks:

    >>> import dask.array as da
    >>> y = lfilter([0.5], [1.0, -0.5], da.ones(10**6, chunks=10**5))
    >>> float(y[-1].compute())
    1.0
    """
    problem = check_polynomials(b, a, x, axis, zi, out)
    return _finished(_segmented(problem, reset), is_sections=False)


@partial(solved_by_kind, by_value=("sos",))
def sosfilt(
    sos: Any, x: Any, axis: int = -1, zi: Any = None, *, reset: Any = None, out: Any = None
) -> Problem:
    """Filter data along an axis with a cascade of second-order sections.

    All sections go over the data in one pass, with the arguments, results and states of
    ``scipy.signal.sosfilt``.

    Parameters
    ----------
    sos : array_like (sections, 6)
        Each row b_0, b_1, b_2, 1, a_1, a_2.
    x : array_like, CuPy or dask.array.Array
    axis : int, optional
        The axis along which the filter runs.
    zi : array_like or dask.array.Array, optional
        States before the first sample: (sections, ..., 2, ...), the shape of `x` with 2 in
        place of `axis`.
    reset : array_like, optional
        As for :func:`lfilter`.
    out : array, optional
        Where to write y, as for :func:`lfilter`.

    Returns
    -------
    y : array or dask.array.Array
        Of the shape and the chunks of `x`, and of ``numpy.result_type(sos, x, zi)``; `out`,
        where it was given.
    zf : array or dask.array.Array
        States after the last sample; only if `zi` was given. Lazy if `y` is. Of a DataArray they
        have a dimension "section" first, and "state" in place of `axis`, or those that `zi` has.

    Raises
    ------
    NotImplementedError
        The result would not be float32, float64, complex64 or complex128; integers alone
        are refused, as by SciPy.
    TypeError
        An array is masked or of another dtype than numbers of up to 64 bits a
        component, or `out` is not of its kind, or is given for a Dask array.
    ValueError
        Shapes that do not fit, also that of `out`, or a section whose a_0 is not 1.

    See Also
    --------
    lfilter : one transfer function; its notes on accuracy and special values hold here.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import sosfilt
    >>> sos = [[1, 0, 0, 1, -0.5, 0], [1, 1, 0, 1, 0, 0]]
    >>> sosfilt(sos, np.array([1.0, 0.0, 0.0, 0.0]))
    array([1.   , 1.5  , 0.75 , 0.375])
    """
    problem = check_sections(sos, x, axis, without_empty_chunks(zi), out)
    return _finished(_segmented(problem, reset), is_sections=True)


def _segmented(problem: Problem, reset: Any) -> Problem:
    if reset is None:
        return problem
    axis = problem.recurrence.axis
    check_together([("x", problem.operands[0]), ("reset", reset)], [])
    return with_marks(problem, as_reset(reset, problem.shape, axis, False))


def _finished(problem: Problem, is_sections: bool) -> Problem:
    """The problem of a filter, which returns its states if it was given some."""
    recurrence = problem.recurrence

    def finish(results: Arrays, exit: Any) -> Any:
        return results[0], as_zf(recurrence, without_empty_chunks(exit), is_sections)

    return replace(problem, finish=finish) if recurrence.is_exit_asked else problem
