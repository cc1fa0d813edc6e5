"""Series and DataFrames with an index: those of pandas and cuDF, and lazy ones of Dask.

A DataFrame has the axes (rows, columns). In a call with a DataFrame, a Series has one number for
each column, as in pandas; marks and times have one for each row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .array_types import is_lazy

_OF_STEPS = ("reset", "times")
"""Arguments with one entry for each step."""


def series_to_native(name: str, value: Any, is_written: bool) -> Any:
    """Return the numbers of a Series, or of a DataFrame, whose axes are (rows, columns)."""
    _require_read_only(name, value, is_written)
    if hasattr(type(value), "to_cupy"):
        return _convert_numbers(name, value, value.to_cupy)
    if value.ndim == 1 and not isinstance(value.dtype, np.dtype):
        return _extension_to_numpy(name, value)
    return value.to_numpy()


def dask_series_to_native(name: str, value: Any, is_written: bool) -> Any:
    """Return a Dask array with one chunk a partition, of unknown length."""
    _require_read_only(name, value, is_written)
    return value.to_dask_array()


def _require_read_only(name: str, value: object, is_written: bool) -> None:
    if is_written:
        raise TypeError(f"{name} must be an array; got a {type(value).__name__}")


def _convert_numbers(name: str, value: Any, convert: Callable[..., Any]) -> Any:
    try:
        return convert()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must contain numbers of a NumPy dtype, and missing values only of floats; got "
            f"{value.dtype if value.ndim == 1 else type(value).__name__}: fill or cast it first"
        ) from error


def _extension_to_numpy(name: str, value: Any) -> Any:
    """Return the numbers of a nullable dtype, with nan for missing floats; strings as NumPy's.

    Labels keep their dtype: the validation of `reset` compares those of any dtype.
    """
    if name == "reset" and value.dtype.kind not in "biuf":
        return value.array
    is_text = value.dtype.type is str
    dtype = np.dtype(str) if is_text else getattr(value.dtype, "numpy_dtype", np.dtype(object))
    missing = {"na_value": np.nan} if dtype.kind == "f" else {}
    return _convert_numbers(name, value, partial(value.to_numpy, dtype=dtype, **missing))


def is_series(value: object) -> bool:
    """Return whether a value is a Series or a DataFrame."""
    return is_of_dask(value) or hasattr(type(value), "iloc")


def is_of_dask(value: object) -> bool:
    """Return whether a Series or a DataFrame is one of Dask.

    Labels of pandas are attributes of a Series, too, but not of its type.
    """
    return hasattr(type(value), "divisions")


def check_labels(arguments: Sequence[tuple[str, Any]]) -> None:
    """Raise ValueError if Series and DataFrames among the arguments of a call differ in labels.

    `arguments`, sequence of (str, array): names and values of the arguments that are arrays of
      other libraries.
    """
    series = [(name, value) for name, value in arguments if is_series(value)]
    if len(series) < 2:
        return
    first_name, first = max(series, key=lambda argument: argument[1].ndim)
    for name, value in series:
        if value.ndim < first.ndim and name not in _OF_STEPS:
            _check_columns(name, value, first_name, first)
        else:
            _check_index(first_name, first, name, value)
        if first.ndim == value.ndim > 1:
            _check_same(f"{first_name} and {name}", "columns", first.columns, value.columns)


def check_steps(arguments: Sequence[tuple[str, Any]]) -> None:
    """Raise ValueError if Series and DataFrames, whose rows are steps, differ in their index."""
    series = [(name, value) for name, value in arguments if is_series(value)]
    for name, value in series[1:]:
        _check_index(*series[0], name, value)


def _check_index(first_name: str, first: Any, name: str, value: Any) -> None:
    if not is_of_dask(first):
        _check_same(f"{first_name} and {name}", "index", first.index, value.index)
    elif value.divisions != first.divisions:
        raise ValueError(
            f"series of Dask must have the same divisions; got {first.divisions} and "
            f"{value.divisions}: repartition one"
        )


def _check_same(names: str, what: str, index: Any, other: Any) -> None:
    if not index.equals(other):
        raise ValueError(
            f"{names} must have the same {what}; got {_difference(index, other)}: reindex one, or "
            f"pass its values"
        )


def _check_columns(name: str, value: Any, table_name: str, table: Any) -> None:
    """Raise ValueError unless a Series has one number for each column of a DataFrame."""
    is_lazy_series = is_of_dask(value)
    if is_lazy_series or not value.index.equals(table.columns):
        got = "a lazy one" if is_lazy_series else _difference(table.columns, value.index)
        raise ValueError(
            f"{name} must have the columns of {table_name} as its index; got "
            f"{got}: for one number a row, pass {name} as a DataFrame that repeats it in each of "
            f"the columns, such as pandas.DataFrame({{column: {name} for column in {table_name}}})"
        )


def _difference(index: Any, other: Any) -> str:
    """Return a description of how two indices differ."""
    if len(index) != len(other):
        return f"{len(index)} and {len(other)} labels"
    is_reordered = not len(index.difference(other)) and not len(other.difference(index))
    index, other = (
        labels.to_pandas() if hasattr(labels, "to_pandas") else labels for labels in (index, other)
    )
    pairs = enumerate(zip(map(repr, index), map(repr, other), strict=True))
    position, (label, other_label) = next(pair for pair in pairs if pair[1][0] != pair[1][1])
    what = "the same labels in another order" if is_reordered else "different labels"
    return f"{what}, first {label} and {other_label} at {position}"


def series_converter(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that gives results of the same shape the index."""
    first = max(values, key=lambda value: value.ndim)
    return partial(_as_series, first, _result_names(first, named))


def _result_names(first: Any, named: Sequence[Any]) -> dict[str, Any]:
    """Return the common name of series, or None, as pandas does; the columns of a DataFrame."""
    if first.ndim > 1:
        return {"columns": first.columns}
    names = [value.name for value in named]
    return {"name": names[0] if all(name == names[0] for name in names) else None}


def _as_series(first: Any, names: dict[str, Any], array: Any) -> Any:
    # A Series and a Dask array give a lazy result.
    if is_lazy(array) or array.shape != first.shape:
        return array
    return type(first)(array, index=first.index, **names)


def dask_series_converter(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function that gives lazy results the index and the divisions."""
    first = max(values, key=lambda value: value.ndim)
    names = _result_names(first, named)
    return partial(_as_dask_series, first, names.get("columns", names.get("name")))


def _as_dask_series(first: Any, columns: Any, array: Any) -> Any:
    if array.ndim != first.ndim:
        return array
    frames = sys.modules["dask.dataframe"]
    return frames.from_dask_array(array, columns=columns, index=first.index)


def label_rows(first: Any, array: Any, has_columns: bool) -> Any:
    """Return a result with one row a step as a Series or a DataFrame with an index.

    `first`: its index is that of the result.
    `array`: one with more than two axes is returned unchanged.
    `has_columns`: whether the result has the columns of `first`, if this is a DataFrame.
    """
    if array.ndim > 2 or is_lazy(array) != is_of_dask(first):
        return array
    columns = first.columns if has_columns and first.ndim == array.ndim == 2 else None
    if is_of_dask(first):
        frames = sys.modules["dask.dataframe"]
        if array.ndim == 2 and columns is None:
            columns = range(array.shape[1])
        return frames.from_dask_array(array, columns=columns, index=first.index)
    library = sys.modules[type(first).__module__.partition(".")[0]]
    if array.ndim == 1:
        return library.Series(array, index=first.index)
    return library.DataFrame(array, index=first.index, columns=columns)
