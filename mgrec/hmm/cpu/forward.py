"""The kernels of the forward and backward passes.

A pass advances columns of weights, scaled to a sum of 1, with the logarithms of their scales. To
solve a chunk, one column is enough; to summarise one, a column starts from each state.

A weight below TINY is replaced by its logarithm, which is negative. A sum of products that could
have lost such weights, or to which a tiny probability contributes, is computed in logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ..underflow import BEFORE_FIRST, HIDDEN, LOG_TINY, LOW, TINY


def centre(log_frameprob: Any, centred: Any, shifts: Any, start: int, stop: int) -> None:
    """Write logarithms of probabilities minus the largest of each step, and these."""
    count = log_frameprob.shape[1]
    for step in range(start, stop):
        most = -np.inf
        for state in range(count):
            most = max(most, log_frameprob[step, state])
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
def _normalise(weights: Any, column: int) -> float:
    """Scale a column of weights, none of them a logarithm, to a sum of 1; return the sum."""
    count = weights.shape[1]
    total = 0.0
    for state in range(count):
        total += weights[column, state]
    if total != 0.0:
        factor = 1.0 / total
        for state in range(count):
            weights[column, state] *= factor
    return total


@numba.njit(**INNER)
def _normalise_encoded(weights: Any, column: int) -> float:
    """Scale a column of weights to a sum of 1; return the sum, or its logarithm if it is tiny."""
    count = weights.shape[1]
    total, most = 0.0, -np.inf
    for state in range(count):
        weight = weights[column, state]
        if weight < 0.0:
            most = max(most, weight)
        else:
            total += weight
    if most == -np.inf:
        return _normalise(weights, column)
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
        most = max(most, weights[column, state])
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
    startprob: Any, starts: int, emissions: Any, log_frameprob: Any, frame: int, shift: float,
    weights: Any, column: int,
) -> None:  # fmt: skip
    """Write the weights of a first step, some of which are tiny."""
    for j in range(weights.shape[1]):
        weights[column, j] = _observed(
            startprob[starts + j], emissions[frame + j], log_frameprob[frame + j] - shift
        )


@numba.njit(**INNER)
def _forward_encoded(
    before: Any, linear: Any, transmat: Any, matrix: int, emissions: Any, log_frameprob: Any,
    frame: int, shift: float, weights: Any, column: int,
) -> None:  # fmt: skip
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
    before: Any, linear: Any, transmat: Any, matrix: int, emissions: Any, log_frameprob: Any,
    frame: int, shift: float, weights: Any, column: int,
) -> None:  # fmt: skip
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
            total = _encoded(_sum_of_products(before, transmat, matrix + i * count, 1))
        weights[column, i] = total


def forward(
    emissions: Any, frame_strides: Any, transmat: Any, matrix_strides: Any, startprob: Any,
    start_strides: Any, marks: Any, mark_strides: Any, log_frameprob: Any, shifts: Any,
    weights: Any, log_scales: Any, results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the columns `weights` (rows, columns, states) of some rows through all steps.

    A column whose first weight is BEFORE_FIRST is before the first step of a sequence, and so are
    all columns at a mark. If there are `results`, they receive the weights of the first column
    after each step, and the probability of the observation given all earlier ones, or its logarithm
    if it is tiny. `shifts` are the logarithms of the factors by which `emissions` are too small:
    those of `log_frameprob`, in the same places.
    """
    _, columns, count = weights.shape
    _, steps, inner = shape
    before, linear = np.empty(count), np.empty(count)
    is_encoded = np.empty(columns, np.bool_)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = weights[row]
        for column in range(columns):
            is_encoded[column] = _has_logarithms(w, column)
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps):
            frame = frames + step * frame_strides[1]
            shift = shifts[frame // count]
            is_marked = marks[mark + step * mark_strides[1]] != 0
            matrix = matrices + step * matrix_strides[1]
            for column in range(columns):
                if is_marked:
                    log_scales[row, column] = 0.0
                is_tiny = False
                if is_marked or w[column, 0] == BEFORE_FIRST:
                    for j in range(count):
                        w[column, j] = startprob[starts + j] * emissions[frame + j]
                        is_tiny |= w[column, j] < TINY
                    if is_tiny:
                        _start_encoded(
                            startprob, starts, emissions, log_frameprob, frame, shift, w, column
                        )
                else:
                    for j in range(count):
                        before[j] = w[column, j]
                    is_tiny = is_encoded[column]
                    if not is_tiny:
                        for j in range(count):
                            weight = 0.0
                            for i in range(count):
                                weight += before[i] * transmat[matrix + i * count + j]
                            w[column, j] = weight * emissions[frame + j]
                            is_tiny |= w[column, j] < TINY
                    if is_tiny:
                        _forward_encoded(
                            before, linear, transmat, matrix, emissions, log_frameprob, frame,
                            shift, w, column,
                        )  # fmt: skip
                if is_tiny:
                    total = _normalise_encoded(w, column)
                    is_encoded[column] = _has_logarithms(w, column)
                else:
                    total = _normalise(w, column)
                    is_encoded[column] = False
                if len(results):
                    result = ((x * steps + step) * inner + y) * (count + 1)
                    for j in range(count):
                        results[result + j] = w[column, j]
                    results[result + count] = total
                else:
                    log_scales[row, column] += _logarithm(total) + shift


@numba.njit(**INNER)
def _write_posteriors(
    filtered: Any, place: int, later: Any, is_encoded: bool, results: Any, result: int, count: int
) -> None:
    """Write the products of weights of both passes, scaled to a sum of 1."""
    total = 0.0
    for j in range(count):
        is_encoded |= filtered[place + j] < 0.0
        results[result + j] = filtered[place + j] * later[j]
        total += results[result + j]
    if not is_encoded and not total < LOW:
        for j in range(count):
            results[result + j] /= total
        return
    most = -np.inf
    for j in range(count):
        results[result + j] = _logarithm(filtered[place + j]) + _logarithm(later[j])
        most = max(most, results[result + j])
    total = 0.0
    for j in range(count):
        results[result + j] = math.exp(results[result + j] - most)
        total += results[result + j]
    for j in range(count):
        results[result + j] /= total


def backward(
    filtered: Any, filtered_strides: Any, emissions: Any, frame_strides: Any, transmat: Any,
    matrix_strides: Any, marks: Any, mark_strides: Any, log_frameprob: Any, shifts: Any,
    weights: Any, log_scales: Any, results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the columns `weights` of some rows from the last step to the first.

    The weights are the probabilities of all later observations given each state. If there are
    `results`, they receive the probabilities of the states given all observations, from the
    weights `filtered` of the forward pass.
    """
    _, columns, count = weights.shape
    _, steps, inner = shape
    before, linear = np.empty(count), np.empty(count)
    is_encoded = np.empty(columns, np.bool_)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = weights[row]
        for column in range(columns):
            is_encoded[column] = _has_logarithms(w, column)
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        forward_row = x * filtered_strides[0] + y * filtered_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps - 1, -1, -1):
            if len(results):
                result = ((x * steps + step) * inner + y) * count
                forward_step = forward_row + step * filtered_strides[1]
                _write_posteriors(
                    filtered, forward_step, w[0], is_encoded[0], results, result, count
                )
            if marks[mark + step * mark_strides[1]]:
                for column in range(columns):
                    log_scales[row, column], is_encoded[column] = 0.0, False
                    for j in range(count):
                        w[column, j] = 1.0 / count
                continue
            frame = frames + step * frame_strides[1]
            shift = shifts[frame // count]
            matrix = matrices + step * matrix_strides[1]
            for column in range(columns):
                is_tiny = is_encoded[column]
                for j in range(count):
                    before[j] = w[column, j]
                    linear[j] = emissions[frame + j] * before[j]
                if not is_tiny:
                    for i in range(count):
                        total = 0.0
                        for j in range(count):
                            total += transmat[matrix + i * count + j] * linear[j]
                        w[column, i] = total
                        is_tiny |= total < TINY
                if is_tiny:
                    _backward_encoded(
                        before, linear, transmat, matrix, emissions, log_frameprob, frame, shift,
                        w, column,
                    )  # fmt: skip
                    total = _normalise_encoded(w, column)
                    is_encoded[column] = _has_logarithms(w, column)
                else:
                    total = _normalise(w, column)
                    is_encoded[column] = False
                if columns > 1:
                    log_scales[row, column] += _logarithm(total) + shift


centre_frames = compile_kernel(centre, "hmm-centre")
advance_forward = compile_kernel(forward, "hmm-forward")
advance_backward = compile_kernel(backward, "hmm-backward")
