"""The door: every argument is checked, promoted and laid out here, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ..algebra.affine import affine
from ..algebra.coefficient import Coefficient
from ..algebra.transfer_map import TransferMap
from .arguments import as_axis, as_flag
from .kinds import check_together

_COMPUTED = "bhilqBHILQfdFDe"


@dataclass(frozen=True)
class Problem:
    """A recurrence over arrays, checked.

    Attributes
    ----------
    transfer_map : TransferMap
    operands : tuple of arrays, scalars and Coefficient
        Native byte order, broadcastable to `shape`.
    initial : tuple of arrays or scalars
        One a scalar of the state, broadcastable to `shape` without `axis`.
    shape : tuple of int or nan
        Of every result. nan where a Dask array does not know.
    axis : int
        0 or more.
    dtype, result_dtype : numpy.dtype
        In which the recurrence is computed, and of the results: they differ for float16.
    reverse : bool
    is_several : bool
        The state is a tuple, and so is the result.
    """

    transfer_map: TransferMap
    operands: tuple[Any, ...]
    initial: tuple[Any, ...]
    shape: tuple[Any, ...]
    axis: int
    dtype: np.dtype[Any]
    result_dtype: np.dtype[Any]
    reverse: bool
    is_several: bool

    @property
    def row_shape(self) -> tuple[Any, ...]:
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]


def check(
    transfer_map: TransferMap,
    operands: dict[str, Any],
    initial: Any,
    axis: int,
    reverse: bool,
    kinds: str = "iufc",
) -> Problem:
    """Check the arguments of a recurrence.

    Parameters
    ----------
    transfer_map : TransferMap
    operands : dict, name -> array_like, scalar or Coefficient
        By the names that messages use.
    initial : scalar, array_like, or tuple of these
    axis : int
    reverse : bool
    kinds : str
        Kinds of dtype that the recurrence is computed in; integers become floats where "i"
        is not among them.

    Returns
    -------
    Problem

    Raises
    ------
    TypeError
        A dtype or a kind of array that no recurrence can be computed in, an axis that is no
        integer, or a direction that is no bool.
    ValueError
        Shapes that do not fit, or an axis that is not there.
    """
    checked = {name: _operand(name, value) for name, value in operands.items()}
    states = initial if isinstance(initial, tuple) else (initial,)
    if isinstance(initial, tuple) and len(initial) < 2:
        raise ValueError("initial must be a scalar where the state is one; got a tuple of 1")
    states = tuple(_array("initial", state) for state in states)
    named = [(name, array) for name in checked for array in arrays_of([checked[name]])]
    check_together(named, [("initial", state) for state in states])
    shape = _broadcast(checked)
    axis = as_axis(axis, shape)
    result_dtype = _result_dtype(checked, states, kinds)
    dtype = np.dtype(np.float32) if result_dtype == np.float16 else result_dtype
    is_cast = transfer_map == affine
    return Problem(
        transfer_map,
        tuple(_promoted(name, value, dtype, is_cast) for name, value in checked.items()),
        tuple(_initial(state, dtype, shape, axis) for state in states),
        shape,
        axis,
        dtype,
        result_dtype,
        as_flag("reverse", reverse),
        isinstance(initial, tuple),
    )


def as_rows(initial: Any) -> Any:
    """`initial` of a recurrence whose state is one scalar: a tuple is an array of rows."""
    return np.asarray(initial) if isinstance(initial, tuple) else initial


def _operand(name: str, value: Any) -> Any:
    if isinstance(value, Coefficient):
        arrays = [_array(f"array {k} of {name}", array) for k, array in enumerate(value.arrays)]
        return Coefficient.of(value.function, *arrays)
    return _array(name, value)


def _array(name: str, value: Any) -> Any:
    """A Python scalar as it is (it promotes weakly), or an array of a computable dtype."""
    if type(value) in (int, float, complex):
        return value
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got a bool")
    array = value if type(value) is np.ndarray else _as_array(name, value)
    if array.dtype.char not in _COMPUTED:
        raise TypeError(
            f"{name} must be of an integer, floating or complex dtype of at most 64 bits a "
            f"component; got {array.dtype}{_kind_of(value)}"
        )
    return array


def _kind_of(value: Any) -> str:
    """What NumPy made an array of objects of, where it was no array."""
    if hasattr(value, "dtype") or isinstance(value, (str, bytes, Sequence)):
        return ""
    if isinstance(value, FunctionType):
        return " (a function: wrap it in mgrec.Coefficient)"
    return " (None)" if value is None else f" (of type {type(value).__name__})"


def _as_array(name: str, value: Any) -> Any:
    if hasattr(type(value), "__cuda_array_interface__"):
        return _on_gpu(name, value)
    return as_plain_array(name, value)


def as_plain_array(name: str, value: Any) -> Any:
    """A Dask array, or what NumPy makes one of; other lazy objects, which it would compute, not."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array; got a masked array: fill it first")
    if hasattr(value, "dask") and hasattr(value, "chunks") and hasattr(value, "_meta"):
        if isinstance(value._meta, np.ma.MaskedArray):
            raise TypeError(f"{name} must be plain; got chunks of masked arrays: fill them first")
        return value
    if hasattr(value, "__dask_graph__") and value.__dask_graph__() is not None:
        kind, instead = type(value).__name__, "make a Dask array of it"
        if hasattr(type(value), "dims"):  # a Delayed has whatever it is asked for
            instead = "pass its .data, or use xarray.apply_ufunc(..., dask='allowed')"
        raise TypeError(f"{name} must be a NumPy or Dask array; got a lazy {kind}: {instead}")
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        raise wrong(
            f"{name} must be what NumPy makes an array of; got {type(value).__name__}: {error}"
        ) from error


