"""One step after the other: the loops that every statistic is.

The state of a row is (count, weight, squares, x, y, xx, yy, xy): observations so far, the sum of
their weights and of the squares of these, the means of both series, and their variances and
covariance; of "sum", x is the sum. What a statistic does not return, the compiler leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from ....families.ewm.summary import STATES
from ....families.ewm.weights import PAIRS
from ..compilation.kernels import WITHIN
from ..simd.lanes import fma

REST = (0.0,) * STATES
# A weight below this is nothing beside that of a new observation.
_LIGHT = 2.0**-960


@cache
def row_loop(statistic: str, is_adjusted: bool) -> Any:
    """The compiled ``(x, y, gaps, marks, out, state, weights) -> state`` over one row.

    `gaps`, `marks` and `out` may be None; `y` is `x` where the statistic is of one series;
    `weights` are the numbers of :class:`mgrec.families.ewm.weights.Weights`.
    """
    loop = numba.njit(**WITHIN)(_loop(statistic, is_adjusted))
    if statistic == "mean" and is_adjusted:
        return numba.njit(**WITHIN)(_mean_loop(loop))
    return loop


def _loop(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    output = numba.njit(**WITHIN)(OUTPUTS[statistic])
    is_sum, is_pair = statistic == "sum", statistic in PAIRS

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, share, ignores, is_complement, least, is_biased = weights
        for i in range(x.size):
            if marks is not None and marks[i]:
                state = REST
            value, other, is_there = observation(x, y, i, is_pair)
            falls = falls_at(gaps, i, decay, ignores and not is_there)
            if is_sum:
                state = add_up(state, falls, value, is_there)
            else:
                own = own_weight(state[1], falls, share, is_adjusted, is_complement)
                state = observe(state, falls, own, value, other, is_there, is_adjusted)
            if out is not None:
                out[i] = output(state, is_biased) if state[0] >= least else np.nan
        return state

    return loop


def _mean_loop(careful: Any) -> Callable[..., Any]:
    """The mean as a sum of weighted values over that of the weights: 5 cycles a step, not 8."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, _, ignores, _, least, _ = weights
        count, weight, squares, mean, other, xx, yy, xy = state
        total, is_finite = mean * weight, True
        for i in range(x.size):
            if marks is not None and marks[i]:
                is_finite = is_finite and abs(total) < np.inf
                count, weight, total = 0.0, 0.0, 0.0
            value, _, is_there = observation(x, y, i, False)
            falls = falls_at(gaps, i, decay, ignores and not is_there)
            count += 1.0 if is_there else 0.0
            weight = fma(weight, falls, 1.0 if is_there else 0.0)
            total = fma(total, falls, value)
            if is_there:
                mean = total / weight
            elif weight < _LIGHT and count > 0:
                # After a long gap: else both would vanish, and the mean with them.
                total, weight = mean * _LIGHT, _LIGHT
            if out is not None:
                out[i] = mean if count >= least else np.nan
        if is_finite and abs(total) < np.inf:
            return count, weight, squares, mean, other, xx, yy, xy
        return careful(x, y, gaps, marks, out, state, weights)

    return loop


@numba.njit(**WITHIN)
def observation(x: Any, y: Any, i: int, is_pair: bool) -> Any:
    """Both values of a step, and whether they are there; 0 where one is missing."""
    value = np.float64(x[i])
    other = np.float64(y[i]) if is_pair else value
    is_there = abs(value) < np.inf and abs(other) < np.inf
    return value if is_there else 0.0, other if is_there else 0.0, is_there


@numba.njit(**WITHIN)
def falls_at(gaps: Any, i: int, decay: float, is_ignored: bool) -> float:
    """What is left of weights at a step: all of them where a missing value is ignored."""
    falls = decay
    if gaps is not None:
        falls = np.exp2(-gaps[i]) if decay == 0.5 else decay ** gaps[i]
    return 1.0 if is_ignored else falls


@numba.njit(**WITHIN)
def own_weight(
    weight: float, falls: float, share: float, is_adjusted: bool, is_complement: bool
) -> float:
    """What a new observation weighs, beside all before it, of this weight until they fall."""
    if is_adjusted:
        return 1.0
    return 1.0 - weight * falls if is_complement else share


@numba.njit(**WITHIN)
def add_up(state: Any, falls: float, value: float, is_there: bool) -> Any:
    """The state of a sum after a step."""
    count, weight, squares, total, y, xx, yy, xy = state
    return count + is_there, weight, squares, fma(total, falls, value), y, xx, yy, xy


@numba.njit(**WITHIN)
def observe(
    state: Any, falls: float, own: float, x: float, y: float, is_there: bool, is_adjusted: bool
) -> Any:
    """The state after a step; x and y are 0 where the observation is missing.

    West's update (1979): with d = x − mean, the mean grows by gain·d, and the variance is
    (1 − gain)·(xx + gain·d²). A constant series keeps its mean, and has a variance of 0.
    """
    count, weight, squares, mean_x, mean_y, xx, yy, xy = state
    own = own if is_there else 0.0
    old = weight * falls
    whole = old + own
    # An observation at the time of the one before weighs 1 − 1 where is_complement.
    weighs = is_there and (is_adjusted or whole > 0)
    unit = 1.0 / (whole if weighs else 1.0)
    gain = own * unit
    kept = 1.0 - gain
    off_x, off_y = x - mean_x, y - mean_y
    mean_x, mean_y = fma(gain, off_x, mean_x), fma(gain, off_y, mean_y)
    part_x, part_y = kept * gain * off_x, kept * gain * off_y
    xx, yy = fma(kept, xx, part_x * off_x), fma(kept, yy, part_y * off_y)
    xy = fma(kept, xy, part_x * off_y)
    squares = fma(squares, falls * falls, own * own)
    if not is_adjusted:
        squares = squares * (unit * unit)
        whole = 1.0 if is_there else old
    return count + is_there, whole, squares, mean_x, mean_y, xx, yy, xy


def _mean(state: Any, is_biased: bool) -> Any:
    return state[3]


def _var(state: Any, is_biased: bool) -> Any:
    return _unbiased(state[5], state[1], state[2], is_biased)


def _std(state: Any, is_biased: bool) -> Any:
    return math.sqrt(_unbiased(state[5], state[1], state[2], is_biased))


def _cov(state: Any, is_biased: bool) -> Any:
    return _unbiased(state[7], state[1], state[2], is_biased)


def _corr(state: Any, is_biased: bool) -> Any:
    return state[7] / math.sqrt(state[5] * state[6])


@numba.njit(**WITHIN)
def _unbiased(variance: float, weight: float, squares: float, is_biased: bool) -> float:
    square = weight * weight
    rest = square - squares
    factor = square / rest if rest > 0 else np.nan
    return variance if is_biased else factor * variance


OUTPUTS = {"mean": _mean, "sum": _mean, "var": _var, "std": _std, "cov": _cov, "corr": _corr}
