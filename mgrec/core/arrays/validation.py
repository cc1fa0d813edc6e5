"""Validation of the arguments of public functions: numbers, flags, arrays, states and `out`.

A bool is not accepted as a number, nor a number as a flag: `axis` and `reverse` are easily
exchanged.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..algebra.coefficient import Coefficient
from ..backends import CPU, backend_of, common_backend
from .array_types import as_native, cast, is_bfloat16, is_lazy
from .elements import broadcast_shape as common_shape
from .interop import require_native


def as_integer(name: str, value: Any) -> int:
    """Return an integer of Python or NumPy as an int."""
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name} must be an integer; got {value!r}")


def as_axis(value: object, shape: tuple[Any, ...], name: str = "axis") -> int:
    """Return an axis of a shape, counted from the front."""
    axis, ndim = as_integer(name, value), len(shape)
    if not -ndim <= axis < ndim:
        raise ValueError(f"{name} must be from {-ndim} to {ndim - 1} for shape {shape}; got {axis}")
    return axis % ndim


def as_flag(name: str, value: object) -> bool:
    """Return a bool of Python or NumPy as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def is_one_of(value: object, choices: Iterable[Any]) -> bool:
    """Return whether a value is a string among the choices; False for arrays."""
    return isinstance(value, str) and value in choices


def as_real(name: str, value: Any, wanted: str = "a real number") -> float:
    """Return a real number as a float."""
    is_number = not isinstance(value, (bool, str, bytes))
    dtype_kind = getattr(getattr(value, "dtype", None), "kind", "f")
    try:
        if is_number and dtype_kind in "iuf":
            return float(value)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        raise ValueError(f"{name} must be {wanted}; got a number that float64 cannot represent") from None
    raise TypeError(f"{name} must be {wanted}; got {value!r}")


_SUPPORTED = "bhilqBHILQfdFDe"


def as_array(name: str, value: object, takes_bfloat16: bool = False) -> Any:
    """Return a Python scalar unchanged (it promotes weakly), or an array of a supported dtype.

    Arrays of bool are operands, numbers that are bool are not.
    """
    if type(value) in (int, float, complex):
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a number; got a bool")
    array = as_any_array(name, value)
    check_dtype(name, array, value, "?", takes_bfloat16)
    return array


def check_dtype(name: str, array: Any, value: Any, others: str = "", takes_bfloat16: bool = False) -> None:
    """Raise TypeError unless the dtype of an array is supported.

    `value`: argument from which the array was created.
    `others`: characters of further supported dtypes.
    """
    dtype = array.dtype
    if dtype.char not in _SUPPORTED + others and not (takes_bfloat16 and is_bfloat16(dtype)):
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype of at most 64 bits a "
            f"component; got {array.dtype}{_type_suffix(value)}"
        )


def _type_suffix(value: object) -> str:
    """Return the type of a value that NumPy converted to an array of objects, for messages."""
    if hasattr(value, "dtype") or isinstance(value, (str, bytes, Sequence)):
        return ""
    if isinstance(value, FunctionType):
        return " (a function: wrap it in mgrec.Coefficient)"
    return " (None)" if value is None else f" (of type {type(value).__name__})"


def as_any_array(name: str, value: object) -> Any:
    """Return a CuPy, Dask or NumPy array of any dtype, in native byte order and aligned."""
    if type(value) is np.ndarray:
        return as_native(value)
    require_native(name, value)
    backend = backend_of(value)
    if backend is CPU or is_lazy(value):
        return as_plain_array(name, value)
    backend.check_array(name, value)
    return value


