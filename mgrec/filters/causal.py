"""``lfilter`` and ``sosfilt``, and functions that compute their initial states."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import widened, without_empty_chunks
from ..core.arrays.resets import as_reset
from ..core.contract.problem import Composed, Problem
from ..core.contract.recurrence import Arrays
from ..solve import prepared_function
from .arguments import as_coefficients, as_zf, check_polynomials, check_sections
from .segments import with_marks
from .varying.arguments import check_varying, varies, without_numbers


@partial(prepared_function, by_value=("b", "a"), takes_group=True)
def lfilter(
    b: Any,
    a: Any,
    x: Any,
    axis: int = -1,
    zi: Any = None,
    *,
    form: str = "transposed",
    reset: Any = None,
    out: Any = None,
) -> Problem | Composed:
    """Filter data along an axis with a rational transfer function.

    The arguments, results and states are those of ``scipy.signal.lfilter``. The function solves

        a_0·y_n = b_0·x_n + … + b_M·x_{n−M} − a_1·y_{n−1} − … − a_N·y_{n−N}

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d, of any lengths. a[0] need not be 1. They are kept in float64
        or complex128 for any dtype of `x`. Those that vary in time have the shape
        (steps, order + 1): see :ref:`guide-varying`.
    x : array_like, CuPy or dask.array.Array
        Signal.
    axis : int, optional
        Axis along which to filter. The default is the last, or the index of a DataFrame.
    zi : array_like, CuPy or dask.array.Array, optional
        States before the first sample, by default 0, as ``lfilter_zi`` and ``lfiltic`` return them:
        the shape of `x` with max(len(a), len(b)) − 1 along `axis`; other axes may have length 1.
    form : {"transposed", "direct"}, optional
        Form of a filter whose coefficients vary. See :ref:`guide-varying`.
    reset, lengths : array_like, optional
        Mask or labels of segments from the states `zi`, or their lengths: see :ref:`guide-reset`.
    out : array, optional
        C-contiguous array of the shape and dtype of the result, into which y is written. It must
        not share memory with `x` or `zi`. Not supported for Dask arrays.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

    Returns
    -------
    y : array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x` and of the dtype
        ``numpy.result_type(b, a, x, zi)``. A signal of bfloat16 keeps its dtype, see
        :ref:`guide-narrow`. `out` is returned if it is given.
    zf : array or dask.array.Array
        States after the last sample, only if `zi` is given. They are lazy if `y` is. For a
        DataArray they have the dimension "state", or that of `zi`, in place of `axis`.

    Raises
    ------
    NotImplementedError
        If all arrays are of integers, as in SciPy, or of float16 and the coefficients vary.
    TypeError
        If an array is masked, its dtype is not numeric with at most 64 bits a component, or `out`
        has the wrong array type or is given for a Dask array.
    ValueError
        If a[0] is 0, or shapes do not match, that of `out` included. Where coefficients vary on a
        GPU, a_0 is not tested.
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

    *Cost.* A filter reads memory once, and `x` twice if its response is long on a GPU or over Dask
    chunks. float64 coefficients make a float32 signal's result float64, as in SciPy.

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

    Coefficients that vary:

    >>> lfilter([1.0], [[1.0, -0.5], [1.0, -0.25], [1.0, 0.0]], [1.0, 0.0, 0.0])
    array([1.   , 0.5  , 0.125])
    """
    if varies(b, a) or not (type(form) is str and form == "transposed"):
        return filtered_in_time(b, a, x, axis, zi, form, reset=reset, out=out)
    return _segmented(check_polynomials(b, a, x, axis, zi, out), reset, is_sections=False)


@partial(prepared_function, by_value=("sos",), takes_group=True)
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
        Axis along which to filter. The default is the last, or the index of a DataFrame.
    zi : array_like or dask.array.Array, optional
        States before the first sample (sections, ..., 2, ...): the shape of `x` with 2 in place of
        `axis`. The default is 0.
    reset, lengths : array_like, optional
        As for :func:`lfilter`.
    out : array, optional
        Array into which y is written, as for :func:`lfilter`.
    group : mgrec.collective.Group, optional
        As for :func:`lfilter`.

    Returns
    -------
    y : array or dask.array.Array
        Filtered signal, of the shape and the chunks of `x` and of the dtype
        ``numpy.result_type(sos, x, zi)``. A signal of bfloat16 keeps its dtype, see
        :ref:`guide-narrow`. `out` is returned if it is given.
    zf : array or dask.array.Array
        States after the last sample, only if `zi` is given. They are lazy if `y` is. For a
        DataArray the first dimension is "section", and "state" is in place of `axis`, or they have
        the dimensions of `zi`.

    Raises
    ------
    NotImplementedError
        If the signal and the coefficients are integers, as in SciPy.
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
    return _segmented(problem, reset, is_sections=True)


def filtered_in_time(
    b: Any,
    a: Any,
    x: Any,
    axis: int,
    zi: Any,
    form: str,
    *,
    reset: Any = None,
    out: Any = None,
    reverse: bool = False,
) -> Problem | Composed:
    """Return the problem of a filter whose coefficients vary, in either direction."""
    varying = check_varying(b, a, x, axis, zi, form, reset, out, reverse)
    if isinstance(varying, Composed):
        return varying
    return without_numbers(_with_final_states(varying, False), out)


def _segmented(problem: Problem, reset: Any, is_sections: bool) -> Problem:
    """Return the problem with states that are reset at marks, and final states if it has any."""
    if reset is not None:
        data = [("x", problem.operands[0])]
        marks = as_reset(reset, problem.shape, problem.recurrence.axis, False, data)
        problem = with_marks(problem, marks)
    return _with_final_states(problem, is_sections)


def _with_final_states(problem: Problem, is_sections: bool) -> Problem:
    """Return the problem with final states as a second result, if it has initial ones."""
    recurrence = problem.recurrence
    if not recurrence.returns_final_state:
        return problem

    def to_return_value(results: Arrays, carry_out: Any) -> Any:
        return results[0], as_zf(recurrence, without_empty_chunks(carry_out), is_sections)

    return replace(problem, to_return_value=to_return_value)


def lfilter_zi(b: Any, a: Any) -> np.ndarray:
    """Return the states of ``lfilter`` in the steady state of the step response.

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d.

    Returns
    -------
    array
        max(len(a), len(b)) − 1 states for an input of ones.

    Raises
    ------
    ValueError
        If b or a is not 1-d, or all elements of a are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import lfilter, lfilter_zi
    >>> b, a = [0.25], [1.0, -0.75]
    >>> lfilter(b, a, np.ones(3), zi=lfilter_zi(b, a))[0]
    array([1., 1., 1.])
    """
    return steady_states(_as_vector("b", b), _as_vector("a", a)).copy()


def steady_states(b: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return ``lfilter_zi`` of arrays. Do not write to it."""
    return _lfilter_zi(*_as_key(widened(b)), *_as_key(widened(a)))


def _as_key(array: np.ndarray) -> tuple[bytes, np.dtype[Any]]:
    return array.tobytes(), array.dtype


@lru_cache(maxsize=256)
def _lfilter_zi(
    bytes_of_b: bytes, dtype_of_b: np.dtype[Any], bytes_of_a: bytes, dtype_of_a: np.dtype[Any]
) -> np.ndarray:
    """Return ``lfilter_zi(b, a)``, cached: programs call filters of the same coefficients often."""
    b, a = np.frombuffer(bytes_of_b, dtype_of_b), np.frombuffer(bytes_of_a, dtype_of_a)
    nonzero = np.flatnonzero(a)
    if nonzero.size == 0:
        raise ValueError("There must be at least one nonzero `a` coefficient.")
    a = a[nonzero[0] :]
    if a[0] != 1:
        b, a = b / a[0], a / a[0]
    length = max(b.size, a.size)
    dtype = np.result_type(a, b)
    b, a = (np.pad(part, (0, length - part.size)).astype(dtype) for part in (b, a))
    # z = A·z + B, and A is the transposed companion matrix.
    matrix = np.eye(length - 1, dtype=dtype) - np.eye(length - 1, k=1, dtype=dtype)
    matrix[:, :1] += a[1:, None]
    return np.linalg.solve(matrix, b[1:] - a[1:] * b[0])


def _as_vector(name: str, values: Any) -> np.ndarray:
    array = np.atleast_1d(as_coefficients(name, values))
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D; got {array.ndim} axes")
    return array


def sosfilt_zi(sos: Any) -> np.ndarray:
    """Return the states of ``sosfilt`` in the steady state of the step response.

    Parameters
    ----------
    sos : array_like (sections, 6)
        Coefficients b_0, b_1, b_2, 1, a_1, a_2 of each section.

    Returns
    -------
    array (sections, 2)
        States for an input of ones.

    Raises
    ------
    ValueError
        If sos has another shape.

    Examples
    --------
    >>> from mgrec.signal import sosfilt_zi
    >>> sosfilt_zi([[0.5, 0, 0, 1, -0.5, 0], [1, 1, 0, 1, 0, 0]])
    array([[0.5, 0. ],
           [1. , 0. ]])
    """
    sos = widened(as_coefficients("sos", sos))
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError(f"sos must be shape (n_sections, 6); got {sos.shape}")
    sos = sos.astype(np.result_type(sos, np.float32)) if sos.dtype.kind in "iub" else sos
    return _sosfilt_zi(*_as_key(sos)).copy()


@lru_cache(maxsize=256)
def _sosfilt_zi(bytes_of_sos: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    sos = np.frombuffer(bytes_of_sos, dtype).reshape(-1, 6)
    states, scale = np.empty((len(sos), 2), sos.dtype), 1.0
    for number, section in enumerate(sos):
        b, a = section[:3], section[3:]
        states[number] = scale * lfilter_zi(b, a)
        scale *= b.sum() / a.sum()  # the steady output of the section
    return states


def lfiltic(b: Any, a: Any, y: Any, x: Any = None) -> np.ndarray:
    """Return the states of ``lfilter`` after the given outputs and inputs.

    Parameters
    ----------
    b, a : array_like
        Numerator and denominator, 1-d.
    y, x : array_like
        Last outputs and inputs, the latest first: y_{−1}, y_{−2}, …. Missing ones are 0.

    Returns
    -------
    array
        max(len(a), len(b)) − 1 states.

    Raises
    ------
    ValueError
        If b or a is not 1-d, or a[0] is 0.

    Examples
    --------
    >>> from mgrec.signal import lfilter, lfiltic
    >>> lfilter([1.0], [1.0, -0.5], [0.0, 0.0], zi=lfiltic([1.0], [1.0, -0.5], y=[8.0]))[0]
    array([4., 2.])
    """
    b, a = _as_vector("b", b), _as_vector("a", a)
    if a[:1].size == 0 or a[0] == 0:
        raise ValueError("First `a` filter coefficient must be non-zero.")
    y = np.atleast_1d(as_coefficients("y", y))
    x = np.zeros(0, y.dtype) if x is None else np.atleast_1d(as_coefficients("x", x))
    dtype = np.result_type(b, a, y, x)
    dtype = np.dtype(np.float64) if dtype.kind in "iub" else dtype
    states = np.zeros(max(a.size, b.size) - 1, dtype)
    for taps, past, sign in ((b, x, 1), (a, y, -1)):
        past = np.pad(past, (0, max(0, taps.size - 1 - past.size))).astype(dtype)
        for m in range(taps.size - 1):
            states[m] += sign * (taps[m + 1 :] * past[: taps.size - 1 - m]).sum()
    return states / a[0] if a[0] != 1 else states
