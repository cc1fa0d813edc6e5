"""Validation of arrays, scalars and states, for all families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..algebra.coefficient import Coefficient
from .casts import cast
from .foreign import refuse
from .layout import shape_of
from .native import as_native

_COMPUTED = "bhilqBHILQfdFDe"


def as_array(name: str, value: Any) -> Any:
    """Return a Python scalar unchanged (it promotes weakly), or an array of a supported dtype."""
    if type(value) in (int, float, complex):
        return value
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got a bool")
    array = as_any_array(name, value)
    check_computed(name, array, value)
    return array


def check_computed(name: str, array: Any, value: Any, others: str = "") -> None:
    """Raise TypeError unless the dtype of an array is supported.

    Parameters
    ----------
    value : object
        Argument from which the array was created.
    others : str
        Characters of further supported dtypes.
    """
    if array.dtype.char not in _COMPUTED + others:
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype of at most 64 bits a "
            f"component; got {array.dtype}{_type_suffix(value)}"
        )


def _type_suffix(value: Any) -> str:
    """Return the type of a value that NumPy converted to an array of objects, for messages."""
    if hasattr(value, "dtype") or isinstance(value, (str, bytes, Sequence)):
        return ""
    if isinstance(value, FunctionType):
        return " (a function: wrap it in mgrec.Coefficient)"
    return " (None)" if value is None else f" (of type {type(value).__name__})"


def as_any_array(name: str, value: Any) -> Any:
    """Return a CuPy, Dask or NumPy array of any dtype, in native byte order and aligned."""
    if type(value) is np.ndarray:
        return as_native(value)
    refuse(name, value)
    if hasattr(type(value), "__cuda_array_interface__"):
        return _on_gpu(name, value)
    return as_plain_array(name, value)


def as_plain_array(name: str, value: Any) -> Any:
    """Return a Dask or NumPy array, in native byte order and aligned.

    Masked arrays and other lazy objects raise TypeError.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array; got a masked array: fill it first")
    # hasattr of the type: to read the graph of a plan's result waits for the solve.
    if hasattr(type(value), "dask") and hasattr(value, "chunks") and hasattr(value, "_meta"):
        if isinstance(value._meta, np.ma.MaskedArray):
            raise TypeError(f"{name} must be plain; got chunks of masked arrays: fill them first")
        return as_native(value)
    if hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None:
        name_of_type, instead = type(value).__name__, "convert it to a Dask array"
        if hasattr(type(value), "dims"):  # type, because a Delayed has every attribute
            instead = "pass a DataArray, or import mgrec.xarray for the methods of .mgrec"
        raise TypeError(
            f"{name} must be a NumPy or Dask array; got a lazy {name_of_type}: {instead}"
        )
    try:
        return as_native(np.asarray(value))
    except (TypeError, ValueError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        raise wrong(
            f"{name} must be convertible to a NumPy array; got {type(value).__name__}: {error}"
        ) from error


def _on_gpu(name: str, value: Any) -> Any:
    if type(value).__module__.partition(".")[0] != "cupy":
        got = f"{type(value).__module__}.{type(value).__name__}"
        raise TypeError(f"{name} must be a CuPy array; got {got}: wrap it with cupy.asarray")
    return value


def arrays_of(operands: Sequence[Any]) -> list[Any]:
    """Return all arrays and scalars among operands, those of coefficients included."""
    arrays: list[Any] = []
    for operand in operands:
        arrays += operand.arrays if isinstance(operand, Coefficient) else [operand]
    return arrays


def broadcast(operands: dict[str, Any]) -> tuple[Any, ...]:
    """Return the broadcast shape; an unknown length (nan) matches any length."""
    shapes = [getattr(value, "shape", ()) for value in arrays_of(list(operands.values()))]
    different = {shape for shape in shapes if shape}
    if len(different) == 1:
        return different.pop()
    ndim = max(map(len, shapes), default=0)
    if ndim == 0:
        names = " and ".join(operands)
        raise ValueError(f"{names} must have at least one array among them; got only scalars")
    shape = []
    for k in range(-ndim, 0):
        lengths = {s[k] for s in shapes if len(s) >= -k and s[k] != 1}
        known = {length for length in lengths if not math.isnan(length)}
        if len(known) > 1:
            got = ", ".join(f"{n}: {_shape_of(v)}" for n, v in operands.items())
            raise ValueError(f"shapes must broadcast; got {got}")
        unknown = len(known) < len(lengths)
        shape.append(math.nan if unknown else known.pop() if known else 1)
    return tuple(shape)


def _shape_of(value: Any) -> Any:
    return list(map(shape_of, value.arrays)) if isinstance(value, Coefficient) else shape_of(value)


def as_scalar(name: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name} must be representable in {dtype}; got {value!r}") from error


def as_state(state: Any, dtype: np.dtype[Any], shape: tuple[Any, ...], axis: int) -> Any:
    """Return `state` in a dtype: a scalar, or an array of the full shape without `axis`."""
    if type(state) in (int, float, complex):
        return as_scalar("initial", state, dtype)
    rows = shape[:axis] + shape[axis + 1 :]
    fits = len(state.shape) <= len(rows) and all(
        have in (1, want) or math.isnan(want) or math.isnan(have)
        for have, want in zip(reversed(state.shape), reversed(rows), strict=False)
    )
    if not fits:
        raise ValueError(
            f"initial must be a scalar or have shape {rows}, the shape without axis {axis}; "
            f"got {state.shape}"
        )
    return cast(state, dtype)
