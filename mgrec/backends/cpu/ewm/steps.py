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
_LEAST = 2.0**-1022


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
    used = _used(statistic)

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
        return used(state)

    return loop


def _mean_loop(careful: Any) -> Callable[..., Any]:
    """The mean as a sum of weighted values over that of the weights: 5 cycles a step, not 8."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, _, ignores, _, least, _ = weights
        count, weight, _, mean, _, _, _, _ = state
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
            # Held in a gap, in which both may vanish.
            mean = total / weight if is_there else mean
            if out is not None:
                out[i] = mean if count >= least else np.nan
        if is_finite and abs(total) < np.inf:
            return count, weight, 0.0, mean, 0.0, 0.0, 0.0, 0.0
        return careful(x, y, gaps, marks, out, state, weights)

    return loop


def _used(statistic: str) -> Any:
    """A state without what the statistic does not need, which is then not computed."""
    needed = _NEEDED[statistic]
    a, b, c, d, e, f, g, h = (k in needed for k in range(STATES))

    def used(state: Any) -> Any:
        return (
            state[0] if a else 0.0, state[1] if b else 0.0, state[2] if c else 0.0,
            state[3] if d else 0.0, state[4] if e else 0.0, state[5] if f else 0.0,
            state[6] if g else 0.0, state[7] if h else 0.0,
        )  # fmt: skip

    return numba.njit(**WITHIN)(used)


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
    (1 − gain)·(xx + gain·d²), 0 for a constant series.
    """
    count, weight, squares, mean_x, mean_y, xx, yy, xy = state
    own = own if is_there else 0.0
    old = weight * falls
    whole = old + own
    # All may weigh nothing: before the first one, or of own weight 1 − 1 where is_complement.
    unit = 1.0 / (whole if whole > _LEAST else _LEAST)
    kept = 1.0 - own * unit
    gain = 1.0 - kept  # so that both are 1 together, and a constant series keeps its mean
    off_x, off_y = x - mean_x, y - mean_y
    mean_x, mean_y = fma(kept, mean_x, gain * x), fma(kept, mean_y, gain * y)
    part_x, part_y = kept * gain * off_x, kept * gain * off_y
    xx, yy = fma(kept, xx, part_x * off_x), fma(kept, yy, part_y * off_y)
    xy = fma(kept, xy, part_x * off_y)
    squares = fma(squares, falls * falls, own * own)
    if not is_adjusted:
        squares = squares * (unit * unit if is_there else 1.0)
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


_NEEDED = {
    "mean": {0, 1, 3},
    "sum": {0, 3},
    "var": {0, 1, 2, 3, 5},
    "std": {0, 1, 2, 3, 5},
    "cov": {0, 1, 2, 3, 4, 7},
    "corr": {0, 1, 3, 4, 5, 6, 7},
}
OUTPUTS = {"mean": _mean, "sum": _mean, "var": _var, "std": _std, "cov": _cov, "corr": _corr}
