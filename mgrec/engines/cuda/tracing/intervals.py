"""Error bounds of coefficients with shortened sines and cosines, by interval arithmetic.

A coefficient is called with intervals, each with bounds of its absolute and relative error. They
support sums, products, sines and cosines. A coefficient with other operations, or that subtracts
nearly equal numbers, keeps the sines of its dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

WAVE = 2.0**-30
"""Relative error of ``engines/cuda/scalar/numeric.cuh``."""
ALLOWED = 2.0**-27
"""Largest relative error of a result: an eighth of the rounding error of float32."""


@dataclass(frozen=True)
class Interval(NDArrayOperatorsMixin):
    """Values from `low` to `high`, with bounds of their errors.

    Examples
    --------
    >>> wave = np.sin(Interval(0, 10))
    >>> bool((0.5 + 0.4 * wave).relative < 5 * WAVE), (1 + wave).relative
    (True, inf)
    """

    low: float
    high: float
    absolute: float = 0.0
    relative: float = 0.0

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def least(self) -> float:
        return max(self.low, -self.high, 0.0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operation = _OPERATIONS.get(ufunc.__name__)
        if operation is None or method != "__call__" or kwargs:
            return NotImplemented
        return operation(*map(_interval, inputs))


def _interval(x: Any) -> Interval:
    return x if isinstance(x, Interval) else Interval(float(x), float(x))


def _sum(x: Interval, y: Interval) -> Interval:
    low, high, absolute = x.low + y.low, x.high + y.high, x.absolute + y.absolute
    least = Interval(low, high).least
    relative = 0.0 if absolute == 0 else absolute / least if least > 0 else math.inf
    return Interval(low, high, absolute, relative)


def _product(x: Interval, y: Interval) -> Interval:
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    relative = x.relative + y.relative
    absolute = relative and x.largest * y.absolute + y.largest * x.absolute
    return Interval(min(ends), max(ends), absolute, relative)


def _negative(x: Interval) -> Interval:
    return Interval(-x.high, -x.low, x.absolute, x.relative)


def _wave(x: Interval) -> Interval:
    if x.relative:
        raise ValueError("a sine of a number that is not exact")
    return Interval(-1.0, 1.0, WAVE, WAVE)


_OPERATIONS: dict[str, Callable[..., Interval]] = {
    "add": _sum, "subtract": lambda x, y: _sum(x, _negative(y)), "multiply": _product,
    "negative": _negative, "positive": lambda x: x, "sin": _wave, "cos": _wave,
}  # fmt: skip


def may_shorten_waves(function: Callable[..., Any], operands: int) -> bool:
    """Return whether a coefficient has sines whose errors its rounding to float32 hides."""
    index, numbers = Interval(0.0, 2.0**63), [Interval(-math.inf, math.inf)] * operands
    try:
        result = function(index, *numbers)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return False  # tracing raises the error, if there is one
    return isinstance(result, Interval) and 0 < result.relative <= ALLOWED
