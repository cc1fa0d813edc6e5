"""Exponentially weighted statistics as a sequence of linear recurrences, for GPUs.

The sum of the weights is a linear recurrence. Given these sums, the mean is one too, and given the
means, the variances are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.arrays.array_types import cast, chunked_like
from ..core.arrays.chunk import has_unknown_sizes
from ..core.backends import backend_of
from ..distributed.groups.calls import CALL
from ..distributed.groups.ends import beyond
from ..filters.cascade import Cascade
from ..filters.causal import lfilter
from ..filters.recurrence import filter_problem
from ..scans.functions import linear_recurrence
from ..solve import solve
from ..solve.functions import concatenate, full_like, where
from .recurrence import Weights

# Largest absolute values of float32 for which a filter of gain 1 is far from overflow, and from
# numbers that CuPy's own kernels flush to 0.
_LEAST, _SAFE = 2.0**-100, 2.0**100
# 1 − exp(−38) is 1 in float64.
_FULL = 38.0
# b and a of a filter that delays by one sample.
_ONE_STEP = np.array([0.0, 1.0], np.float32), np.ones(1, np.float32)
_ZERO, _ONE, _TWO = np.float64(0), np.float64(1), np.float64(2)
_FLOAT64 = np.dtype(np.float64)


def largest_size(x: Any) -> float:
    """Return the largest absolute value; nan or inf if a value is missing."""
    return 0.0 if x.dtype.kind in "iu" else max(-float(x.min()), float(x.max()))


def mean_without_gaps(x: Any, largest: float, weights: Weights, axis: int) -> Any:
    """Return the mean of values without gaps: a filter, and a division of its first outputs."""
    all_before, alpha = (slice(None),) * axis, weights.alpha
    # The mean before the first value is the first value.
    first = None if weights.is_adjusted else cast(x[(*all_before, 0)], _FLOAT64)[None]
    carry_in = None if first is None else (1 - alpha) * first
    cascade = Cascade.of_polynomials([alpha], [1.0, alpha - 1.0])
    # Rows near overflow are filtered again in the dtype of the results, and float32 is too coarse.
    is_narrow = x.dtype.char == "f" and _LEAST < largest < _SAFE
    dtype = np.dtype(np.float32 if is_narrow else np.float64)
    y = solve(filter_problem(cascade, x, carry_in, axis, dtype))
    if weights.is_adjusted:
        log_decay = -math.log1p(-alpha) if alpha < 1 else math.inf
        count = math.ceil(min(_FULL / log_decay, x.shape[axis]))
        weight = -np.expm1(-log_decay * np.arange(1, count + 1))
        first_outputs = y[(*all_before, slice(0, count))]
        first_outputs /= backend_of(x).from_host(weight.reshape(-1, *[1] * (x.ndim - axis - 1)), x)
    return y


class Recurrences:
    """The recurrences of a statistic; `series` are those of :class:`.recurrence.EwmRecurrence`."""

    def __init__(self, weights: Weights, series: dict[str, Any], axis: int) -> None:
        self.weights, self.axis, marks = weights, axis, series.get("marks")
        # A mask, since linear_recurrence takes integers as labels.
        self.marks = None if marks is None else marks != 0
        self.is_present = np.isfinite(series["x"])
        if "y" in series:
            self.is_present = self.is_present & np.isfinite(series["y"])
        decays = np.float64(weights.decay)
        decays = decays ** series["gaps"] if "gaps" in series else decays
        self.decays = where(self.is_present, decays, _ONE) if weights.ignores_missing else decays

    def statistic(self, x: Any, y: Any) -> Any:
        """Return the statistic after each step, without regard to min_periods."""
        name = self.weights.statistic
        if name == "sum":
            return self._accumulate(self.decays, self._where_present(x))
        self._compute_weights()
        mean = self.mean(x)
        if name == "mean":
            return mean
        other = self.mean(y) if y is not x else mean
        # Distances to the means before each step: those after it lose all digits if the gain is 1.
        off_x = x - delayed(mean, self.axis)
        off_y = y - delayed(other, self.axis) if y is not x else off_x
        if name == "corr":
            sizes = self._moment(off_x, off_x) * self._moment(off_y, off_y)
            return self._moment(off_x, off_y) / np.sqrt(sizes)
        moment = self._moment(off_x, off_y)
        if not self.weights.is_biased:
            moment = moment / self._divisor()
        return np.sqrt(moment) if name == "std" else moment

    def weights_of_mean(self) -> tuple[Any, Any]:
        """Return the weights of the previous mean and of the value, in the mean after each step."""
        self._compute_weights()
        kept = self._where_present(self.kept, _ONE)
        if self.marks is not None:
            kept = where(self.marks, _ZERO, kept)
        return kept, self._where_present(self.gain)

    def slope_of_kept(self) -> Any:
        """Return the derivative of the weight of the previous mean by the decay of one step.

        The steps have no gaps in time. The weights after missing values jump at α = 1/2; there
        it is the limit of the derivative.
        """
        weights, last = self.weights, self.is_after_value
        slope = self._where_present(_ONE) if weights.ignores_missing else _ONE
        added = where(last, slope, _ZERO)
        kept_slope = slope if weights.is_adjusted else where(last, _ZERO, slope)
        added = added + kept_slope * delayed(self.old_weight, self.axis)
        if self.marks is not None:
            added = where(self.marks, _ZERO, added)
        old_slope = self._accumulate(self.kept_weights, added)
        new, new_slope = (_ONE, _ZERO) if weights.is_adjusted else (weights.alpha, -_ONE)
        total = self.old_weight + new
        return (old_slope * new - self.old_weight * new_slope) / (total * total)

    def count(self) -> Any:
        """Return the number of observations so far."""
        return self._accumulate(np.int64(1), self.is_present.astype(np.int64))

    def _accumulate(self, s: Any, t: Any) -> Any:
        return linear_recurrence(s, t, axis=self.axis, reset=self.marks)

    def _where_present(self, values: Any, otherwise: Any = _ZERO) -> Any:
        return where(self.is_present, values, otherwise)

    def _compute_weights(self) -> None:
        """Compute the relative weights of the earlier observations and of the new observation."""
        weights, last = self.weights, delayed(self.is_present, self.axis)
        if self.marks is not None:
            last = last & ~self.marks
        kept = self.decays if weights.is_adjusted else where(last, _ZERO, self.decays)
        old_weight = self._accumulate(kept, where(last, self.decays, _ZERO))
        new_weight: Any = _ONE if weights.is_adjusted else np.float64(weights.alpha)
        if weights.is_complement:
            new_weight = _ONE - old_weight
        total = old_weight + new_weight
        self.is_after_value, self.kept_weights, self.old_weight = last, kept, old_weight
        self.kept, self.gain = old_weight / total, new_weight / total

    def mean(self, x: Any) -> Any:
        """Return the mean after each step, once the weights are computed; x is 0 at gaps."""
        return self._average(self.kept, self.gain * x)

    def _moment(self, off_x: Any, off_y: Any) -> Any:
        """Return the weighted mean of products of distances to the means."""
        return self._average(self.kept, self.kept * self.gain * off_x * off_y)

    def _divisor(self) -> Any:
        """Return 1 − Σw²/(Σw)², as a sum over pairs; nan if one observation has all the weight."""
        divisor = self._average(self.kept * self.kept, _TWO * self.kept * self.gain)
        return where(divisor > 0, divisor, np.nan)

    def _average(self, kept: Any, added: Any) -> Any:
        return self._accumulate(self._where_present(kept, _ONE), self._where_present(added))


def by_recurrences(weights: Weights, series: dict[str, Any], axis: int, dtype: np.dtype[Any]) -> Any:
    """Compute a statistic of series, which are CuPy arrays or Dask arrays of them."""
    recurrences = Recurrences(weights, series, axis)
    x = y = where(recurrences.is_present, cast(series["x"], _FLOAT64), _ZERO)
    if "y" in series:
        y = where(recurrences.is_present, cast(series["y"], _FLOAT64), _ZERO)
    result = recurrences.statistic(x, y)
    is_enough = recurrences.count() >= weights.min_count
    return where(is_enough, cast(result, dtype), dtype.type(np.nan))


def delayed(values: Any, axis: int) -> Any:
    """Return the previous value of each element of an array of bool or float64; 0 for the first."""
    if has_unknown_sizes(getattr(values, "chunks", ())):
        is_bool = values.dtype.kind == "b"
        previous = lfilter(*_ONE_STEP, values.astype(np.float32) if is_bool else values, axis)
        return previous > 0 if is_bool else previous
    all_before = (slice(None),) * axis
    zero = full_like(values[(*all_before, slice(0, 1))], 0)
    if CALL.get() is not None:
        before = beyond(values, axis, -1)
        zero = before if before.shape[axis] and values.shape[axis] else zero
    joined = concatenate([zero, values[(*all_before, slice(0, -1))]], axis)
    return chunked_like(joined, values)
