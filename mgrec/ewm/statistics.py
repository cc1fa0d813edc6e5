"""Exponentially weighted means, sums, variances and correlations."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, chunked_like, in_one_memory, is_lazy, without_empty_chunks
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import as_any_array, as_axis, as_flag, as_integer, as_real, is_one_of
from ..core.backends import CPU, backend_of
from ..core.contract.problem import Composed, Problem
from ..distributed.groups.calls import CALL
from ..distributed.groups.ends import beyond
from ..filters.arguments import as_signal
from ..solve import prepared_function
from .by_recurrences import by_recurrences, largest_size, mean_without_gaps
from .recurrence import PAIRS, STATISTICS, Weights, ewm_problem


@partial(prepared_function, takes_group=True)
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
) -> Problem | Composed:
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
        Axis along which to compute. The default is the last, or the index of a DataFrame. `dim`
        names one of a DataArray.
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
    lengths : array_like of int, optional
        Lengths of groups of steps, in place of `reset`. Their sum is the number of steps.
    group : mgrec.collective.Group, optional
        Processes that each have a part of the axis. See :ref:`guide-ranks`.

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
    if 0 in x.shape and CALL.get() is None:
        return Composed("ewm", lambda: x.astype(dtype))
    if backend_of(x).has_kernels("ewm"):
        return ewm_problem(weights, series, axis, dtype)
    compose = _by_other_kernels if CALL.get() is None else by_recurrences
    return Composed("ewm", partial(compose, weights, series, axis, dtype))


def _by_other_kernels(weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]) -> Any:
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


@dataclass(frozen=True)
class Rate:
    """A parameter of ``ewm`` that determines α.

    `is_valid`: ``(rate) -> bool``.
    `alpha`: ``(rate) -> float``.
    `slope`, ``(rate) -> float``: return the derivative of α.
    """

    wanted: str
    is_valid: Callable[[float], bool]
    alpha: Callable[[float], float]
    slope: Callable[[float], float]


RATES = {
    "alpha": Rate("0 < alpha <= 1", lambda rate: 0 < rate <= 1, lambda rate: rate, lambda rate: 1.0),
    "span": Rate(
        "span >= 1", lambda rate: rate >= 1, lambda rate: 2 / (rate + 1), lambda rate: -2 / (rate + 1) ** 2
    ),
    "halflife": Rate(
        "halflife > 0",
        lambda rate: rate > 0,
        lambda rate: -math.expm1(-math.log(2) / rate),
        lambda rate: -math.log(2) / rate**2 * math.exp2(-1 / rate),
    ),
    "com": Rate(
        "com >= 0", lambda rate: rate >= 0, lambda rate: 1 / (1 + rate), lambda rate: -1 / (1 + rate) ** 2
    ),
}


def check(
    x: Any,
    other: Any,
    rates: dict[str, Any],
    statistic: str,
    adjust: Any,
    ignore_na: Any,
    bias: Any,
    min_periods: Any,
    axis: Any,
    times: Any,
    reset: Any,
) -> tuple[Weights, dict[str, Any], int]:
    """Validate the arguments of ``ewm``; return the weights, the series by role, and the axis."""
    if not is_one_of(statistic, STATISTICS):
        raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}; got {statistic!r}")
    is_adjusted = as_flag("adjust", adjust)
    if statistic == "sum" and not is_adjusted:
        raise ValueError("adjust must be True for a sum, whose weights are not divided by anything")
    min_count = 0 if min_periods is None else as_integer("min_periods", min_periods)
    if min_count < 0:
        raise ValueError(f"min_periods must be 0 or more; got {min_count}")
    alpha = _alpha(rates, times is not None, is_adjusted)
    flags = as_flag("ignore_na", ignore_na), as_flag("bias", bias)
    weights = Weights(statistic, alpha, is_adjusted, *flags, max(min_count, 1))
    series = as_series(x, other, statistic)
    x = series["x"]
    axis = as_axis(axis, x.shape)
    if times is not None:
        series["gaps"] = as_gaps(times, rates["halflife"], x, axis)
    if reset is not None:
        series["marks"] = as_reset(reset, x.shape, axis, False, [("x", x)])
    return weights, series, axis


def _alpha(rates: dict[str, Any], has_times: bool, is_adjusted: bool) -> float:
    """Return α.

    `times` needs a halflife, and then α is 1/2 unless another rate is given.
    """
    names = [name for name, value in rates.items() if value is not None]
    if has_times:
        if "halflife" not in names:
            raise ValueError("halflife must be given with times: the time in which a weight halves")
        names.remove("halflife")
        if not names:
            return 0.5
        if not is_adjusted:
            raise ValueError(f"adjust must be True where times and {names[0]} are given")
    if len(names) != 1:
        got = " and ".join(names) or "none"
        raise ValueError(f"one of alpha, span, halflife and com must be given; got {got}")
    (name,) = names
    parameter, rate = RATES[name], rates[name]
    wanted = f"a finite number, {parameter.wanted}"
    if name == "halflife" and isinstance(rate, (str, datetime.timedelta, np.timedelta64)):
        raise TypeError(f"halflife must be {wanted}; got {rate!r}, without times")
    value = as_real(name, rate, wanted)
    if not parameter.is_valid(value) or math.isinf(value):
        raise ValueError(f"{name} must be {wanted}; got {value}")
    return parameter.alpha(value)


def as_series(x: Any, other: Any, statistic: str) -> dict[str, Any]:
    """Return the series by role, all of the same shape."""
    series = {"x": as_signal(x)}
    if (other is None) == (statistic in PAIRS):
        wanted = "given" if other is None else "None"
        raise ValueError(f"other must be {wanted} for statistic {statistic!r}")
    if other is not None:
        series["y"] = as_signal(other, "other")
        if series["y"].shape != series["x"].shape:
            shapes = series["x"].shape, series["y"].shape
            raise ValueError(f"other must have the shape of x, {shapes[0]}; got {shapes[1]}")
        in_one_memory([("x", series["x"]), ("other", series["y"])])
    for name, values in series.items():
        if values.dtype.kind == "b":
            series[name] = cast(values, np.dtype(np.int8))
        elif values.dtype.kind not in "iuf":
            raise TypeError(f"{'other' if name == 'y' else name} must be real; got {values.dtype}")
    return series


def as_gaps(times: Any, halflife: Any, x: Any, axis: int) -> Any:
    """Return the number of halflives since the previous observation along `axis`; 0 at first."""
    times = as_any_array("times", times)
    if times.ndim != 1 or not (times.size == x.shape[axis] or x.shape[axis] != x.shape[axis]):
        raise ValueError(f"times must have shape ({x.shape[axis]},); got {times.shape}")
    unit = _halflife_in_unit_of(times, halflife)
    if backend_of(times) is CPU:
        times = _without_missing(times)
    # Differences of int8 would overflow, and those of float32 would be rounded.
    times = times.astype(np.float64 if times.dtype.kind == "f" else np.int64)
    before = times[:0] if CALL.get() is None else beyond(times, 0, -1)
    if before.size:
        gaps = _differences(np.concatenate([before, times]), unit)[1:]
    else:
        gaps = _differences(times, unit)
    index: list[Any] = [None] * x.ndim
    index[axis] = slice(None)
    return backend_of(x).from_host(gaps, x)[tuple(index)]


def _without_missing(times: Any) -> Any:
    """Return times; raise ValueError if one is missing, of a Dask array when it is computed."""
    if is_lazy(times):
        return times.map_blocks(_without_missing, dtype=times.dtype, meta=times._meta)
    missing = times[~np.isfinite(times)]
    if missing.size:
        raise ValueError(f"times must not be missing or infinite; got {missing[0]}")
    return times


def _halflife_in_unit_of(times: Any, halflife: Any) -> float:
    """Return a halflife in the unit of the times."""
    dtype_kind = times.dtype.kind
    if dtype_kind not in "Miuf":
        raise TypeError(f"times must be datetime64, or numbers; got {times.dtype}")
    if dtype_kind == "M":
        if isinstance(halflife, str):
            halflife = _parsed(halflife)
        if not isinstance(halflife, (datetime.timedelta, np.timedelta64)):
            raise TypeError(f"halflife must be a timedelta where times are dates; got {halflife!r}")
        step = np.ones((), times.dtype.str.replace("M8", "m8"))
        value = float(np.timedelta64(halflife) / step)
    else:
        value = as_real("halflife", halflife, "a number in the unit of times")
    if not 0 < value < math.inf:
        raise ValueError(f"halflife must be above 0; got {halflife!r}")
    return value


def _parsed(halflife: str) -> Any:
    """Parse a text such as "4 days" with pandas."""
    try:
        from pandas import Timedelta
    except ImportError as error:
        raise TypeError(
            f"halflife must be a numpy.timedelta64 where pandas is not installed, which would read "
            f"{halflife!r}"
        ) from error
    try:
        return Timedelta(halflife).to_numpy()
    except ValueError as error:
        raise ValueError(f"halflife must be a duration; got {halflife!r}: {error}") from error


def _differences(times: Any, unit: float) -> Any:
    if is_lazy(times):
        steps = (times[1:] - times[:-1]) / unit
        joined: Any = np.concatenate([np.zeros_like(steps, shape=1), steps])
        return joined.rechunk(times.chunks)
    gaps = np.zeros_like(times, dtype=np.float64)
    np.subtract(times[1:], times[:-1], out=gaps[1:], casting="same_kind")
    gaps /= unit
    return gaps
