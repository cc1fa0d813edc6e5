"""One step after the other: the loops that every statistic is.

The state of a row is (count, weight, divisor, x, y, xx, yy, xy): observations so far, the sum of
their weights w, 1 − Σw²/(Σw)², the means of both series, and their variances and covariance; of
"sum", x is the sum. What a statistic does not return, the compiler leaves out.
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
from ..summary import STATES
from ..weights import PAIRS

REST = (0.0,) * STATES


@cache
def row_loop(statistic: str, is_adjusted: bool) -> Any:
    """The compiled ``(x, y, gaps, marks, out, state, weights) -> state`` over one row.

    `gaps`, `marks` and `out` may be None; `y` is `x` where the statistic is of one series;
    `weights` are the numbers of :class:`mgrec.ewm.weights.Weights`.
    """
    if statistic == "sum":
        return numba.njit(**INNER)(_sum)
    loop = numba.njit(**INNER)(_loop(statistic, is_adjusted))
    if statistic == "mean":
        faster = _adjusted_mean if is_adjusted else _recursive_mean
        return numba.njit(**INNER)(faster(loop))
    return loop


# Loops with divisions branch on whether an observation is there: masks took 1.5 times as long,
# whatever is missing, and a branch that is guessed wrong at every tenth step 1.3 times.
def _loop(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    output = numba.njit(**INLINED)(OUTPUTS[statistic])
    is_pair, used = statistic in PAIRS, _used(statistic)

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, share, ignores, is_complement, least, is_biased, _ = weights
        for i in range(x.size):
            if marks is not None and marks[i]:
                state = REST
            falls = falls_at(gaps, i, decay)
            if is_there(x, y, i, is_pair):
                value = np.float64(x[i])
                other = np.float64(y[i]) if is_pair else value
                own = own_weight(state[1], falls, share, is_adjusted, is_complement)
                state = observe(state, falls, own, value, other, is_adjusted)
            elif not ignores:
                state = faded(state, falls)
            if out is not None:
                out[i] = output(state, is_biased) if state[0] >= least else np.nan
        return used(state)

    return loop


def _sum(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
    decay, _, ignores, _, least, _, _ = weights
    count, _, _, total, _, _, _, _ = state
    for i in range(x.size):
        if marks is not None and marks[i]:
            count, total = 0.0, 0.0
        is_new = is_there(x, y, i, False)
        falls = falls_at(gaps, i, decay)
        falls = falls if is_new or not ignores else 1.0
        total = fma(total, falls, np.float64(x[i]) if is_new else 0.0)
        count += 1.0 if is_new else 0.0
        if out is not None:
            out[i] = total if count >= least else np.nan
    return count, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0


def _adjusted_mean(careful: Any) -> Callable[..., Any]:
    """The mean as a sum of weighted values over that of the weights: 5 cycles a step, not 8."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, _, ignores, _, least, _, _ = weights
        count, weight, _, mean, _, _, _, _ = state
        total, is_finite = mean * weight, True
        for i in range(x.size):
            if marks is not None and marks[i]:
                is_finite = is_finite and abs(total) < np.inf
                count, weight, total = 0.0, 0.0, 0.0
            falls = falls_at(gaps, i, decay)
            if is_there(x, y, i, False):
                count += 1.0
                weight = fma(weight, falls, 1.0)
                total = fma(total, falls, np.float64(x[i]))
                mean = total / weight
            elif not ignores:
                # Both may vanish, the mean does not.
                weight *= falls
                total *= falls
            if out is not None:
                out[i] = mean if count >= least else np.nan
        if is_finite and abs(total) < np.inf:
            return count, weight, 0.0, mean, 0.0, 0.0, 0.0, 0.0
        return careful(x, y, gaps, marks, out, state, weights)

    return loop


