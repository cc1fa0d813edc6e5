"""Validation of the arguments of filters of images, as SciPy takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import numpy as np

from ..core.arrays.array_types import is_lazy, widened, without_empty_chunks
from ..core.arrays.validation import as_any_array, as_axis, is_one_of
from ..core.backends import backend_of

_DTYPES = "?bhilqBHILQfdFD"
SYNONYMS = {
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "mirror": "mirror",
    "nearest": "nearest",
    "constant": "constant",
    "grid-constant": "constant",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""Modes of ``scipy.ndimage`` for filters."""
SPLINE_MODES = {
    "mirror": "mirror",
    "constant": "mirror",
    "grid-constant": "mirror",
    "wrap": "mirror",
    "reflect": "reflect",
    "grid-mirror": "reflect",
    "nearest": "reflect",
    "grid-wrap": "wrap",
}
"""Modes of ``scipy.ndimage`` for splines, which extends the coefficients and not the samples."""


def as_input(value: Any) -> Any:
    """Return a NumPy, CuPy or Dask array of a supported dtype, without empty chunks."""
    x = widened(as_any_array("input", value))
    if x.dtype.char not in _DTYPES:
        raise TypeError(
            f"input must be bool, integer, float32, float64 or complex; got {x.dtype}: cast it first"
        )
    return without_empty_chunks(x)


def _check_known(x: Any, axes: Sequence[int]) -> None:
    """Raise ValueError if chunks of unknown sizes follow each other along an axis."""
    for axis in axes:
        if x.shape[axis] != x.shape[axis]:
            raise ValueError(
                f"input must be in chunks of known sizes along axis {axis}: call compute_chunk_sizes() on it"
            )


def as_output(output: Any, x: Any, default: Any) -> tuple[np.dtype[Any], Any]:
    """Return the dtype of the results, and the array to write them to or None."""
    array = output if hasattr(type(output), "__array_ufunc__") else None
    if array is not None:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("output must be a plain array; got a masked array: pass its data")
        if is_lazy(x) or is_lazy(array):
            raise TypeError("output must be a dtype for Dask arrays, which are not written to")
        dtype = array.dtype
    else:
        try:
            dtype = np.dtype(default if output is None else output)
        except (TypeError, ValueError) as error:
            raise TypeError(f"output must be a dtype or an array; got {output!r}") from error
    if dtype.char not in _DTYPES or not dtype.isnative:
        raise TypeError(f"output must be bool, integer, float32, float64 or complex; got {dtype}")
    if array is None and x.dtype.kind == "c" and dtype.kind != "c":
        dtype = np.promote_types(dtype, np.complex64)
    if dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(f"output must be real for an input of {x.dtype}; got {dtype}")
    if array is None:
        return dtype, None
    if x.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"output must be complex for an input of {x.dtype}; got {dtype}")
    if array.shape != x.shape or backend_of(array) is not backend_of(x):
        raise ValueError(
            f"output must be of the shape {x.shape} and in the memory of input; got shape {array.shape}"
        )
    return dtype, array


def written(result: Any, output: Any) -> Any:
    """Return a result, or the array `output` to which it is written."""
    if output is None:
        return result
    output[...] = result
    return output


def as_mode(mode: Any, modes: Mapping[str, str]) -> str:
    """Return the extension that a mode of SciPy names."""
    if not is_one_of(mode, modes):
        raise ValueError(f"mode must be one of {', '.join(modes)}; got {mode!r}")
    return modes[mode]


def as_cval(cval: Any, x: Any) -> complex:
    """Return the number outside of the array."""
    try:
        value = complex(cval)
    except (OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"cval must be a number; got {cval!r}") from error
    if value.imag and x.dtype.kind != "c":
        raise TypeError(f"cval must be real for an input of {x.dtype}; got {cval!r}")
    return value


def as_known_axis(axis: Any, x: Any) -> int:
    """Return an axis counted from the front, whose chunks are of known sizes."""
    if x.ndim == 0:
        raise ValueError("input must have at least one axis; got a single value")
    axis = as_axis(axis, x.shape)
    _check_known(x, (axis,))
    return int(axis)


def as_axes(axes: Any, x: Any) -> tuple[int, ...]:
    """Return axes counted from the front, whose chunks are of known sizes; all for None."""
    if axes is None:
        checked = tuple(range(x.ndim))
    else:
        is_several = isinstance(axes, Iterable) and getattr(axes, "ndim", 1) > 0
        try:
            values = tuple(axes) if is_several else (axes,)
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(f"axes must be integers; got a {type(axes).__name__}") from error
        checked = tuple(as_axis(axis, x.shape, "each of axes") for axis in values)
        if len(set(checked)) < len(checked):
            raise ValueError(f"axes must be different; got {values}")
    _check_known(x, checked)
    return checked


def for_each_axis(name: str, value: Any, axes: Sequence[int]) -> list[Any]:
    """Return a value for each axis, from one of all or a sequence of them."""
    if is_lazy(value):
        raise TypeError(f"{name} must be numbers in memory; got a Dask array: compute it first")
    if isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1:
        values = list(value)
        if len(values) != len(axes):
            raise ValueError(f"{name} must be one value or {len(axes)}, one for each axis; got {len(values)}")
        return values
    return [value] * len(axes)


def cached(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache what a function returns for numbers and strings, without sequences of them.

    An argument of another type is another one: True is no integer, but (True,) is equal to (1,).
    """
    cached_function = lru_cache(maxsize=256, typed=True)(function)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if tuple in map(type, arguments):
            return function(*arguments)
        try:
            return cached_function(*arguments)
        except TypeError:
            return function(*arguments)

    return call