def _on_gpu(name: str, value: Any) -> Any:
    if type(value).__module__.partition(".")[0] != "cupy":
        kind = f"{type(value).__module__}.{type(value).__name__}"
        raise TypeError(f"{name} must be a CuPy array; got {kind}: wrap it with cupy.asarray")
    return value


def arrays_of(operands: Sequence[Any]) -> list[Any]:
    """All arrays and scalars among operands, those of coefficients included."""
    found: list[Any] = []
    for operand in operands:
        found += operand.arrays if isinstance(operand, Coefficient) else [operand]
    return found


def _broadcast(operands: dict[str, Any]) -> tuple[Any, ...]:
    """NumPy's broadcasting, where an unknown length (nan) fits 1 and an unknown length."""
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
            given = ", ".join(f"{n}: {_shape_of(v)}" for n, v in operands.items())
            raise ValueError(f"shapes must broadcast; got {given}")
        unknown = len(known) < len(lengths)
        shape.append(math.nan if unknown else known.pop() if known else 1)
    return tuple(shape)


def _shape_of(value: Any) -> Any:
    return (
        [np.shape(a) for a in value.arrays] if isinstance(value, Coefficient) else np.shape(value)
    )


def _result_dtype(operands: dict[str, Any], states: Sequence[Any], kinds: str) -> np.dtype[Any]:
    values = [v for v in operands.values() if not isinstance(v, Coefficient)]
    promoting = [getattr(value, "dtype", value) for value in (*values, *states)]
    dtype = np.result_type(*promoting)
    if dtype.kind in "iu" and (len(values) < len(operands) or "i" not in kinds):
        dtype = np.result_type(dtype, 1.0)
    if dtype.kind not in kinds:
        raise TypeError(f"{', '.join(operands)} must be real; got {dtype}")
    return dtype


def _promoted(name: str, value: Any, dtype: np.dtype[Any], is_cast: bool) -> Any:
    if isinstance(value, Coefficient):
        arrays = [_promoted(name, array, dtype, False) for array in value.arrays]
        return Coefficient.of(value.function, *arrays)
    if type(value) in (int, float, complex):
        return _scalar(name, value, dtype)
    if is_cast:
        return value if value.dtype == dtype else value.astype(dtype)
    native = np.dtype(np.float32) if value.dtype == np.float16 else value.dtype.newbyteorder("=")
    return value if value.dtype == native else value.astype(native)


def _scalar(name: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{name} must be representable in {dtype}; got {value!r}") from error


def _initial(state: Any, dtype: np.dtype[Any], shape: tuple[Any, ...], axis: int) -> Any:
    state = _scalar("initial", state, dtype) if not hasattr(state, "dtype") else state
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
    return state if state.dtype == dtype else state.astype(dtype)
