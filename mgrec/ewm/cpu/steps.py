"""The loops over the steps of a row, one for each statistic.

The state of a row is (count, weight, divisor, x, y, xx, yy, xy): the number of observations, the
sum of their weights w, 1 − Σw²/(Σw)², the means of both series, and their variances and covariance.
For "sum", x is the sum. The compiler removes the scalars that a statistic does not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INLINED, INNER
from ...engines.cpu.simd.lanes import fma
from ..recurrence import PAIRS, STATES

ZERO_STATE = (0.0,) * STATES


@cache
def row_loop(statistic: str, is_adjusted: bool) -> Any:
    """Return the compiled loop ``(x, y, gaps, marks, out, state, weights) -> state`` over one row.

    `gaps` and `out` may be None, `marks` may be empty, and `y` is `x` for statistics of one series.
    `weights` are :attr:`mgrec.ewm.recurrence.Weights.kernel_arguments`.
    """
    if statistic == "sum":
        return numba.njit(**INNER)(_sum)
    loop = numba.njit(**INNER)(_loop(statistic, is_adjusted))
    if statistic == "mean":
        faster = _adjusted_mean if is_adjusted else _recursive_mean
        return numba.njit(**INNER)(faster(loop))
    return loop


# Loops with divisions branch on missing observations. Masks took 1.5 times as long for any data; a
# branch that is mispredicted at every tenth step took 1.3 times.
def _loop(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    output = numba.njit(**INLINED)(OUTPUTS[statistic])
    is_pair, used = statistic in PAIRS, _used(statistic)

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, alpha, ignores, is_complement, min_count, is_biased, _ = weights
        for i in range(x.size):
            if marks.size > 0 and marks[i]:
                state = ZERO_STATE
            factor = decay_at(gaps, i, decay)
            if is_present(x, y, i, is_pair):
                value = np.float64(x[i])
                other = np.float64(y[i]) if is_pair else value
                weight = weight_of_new(state[1], factor, alpha, is_adjusted, is_complement)
                state = observe(state, factor, weight, value, other, is_adjusted)
            elif not ignores:
                state = decayed(state, factor)
            if out is not None:
                out[i] = output(state, is_biased) if state[0] >= min_count else np.nan
        return used(state)

    return loop


def _sum(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
    decay, _, ignores, _, min_count, _, _ = weights
    count, _, _, total, _, _, _, _ = state
    for i in range(x.size):
        if marks.size > 0 and marks[i]:
            count, total = 0.0, 0.0
        is_new = is_present(x, y, i, False)
        factor = decay_at(gaps, i, decay)
        factor = factor if is_new or not ignores else 1.0
        total = fma(total, factor, np.float64(x[i]) if is_new else 0.0)
        count += 1.0 if is_new else 0.0
        if out is not None:
            out[i] = total if count >= min_count else np.nan
    return count, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0


def _adjusted_mean(careful: Any) -> Callable[..., Any]:
    """Return the loop of a mean as a quotient of sums, which takes 5 cycles a step instead of 8."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, _, ignores, _, min_count, _, _ = weights
        count, weight, _, mean, _, _, _, _ = state
        total, is_finite = mean * weight, True
        for i in range(x.size):
            if marks.size > 0 and marks[i]:
                is_finite = is_finite and abs(total) < np.inf
                count, weight, total = 0.0, 0.0, 0.0
            factor = decay_at(gaps, i, decay)
            if is_present(x, y, i, False):
                count += 1.0
                weight = fma(weight, factor, 1.0)
                total = fma(total, factor, np.float64(x[i]))
                mean = total / weight
            elif not ignores:
                # Both may underflow to 0; the mean stays.
                weight *= factor
                total *= factor
            if out is not None:
                out[i] = mean if count >= min_count else np.nan
        if is_finite and abs(total) < np.inf:
            return count, weight, 0.0, mean, 0.0, 0.0, 0.0, 0.0
        return careful(x, y, gaps, marks, out, state, weights)

    return loop


