"""Which library an array is of, and what it hands over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from . import series, tensors

Returned = Callable[[Any], Any]
"""What makes an array of a library's own of a NumPy, CuPy or Dask array."""

_AT_HOME = (np.ndarray, np.generic, bool, int, float, complex, str, bytes, list, tuple)


class ForeignArray(TypeError):
    """The door was given an array of another library."""


def library_of(array: Any) -> str | None:
    """The library that an array is of: torch, jax, pandas, ...; None of mgrec's own kinds.

    Examples
    --------
    >>> library_of(np.ones(3)) is None
    True
    """
    kind: Any = type(array)
    return _library_of(kind)


@cache
def _library_of(kind: type) -> str | None:
    root = kind.__module__.partition(".")[0]
    if issubclass(kind, _AT_HOME) or root == "cupy":
        return None
    if series.is_series(kind) or series.is_lazy(kind):
        return root
    if not hasattr(kind, "__dlpack__"):
        return None
    if hasattr(kind, "__array_namespace__") or hasattr(sys.modules[root], "from_dlpack"):
        return "jax" if root == "jaxlib" else root
    return None


def refuse(name: str, value: Any) -> None:
    """Raise ForeignArray where an array is of another library."""
    library = library_of(value)
    if library is not None:
        raise ForeignArray(
            f"{name} must be a NumPy, CuPy or Dask array here; got one of {library}: "
            f"numpy.asarray, or cupy.from_dlpack on a GPU, makes one of it"
        )


def taken(name: str, value: Any, is_written: bool = False) -> Any:
    """The NumPy, CuPy or Dask array that an array of another library is, without a copy.

    Parameters
    ----------
    name : str
        For messages.
    is_written : bool
        It is memory for a result.

    Raises
    ------
    TypeError
        It has no such array: a dtype of its library's own, gradients, missing integers.
    """
    kind: Any = type(value)
    if series.is_lazy(kind) or series.is_series(kind):
        if is_written:
            raise TypeError(f"{name} must be an array; got a {kind.__name__}, which is not written")
        return series.taken(name, value)
    return tensors.taken(name, value, is_written)


def returning(values: Sequence[Any]) -> Returned:
    """What makes results arrays of the library that all these are of.

    Raises
    ------
    TypeError
        They are of several libraries.
    ValueError
        They are series of different indices.
    """
    libraries = {library_of(value): type(value).__name__ for value in values}
    if len(libraries) > 1:
        got = " and ".join(f"a {name} of {library}" for library, name in libraries.items())
        raise TypeError(
            f"arrays must be of one library, beside those of NumPy and CuPy; got {got}: make them "
            f"of one kind, as results are"
        )
    kind = type(values[0])
    if series.is_lazy(kind):
        return series.returning_lazy(values)
    return series.returning(values) if series.is_series(kind) else tensors.returning(values[0])
