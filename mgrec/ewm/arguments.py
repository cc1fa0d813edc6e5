"""Validation of the weights, the times and the series of exponentially weighted statistics."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays.array_types import check_same_device, is_lazy
from ..core.arrays.resets import as_reset
from ..core.arrays.validation import (
    as_any_array,
    as_axis,
    as_flag,
    as_integer,
    as_real,
    is_one_of,
)
from ..core.backends import CPU, backend_of
from ..filters.arguments import as_signal
from .recurrence import PAIRS, STATISTICS, Weights

# For each rate its range, as text and as a test, and α.
_RATES: dict[str, tuple[str, Callable[[float], bool], Callable[[float], float]]] = {
    "alpha": ("0 < alpha <= 1", lambda rate: 0 < rate <= 1, lambda rate: rate),
    "span": ("span >= 1", lambda rate: rate >= 1, lambda rate: 2 / (rate + 1)),
    "halflife": (
        "halflife > 0", lambda rate: rate > 0, lambda rate: -math.expm1(-math.log(2) / rate)
    ),
    "com": ("com >= 0", lambda rate: rate >= 0, lambda rate: 1 / (1 + rate)),
}  # fmt: skip


def check(
    x: Any, other: Any, rates: dict[str, Any], statistic: str, adjust: Any, ignore_na: Any,
    bias: Any, min_periods: Any, axis: Any, times: Any, reset: Any,
) -> tuple[Weights, dict[str, Any], int]:  # fmt: skip
    """Validate the arguments of ``ewm``; return the weights, the series by role, and the axis."""
    weights = as_weights(rates, times is not None, statistic, adjust, ignore_na, bias, min_periods)
    series = as_series(x, other, statistic)
    x = series["x"]
    axis = as_axis(axis, x.shape)
    if times is not None:
        series["gaps"] = as_gaps(times, rates["halflife"], x, axis)
    if reset is not None:
        check_same_device([("x", x), ("reset", reset)], [])
        series["marks"] = as_reset(reset, x.shape, axis, False)
    return weights, series, axis


def as_weights(
    rates: dict[str, Any], has_times: bool, statistic: str, adjust: Any, ignore_na: Any, bias: Any,
    min_periods: Any,
) -> Weights:  # fmt: skip
    """Validate the options of pandas' ewm; rates are alpha, span, halflife and com."""
    if not is_one_of(statistic, STATISTICS):
        raise ValueError(f"statistic must be one of {', '.join(STATISTICS)}; got {statistic!r}")
    is_adjusted = as_flag("adjust", adjust)
    if statistic == "sum" and not is_adjusted:
        raise ValueError("adjust must be True for a sum, whose weights are not divided by anything")
    min_count = 0 if min_periods is None else as_integer("min_periods", min_periods)
    if min_count < 0:
        raise ValueError(f"min_periods must be 0 or more; got {min_count}")
    return Weights(
        statistic,
        _alpha(rates, has_times, is_adjusted),
        is_adjusted,
        as_flag("ignore_na", ignore_na),
        as_flag("bias", bias),
        max(min_count, 1),
    )


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
    return _alpha_of(names[0], rates[names[0]])


def _alpha_of(name: str, rate: Any) -> float:
    wanted, is_valid, alpha = _RATES[name]
    wanted = f"a finite number, {wanted}"
    if name == "halflife" and isinstance(rate, (str, datetime.timedelta, np.timedelta64)):
        raise TypeError(f"halflife must be {wanted}; got {rate!r}, without times")
    value = as_real(name, rate, wanted)
    if not is_valid(value) or math.isinf(value):
        raise ValueError(f"{name} must be {wanted}; got {value}")
    return alpha(value)


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
        check_same_device([("x", series["x"]), ("other", series["y"])], [])
    for name, values in series.items():
        if values.dtype.kind not in "iuf":
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
    gaps = _differences(times.astype(np.float64 if times.dtype.kind == "f" else np.int64), unit)
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
