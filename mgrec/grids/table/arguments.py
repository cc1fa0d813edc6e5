"""Arguments of summed-area tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.validation import as_any_array, as_axis
from ...core.contract.problem import Problem
from .recurrence import SummedAreaTable

_SUMMED = "?bhilqBHILQfdFD"


def check_table(x: Any, axes: Any, dtype: Any, out: Any) -> tuple[Problem, tuple[int, ...]]:
    """Arguments of ``summed_area_table``; the axes before the last two are left to be summed."""
    x = as_any_array("x", x)
    if x.dtype.char not in _SUMMED:
        raise TypeError(
            f"x must be bool, integer, float32, float64 or complex; got {x.dtype}: cast it first"
        )
    if not isinstance(axes, (tuple, list)) or len(axes) < 2:
        raise ValueError(f"axes must be two axes or more; got {axes!r}")
    if x.ndim < 2:
        raise ValueError(f"x must have two axes or more; got shape {x.shape}")
    *others, down, right = (as_axis(axis, x.shape) for axis in axes)
    if len({*others, down, right}) < len(axes):
        raise ValueError(f"axes must be different axes; got {axes!r}")
    summed = _dtype_of_sums(x.dtype, dtype)
    recurrence = SummedAreaTable(
        dtype=summed,
        result_dtype=summed,
        varying=((True,) * x.ndim,),
        block_dtypes=(x.dtype,),
        axes=(down, right),
    )
    return Problem(recurrence, (x,), (), tuple(x.shape), out=out), tuple(others)


def _dtype_of_sums(own: np.dtype[Any], asked: Any) -> np.dtype[Any]:
    """What ``numpy.cumsum`` adds up in: at least the platform's integer."""
    if asked is None:
        return np.cumsum(np.empty(0, own)).dtype
    try:
        dtype = np.dtype(asked)
    except (TypeError, ValueError) as error:
        raise TypeError(f"dtype must be one of NumPy's; got {asked!r}") from error
    if not dtype.isnative:
        raise TypeError(f"dtype must be in native byte order; got {dtype}")
    if dtype.char not in _SUMMED or dtype.kind == "b" or not np.can_cast(own, dtype, "same_kind"):
        raise TypeError(f"dtype must be one that x of {own} can be added up in; got {dtype}")
    return dtype
