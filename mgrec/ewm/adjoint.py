"""Adjoint of exponentially weighted means."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.interop import to_native
from ..scans.functions import linear_recurrence
from ..solve.adjoint import adjoint_function, as_library_of, as_result, shifted, sum_to
from ..solve.functions import full_like, where
from ..solve.rules import Rule, numpy_dtype
from . import statistics
from .by_recurrences import Recurrences
from .statistics import check


@adjoint_function
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

    Parameters
    ----------
    grad : array
        Gradient of y, of its shape.
    x, alpha, span, halflife, com, adjust, axis, min_periods, ignore_na, times, reset
        Arguments of :func:`mgrec.signal.ewm`.

    Returns
    -------
    array
        Gradient of x, of its shape and dtype.

    Raises
    ------
    TypeError, ValueError, RuntimeError
        As for :func:`mgrec.signal.ewm`.

    Examples
    --------
    >>> import numpy as np, mgrec
    >>> mgrec.adjoint.ewm(np.ones(3), np.zeros(3), alpha=0.5, adjust=False)
    array([1.75, 0.75, 0.5 ])
    """
    rates = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    # The weights are constants of the differentiation.
    values = to_native("x", x.detach() if hasattr(x, "detach") else x)
    reset = to_native("reset", reset)
    weights, series, axis = check(
        values, None, rates, "mean", adjust, ignore_na, False, min_periods, axis, times, reset
    )
    grad, x = as_result("x", grad, x)
    recurrences = Recurrences(weights, series, axis)
    kept, gain = recurrences.weights_of_mean()
    is_result = (recurrences.count() >= weights.min_count).astype(np.uint8)
    kept, gain, is_result = (as_library_of(grad, array) for array in (kept, gain, is_result))
    gradient = where(is_result != 0, grad, full_like(grad, 0))
    adjoint = linear_recurrence(shifted(kept, axis, 1), gradient, axis=axis, reverse=True)
    return sum_to(gain * adjoint, x)


def _outlines(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    x = arguments["x"]
    is_narrow = numpy_dtype(x) == np.float32
    return [(x.shape, np.dtype(np.float32 if is_narrow else np.float64))]


def _compose(grad: Any, grad_zf: Any, y: Any, arguments: dict[str, Any], of: Any) -> tuple[Any]:
    return (ewm.compose(grad, **arguments),)  # type: ignore[attr-defined]


_RATES = dict.fromkeys(("alpha", "span", "halflife", "com"), ("float?", None))
_OPTIONS = {
    "adjust": ("bool", True),
    "axis": ("int", -1),
    "min_periods": ("int?", 0),
    "ignore_na": ("bool", False),
}
RULES = [
    Rule(statistics.ewm, _compose, ("x",), {**_RATES, **_OPTIONS}, _outlines, constants=("reset",))
]
