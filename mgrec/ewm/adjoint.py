"""Adjoint of exponentially weighted means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.interop import is_differentiated, to_native
from ..scans.functions import linear_recurrence
from ..solve.adjoint import adjoint_function, as_library_of, shifted, summed
from ..solve.functions import full_like, where
from ..solve.rules import Rule, numpy_dtype
from . import statistics
from .by_recurrences import Recurrences, delayed
from .statistics import RATES, check


@partial(adjoint_function, function="mgrec.signal.ewm", result="x", arrays=("x",))
def ewm(
    grad: Any,
    x: Any,
    *,
    alpha: float | None = None,
    span: float | None = None,
    halflife: Any = None,
    com: float | None = None,
    adjust: bool = True,
    axis: int = -1,
    min_periods: int | None = 0,
    ignore_na: bool = False,
    times: Any = None,
    reset: Any = None,
) -> Any:
    """Return the gradient of x of ``y = mgrec.signal.ewm(x)``, the exponentially weighted mean.

    The mean is y_i = k_i·y_{i-1} + c_i·x_i, with weights k and c = 1 − k that depend only on which
    values are missing; k_i = 1 at missing ones. The gradient of x_i is c_i·λ_i with

        λ_i = g_i + k_{i+1}·λ_{i+1}

    where g is the gradient of y. It is 0 at missing values, and g is taken as 0 where y is nan.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> mgrec.adjoint.ewm(np.ones(3), np.zeros(3), alpha=0.5, adjust=False)
    array([1.75, 0.75, 0.5 ])
    """
    rates = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    options = {"adjust": adjust, "axis": axis, "min_periods": min_periods, "ignore_na": ignore_na}
    return (_Adjoint.of(grad, x, rates, reset, times=times, **options).of_x(),)


@dataclass(frozen=True)
class _Adjoint:
    """The solution λ of the adjoint of a mean, and the recurrences and the values of the mean."""

    adjoint: Any
    gain: Any
    recurrences: Recurrences
    values: Any

    @classmethod
    def of(cls, grad: Any, x: Any, rates: dict[str, Any], reset: Any, **options: Any) -> _Adjoint:
        """Solve the adjoint of a mean; `options` are further arguments of ``ewm``."""
        # The weights are constants of the differentiation.
        values = to_native("x", x.detach() if hasattr(x, "detach") else x)
        options |= {"reset": to_native("reset", reset), "bias": False}
        weights, series, axis = check(values, None, rates, "mean", **options)
        recurrences = Recurrences(weights, series, axis)
        kept, gain = recurrences.weights_of_mean()
        is_result = (recurrences.count() >= weights.min_count).astype(np.uint8)
        kept, gain, is_result = (as_library_of(grad, array) for array in (kept, gain, is_result))
        gradient = where(is_result != 0, grad, full_like(grad, 0))
        adjoint = linear_recurrence(shifted(kept, axis, 1), gradient, axis=axis, reverse=True)
        return cls(adjoint, gain, recurrences, series["x"])

    def of_x(self) -> Any:
        """Return the gradient of x."""
        return self.gain * self.adjoint

    def of_rate(self, name: str, rate: float) -> Any:
        """Return the gradient of a rate; that of α is the sum of λ_i·(x_i − y_{i−1})·dk_i/d(1 − α)."""
        recurrences = self.recurrences
        zero = full_like(self.adjoint, 0)
        values = where(recurrences.is_present, self.values, zero)
        before = delayed(recurrences.mean(values), recurrences.axis)
        slopes = recurrences.slope_of_kept() * (values - before)
        return where(recurrences.is_present, self.adjoint * slopes, zero).sum() * RATES[name].slope(rate)


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["x"]
    is_narrow = numpy_dtype(x) == np.float32
    return [(x.shape, np.dtype(np.float32 if is_narrow else np.float64))]


def _compose(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Sequence[str]) -> Any:
    rates = {name: arguments[name] for name in RATES if arguments[name] is not None}
    for name, rate in rates.items():
        if is_differentiated(rate):
            raise NotImplementedError(f"ewm has no second derivatives where {name} has a gradient")
    rates = dict.fromkeys(RATES) | {name: float(rate) for name, rate in rates.items()}
    options = {name: arguments[name] for name in (*_OPTIONS, "reset")}
    adjoint = _Adjoint.of(grad, arguments["x"], rates, times=None, **options)
    of_rates = {name: partial(adjoint.of_rate, name, rate) for name, rate in rates.items()}
    return summed({"x": adjoint.of_x} | of_rates, arguments, of)


_OPTIONS = {
    "adjust": ("bool", True),
    "axis": ("int", -1),
    "min_periods": ("int?", 0),
    "ignore_na": ("bool", False),
}
RULES = [
    Rule(
        statistics.ewm,
        _compose,
        ("x", *(f"{name}?" for name in RATES)),
        _OPTIONS,
        _outlines,
        constants=("reset",),
        numbers=tuple(RATES),
    )
]