def _recursive_mean(careful: Any) -> Callable[..., Any]:
    """The mean where all before weighs decay**gap after a gap: what that leaves is in a table."""

    def loop(x: Any, y: Any, gaps: Any, marks: Any, out: Any, state: Any, weights: Any) -> Any:
        decay, share, ignores, is_complement, least, _, table = weights
        if gaps is not None:
            return careful(x, y, gaps, marks, out, state, weights)
        count, weight, _, mean, _, _, _, _ = state
        gap, is_whole = 0, False
        for i in range(x.size):
            if marks is not None and marks[i]:
                count, weight, gap, is_whole = 0.0, 0.0, 0, False
            if is_there(x, y, i, False):
                if is_whole and gap < table.size:
                    kept = table[gap]
                else:
                    old = (1.0 if is_whole else weight) * decay ** np.float64(gap + 1)
                    kept = old / (1.0 if is_complement else old + share)
                # From these a constant series keeps its mean.
                mean = fma(kept, mean, (1.0 - kept) * np.float64(x[i]))
                count, gap, is_whole = count + 1.0, 0, True
            elif not ignores:
                gap += 1
            if out is not None:
                out[i] = mean if count >= least else np.nan
        weight = (1.0 if is_whole else weight) * decay ** np.float64(gap)
        return count, weight, 0.0, mean, 0.0, 0.0, 0.0, 0.0

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

    return numba.njit(**INLINED)(used)


@numba.njit(**INLINED)
def is_there(x: Any, y: Any, i: int, is_pair: bool) -> Any:
    """Whether both observations of a step are finite."""
    return abs(np.float64(x[i])) < np.inf and (not is_pair or abs(np.float64(y[i])) < np.inf)


@numba.njit(**INLINED)
def falls_at(gaps: Any, i: int, decay: float) -> float:
    """What is left of weights at a step."""
    if gaps is None:
        return decay
    return np.exp2(-gaps[i]) if decay == 0.5 else decay ** gaps[i]


@numba.njit(**INLINED)
def own_weight(
    weight: float, falls: float, share: float, is_adjusted: bool, is_complement: bool
) -> float:
    """What a new observation weighs, beside all before it, of this weight until they fall."""
    if is_adjusted:
        return 1.0
    return 1.0 - weight * falls if is_complement else share


@numba.njit(**INLINED)
def faded(state: Any, falls: float) -> Any:
    """The state after a step without an observation."""
    count, weight, divisor, x, y, xx, yy, xy = state
    return count, weight * falls, divisor, x, y, xx, yy, xy


@numba.njit(**INLINED)
def observe(state: Any, falls: float, own: float, x: float, y: float, is_adjusted: bool) -> Any:
    """The state after an observation.

    West's update (1979): with d = x − mean, the mean grows by gain·d, and the variance is
    kept·(xx + gain·d²), 0 for a constant series. Nothing cancels: `kept` and `gain` are quotients,
    0 and 1 for a first observation, and the divisor is a sum over pairs of observations,
    2·Σ_{i<j} w_i·w_j/(Σw)².
    """
    count, weight, divisor, mean_x, mean_y, xx, yy, xy = state
    old = weight * falls
    whole = old + own
    # All may weigh nothing: those of own weight 1 − 1, where is_complement.
    whole = whole if whole > 0 else 1.0
    kept, gain = old / whole, own / whole
    off_x, off_y = x - mean_x, y - mean_y
    mean_x, mean_y = fma(gain, off_x, mean_x), fma(gain, off_y, mean_y)
    part = kept * gain
    part_x, part_y = part * off_x, part * off_y
    xx, yy = fma(kept, xx, part_x * off_x), fma(kept, yy, part_y * off_y)
    xy = fma(kept, xy, part_x * off_y)
    divisor = fma(kept * kept, divisor, 2.0 * part)
    weight = whole if is_adjusted else 1.0
    return count + 1.0, weight, divisor, mean_x, mean_y, xx, yy, xy


def _mean(state: Any, is_biased: bool) -> Any:
    return state[3]


def _var(state: Any, is_biased: bool) -> Any:
    return _unbiased(state[5], state[2], is_biased)


def _std(state: Any, is_biased: bool) -> Any:
    return math.sqrt(_unbiased(state[5], state[2], is_biased))


def _cov(state: Any, is_biased: bool) -> Any:
    return _unbiased(state[7], state[2], is_biased)


def _corr(state: Any, is_biased: bool) -> Any:
    return state[7] / math.sqrt(state[5] * state[6])


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
OUTPUTS = {"mean": _mean, "var": _var, "std": _std, "cov": _cov, "corr": _corr}