def _recursive_mean(careful: Any) -> Callable[..., Any]:
    """Return the loop of a mean without `adjust`, which takes decays over gaps from a table."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, alpha, ignores, is_complement, min_count, _, table = weights
        if gaps is not None:
            return careful(x, y, gaps, marks, out, state, weights)
        count, weight, _, mean, _, _, _, _ = state
        gap, is_whole = 0, False
        for i in range(x.size):
            if marks.size > 0 and marks[i]:
                count, weight, gap, is_whole = 0.0, 0.0, 0, False
            if is_present(x, y, i, False):
                if is_whole and gap < table.size:
                    kept = table[gap]
                else:
                    old = (1.0 if is_whole else weight) * decay ** np.float64(gap + 1)
                    kept = old / (1.0 if is_complement else old + alpha)
                # In this form a constant series keeps its mean.
                mean = fma(kept, mean, (1.0 - kept) * np.float64(x[i]))
                count, gap, is_whole = count + 1.0, 0, True
            elif not ignores:
                gap += 1
            if out is not None:
                out[i] = mean if count >= min_count else np.nan
        weight = (1.0 if is_whole else weight) * decay ** np.float64(gap)
        return count, weight, 0.0, mean, 0.0, 0.0, 0.0, 0.0

    return loop


def _used(statistic: str) -> Any:
    """Return a function that sets unused scalars to 0, so that they are not computed."""
    needed = _NEEDED[statistic]
    a, b, c, d, e, f, g, h = (k in needed for k in range(STATES))

    def used(state: Any) -> Any:
        return (
            state[0] if a else 0.0, state[1] if b else 0.0, state[2] if c else 0.0,
            state[3] if d else 0.0, state[4] if e else 0.0, state[5] if f else 0.0,
            state[6] if g else 0.0, state[7] if h else 0.0,
        )  # fmt: skip

    return numba.njit(**INLINED)(used)


@numba.njit(**INLINED)
def is_present(x: Any, y: Any, i: int, is_pair: bool) -> Any:
    """Return whether the observations of a step are finite."""
    return abs(np.float64(x[i])) < np.inf and (not is_pair or abs(np.float64(y[i])) < np.inf)


@numba.njit(**INLINED)
def decay_at(gaps: Any, i: int, decay: float) -> float:
    """Return the factor by which weights decay before a step."""
    if gaps is None:
        return decay
    return np.exp2(-gaps[i]) if decay == 0.5 else decay ** gaps[i]


@numba.njit(**INLINED)
def weight_of_new(
    weight: float, factor: float, alpha: float, is_adjusted: bool, is_complement: bool
) -> float:
    """Return the weight of a new observation; `weight` is that of all earlier ones."""
    if is_adjusted:
        return 1.0
    return 1.0 - weight * factor if is_complement else alpha


@numba.njit(**INLINED)
def decayed(state: Any, factor: float) -> Any:
    """Return the state after a step without an observation."""
    count, weight, divisor, x, y, xx, yy, xy = state
    return count, weight * factor, divisor, x, y, xx, yy, xy


@numba.njit(**INLINED)
def observe(state: Any, factor: float, new: float, x: float, y: float, is_adjusted: bool) -> Any:
    """Return the state after an observation of weight `new`.

    This is the update of West (1979): with d = x − mean, the mean grows by gain·d, and the variance
    becomes kept·(xx + gain·d²), which is 0 for a constant series. No term cancels: `kept` and
    `gain` are quotients, 0 and 1 for a first observation. The divisor is a sum over pairs,
    2·Σ_{i<j} w_i·w_j/(Σw)².
    """
    count, weight, divisor, mean_x, mean_y, xx, yy, xy = state
    old = weight * factor
    total = old + new
    # The total weight may be 0: new observations have the weight 1 − 1 if is_complement.
    total = total if total > 0 else 1.0
    kept, gain = old / total, new / total
    off_x, off_y = x - mean_x, y - mean_y
    mean_x, mean_y = fma(gain, off_x, mean_x), fma(gain, off_y, mean_y)
    part = kept * gain
    part_x, part_y = part * off_x, part * off_y
    xx, yy = fma(kept, xx, part_x * off_x), fma(kept, yy, part_y * off_y)
    xy = fma(kept, xy, part_x * off_y)
    divisor = fma(kept * kept, divisor, 2.0 * part)
    weight = total if is_adjusted else 1.0
    return count + 1.0, weight, divisor, mean_x, mean_y, xx, yy, xy


@numba.njit(**INLINED)
def _unbiased(variance: float, divisor: float, is_biased: bool) -> float:
    unbiased = variance / divisor if divisor > 0 else np.nan
    return variance if is_biased else unbiased


_NEEDED = {
    "mean": {0, 1, 3},
    "var": {0, 1, 2, 3, 5},
    "std": {0, 1, 2, 3, 5},
    "cov": {0, 1, 2, 3, 4, 7},
    "corr": {0, 1, 3, 4, 5, 6, 7},
}
OUTPUTS: dict[str, Callable[[Any, bool], float]] = {
    "mean": lambda state, is_biased: state[3],
    "var": lambda state, is_biased: _unbiased(state[5], state[2], is_biased),
    "std": lambda state, is_biased: math.sqrt(_unbiased(state[5], state[2], is_biased)),
    "cov": lambda state, is_biased: _unbiased(state[7], state[2], is_biased),
    "corr": lambda state, is_biased: state[7] / math.sqrt(state[5] * state[6]),
}
