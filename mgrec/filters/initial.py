"""Initial states of filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import as_coefficients


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
    b, a = (np.atleast_1d(as_coefficients(*named)) for named in (("b", b), ("a", a)))
    for name, part in (("Numerator b", b), ("Denominator a", a)):
        if part.ndim != 1:
            raise ValueError(f"{name} must be 1-D; got {part.ndim} axes")
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
    sos = as_coefficients("sos", sos)
    if sos.ndim != 2 or sos.shape[1] != 6:
        raise ValueError(f"sos must be shape (n_sections, 6); got {sos.shape}")
    sos = sos.astype(np.result_type(sos, np.float32)) if sos.dtype.kind in "iub" else sos
    states, scale = np.empty((len(sos), 2), sos.dtype), 1.0
    for number, section in enumerate(sos):
        b, a = section[:3], section[3:]
        states[number] = scale * lfilter_zi(b, a)
        scale *= b.sum() / a.sum()  # its steady state
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
    b, a = (np.atleast_1d(as_coefficients(*named)) for named in (("b", b), ("a", a)))
    for name, part in (("b", b), ("a", a)):
        if part.ndim != 1:
            raise ValueError(f"Filter coefficients `{name}` must be 1-D; got {part.ndim} axes")
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