def as_plain_array(name: str, value: object) -> Any:
    """Return a Dask or NumPy array, in native byte order and aligned."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array; got a masked array: fill it first")
    # Of the type: an access to the graph of a plan's result waits for the solve.
    if hasattr(type(value), "dask") and hasattr(value, "chunks") and hasattr(value, "_meta"):
        if isinstance(value._meta, np.ma.MaskedArray):
            raise TypeError(f"{name} must be plain; got chunks of masked arrays: fill them first")
        return as_native(value)
    if hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None:
        type_name, instead = type(value).__name__, "convert it to a Dask array"
        if hasattr(type(value), "dims"):  # type, because a Delayed has every attribute
            instead = "pass a DataArray, or import mgrec.xarray for the methods of .mgrec"
        raise TypeError(f"{name} must be a NumPy or Dask array; got a lazy {type_name}: {instead}")
    try:
        return as_native(np.asarray(value))
    except (RuntimeError, TypeError, ValueError) as error:  # torch raises RuntimeError
        error_type = ValueError if isinstance(error, ValueError) else TypeError
        raise error_type(
            f"{name} must be convertible to a NumPy array; got {type(value).__name__}: {error}"
        ) from error


def arrays_of(operands: Sequence[Any]) -> list[Any]:
    """Return all arrays and scalars among operands, those of coefficients included."""
    arrays: list[Any] = []
    for operand in operands:
        arrays += operand.arrays if isinstance(operand, Coefficient) else [operand]
    return arrays


def broadcast_shape(operands: dict[str, Any]) -> tuple[Any, ...]:
    """Return the broadcast shape; an unknown length (nan) matches any length."""
    shapes = [getattr(value, "shape", ()) for value in arrays_of(list(operands.values()))]
    different = {shape for shape in shapes if shape}
    if len(different) == 1:
        return different.pop()
    if not different:
        raise ValueError(f"at least one of {', '.join(operands)} must be an array; got only scalars")
    names = [
        f"array {k} of {name}" if isinstance(operand, Coefficient) else name
        for name, operand in operands.items()
        for k in range(len(arrays_of([operand])))
    ]
    return common_shape(dict(zip(names, shapes, strict=True)), "shapes")


def as_scalar(name: str, value: object, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a number as a 0-d array."""
    try:
        return np.asarray(value, dtype)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name} must be representable in {dtype}; got {value!r}") from error


def broadcasts_to(array_shape: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    """Return whether an array broadcasts to a shape; unknown lengths (nan) do."""
    pairs = zip(reversed(array_shape), reversed(shape), strict=False)
    return len(array_shape) <= len(shape) and all(
        have in (1, want) or math.isnan(have) or math.isnan(want) for have, want in pairs
    )


def as_state(state: Any, dtype: np.dtype[Any], shape: tuple[Any, ...], axis: int) -> Any:
    """Return `state` in a dtype: a scalar, or an array of the full shape without `axis`."""
    if type(state) in (int, float, complex):
        return as_scalar("initial", state, dtype)
    rows = shape[:axis] + shape[axis + 1 :]
    if not broadcasts_to(state.shape, rows):
        raise ValueError(
            f"initial must be a scalar or have shape {rows}, the shape without axis {axis}; got {state.shape}"
        )
    return cast(state, dtype)


def check_out(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], operands: Sequence[Any], count: int | None = None
) -> tuple[Any, ...]:
    """Return the validated arrays for results; an empty tuple if `out` is None.

    They must be writeable, aligned and C-contiguous, and have the shape, dtype and array type of
    the result. They must not share memory with operands, which a kernel may read again. `count` is
    the length of the tuple of results, or None for a single array.
    """
    if out is None:
        return ()
    arrays = out if isinstance(out, tuple) else (out,)
    if isinstance(out, tuple) != (count is not None) or len(arrays) != (count or 1):
        wanted = f"a tuple of {count}" if count else "one array"
        raise TypeError(f"out must be {wanted}, as the state is; got {type(out).__name__}")
    for array in arrays:
        _check_result_array(array, shape, dtype, operands)
    check_memory(arrays, operands, _overlap)
    return arrays


def check_memory(
    results: Sequence[Any], operands: Sequence[Any], overlap: Callable[[Any, Any], bool]
) -> None:
    """Raise ValueError if results share memory with operands or with each other."""
    for number, result in enumerate(results):
        for operand in operands:
            if overlap(result, operand):
                raise ValueError("out must not share memory with an operand; got an array that does")
        for other in results[:number]:
            if overlap(result, other):
                raise ValueError("out must be arrays that share no memory; got two that do")


def _check_result_array(
    array: Any, shape: tuple[int, ...], dtype: np.dtype[Any], operands: Sequence[Any]
) -> None:
    backend = common_backend(operands)
    got = f"{type(array).__module__}.{type(array).__name__}"
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("out must be a plain array; got a masked array: pass its data")
    if not isinstance(array, backend.array_type(operands)):
        raise TypeError(f"out must be {backend.array_name}, as the operands are; got {got}")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out must have shape {shape} and dtype {dtype}; got {array.shape} and {array.dtype}"
        )
    if not array.flags.c_contiguous or not getattr(array.flags, "writeable", True):
        raise ValueError("out must be C-contiguous and writeable; got an array that is not")
    if not getattr(array.flags, "aligned", True):
        raise ValueError("out must be aligned; got an array at an address that is not")


def _overlap(array: Any, other: Any) -> bool:
    """Return whether two arrays may share memory."""
    backend = backend_of(array)
    return backend_of(other) is backend and backend.may_share_memory(array, other)


def extents_overlap(extent: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two ranges of addresses, each from a start to a stop, share one."""
    return extent[0] < other[1] and other[0] < extent[1]
