"""Which library an array is of, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from . import labelled, series, tensors

Returned = Callable[[Any], Any]
"""What makes an array of a library's own of a NumPy, CuPy or Dask array."""

_AT_HOME = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple)


class ForeignArray(TypeError):
    """The door was given an array of another library."""


@dataclass(frozen=True)
class Library:
    """How arrays of a type come in and go out.

    Attributes
    ----------
    name : str
        torch, jax, pandas, ...
    taken : callable, ``(name, array, is_written) -> array``
        The NumPy, CuPy or Dask array that one is, without a copy, by the name that messages use.
        `is_written` where it is memory for a result. TypeError where there is none: for a dtype
        of the library's own, gradients, missing integers.
    returning : callable, ``(arrays, named) -> Returned``
        What makes results arrays of the library, as :func:`returning` does.
    listed : callable, ``(list) -> list``, optional
        Numbers in a list, of the dtype that the library gives them if that is not NumPy's.
    """

    name: str
    taken: Callable[[str, Any, bool], Any]
    returning: Callable[[Sequence[Any], Sequence[Any]], Returned]
    listed: Callable[[list[Any]], list[Any]] | None = None


def library_of(array: Any) -> Library | None:
    """The library that an array is of; None of mgrec's own kinds.

    Examples
    --------
    >>> library_of(np.ones(3)) is None
    True
    """
    kind: Any = type(array)
    return _library_of(kind)


@cache
def _library_of(kind: type) -> Library | None:
    root = kind.__module__.partition(".")[0]
    if issubclass(kind, _AT_HOME) or root == "cupy":
        return None
    if labelled.is_labelled(kind):
        return Library("xarray", labelled.taken, labelled.returning)
    if series.is_lazy(kind):
        return Library(root, series.taken_lazily, series.returning_lazily)
    if series.is_series(kind):
        return Library(root, series.taken, series.returning)
    if not hasattr(kind, "__dlpack__"):
        return None
    if root in ("jax", "jaxlib"):
        return Library("jax", tensors.taken, tensors.returning_to_jax, tensors.listed_by_jax)
    module = tensors.module_of(kind)
    if module is None and not hasattr(kind, "__array_namespace__"):
        return None
    return Library(module.__name__ if module else root, tensors.taken, tensors.returning)


def refuse(name: str, value: Any) -> None:
    """Raise ForeignArray where an array is of another library."""
    library = library_of(value)
    if library is not None:
        instead = "numpy.asarray, or cupy.from_dlpack on a GPU, makes one of it"
        if library.name == "xarray":
            instead = "pass its .data"
        raise ForeignArray(
            f"{name} must be a NumPy, CuPy or Dask array here; got one of {library.name}: {instead}"
        )


def taken(name: str, value: Any) -> Any:
    """An array of another library as a NumPy, CuPy or Dask array; anything else as it is."""
    library = library_of(value)
    return value if library is None else library.taken(name, value, False)


def returning(values: Sequence[Any], named: Sequence[Any]) -> Returned:
    """What makes results arrays of the library that all these are of.

    Parameters
    ----------
    values : sequence of arrays
        That a call was given.
    named : sequence of arrays
        Those among them whose names count.

    Raises
    ------
    TypeError
        They are of several libraries.
    ValueError
        They are series of different indices.
    """
    libraries = {library.name: library for library in map(library_of, values) if library}
    if len(libraries) > 1:
        kinds = {library_of(value): type(value).__name__ for value in values}
        got = " and ".join(f"{kind} of {own.name}" for own, kind in kinds.items() if own)
        raise TypeError(
            f"arrays must be of one library, beside those of NumPy and CuPy; got {got}: make them "
            f"of one kind, as results are"
        )
    (library,) = libraries.values()
    return library.returning(values, named)
