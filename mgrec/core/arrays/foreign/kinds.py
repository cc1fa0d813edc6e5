"""The library that owns an array, and its adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from . import labelled, series, tensors

Returned = Callable[[Any], Any]
"""Function that converts a NumPy, CuPy or Dask array to an array of another library."""

_NATIVE = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple)


class ForeignArray(TypeError):
    """Raised by validation for an array of another library."""


@dataclass(frozen=True)
class Library:
    """Adapter between arrays of a library and native arrays.

    Attributes
    ----------
    name : str
        Name of the library: torch, jax, pandas, ...
    taken : callable, ``(name, array, is_written) -> array``
        Function that returns the NumPy, CuPy or Dask array of an array, without a copy. `name` is
        the argument's name in messages. `is_written` states that the memory is for a result. It
        raises TypeError for a dtype of the library's own, gradients, and missing integers.
    returning : callable, ``(arrays, named) -> Returned``
        Function that returns the conversion of results, as :func:`returning` does.
    listed : callable, ``(list) -> list``, optional
        Function that converts numbers of a list to the library's dtype, if it is not NumPy's.
    """

    name: str
    taken: Callable[[str, Any, bool], Any]
    returning: Callable[[Sequence[Any], Sequence[Any]], Returned]
    listed: Callable[[list[Any]], list[Any]] | None = None


def library_of(array: Any) -> Library | None:
    """Return the library that owns an array; None for NumPy, CuPy and Dask.

    Examples
    --------
    >>> library_of(np.ones(3)) is None
    True
    """
    array_type: Any = type(array)
    return _library_of(array_type)


@cache
def _library_of(array_type: type) -> Library | None:
    root = array_type.__module__.partition(".")[0]
    if issubclass(array_type, _NATIVE) or root == "cupy":
        return None
    if labelled.is_labelled(array_type):
        return Library("xarray", labelled.taken, labelled.returning)
    if series.is_lazy(array_type):
        return Library(root, series.taken_lazily, series.returning_lazily)
    if series.is_series(array_type):
        return Library(root, series.taken, series.returning)
    if not hasattr(array_type, "__dlpack__"):
        return None
    if root in ("jax", "jaxlib"):
        return Library("jax", tensors.taken, tensors.returning_to_jax, tensors.listed_by_jax)
    module = tensors.module_of(array_type)
    if module is None and not hasattr(array_type, "__array_namespace__"):
        return None
    return Library(module.__name__ if module else root, tensors.taken, tensors.returning)


def refuse(name: str, value: Any) -> None:
    """Raise ForeignArray if an array belongs to another library."""
    library = library_of(value)
    if library is not None:
        instead = "convert it by numpy.asarray, or by cupy.from_dlpack on a GPU"
        if library.name == "xarray":
            instead = "pass its .data"
        raise ForeignArray(
            f"{name} must be a NumPy, CuPy or Dask array here; got one of {library.name}: {instead}"
        )


def taken(name: str, value: Any) -> Any:
    """Return the native array of an array of another library; return other values unchanged."""
    library = library_of(value)
    return value if library is None else library.taken(name, value, False)


def returning(values: Sequence[Any], named: Sequence[Any]) -> Returned:
    """Return the function that converts results to arrays of the library of all arguments.

    Parameters
    ----------
    values : sequence of arrays
        Arguments of a call.
    named : sequence of arrays
        Arguments among them whose names are kept.

    Raises
    ------
    TypeError
        If they belong to several libraries.
    ValueError
        If they are series of different indices.
    """
    libraries = {library.name: library for library in map(library_of, values) if library}
    if len(libraries) > 1:
        types = {library_of(value): type(value).__name__ for value in values}
        got = " and ".join(
            f"{name} of {library.name}" for library, name in types.items() if library
        )
        raise TypeError(
            f"arrays must be of one library, in addition to NumPy and CuPy; got {got}: convert "
            f"them to one array type, which the results have"
        )
    (library,) = libraries.values()
    return library.returning(values, named)
