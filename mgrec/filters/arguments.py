"""The door of filters: checks coefficients, data and states, as SciPy takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.array_types import check_same_device, is_on_gpu
from ..core.arrays.chunk import move_axis
from ..core.arrays.interop import to_native
from ..core.arrays.validation import as_any_array, as_axis, as_plain_array, check_dtype
from ..core.contract.problem import Problem
from .cascade import Cascade
from .recurrence import FilterRecurrence, filter_problem

_COMPUTED = "fdFD"


def as_signal(x: Any, name: str = "x") -> Any:
    """An array of at least one axis, NumPy's, CuPy's or Dask's."""
    array = as_any_array(name, x)
    check_dtype(name, array, x, "?")
    if array.ndim == 0:
        raise ValueError(f"{name} must be at least 1-D; got a single value of {array.dtype}")
    return array


def as_coefficients(name: str, values: Any) -> np.ndarray:
    """A few numbers, in host memory; of any library, which results are not of for that."""
    values = to_native(name, values)
    array = np.asarray(values.get() if is_on_gpu(values) else as_plain_array(name, values))
    check_dtype(name, array, values, "?")
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def beside(values: np.ndarray, x: Any) -> Any:
    """A host array where x is: on its GPU, or on the host."""
    return np.asarray(values, like=getattr(x, "_meta", x)) if is_on_gpu(x) else values


def as_polynomial(name: str, values: Any) -> np.ndarray:
    """b or a: a 1-d array that is not empty."""
    array = np.atleast_1d(as_coefficients(name, values))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"Parameter {name} is not a non-empty 1d array; got shape {array.shape}")
    return array


def as_transfer_function(b: Any, a: Any) -> tuple[np.ndarray, np.ndarray]:
    """b and a, a_0 not 0."""
    b, a = as_polynomial("b", b), as_polynomial("a", a)
    if a[0] == 0:
        raise ValueError("a[0] must not be 0: the filter would need samples of the future")
    return b, a


def as_sections(sos: Any) -> np.ndarray:
    """sos: an array (sections, 6) with a_0 = 1."""
    array = np.atleast_2d(as_coefficients("sos", sos))
    if array.ndim != 2:
        raise ValueError(f"sos array must be 2D; got {array.ndim} axes")
    if array.shape[1] != 6 or not len(array):
        raise ValueError(f"sos array must be shape (n_sections, 6); got {array.shape}")
    if not (array[:, 3] == 1).all():
        raise ValueError("sos[:, 3] should be all ones; divide each section by it")
    return array


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """The dtype of a result, as SciPy has it.

    Raises
    ------
    NotImplementedError
        Not float32, float64, complex64 or complex128; integers alone are none of them.
    """
    dtype = np.result_type(*(array.dtype for array in arrays if array is not None))
    if dtype.char not in _COMPUTED:
        raise NotImplementedError(
            f"Parameter's dtypes produced result type '{dtype}', which is not supported: filters "
            f"are computed in float32, float64, complex64 and complex128"
        )
    return dtype


def check_polynomials(b: Any, a: Any, x: Any, axis: Any, zi: Any, out: Any) -> Problem:
    """Arguments of ``lfilter``; zi has the states along `axis`."""
    x, (b, a) = as_signal(x), as_transfer_function(b, a)
    axis = as_axis(axis, x.shape)
    zi = None if zi is None else _as_states(zi, x)
    dtype = result_dtype(b, a, x, zi)
    cascade = Cascade.of_polynomials(b, a)
    carry_in = None
    if zi is not None:
        wanted = (*x.shape[:axis], cascade.states, *x.shape[axis + 1 :])
        if zi.ndim != x.ndim:
            raise ValueError(f"zi must have the axes of x, {x.ndim}; got {zi.ndim}")
        fits = zi.shape[axis] == cascade.states and all(
            have in (1, want) or want != want for have, want in zip(zi.shape, wanted, strict=True)
        )
        if not fits:
            raise ValueError(
                f"Unexpected shape for parameter zi: expected {wanted}, found {zi.shape}."
            )
        carry_in = move_axis(zi, axis, 0)
    return filter_problem(cascade, x, carry_in, axis, dtype, out)


def check_sections(sos: Any, x: Any, axis: Any, zi: Any, out: Any) -> Problem:
    """Arguments of ``sosfilt``; zi is (sections, ..., 2, ...)."""
    x, sos = as_signal(x), as_sections(sos)
    axis = as_axis(axis, x.shape)
    zi = None if zi is None else _as_states(zi, x)
    dtype = result_dtype(sos, x, zi)
    cascade = Cascade.of_sections(sos)
    carry_in = None
    if zi is not None:
        wanted = (len(sos), *x.shape[:axis], 2, *x.shape[axis + 1 :])
        fits = len(zi.shape) == len(wanted) and all(
            have == want or want != want for have, want in zip(zi.shape, wanted, strict=True)
        )
        if not fits:
            raise ValueError(
                f"Invalid zi shape. With axis={axis}, an input with shape {x.shape} and an sos "
                f"array with {len(sos)} sections, zi must have shape {wanted}, got {zi.shape}."
            )
        carry_in = move_axis(zi, axis + 1, 0)
        carry_in = carry_in.swapaxes(0, 1).reshape((cascade.states, *carry_in.shape[2:]))
    return filter_problem(cascade, x, carry_in, axis, dtype, out)


def _as_states(zi: Any, x: Any) -> Any:
    array = as_any_array("zi", zi)
    check_dtype("zi", array, zi, "?")
    check_same_device([("x", x)], [("zi", array)])
    return array


def as_zf(recurrence: FilterRecurrence, carry_out: Any, is_sections: bool) -> Any:
    """The states after the last sample in SciPy's axes, from (states, other axes of x)."""
    axis = recurrence.axis
    if not is_sections:
        return move_axis(carry_out, 0, axis) if axis else carry_out
    pairs = carry_out.reshape((len(recurrence.cascade.sections), 2, *carry_out.shape[1:]))
    return move_axis(pairs, 1, axis + 1) if axis else pairs
