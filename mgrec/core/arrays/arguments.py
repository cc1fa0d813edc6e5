"""Validation of single numbers and flags.

A bool is not accepted as a number, nor a number as a flag: `axis` and `reverse` are easily
exchanged.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np


def as_integer(name: str, value: Any) -> int:
    """Return an integer of Python or NumPy as an int."""
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name} must be an integer; got {value!r}")


def as_axis(value: Any, shape: tuple[Any, ...]) -> int:
    """Return an axis of a shape, counted from the front."""
    axis, ndim = as_integer("axis", value), len(shape)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis must be from {-ndim} to {ndim - 1} for shape {shape}; got {axis}")
    return axis % ndim


def as_flag(name: str, value: Any) -> bool:
    """Return a bool of Python or NumPy as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}")
    return bool(value)


def is_one_of(value: Any, choices: Iterable[Any]) -> bool:
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
        raise ValueError(
            f"{name} must be {wanted}; got a number that float64 cannot represent"
        ) from None
    raise TypeError(f"{name} must be {wanted}; got {value!r}")
