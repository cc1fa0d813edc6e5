"""Validation of the coefficients, the signal and the states of filters, as SciPy takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays.array_types import (
    computed_dtype,
    in_one_memory,
    is_bfloat16,
    is_narrow,
    result_type,
    to_host,
)
from ..core.arrays.chunk import move_axis
from ..core.arrays.interop import to_native
from ..core.arrays.validation import as_any_array, as_axis, check_dtype
from ..core.contract.problem import Problem
from .cascade import Cascade
from .recurrence import FilterRecurrence, filter_problem

_SUPPORTED = "fdFD"


def as_signal(x: Any, name: str = "x", takes_bfloat16: bool = False) -> Any:
    """Return a NumPy, CuPy or Dask array with at least one axis."""
    array = as_any_array(name, x)
    check_dtype(name, array, x, "?", takes_bfloat16)
    if array.ndim == 0:
        raise ValueError(f"{name} must be at least 1-D; got a single value of {array.dtype}")
    return array


def as_coefficients(name: str, values: Any) -> np.ndarray:
    """Return coefficients of any array library as a NumPy array."""
    values = to_native(name, values)
    array = to_host(as_any_array(name, values))
    check_dtype(name, array, values, "?", takes_bfloat16=True)
    if is_bfloat16(array.dtype):
        return array.astype(np.float32)
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def as_polynomial(name: str, values: Any) -> np.ndarray:
    """Return b or a as a 1-d array; raise ValueError if it is empty or has more axes."""
    array = np.atleast_1d(as_coefficients(name, values))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"Parameter {name} is not a non-empty 1d array; got shape {array.shape}")
    return array


def as_transfer_function(b: Any, a: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return b and a as 1-d arrays; raise ValueError if a_0 is 0."""
    b, a = as_polynomial("b", b), as_polynomial("a", a)
    if a[0] == 0:
        raise ValueError("a[0] must not be 0: the filter would need samples of the future")
    return b, a


def as_sections(sos: Any) -> np.ndarray:
    """Return sos as an array (sections, 6); raise ValueError unless a_0 is 1 in all sections."""
    array = np.atleast_2d(as_coefficients("sos", sos))
    if array.ndim != 2:
        raise ValueError(f"sos array must be 2D; got {array.ndim} axes")
    if array.shape[1] != 6 or not len(array):
        raise ValueError(f"sos array must be shape (n_sections, 6); got {array.shape}")
    if not (array[:, 3] == 1).all():
        raise ValueError("sos[:, 3] should be all ones; divide each section by it")
    return array


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return the dtype of a result, as SciPy chooses it.

    NotImplementedError is raised for any other dtype than float32, float64, complex64 and
    complex128. Integers alone raise it.
    """
    dtype = np.result_type(*(computed_dtype(x.dtype) for x in arrays if x is not None))
    if dtype.char not in _SUPPORTED:
        raise NotImplementedError(
            f"Parameter's dtypes produced result type '{dtype}', which is not supported: filters "
            f"are computed in float32, float64, complex64 and complex128"
        )
    return dtype


def signal_dtype(
    coefficients: Sequence[np.dtype[Any]], signal: np.dtype[Any], states: np.dtype[Any] | None
) -> np.dtype[Any]:
    """Return the dtype of the results of a causal filter: :func:`result_dtype`, or a narrow one.

    Real coefficients do not promote bfloat16, nor real states any narrow dtype.
    """
    if is_bfloat16(signal):
        coefficients = [dtype for dtype in coefficients if dtype.kind == "c"]
    dtype = result_type([*coefficients, signal])
    if is_narrow(dtype) and (states is None or states.kind != "c"):
        return dtype
    dtypes = [computed_dtype(dtype), *([] if states is None else [computed_dtype(states)])]
    return result_dtype(*(np.empty(0, dtype) for dtype in dtypes))


def as_result_dtype(dtype: Any, computed: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of results that a caller wants, by default that of the computation."""
    if dtype is None:
        return computed
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"dtype must be a dtype; got {dtype!r}") from error
    supported = _SUPPORTED[2:] if computed.kind == "c" else _SUPPORTED[:2]
    if wanted.char not in supported or not wanted.isnative:
        names = " or ".join(np.dtype(char).name for char in supported)
        raise TypeError(f"dtype must be {names} for a result of {computed}; got {wanted}")
    return wanted


def check_polynomials(b: Any, a: Any, x: Any, axis: Any, zi: Any, out: Any) -> Problem:
    """Validate the arguments of ``lfilter``; `zi` has the states along `axis`."""
    x, (b, a) = as_signal(x, takes_bfloat16=True), as_transfer_function(b, a)
    axis, cascade = as_axis(axis, x.shape), Cascade.of_polynomials(b, a)
    if zi is None:
        return filter_problem(cascade, x, None, axis, signal_dtype((b.dtype, a.dtype), x.dtype, None), out)
    expected = (*x.shape[:axis], cascade.states, *x.shape[axis + 1 :])
    zi = as_states(zi, x, expected, fixed=(axis,))
    dtype = signal_dtype((b.dtype, a.dtype), x.dtype, zi.dtype)
    return filter_problem(cascade, x, move_axis(zi, axis, 0), axis, dtype, out)


def check_sections(sos: Any, x: Any, axis: Any, zi: Any, out: Any) -> Problem:
    """Validate the arguments of ``sosfilt``; `zi` has the shape (sections, ..., 2, ...)."""
    x, sos = as_signal(x, takes_bfloat16=True), as_sections(sos)
    axis, cascade = as_axis(axis, x.shape), Cascade.of_sections(sos)
    if zi is None:
        return filter_problem(cascade, x, None, axis, signal_dtype((sos.dtype,), x.dtype, None), out)
    expected = (len(sos), *x.shape[:axis], 2, *x.shape[axis + 1 :])
    zi = as_states(zi, x, expected, fixed=range(len(expected)))
    carry_in = move_axis(zi, axis + 1, 0).swapaxes(0, 1)
    carry_in = carry_in.reshape((cascade.states, *carry_in.shape[2:]))
    dtype = signal_dtype((sos.dtype,), x.dtype, zi.dtype)
    return filter_problem(cascade, x, carry_in, axis, dtype, out)


def as_states(zi: Any, x: Any, expected: tuple[Any, ...], fixed: Sequence[int], name: str = "zi") -> Any:
    """Return states of the shape `expected`; axes that are not `fixed` may have length 1."""
    array = as_any_array(name, zi)
    check_dtype(name, array, zi, "?", takes_bfloat16=True)
    in_one_memory([("x", x)], states=[(name, array)])
    is_valid = array.ndim == len(expected) and all(
        length == size or size != size or (length == 1 and k not in fixed)
        for k, (length, size) in enumerate(zip(array.shape, expected, strict=True))
    )
    if not is_valid:
        # The first words are those of SciPy.
        raise ValueError(f"Invalid {name} shape: {name} must have shape {expected}; got {array.shape}")
    return array


def as_zf(recurrence: FilterRecurrence, carry_out: Any, is_sections: bool) -> Any:
    """Return final states with SciPy's axes, from an array (states, other axes of x)."""
    axis = recurrence.axis
    if not is_sections:
        return move_axis(carry_out, 0, axis) if axis else carry_out
    pairs = carry_out.reshape((len(recurrence.cascade.sections), 2, *carry_out.shape[1:]))
    return move_axis(pairs, 1, axis + 1) if axis else pairs
