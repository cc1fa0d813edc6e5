"""Exponentially weighted means, sums, variances and correlations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, chunked_like, is_lazy, without_empty_chunks
from ..core.backends import backend_of
from ..distributed.expressions import accepts_expressions
from ..solve import solve, with_interop
from .arguments import check
from .by_recurrences import by_recurrences, largest_size, mean_without_gaps
from .recurrence import Weights, ewm_problem


@with_interop
@accepts_expressions
def ewm(
    x: Any,
    *,
    alpha: float | None = None,
    span: float | None = None,
    halflife: Any = None,
    com: float | None = None,
    adjust: bool = True,
    axis: int = -1,
    statistic: str = "mean",
    other: Any = None,
    min_periods: int | None = 0,
    ignore_na: bool = False,
    times: Any = None,
    bias: bool = False,
    reset: Any = None,
) -> Any:
    """Compute an exponentially weighted statistic along an axis, as pandas' ``ewm`` does.

    The weight of each value is 1 − α times the weight of the next value. Exactly one of `alpha`,
    `span`, `halflife` and `com` must be given, except that `times` takes `halflife` and may take
    one of the others.

    The function returns the statistic itself: ``ewm(x, span=3, statistic="std")`` is pandas'
    ``x.ewm(span=3).std()``, while ``ewm(x, span=3).std()`` is the standard deviation of the means.

    Parameters
    ----------
    x : array_like, CuPy or dask.array.Array
        Real numbers. nan and inf are missing values, as in pandas.
    alpha : float, optional
        α, 0 < α ≤ 1.
    span : float, optional
        Span ≥ 1, with α = 2/(span + 1).
    halflife : float, or timedelta with `times`, optional
        Number of steps > 0 in which a weight halves, with α = 1 − 2**(−1/halflife). With `times` it
        is a duration: numpy.timedelta64, datetime.timedelta, or a string that pandas parses.
    com : float, optional
        Centre of mass ≥ 0, with α = 1/(1 + com).
    adjust : bool, optional
        If True, divide by the sum of the weights. If False, the first value represents all values
        before it: y_i = (1 − α)·y_{i−1} + α·x_i.
    axis : int, optional
        Axis along which to compute. The default is the last, while that of pandas is 0.
    statistic : {"mean", "sum", "var", "std", "cov", "corr"}, optional
        Statistic to compute.
    other : array_like, optional
        Second series of "cov" and "corr", of the shape of `x`. Steps at which either value is
        missing are ignored.
    min_periods : int, optional
        Minimum number of values; results from fewer values are nan.
    ignore_na : bool, optional
        If True, weights decay with each value that is not missing. If False, with each step.
    times : array_like, optional
        Time of each step, 1-d: datetime64, or numbers if `halflife` is a number. Weights decay by
        2**(−Δt/halflife), or by (1 − α)**(Δt/halflife) with `alpha`, `span` or `com`.
    bias : bool, optional
        If False, divide variances and covariances by 1 − Σw²/(Σw)².
    reset : array_like, optional
        Mask or labels at which the statistic is reset; see :ref:`guide-reset`.

    Returns
    -------
    array or dask.array.Array
        Statistic after each step: float32 if `x` (and `other`) is float32, otherwise float64. It is
        nan before the first value.

    Raises
    ------
    TypeError
        If `x` is complex, a weight is not a number, or a flag is not a bool.
    RuntimeError
        If a CUDA graph is being captured: the host looks for missing values.
    ValueError
        If none or several of the weights are given, a weight is out of range, shapes do not match,
        `adjust` is False for a sum, or `other` is missing or not supported by the statistic.

    Notes
    -----
    *Accuracy.* The function computes in float64 for any dtype. The error of a mean y_i is at most
    4·(min(i, 1/α) + 1)·2⁻⁵³ times the largest absolute value of x_0 … x_i, with the exceptions in
    :doc:`/how/filters`. Variances are exact except for relative rounding errors of the weights.

    *Cost.* In host memory one pass reads `x` and writes the results; several Dask chunks take a
    second reading. A GPU computes a mean without missing values as one filter, and other statistics
    as three to five linear recurrences.

    Examples
    --------
    >>> import numpy as np
    >>> from mgrec.signal import ewm
    >>> ewm(np.array([1.0, 2.0, 3.0]), alpha=0.5, adjust=False)
    array([1.  , 1.5 , 2.25])
    >>> days = np.array(["2026-01-01", "2026-01-02", "2026-01-05"], "M8[D]")
    >>> ewm(np.array([1.0, 2.0, 4.0]), times=days, halflife=np.timedelta64(1, "D"))
    array([1.        , 1.66666667, 3.63157895])
    """
    rates = {"alpha": alpha, "span": span, "halflife": halflife, "com": com}
    weights, series, axis = check(
        x, other, rates, statistic, adjust, ignore_na, bias, min_periods, axis, times, reset
    )
    x = series["x"]
    is_narrow = all(series[name].dtype.char == "f" for name in ("x", "y") if name in series)
    dtype = np.dtype(np.float32 if is_narrow else np.float64)
    if 0 in x.shape:
        return x.astype(dtype)
    if backend_of(x).has_kernels("ewm"):
        return solve(ewm_problem(weights, series, axis, dtype))
    return _by_other_kernels(weights, series, axis, dtype)


def _by_other_kernels(
    weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]
) -> Any:
    """Return the statistics by the recurrences of other families."""
    x = series["x"]
    if not is_lazy(x):
        backend_of(x).raise_if_capturing("ewm", "the host looks for missing values")
    if set(series) == {"x"} and weights.statistic == "mean" and weights.min_count == 1:
        largest = math.nan if is_lazy(x) else largest_size(x)
        if math.isfinite(largest):
            return cast(mean_without_gaps(x, largest, weights, axis), dtype)
    without_empty = {name: without_empty_chunks(array) for name, array in series.items()}
    return chunked_like(by_recurrences(weights, without_empty, axis, dtype), x)
