"""Filters of any order along an axis."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..core.arrays.array_types import check_same_device, without_empty_chunks
from ..core.arrays.resets import as_reset
from ..core.contract.problem import Problem
from ..core.contract.recurrence import Arrays
from ..solve import solved_by_kind
from .arguments import as_zf, check_polynomials, check_sections
from .segments import with_marks


@partial(solved_by_kind, by_value=("b", "a"))
def lfilter(
    b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None, *, reset: Any = None, out: Any = None
) -> Problem:
    """Filter data along an axis with a rational transfer function.

    The arguments, results and states are those of ``scipy.signal.lfilter``. The function solves

        a_0·y_n = b_0·x_n + … + b_M·x_{n−M} − a_1·y_{n−1} − … − a_N·y_{n−N}

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d, of any lengths. a[0] need not be 1. They are kept in float64
        or complex128 for any dtype of `x`.
    x : array_like, CuPy or dask.array.Array
        Signal.
    axis : int, optional
        Axis along which to filter. The default is the last.
    zi : array_like, CuPy or dask.array.Array, optional
        States before the first sample, as ``lfilter_zi`` and ``lfiltic`` return them. They have the
        shape of `x` with max(len(a), len(b)) − 1 along `axis`; other axes may have length 1. The
        default is 0.
    reset : array_like, optional
        Mask or labels that divide the axis into segments. Each segment is filtered as by a call of
        its own, from the states `zi`. See :ref:`guide-reset`.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which y is written. It must
        not share memory with `x` or `zi`. Not supported for Dask arrays.

    Returns
    -------
    y : array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x` and of the dtype
        ``numpy.result_type(b, a, x, zi)``. `out` is returned if it is given.
    zf : array or dask.array.Array
        States after the last sample, only if `zi` is given. They are lazy if `y` is. For a
        DataArray they have the dimension "state", or that of `zi`, in place of `axis`.

    Raises
    ------
    NotImplementedError
        If the result would not be float32, float64, complex64 or complex128. Integers alone raise
        it, as in SciPy.
    TypeError
        If an array is masked, its dtype is not numeric with at most 64 bits a component, or `out`
        has the wrong array type or is given for a Dask array.
    ValueError
        If a[0] is 0, or shapes do not match, that of `out` included.
    RuntimeError
        If a CUDA graph is being captured: the kernels share memory that belongs to one call.

    See Also
    --------
    sosfilt : A better conditioned form for orders above about 4.

    Notes
    -----
    *Accuracy.* Filters compute in float64 or complex128, whatever the dtype is. For white signals
    the root mean square of the rounding errors is within a factor of 8 of that of SciPy's loop.
    Single signals vary: :doc:`/how/filters` has measurements. The last bits depend on the number of
    threads and on the chunks.

    *Special values.* A row that comes near overflow, or that contains nan or inf, is computed again
    by SciPy's loop, so that an unstable filter returns what SciPy returns. :doc:`/how/filters` has
    two exceptions for complex filters.

    *Cost.* A filter reads memory once, and `x` twice if its response is long on a GPU, or over Dask
    chunks unless its response is short. float64 coefficients make a float32 signal's result
    float64, as in SciPy: cast them to float32 to halve the memory of the result.

    *Other arrays and repeated calls.* See :ref:`guide-dlpack`, :ref:`guide-tables`,
    :ref:`guide-xarray` and :ref:`guide-prepared-calls`.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import lfilter
    >>> lfilter([1.0], [1.0, -0.5], np.ones(5))
    array([1.    , 1.5   , 1.75  , 1.875 , 1.9375])

    Filter a signal in two parts:

    >>> first, state = lfilter([1.0], [1.0, -0.5], np.ones(3), zi=np.zeros(1))
    >>> lfilter([1.0], [1.0, -0.5], np.ones(2), zi=state)[0]
    array([1.875 , 1.9375])
    """
    problem = check_polynomials(b, a, x, axis, zi, out)
    return _finished(_segmented(problem, reset), is_sections=False)


@partial(solved_by_kind, by_value=("sos",))
def sosfilt(
    sos: Any, x: Any, axis: int = -1, zi: Any = None, *, reset: Any = None, out: Any = None
) -> Problem:
    """Filter data along an axis with a cascade of second-order sections.

    The arguments, results and states are those of ``scipy.signal.sosfilt``. All sections are
    applied in one pass over the data.

    Parameters
    ----------
    sos : array_like (sections, 6)
        Coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section.
    x : array_like, CuPy or dask.array.Array
        Signal.
    axis : int, optional
        Axis along which to filter. The default is the last.
    zi : array_like or dask.array.Array, optional
        States before the first sample (sections, ..., 2, ...): the shape of `x` with 2 in place of
        `axis`. The default is 0.
    reset : array_like, optional
        As for :func:`lfilter`.
    out : array, optional
        Array into which y is written, as for :func:`lfilter`.

    Returns
    -------
    y : array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x` and of the dtype
        ``numpy.result_type(sos, x, zi)``. `out` is returned if it is given.
    zf : array or dask.array.Array
        States after the last sample, only if `zi` is given. They are lazy if `y` is. For a
        DataArray the first dimension is "section", and "state" is in place of `axis`, or they have
        the dimensions of `zi`.

    Raises
    ------
    NotImplementedError
        If the result would not be float32, float64, complex64 or complex128. Integers alone raise
        it, as in SciPy.
    TypeError
        If an array is masked, its dtype is not numeric with at most 64 bits a component, or `out`
        has the wrong array type or is given for a Dask array.
    ValueError
        If shapes do not match, that of `out` included, or a_0 of a section is not 1.
    RuntimeError
        If a CUDA graph is being captured.

    See Also
    --------
    lfilter : A single transfer function. Its notes on accuracy and special values hold here too.

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
    check_same_device([("x", problem.operands[0]), ("reset", reset)], [])
    return with_marks(problem, as_reset(reset, problem.shape, axis, False))


def _finished(problem: Problem, is_sections: bool) -> Problem:
    """Return the problem of a filter, which returns the final states if initial ones are given."""
    recurrence = problem.recurrence

    def with_states(results: Arrays, carry_out: Any) -> Any:
        return results[0], as_zf(recurrence, without_empty_chunks(carry_out), is_sections)

    return (
        replace(problem, to_return_value=with_states) if recurrence.returns_final_state else problem
    )
