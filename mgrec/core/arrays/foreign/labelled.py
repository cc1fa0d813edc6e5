"""DataArrays of xarray, whose dimensions have names: see ``placement/labelled.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def is_labelled(array_type: type) -> bool:
    """Return whether a type is xarray's DataArray, or derived from it."""
    names = ((base.__module__.partition(".")[0], base.__name__) for base in array_type.__mro__)
    return ("xarray", "DataArray") in names


def taken(name: str, value: Any, is_written: bool) -> Any:
    """Return the array of a DataArray."""
    return value.data


def returning(values: Sequence[Any], named: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the identity, for results to which no dimension belongs."""
    return lambda array: array
