"""Exponentially weighted statistics in host memory: loops over rows, tiles of chunks, and phases.

The state of a row is (count, weight, divisor, x, y, xx, yy, xy): the number of observations, the
sum of their weights w, 1 − Σw²/(Σw)², the means of both series, and their variances and covariance.
For "sum", x is the sum. The compiler removes the scalars that a statistic does not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numba
import numpy as np
from numba import types

from ..core.arrays.chunk import Chunk
from ..core.contract.kernels import Kernels, PreparedSolver, at_once
from ..engines.cpu.compilation import INLINED, INNER, compile_kernel, writable
from ..engines.cpu.lanes import fma
from ..engines.cpu.scalars import larger_of, smaller_of
from ..engines.cpu.scan import Phases, are_faster_by_phases, determine_rows
from ..engines.cpu.stack import stack_empty
from ..engines.cpu.threads import call_in_parts, threads_for
from ..scans.cpu.operands import compiled_only
from .recurrence import FIRST, PAIRS, PARTS, STATES, EwmRecurrence, EwmSummary, Weights

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
    items = ", ".join(f"state[{k}]" if k in needed else "0.0" for k in range(STATES))
    return numba.njit(**INLINED)(eval(f"lambda state: ({items})"))


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


# A tile: number of columns, and steps of a column before the next column follows.
COLUMNS, STEPS = 64, 128
# Smaller weights of earlier observations change no digit of later results.
NEGLIGIBLE = 2.0**-960


# A compiled function with a test for None made covariances take 3 times as long.
@compiled_only
def row_part(array: Any, outer: Any, left: Any, right: Any, inner: Any) -> Any:
    """Return steps of a row of an array (outer, steps, inner), or None for None.

    Outer and inner axes of length 1 are broadcast.
    """
    if not isinstance(array, types.Array):
        return lambda array, outer, left, right, inner: None
    return lambda array, outer, left, right, inner: array[
        outer if array.shape[0] > 1 else 0, left:right, inner if array.shape[2] > 1 else 0
    ]


_items = ", ".join(f"states[{k}, index[0], index[1]]" for k in range(STATES))
state_at = numba.njit(**INLINED)(eval(f"lambda states, index: ({_items})"))
"""``state_at(states, index)`` is the state of one row, from an array (STATES, ...)."""


@numba.njit(**INLINED)
def put_state(states: Any, index: Any, state: Any) -> None:
    a, b = index
    for k in range(STATES):
        states[k, a, b] = state[k]


@cache
def determine_kernel(statistic: str, is_adjusted: bool) -> Any:
    """Return the kernel ``(x, y, gaps, marks, carry, out, weights, start, stop)``.

    `gaps` and `carry` may be None, and `marks` (1, 0, 1) if there are none. The states `carry`
    before the first step are replaced by those after the last. `start` and `stop` are numbers of
    groups of rows: see :func:`group_count`.
    """
    loop = row_loop(statistic, is_adjusted)

    def determine(
        x: Any, y: Any, gaps: Any, marks: Any, carry: Any, out: Any, weights: Any, start: int, stop: int
    ) -> None:
        _, steps, inners = out.shape
        states = stack_empty((STATES, 1, COLUMNS), np.float64)
        tile = larger_of(steps, 1) if inners == 1 else STEPS
        groups = -(-inners // COLUMNS)
        for group in range(start, stop):
            outer, first = group // groups, group % groups * COLUMNS
            count = smaller_of(COLUMNS, inners - first)
            for k in range(count):
                state = ZERO_STATE
                if carry is not None:
                    state = state_at(carry, (outer, first + k))
                put_state(states, (np.int64(0), k), state)
            for left in range(0, steps, tile):
                right = smaller_of(left + tile, steps)
                for k in range(count):
                    at = first + k
                    state = loop(
                        row_part(x, outer, left, right, at),
                        row_part(y, outer, left, right, at),
                        row_part(gaps, outer, left, right, at),
                        row_part(marks, outer, left, right, at),
                        out[outer, left:right, at],
                        state_at(states, (np.int64(0), k)),
                        weights,
                    )
                    put_state(states, (np.int64(0), k), state)
            if carry is not None:
                for k in range(count):
                    put_state(carry, (outer, first + k), state_at(states, (np.int64(0), k)))

    return compile_kernel(determine, statistic, str(is_adjusted))


@cache
def precompute_kernel(statistic: str, is_adjusted: bool) -> Any:
    """Return the kernel ``(x, y, gaps, marks, weights, parts, carry_outs, is_reset)``."""
    loop = row_loop(statistic, is_adjusted)
    summarise = numba.njit(**INLINED)(_summary_of(statistic, is_adjusted))

    def precompute(
        x: Any, y: Any, gaps: Any, marks: Any, weights: Any, parts: Any, after: Any, is_reset: Any
    ) -> None:
        outers, inners = is_reset.shape
        steps = x.shape[1]
        for outer in range(outers):
            for inner in range(inners):
                mark = last_mark(row_part(marks, outer, 0, steps, inner))
                is_reset[outer, inner] = mark >= 0
                start = larger_of(mark, 0)
                x_part = row_part(x, outer, start, steps, inner)
                y_part = row_part(y, outer, start, steps, inner)
                gaps_part = row_part(gaps, outer, start, steps, inner)
                no_marks = row_part(marks, outer, 0, 0, inner)
                if mark >= 0:
                    state = loop(x_part, y_part, gaps_part, no_marks, None, ZERO_STATE, weights)
                    put_state(after, (outer, inner), state)
                else:
                    first, others = summarise(x_part, y_part, gaps_part, no_marks, weights)
                    for k in range(FIRST):
                        parts[k, outer, inner] = first[k]
                    for k in range(1, STATES):
                        parts[FIRST - 1 + k, outer, inner] = others[k]

    return compile_kernel(precompute, statistic, str(is_adjusted))


def _summary_of(statistic: str, is_adjusted: bool) -> Callable[..., Any]:
    """Return the function that summarises a row without a reset; `no_marks` is empty.

    It returns FIRST scalars for the first observation, and the state of the others.
    """
    is_pair, is_sum, loop = statistic in PAIRS, statistic == "sum", row_loop(statistic, True)
    observe_others = numba.njit(**INLINED)(_observe_others(is_pair))

    def summary(x: Any, y: Any, gaps: Any, no_marks: Any, weights: Any) -> Any:
        decay, ignores, size = weights[0], weights[2], np.int64(x.size)
        first, last = np.int64(0), size - 1
        if is_sum:
            total = loop(x, y, gaps, no_marks, None, ZERO_STATE, weights)
            first_decay = decay ** age(x, y, gaps, first, size, ignores, is_pair)
            return (first_decay, total[0], 0.0, 0.0, 1.0, 0.0), total
        while first < size and not is_present(x, y, first, is_pair):
            first += 1
        while last > first and not is_present(x, y, last, is_pair):
            last -= 1
        left, end = smaller_of(first + 1, size), smaller_of(last + 1, size)
        first_decay = decay ** age(x, y, gaps, np.int64(0), left, ignores, is_pair)
        if first == size:
            return (first_decay, 0.0, 0.0, 0.0, 1.0, 0.0), ZERO_STATE
        parts = x[left:end], y[left:end], None if gaps is None else gaps[left:end]
        if is_adjusted:
            others = loop(parts[0], parts[1], parts[2], no_marks, None, ZERO_STATE, weights)
            first_weight = decay ** age(x, y, gaps, left, end, ignores, is_pair)
        else:
            first_weight, others = observe_others(parts[0], parts[1], parts[2], weights)
        count, first_x, first_y = 1.0 + others[0], np.float64(x[first]), np.float64(y[first])
        later, total = decay ** age(x, y, gaps, end, size, ignores, is_pair), first_weight + others[1]
        if total * later < NEGLIGIBLE:
            return (first_decay, count, first_x, first_y, first_weight, 1.0), others
        parts_of_first = first_decay, count, first_x, first_y, first_weight * later, 0.0
        return parts_of_first, scaled(others, later)

    return summary


def _observe_others(is_pair: bool) -> Callable[..., Any]:
    """Return the loop without `adjust` over a row after its first observation, whose weight is 1.

    It returns the remaining weight of the first observation, and the state of the others.
    """

    def observe_others(x: Any, y: Any, gaps: Any, weights: Any) -> Any:
        decay, alpha, ignores, is_complement, _, _, _ = weights
        first_weight, others = 1.0, ZERO_STATE
        for i in range(x.size):
            factor = decay_at(gaps, i, decay)
            if is_present(x, y, i, is_pair):
                weight = weight_of_new(first_weight + others[1], factor, alpha, False, is_complement)
                first_weight = shrunk(first_weight, factor)
                if weight > 0:
                    others = observe(others, factor, weight, np.float64(x[i]), np.float64(y[i]), True)
                else:
                    others = decayed(others, factor)
                unit = 1.0 / (first_weight + others[1])
                first_weight, others = first_weight * unit, scaled(others, unit)
            elif not ignores:
                first_weight, others = shrunk(first_weight, factor), decayed(others, factor)
        return first_weight, others

    return observe_others


@numba.njit(**INLINED)
def age(x: Any, y: Any, gaps: Any, start: int, stop: int, ignores: bool, is_pair: bool) -> float:
    """Return the number of decays of weights over some steps."""
    if gaps is None and not ignores:
        return float(stop - start)
    decays = 0.0
    for i in range(start, stop):
        if is_present(x, y, i, is_pair) or not ignores:
            decays += 1.0 if gaps is None else gaps[i]
    return decays


@numba.njit(**INLINED)
def shrunk(weight: float, factor: float) -> float:
    """Return the product of a weight and a factor; 0 if it is as large as the weight.

    Products of subnormal numbers take 50 ns, and the smallest ones stay as they are.
    """
    product = weight * factor
    return 0.0 if product == weight and factor < 1.0 else product


@numba.njit(**INNER)
def last_mark(marks: Any) -> int:
    """Return the last marked step of a row, or -1."""
    last: int = marks.size - 1
    while last >= 0 and not marks[last]:
        last -= 1
    return last


@numba.njit(**INLINED)
def scaled(state: Any, unit: float) -> Any:
    """Return a state whose weight is multiplied by `unit`."""
    count, weight, divisor, x, y, xx, yy, xy = state
    return count, weight * unit, divisor, x, y, xx, yy, xy


@cache
def propagate_kernel(is_sum: bool, is_adjusted: bool) -> Any:
    """Return the kernel ``(parts, carry_in, carry_out, alpha, is_complement)`` over rows."""

    def propagate(parts: Any, carry_in: Any, carry_out: Any, alpha: float, is_complement: bool) -> None:
        for row in range(carry_in.shape[2]):
            state = state_at(carry_in, (0, row))
            first_decay, count, first_weight = parts[0, row], parts[1, row], parts[4, row]
            if is_sum:
                total = state[3] * first_decay + parts[8, row]
                state = (state[0] + count, 0.0, 0.0, total, 0.0, 0.0, 0.0, 0.0)
            elif count == 0:
                state = scaled(state, first_decay)
            else:
                weight = weight_of_new(state[1], first_decay, alpha, is_adjusted, is_complement)
                first = observe(state, first_decay, weight, parts[2, row], parts[3, row], is_adjusted)
                state = merged(scaled(first, first_weight), parts, row, count - 1.0)
            put_state(carry_out, (0, row), state)

    return compile_kernel(propagate, str(is_sum), str(is_adjusted), allocates=False)


@numba.njit(**INLINED)
def merged(state: Any, parts: Any, row: int, other_count: float) -> Any:
    """Return the state of a row and the other observations of its summary.

    The formulas are those of Chan, Golub and LeVeque (1979).
    """
    count, weight, divisor, x, y, xx, yy, xy = state
    has_decayed, other_weight = parts[5, row] > 0, parts[6, row]
    total = weight + other_weight
    if other_weight == 0 and (total > 0 or other_count == 0):
        return count + other_count, 0.0 if has_decayed else weight, divisor, x, y, xx, yy, xy
    gain, kept = (other_weight / total, weight / total) if total > 0 else (1.0, 0.0)
    off_x, off_y = parts[8, row] - x, parts[9, row] - y
    xx = kept * xx + gain * parts[10, row] + kept * gain * off_x * off_x
    yy = kept * yy + gain * parts[11, row] + kept * gain * off_y * off_y
    xy = kept * xy + gain * parts[12, row] + kept * gain * off_x * off_y
    divisor = kept * kept * divisor + gain * gain * parts[7, row] + 2.0 * kept * gain
    total = 0.0 if has_decayed else total
    # From the mean of the larger weight: the other one may be large, and have no weight any more.
    if gain <= kept:
        x, y = x + gain * off_x, y + gain * off_y
    else:
        x, y = parts[8, row] - kept * off_x, parts[9, row] - kept * off_y
    return count + other_count, total, divisor, x, y, xx, yy, xy


# Dtypes that kernels read without a cast.
_READ = "fdhilqBHILQb"
_NO_MARKS = np.empty((1, 0, 1), np.uint8)
# Time of a summary in units of the time to determine a row: with `adjust`, and without.
_COSTS = 1.0, 5.0


def kernels(method: str) -> Kernels:
    """Return the phases: on all threads for the method "threads", otherwise on the calling one."""
    determine = partial(_determine, is_threaded=method == "threads")
    return Kernels(determine, at_once(_precompute), _propagate, prepare_solver=_prepare_solver)


def _determine(
    recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray, is_threaded: bool
) -> None:
    """Write the statistic after every step."""
    threads, (outer, steps, inner) = threads_for(result.size, is_threaded), chunk.shape
    cost = _COSTS[0 if recurrence.weights.is_adjusted else 1]
    if outer * inner >= threads or not are_faster_by_phases(steps, threads, cost):
        _advance(recurrence, chunk, carry_in, result, threads)
        return
    phases = Phases(
        partial(_advance, recurrence),
        partial(_precompute, recurrence),
        lambda summary, states: _propagate((recurrence.weights, summary), states),
    )
    carry_in = np.zeros((STATES, outer, inner)) if carry_in is None else carry_in
    determine_rows(phases, chunk, carry_in, result, threads, cost, axis=1)


def _advance(
    recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray, threads: int = 1
) -> np.ndarray | None:
    """Write the statistic after every step; return the states after them if there are any before."""
    weights = recurrence.weights
    kernel = determine_kernel(weights.statistic, weights.is_adjusted)
    carry = None if carry_in is None else np.array(carry_in, np.float64, order="C")
    arguments = *_series(recurrence, chunk), carry, result, weights.kernel_arguments
    call_in_parts(partial(kernel, *arguments), group_count(chunk.shape), threads)
    return carry


def group_count(shape: tuple[int, int, int]) -> int:
    """Return the number of groups of up to `COLUMNS` rows, which are neighbours along inner."""
    return shape[0] * -(-shape[2] // COLUMNS)


def _prepare_solver(recurrence: EwmRecurrence, chunk: Chunk) -> PreparedSolver | None:
    """Return a solver for other series of the same shape and dtype; None for other arrays."""
    (x, *others), weights, shape = chunk.operands, recurrence.weights, chunk.shape
    if others or x.dtype.char not in _READ:
        return None
    kernel = determine_kernel(weights.statistic, weights.is_adjusted)
    arguments = weights.kernel_arguments, 0, group_count(shape)

    def solve(operands: Sequence[Any], results: Sequence[Any]) -> None:
        x = writable(operands[0].reshape(shape))
        kernel(x, x, None, _NO_MARKS, None, results[0].reshape(shape), *arguments)

    return solve


def _precompute(recurrence: EwmRecurrence, chunk: Chunk) -> EwmSummary:
    """Return the summary of a chunk."""
    weights, rows = recurrence.weights, chunk.row_shape
    parts, carry_outs = np.zeros((PARTS, *rows)), np.zeros((STATES, *rows))
    is_reset = np.zeros(rows, bool)
    kernel = precompute_kernel(weights.statistic, weights.is_adjusted)
    kernel(*_series(recurrence, chunk), weights.kernel_arguments, parts, carry_outs, is_reset)
    return EwmSummary(parts, carry_outs, is_reset)


def _propagate(algebra: tuple[Weights, EwmSummary], carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk."""
    weights, summary = algebra
    flat = (len(carry_in), 1, summary.is_reset.size)
    before = np.ascontiguousarray(carry_in, np.float64).reshape(flat)
    carry_out = np.empty(flat)
    kernel = propagate_kernel(weights.statistic == "sum", weights.is_adjusted)
    kernel(summary.parts.reshape(PARTS, -1), before, carry_out, weights.alpha, weights.is_complement)
    return np.where(summary.is_reset, summary.carry_outs, carry_out.reshape(carry_in.shape))


def _series(recurrence: EwmRecurrence, chunk: Chunk) -> tuple[Any, Any, Any, Any]:
    """Return x, y, gaps and marks of a chunk; gaps may be None, and marks empty.

    Kernels would compile again for None in place of marks.
    """
    arrays = dict(zip(recurrence.roles, chunk.operands, strict=True))
    x = _readable(arrays["x"])
    y = _readable(arrays["y"]) if "y" in arrays else x
    gaps = _full(arrays["gaps"], chunk) if "gaps" in arrays else None
    marks = _full(arrays["marks"], chunk) if "marks" in arrays else _NO_MARKS
    return x, y, gaps, marks


def _readable(x: np.ndarray) -> np.ndarray:
    return writable(x if x.dtype.char in _READ else x.astype(np.float64))


def _full(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Return an array with all steps of a chunk."""
    shape = (array.shape[0], chunk.steps, array.shape[2])
    return writable(np.ascontiguousarray(np.broadcast_to(array, shape)))
