"""The kernels of the forward and backward passes.

A pass advances columns of weights with the logarithms of their scales. To solve a chunk, one column
is enough; to summarise one, a column starts from each state.

`totals` are the sums of the columns. A column is scaled to a sum of 1 once its sum leaves the range
from LEAST_TOTAL to MOST_TOTAL: a division at each step took twice as long.

A weight below TINY times the sum is replaced by its logarithm, which is negative. A sum of products
that could have lost such weights, or to which a tiny probability contributes, is computed in
logarithms. Columns that have logarithms have a sum of 1.

`states` is the number of states: see :mod:`mgrec.engines.cpu.columns`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, SIZED, compile_kernel
from ...engines.cpu.pointers import length
from ...engines.cpu.scalars import larger_of
from ...engines.cpu.stack import stack_empty
from ..recurrence import BEFORE_FIRST, HIDDEN, LOG_TINY, LOW, TINY

LEAST_TOTAL, MOST_TOTAL = 1e-10, 1e10
_FORWARD, _BACKWARD = None, True
"""Directions of a pass: numba compiles only one branch of a test whether an argument is None."""


def centre(states: Any, log_frameprob: Any, centred: Any, shifts: Any, start: int, stop: int) -> None:
    """Write logarithms of probabilities minus the largest of each step, and these."""
    count = length(states)
    for step in range(start, stop):
        most = -np.inf
        for state in range(count):
            most = larger_of(most, log_frameprob[step, state])
        # With no state possible, all weights become 0.
        shift = most if math.isfinite(most) else 0.0
        for state in range(count):
            centred[step, state] = log_frameprob[step, state] - shift
        shifts[step] = shift


@numba.njit(**INNER)
def _encoded(logarithm: float) -> float:
    """Return the weight of a logarithm, or the logarithm itself if the weight is tiny."""
    if logarithm >= LOG_TINY:
        return math.exp(logarithm)
    if logarithm == -np.inf:
        return 0.0
    return logarithm


@numba.njit(**INNER)
def _logarithm(weight: float) -> float:
    """Return the logarithm of a weight, which may be one."""
    if weight < 0.0:
        return weight
    return math.log(weight) if weight != 0.0 else -np.inf


@numba.njit(**INNER)
def _normalise(weights: Any, column: int, total: float) -> None:
    """Scale a column of weights, none of them a logarithm, from this sum to 1."""
    if total != 0.0 and total != 1.0:
        factor = 1.0 / total
        for state in range(weights.shape[1]):
            weights[column, state] *= factor


@numba.njit(**INNER)
def _rescale(weights: Any, totals: Any, column: int, total: float) -> float:
    """Scale a column from this sum to 1; return the logarithm of its scale."""
    totals[column] = 1.0
    _normalise(weights, column, total)
    return _logarithm(total)


@numba.njit(**INNER)
def _normalise_all(weights: Any, log_scales: Any, totals: Any) -> None:
    """Scale all columns to a sum of 1."""
    for column in range(len(totals)):
        _normalise(weights, column, totals[column])
        log_scales[column] += math.log(totals[column])


@numba.njit(**INNER)
def _normalise_encoded(weights: Any, column: int) -> float:
    """Scale a column of weights to a sum of 1; return the sum, or its logarithm if it is tiny."""
    count = weights.shape[1]
    total, most = 0.0, -np.inf
    for state in range(count):
        weight = weights[column, state]
        if weight < 0.0:
            most = larger_of(most, weight)
        else:
            total += weight
    if most == -np.inf:
        _normalise(weights, column, total)
        return total
    if not total < LOW:
        # Weights in logarithms are too small for this sum.
        factor, log_total = 1.0 / total, math.log(total)
        for state in range(count):
            weight = weights[column, state]
            if weight < 0.0:
                weights[column, state] = _encoded(weight - log_total)
            else:
                weights[column, state] = weight * factor
        return total
    for state in range(count):
        weights[column, state] = _logarithm(weights[column, state])
        most = larger_of(most, weights[column, state])
    total = 0.0
    for state in range(count):
        total += math.exp(weights[column, state] - most)
    log_total = most + math.log(total)
    for state in range(count):
        weights[column, state] = _encoded(weights[column, state] - log_total)
    return log_total


@numba.njit(**INNER)
def _observed(weight: float, emission: float, log_emission: float) -> float:
    """Return the product of a weight that is not tiny and an emission, given with its logarithm."""
    product = weight * emission
    if product < TINY and weight != 0.0:
        return _encoded(math.log(weight) + log_emission)
    return product


@numba.njit(**INNER)
def _sum_of_products(weights: Any, probabilities: Any, first: int, stride: int) -> float:
    """Return the logarithm of the sum of weights times probabilities, or -inf."""
    # The sum is `total` times the exponential of `most`, the largest logarithm so far.
    most, total = -np.inf, 1.0
    for i in range(len(weights)):
        probability = probabilities[first + i * stride]
        if weights[i] != 0.0 and probability > 0.0:
            path = _logarithm(weights[i]) + math.log(probability)
            if path > most:
                total = 1.0 if most < path - HIDDEN else total * math.exp(most - path) + 1.0
                most = path
            elif not path < most - HIDDEN:
                total += math.exp(path - most)
    return most if total == 1.0 else most + math.log(total)


@numba.njit(**INNER)
def _has_logarithms(weights: Any, column: int) -> bool:
    has_logarithms = False
    for state in range(weights.shape[1]):
        has_logarithms |= weights[column, state] < 0.0
    return has_logarithms


@numba.njit(**INNER)
def _start_encoded(
    startprob: Any,
    starts: int,
    emissions: Any,
    log_frameprob: Any,
    frame: int,
    shift: float,
    weights: Any,
    column: int,
) -> None:
    """Write the weights of a first step, some of which are tiny."""
    for j in range(weights.shape[1]):
        weights[column, j] = _observed(
            startprob[starts + j], emissions[frame + j], log_frameprob[frame + j] - shift
        )


@numba.njit(**INNER)
def _forward_encoded(
    before: Any,
    linear: Any,
    transmat: Any,
    matrix: int,
    emissions: Any,
    log_frameprob: Any,
    frame: int,
    shift: float,
    weights: Any,
    column: int,
) -> None:
    """Write the weights after a step, from those before it, some of which are tiny."""
    count = len(before)
    for j in range(count):
        linear[j] = 0.0 if before[j] < 0.0 else before[j]
    for j in range(count):
        weight = 0.0
        for i in range(count):
            weight += linear[i] * transmat[matrix + i * count + j]
        log_emission = log_frameprob[frame + j] - shift
        if weight < LOW:
            weights[column, j] = _encoded(
                _sum_of_products(before, transmat, matrix + j, count) + log_emission
            )
        else:
            weights[column, j] = _observed(weight, emissions[frame + j], log_emission)


@numba.njit(**INNER)
def _backward_encoded(
    before: Any,
    linear: Any,
    transmat: Any,
    matrix: int,
    emissions: Any,
    log_frameprob: Any,
    frame: int,
    shift: float,
    weights: Any,
    column: int,
) -> None:
    """Write the weights before a step, from those after it, some of which are tiny.

    `before` has the weights after the step, and receives their products with emissions.
    """
    count = len(before)
    for j in range(count):
        log_emission = log_frameprob[frame + j] - shift
        if before[j] < 0.0:
            before[j] = _encoded(before[j] + log_emission)
        else:
            before[j] = _observed(before[j], emissions[frame + j], log_emission)
        linear[j] = 0.0 if before[j] < 0.0 else before[j]
    for i in range(count):
        total = 0.0
        for j in range(count):
            total += transmat[matrix + i * count + j] * linear[j]
        if total < LOW:
            total = _encoded(_sum_of_products(before, transmat, matrix + i * count, np.int64(1)))
        weights[column, i] = total


@numba.njit(**INNER)
def _encode(weights: Any, totals: Any, is_encoded: Any, column: int, scale: float) -> float:
    """Scale a column to a sum of 1, some of whose weights are tiny.

    Return the logarithm of its scale, which is `scale` times the sum.
    """
    log_total = _logarithm(_normalise_encoded(weights, column))
    is_encoded[column], totals[column] = _has_logarithms(weights, column), 1.0
    return log_total + math.log(scale)


# One function for all columns out of range, in place of two, took 7% longer.
@numba.njit(**SIZED)
def _multiply_forward(
    states: Any,
    before: Any,
    transmat: Any,
    matrix: int,
    emissions: Any,
    frame: int,
    least: float,
    w: Any,
    column: int,
) -> float:
    """Write the weights after a step; return their sum, or -1 if one is below `least`."""
    count, total, is_tiny = length(states), 0.0, False
    for j in range(count):
        weight = 0.0
        for i in range(count):
            weight += before[i] * transmat[matrix + i * count + j]
        w[column, j] = weight * emissions[frame + j]
        total += w[column, j]
        is_tiny |= w[column, j] < least
    return -1.0 if is_tiny else total


@numba.njit(**INNER)
def _start(
    startprob: Any,
    starts: int,
    emissions: Any,
    log_frameprob: Any,
    frame: int,
    shift: float,
    w: Any,
    totals: Any,
    is_encoded: Any,
    column: int,
) -> float:
    """Write the weights of a first step; return the logarithm of their scale."""
    total, is_tiny = 0.0, False
    for j in range(w.shape[1]):
        w[column, j] = startprob[starts + j] * emissions[frame + j]
        total += w[column, j]
        is_tiny |= w[column, j] < TINY
    if is_tiny:
        _start_encoded(startprob, starts, emissions, log_frameprob, frame, shift, w, column)
        return _encode(w, totals, is_encoded, column, 1.0)
    is_encoded[column] = False
    return _rescale(w, totals, column, total)


@numba.njit(**INNER)
def _in_logarithms(
    direction: bool | None,
    before: Any,
    linear: Any,
    transmat: Any,
    matrix: int,
    emissions: Any,
    log_frameprob: Any,
    frame: int,
    shift: float,
    w: Any,
    totals: Any,
    is_encoded: Any,
    column: int,
) -> float:
    """Write the weights of a step, some of which are tiny; return the logarithm of their scale.

    `before` has the weights before a step of the forward pass, or after one of the backward pass.
    `direction` is that of the pass, `_FORWARD` or `_BACKWARD`.
    """
    scale = totals[column]
    for j in range(len(before)):
        before[j] /= scale
    if direction is None:
        _forward_encoded(before, linear, transmat, matrix, emissions, log_frameprob, frame, shift, w, column)
    else:
        _backward_encoded(before, linear, transmat, matrix, emissions, log_frameprob, frame, shift, w, column)
    return _encode(w, totals, is_encoded, column, scale)


def forward(
    states: Any,
    frame_operand: Any,
    matrix_operand: Any,
    start_operand: Any,
    reset: Any,
    log_frameprob: Any,
    shifts: Any,
    weights: Any,
    log_scales: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
) -> None:
    """Advance the columns `weights` (rows, columns, states) of some rows through all steps.

    A column whose first weight is BEFORE_FIRST is before the first step of a sequence, and so are
    all columns at a mark. If there are `results`, they receive the weights of the first column
    after each step, and a number: the sum of these numbers is the logarithm of the probability of
    all observations. `shifts` are the logarithms of the factors by which `emissions` are too small:
    those of `log_frameprob`, in the same places.
    """
    (emissions, frame_strides), (transmat, matrix_strides) = frame_operand, matrix_operand
    (startprob, start_strides), (marks, mark_strides) = start_operand, reset
    columns, count = weights.shape[1], length(states)
    _, steps, inner = shape
    before, linear = stack_empty(count, np.float64), stack_empty(count, np.float64)
    totals, is_encoded = stack_empty(columns, np.float64), stack_empty(columns, np.bool_)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w, scales = weights[row], log_scales[row]
        for column in range(columns):
            is_encoded[column], totals[column] = _has_logarithms(w, column), 1.0
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps):
            frame = frames + step * frame_strides[1]
            shift = shifts[frame // count]
            matrix = matrices + step * matrix_strides[1]
            is_marked = marks[mark + step * mark_strides[1]] != 0
            log_scale = math.log(totals[0]) if is_marked else 0.0
            for column in range(columns):
                is_first = is_marked or w[column, 0] == BEFORE_FIRST
                for j in range(count):
                    before[j] = w[column, j]
                total = -1.0
                if not (is_first or is_encoded[column]):
                    total = _multiply_forward(
                        states, before, transmat, matrix, emissions, frame, TINY * totals[column], w, column
                    )
                if LEAST_TOTAL < total < MOST_TOTAL:
                    totals[column] = total
                elif is_first:
                    log_scale += _start(
                        startprob,
                        starts,
                        emissions,
                        log_frameprob,
                        frame,
                        shift,
                        w,
                        totals,
                        is_encoded,
                        column,
                    )
                elif total == -1.0:
                    log_scale += _in_logarithms(
                        _FORWARD,
                        before,
                        linear,
                        transmat,
                        matrix,
                        emissions,
                        log_frameprob,
                        frame,
                        shift,
                        w,
                        totals,
                        is_encoded,
                        column,
                    )
                else:
                    log_scale += _rescale(w, totals, column, total)
                log_scale += shift
                if not len(results):
                    scales[column] += log_scale
                    log_scale = 0.0
            if len(results):
                result = ((x * steps + step) * inner + y) * (count + 1)
                factor = 1.0 / totals[0]
                for j in range(count):
                    results[result + j] = w[0, j] * factor
                results[result + count] = log_scale
        if len(results):
            results[((x * steps + steps - 1) * inner + y) * (count + 1) + count] += math.log(totals[0])
        _normalise_all(w, scales, totals)


@numba.njit(**SIZED)
def _write_posteriors(
    states: Any, filtered: Any, index: int, w: Any, least: float, results: Any, result: int
) -> bool:
    """Write the products of weights of both passes, scaled to a sum of 1.

    Return whether a weight was a logarithm, or the sum was below `least`.
    """
    count, total, is_tiny = length(states), 0.0, False
    for j in range(count):
        product = filtered[index + j] * w[0, j]
        is_tiny |= product < 0.0
        results[result + j] = product
        total += product
    factor = 1.0 / total
    for j in range(count):
        results[result + j] *= factor
    return is_tiny or total < least


@numba.njit(**INNER)
def _write_posteriors_of_logarithms(filtered: Any, index: int, w: Any, results: Any, result: int) -> None:
    """Write the products of weights of both passes, of which some are logarithms."""
    count, most, total = w.shape[1], -np.inf, 0.0
    for j in range(count):
        results[result + j] = _logarithm(filtered[index + j]) + _logarithm(w[0, j])
        most = larger_of(most, results[result + j])
    for j in range(count):
        results[result + j] = math.exp(results[result + j] - most)
        total += results[result + j]
    for j in range(count):
        results[result + j] /= total


@numba.njit(**SIZED)
def _multiply_backward(
    states: Any,
    linear: Any,
    transmat: Any,
    matrix: int,
    emissions: Any,
    frame: int,
    least: float,
    before: Any,
    w: Any,
    column: int,
) -> float:
    """Write the weights before a step; return their sum, or -1 if one is below `least`."""
    count, total, is_tiny = length(states), 0.0, False
    for j in range(count):
        linear[j] = emissions[frame + j] * before[j]
    for i in range(count):
        weight = 0.0
        for j in range(count):
            weight += transmat[matrix + i * count + j] * linear[j]
        w[column, i] = weight
        total += weight
        is_tiny |= weight < least
    return -1.0 if is_tiny else total


def backward(
    states: Any,
    filtered_operand: Any,
    frame_operand: Any,
    matrix_operand: Any,
    reset: Any,
    log_frameprob: Any,
    shifts: Any,
    weights: Any,
    log_scales: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
) -> None:
    """Advance the columns `weights` of some rows from the last step to the first.

    The weights are the probabilities of all later observations given each state. If there are
    `results`, they receive the probabilities of the states given all observations, from the
    weights `filtered` of the forward pass.
    """
    (filtered, filtered_strides), (emissions, frame_strides) = filtered_operand, frame_operand
    (transmat, matrix_strides), (marks, mark_strides) = matrix_operand, reset
    columns, count = weights.shape[1], length(states)
    _, steps, inner = shape
    before, linear = stack_empty(count, np.float64), stack_empty(count, np.float64)
    totals, is_encoded = stack_empty(columns, np.float64), stack_empty(columns, np.bool_)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w, scales = weights[row], log_scales[row]
        for column in range(columns):
            is_encoded[column], totals[column] = _has_logarithms(w, column), 1.0
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        forward_row = x * filtered_strides[0] + y * filtered_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps - 1, -1, -1):
            if len(results):
                result = ((x * steps + step) * inner + y) * count
                index = forward_row + step * filtered_strides[1]
                is_tiny = _write_posteriors(states, filtered, index, w, LOW * totals[0], results, result)
                if is_tiny or is_encoded[0]:
                    _write_posteriors_of_logarithms(filtered, index, w, results, result)
            if marks[mark + step * mark_strides[1]]:
                for column in range(columns):
                    totals[column], is_encoded[column] = 1.0, False
                    for j in range(count):
                        w[column, j] = 1.0 / count
                continue
            frame = frames + step * frame_strides[1]
            shift = shifts[frame // count]
            matrix = matrices + step * matrix_strides[1]
            for column in range(columns):
                for j in range(count):
                    before[j] = w[column, j]
                total = -1.0
                if not is_encoded[column]:
                    total = _multiply_backward(
                        states,
                        linear,
                        transmat,
                        matrix,
                        emissions,
                        frame,
                        TINY * totals[column],
                        before,
                        w,
                        column,
                    )
                if LEAST_TOTAL < total < MOST_TOTAL:
                    totals[column] = total
                elif total == -1.0:
                    scales[column] += _in_logarithms(
                        _BACKWARD,
                        before,
                        linear,
                        transmat,
                        matrix,
                        emissions,
                        log_frameprob,
                        frame,
                        shift,
                        w,
                        totals,
                        is_encoded,
                        column,
                    )
                else:
                    scales[column] += _rescale(w, totals, column, total)
                scales[column] += shift
        _normalise_all(w, scales, totals)


centre_frames = compile_kernel(centre, "hmm-centre", allocates=False)
advance_forward = compile_kernel(forward, "hmm-forward", allocates=False)
advance_backward = compile_kernel(backward, "hmm-backward", allocates=False)
