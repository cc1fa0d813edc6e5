"""Series and DataFrames with an index: those of pandas and cuDF, and lazy ones of Dask."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np


def is_series(array_type: type) -> bool:
    """Return whether a type is an in-memory Series or DataFrame with pandas' protocol."""
    return all(hasattr(array_type, name) for name in ("iloc", "index", "to_numpy"))


def is_lazy(array_type: type) -> bool:
    """Return whether a type is a Series or a DataFrame of Dask."""
    return hasattr(array_type, "to_dask_array") and hasattr(array_type, "divisions")


def taken(name: str, value: Any, is_written: bool) -> Any:
    """Return the numbers of a Series, or of a DataFrame, whose axes are (rows, columns)."""
    _check_read(name, value, is_written)
    if hasattr(value, "to_cupy"):
        return _checked(name, value, value.to_cupy)
    if value.ndim == 1 and not isinstance(value.dtype, np.dtype):
        return _of_extension(name, value)
    return value.to_numpy()


def taken_lazily(name: str, value: Any, is_written: bool) -> Any:
    """Return a Dask array with one chunk a partition, of unknown length."""
    _check_read(name, value, is_written)
    return value.to_dask_array()


def _check_read(name: str, value: Any, is_written: bool) -> None:
    if is_written:
        raise TypeError(f"{name} must be an array; got a {type(value).__name__}")


def _checked(name: str, value: Any, take: Callable[..., Any]) -> Any:
    try:
        return take()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must contain numbers of a NumPy dtype, and missing values only of floats; got "
            f"{value.dtype if value.ndim == 1 else type(value).__name__}: fill or cast it first"
        ) from error


def _of_extension(name: str, value: Any) -> Any:
    """Return the numbers of a nullable dtype, with nan for missing floats; strings as NumPy's.

    Labels keep their dtype: the validation of `reset` compares those of any dtype.
    """
    if name == "reset" and value.dtype.kind not in "biuf":
        return value.array
    is_text = value.dtype.type is str
    dtype = np.dtype(str) if is_text else getattr(value.dtype, "numpy_dtype", np.dtype(object))
    missing = {"na_value": np.nan} if dtype.kind == "f" else {}
    return _checked(name, value, partial(value.to_numpy, dtype=dtype, **missing))


def returning(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that gives results of the same shape the common index."""
    first = values[0]
    for other in values[1:]:
        if other.ndim != first.ndim or not other.index.equals(first.index):
            raise ValueError(
                f"series must have the same index, and cannot be combined with tables; got "
                f"{_shown(first)} and {_shown(other)}: reindex one, or pass its values"
            )
    return partial(_returned, first, _names(named))


def _shown(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value.index)} rows"


def _names(named: Sequence[Any]) -> dict[str, Any]:
    """Return the common name of series, or None, as pandas does; the columns of a DataFrame."""
    if named[0].ndim > 1:
        return {"columns": named[0].columns}
    names = [value.name for value in named]
    return {"name": names[0] if all(name == names[0] for name in names) else None}


def _returned(first: Any, names: dict[str, Any], array: Any) -> Any:
    if array.shape != first.shape:
        return array
    return type(first)(array, index=first.index, **names)


def returning_lazily(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that gives lazy results the index and the divisions."""
    first = values[0]
    for other in values[1:]:
        if other.ndim != first.ndim or other.divisions != first.divisions:
            raise ValueError(
                f"series of Dask must have the same divisions; got {first.divisions} and "
                f"{other.divisions}: repartition one"
            )
    names = _names(named)
    return partial(_returned_lazily, first, names.get("columns", names.get("name")))


def _returned_lazily(first: Any, columns: Any, array: Any) -> Any:
    if array.ndim != first.ndim:
        return array
    frames = sys.modules["dask.dataframe"]
    return frames.from_dask_array(array, columns=columns, index=first.index)
