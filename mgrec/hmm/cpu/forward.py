"""The kernels of the forward and backward passes.

A pass advances columns of weights with the logarithms of their scales. To solve a chunk, one column
is enough; to summarise one, a column starts from each state.

`totals` are the sums of the columns. A column is scaled to a sum of 1 once its sum leaves the range
from LEAST_TOTAL to MOST_TOTAL: a division at each step took twice as long.

A weight below TINY times the sum is replaced by its logarithm, which is negative. A sum of products
that could have lost such weights, or to which a tiny probability contributes, is computed in
logarithms. Columns that have logarithms have a sum of 1.

`states` is the number of states: see :mod:`mgrec.engines.cpu.columns`. Functions get the operands
of a step as vectors that begin there (:mod:`mgrec.engines.cpu.pointers`): transmat, and a frame. A
frame is emissions, log_frameprob and a vector of one number, the shift: the logarithm of the factor
by which emissions are too small. A column is its weights, its total and whether it has logarithms.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, SIZED, compile_kernel
from ...engines.cpu.pointers import (
    advance_pointer,
    advance_pointers,
    count_up,
    inputs_of,
    length,
    pointers_to,
    stack_vector,
)
from ...engines.cpu.scalars import larger_of
from ..recurrence import BEFORE_FIRST, HIDDEN, LOG_TINY, LOW, TINY

LEAST_TOTAL, MOST_TOTAL = 1e-10, 1e10
_FORWARD, _BACKWARD = None, True
"""Directions of a pass: numba compiles only one branch of a test whether an argument is None."""


def centre(states: Any, arrays: Any, start: int, stop: int) -> None:
    """Write logarithms of probabilities minus the largest of each step, and these.

    `arrays` are log_frameprob and the two that are written.
    """
    all_frames, all_centred, shifts = pointers_to(arrays)
    count = length(states)
    for step in count_up(start, stop):
        frame = advance_pointer(all_frames, step * count)
        centred, most = advance_pointer(all_centred, step * count), -np.inf
        for state in count_up(0, count):
            most = larger_of(most, frame[state])
        # With no state possible, all weights become 0.
        shift = most if math.isfinite(most) else 0.0
        for state in count_up(0, count):
            centred[state] = frame[state] - shift
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
def _normalise(w: Any, count: int, total: float) -> None:
    """Scale weights, none of them a logarithm, from this sum to 1."""
    if total != 0.0 and total != 1.0:
        factor = 1.0 / total
        for state in count_up(0, count):
            w[state] *= factor


@numba.njit(**INNER)
def _rescale(column: Any, count: int, total: float) -> float:
    """Scale a column from this sum to 1; return the logarithm of its scale."""
    w, totals, _ = column
    totals[0] = 1.0
    _normalise(w, count, total)
    return _logarithm(total)


@numba.njit(**INNER)
def _normalise_all(weights: Any, columns: int, count: int, log_scales: Any, totals: Any) -> None:
    """Scale all columns to a sum of 1."""
    for column in count_up(0, columns):
        _normalise(advance_pointer(weights, column * count), count, totals[column])
        log_scales[column] += math.log(totals[column])


@numba.njit(**INNER)
def _normalise_encoded(w: Any, count: int) -> float:
    """Scale weights to a sum of 1; return the sum, or its logarithm if it is tiny."""
    total, most = 0.0, -np.inf
    for state in count_up(0, count):
        if w[state] < 0.0:
            most = larger_of(most, w[state])
        else:
            total += w[state]
    if most == -np.inf:
        _normalise(w, count, total)
        return total
    if not total < LOW:
        # Weights in logarithms are too small for this sum.
        factor, log_total = 1.0 / total, math.log(total)
        for state in count_up(0, count):
            weight = w[state]
            w[state] = _encoded(weight - log_total) if weight < 0.0 else weight * factor
        return total
    for state in count_up(0, count):
        w[state] = _logarithm(w[state])
        most = larger_of(most, w[state])
    total = 0.0
    for state in count_up(0, count):
        total += math.exp(w[state] - most)
    log_total = most + math.log(total)
    for state in count_up(0, count):
        w[state] = _encoded(w[state] - log_total)
    return log_total


@numba.njit(**INNER)
def _observed(weight: float, emission: float, log_emission: float) -> float:
    """Return the product of a weight that is not tiny and an emission, given with its logarithm."""
    product = weight * emission
    if product < TINY and weight != 0.0:
        return _encoded(math.log(weight) + log_emission)
    return product


@numba.njit(**INNER)
def _sum_of_products(weights: Any, count: int, probabilities: Any, stride: int) -> float:
    """Return the logarithm of the sum of weights times probabilities, or -inf."""
    # The sum is `total` times the exponential of `most`, the largest logarithm so far.
    most, total = -np.inf, 1.0
    for i in count_up(0, count):
        probability = probabilities[i * stride]
        if weights[i] != 0.0 and probability > 0.0:
            path = _logarithm(weights[i]) + math.log(probability)
            if path > most:
                total = 1.0 if most < path - HIDDEN else total * math.exp(most - path) + 1.0
                most = path
            elif not path < most - HIDDEN:
                total += math.exp(path - most)
    return most if total == 1.0 else most + math.log(total)


@numba.njit(**INNER)
def _has_logarithms(w: Any, count: int) -> bool:
    has_logarithms = False
    for state in count_up(0, count):
        has_logarithms |= w[state] < 0.0
    return has_logarithms


@numba.njit(**INNER)
def _start_encoded(startprob: Any, frame: Any, w: Any, count: int) -> None:
    """Write the weights of a first step, some of which are tiny."""
    emissions, log_frameprob, shift = frame
    for j in count_up(0, count):
        w[j] = _observed(startprob[j], emissions[j], log_frameprob[j] - shift[0])


@numba.njit(**INNER)
def _forward_encoded(before: Any, linear: Any, transmat: Any, frame: Any, w: Any, count: int) -> None:
    """Write the weights after a step, from those before it, some of which are tiny."""
    emissions, log_frameprob, shift = frame
    for j in count_up(0, count):
        linear[j] = 0.0 if before[j] < 0.0 else before[j]
    for j in count_up(0, count):
        weight = 0.0
        for i in count_up(0, count):
            weight += linear[i] * transmat[i * count + j]
        log_emission = log_frameprob[j] - shift[0]
        if weight < LOW:
            paths = _sum_of_products(before, count, advance_pointer(transmat, j), count)
            w[j] = _encoded(paths + log_emission)
        else:
            w[j] = _observed(weight, emissions[j], log_emission)


@numba.njit(**INNER)
def _backward_encoded(before: Any, linear: Any, transmat: Any, frame: Any, w: Any, count: int) -> None:
    """Write the weights before a step, from those after it, some of which are tiny.

    `before` has the weights after the step, and receives their products with emissions.
    """
    emissions, log_frameprob, shift = frame
    for j in count_up(0, count):
        log_emission = log_frameprob[j] - shift[0]
        if before[j] < 0.0:
            before[j] = _encoded(before[j] + log_emission)
        else:
            before[j] = _observed(before[j], emissions[j], log_emission)
        linear[j] = 0.0 if before[j] < 0.0 else before[j]
    for i in count_up(0, count):
        total, row = 0.0, advance_pointer(transmat, i * count)
        for j in count_up(0, count):
            total += row[j] * linear[j]
        if total < LOW:
            total = _encoded(_sum_of_products(before, count, row, np.int64(1)))
        w[i] = total


@numba.njit(**INNER)
def _encode(column: Any, count: int, scale: float) -> float:
    """Scale a column to a sum of 1, some of whose weights are tiny.

    Return the logarithm of its scale, which is `scale` times the sum.
    """
    w, totals, is_encoded = column
    log_total = _logarithm(_normalise_encoded(w, count))
    is_encoded[0], totals[0] = _has_logarithms(w, count), 1.0
    return log_total + math.log(scale)


# One function for all columns out of range, in place of two, took 7% longer.
@numba.njit(**SIZED)
def _multiply_forward(states: Any, before: Any, transmat: Any, emissions: Any, least: float, w: Any) -> float:
    """Write the weights after a step; return their sum, or -1 if one is below `least`."""
    count, total, is_tiny = length(states), 0.0, False
    for j in count_up(0, count):
        weight = 0.0
        for i in count_up(0, count):
            weight += before[i] * transmat[i * count + j]
        w[j] = weight * emissions[j]
        total += w[j]
        is_tiny |= w[j] < least
    return -1.0 if is_tiny else total


@numba.njit(**INNER)
def _start(startprob: Any, frame: Any, column: Any, count: int) -> float:
    """Write the weights of a first step; return the logarithm of their scale."""
    (emissions, _, _), (w, _, is_encoded), total, is_tiny = frame, column, 0.0, False
    for j in count_up(0, count):
        w[j] = startprob[j] * emissions[j]
        total += w[j]
        is_tiny |= w[j] < TINY
    if is_tiny:
        _start_encoded(startprob, frame, w, count)
        return _encode(column, count, 1.0)
    is_encoded[0] = False
    return _rescale(column, count, total)


@numba.njit(**INNER)
def _in_logarithms(
    direction: bool | None, before: Any, linear: Any, transmat: Any, frame: Any, column: Any, count: int
) -> float:
    """Write the weights of a step, some of which are tiny; return the logarithm of their scale.

    `before` has the weights before a step of the forward pass, or after one of the backward pass.
    `direction` is that of the pass, `_FORWARD` or `_BACKWARD`.
    """
    w, totals, _ = column
    scale = totals[0]
    for j in count_up(0, count):
        before[j] /= scale
    if direction is None:
        _forward_encoded(before, linear, transmat, frame, w, count)
    else:
        _backward_encoded(before, linear, transmat, frame, w, count)
    return _encode(column, count, scale)


@numba.njit(**INNER)
def _column_at(columns: Any, column: int, count: int) -> Any:
    """Return one of the columns: see :mod:`.forward`."""
    weights, totals, is_encoded = columns
    at_column = advance_pointer(weights, column * count)
    return at_column, advance_pointer(totals, column), advance_pointer(is_encoded, column)


def forward(
    states: Any, model: Any, weights: Any, log_scales: Any, results: Any, start: int, stop: int, shape: Any
) -> None:
    """Advance the columns `weights` (rows, columns, states) of some rows through all steps.

    `model` are flat operands and their strides: emissions, transmat,
    startprob, marks, log_frameprob and shifts. A column whose first weight is BEFORE_FIRST is before
    the first step of a sequence, and so are all columns at a mark. If there are `results`, they
    receive the weights of the first column after each step, and a number: the sum of these numbers
    is the logarithm of the probability of all observations.
    """
    (inputs, strides), columns, count = inputs_of(model), weights.shape[1], length(states)
    all_weights, all_scales, flat_results = pointers_to((weights, log_scales, results))
    has_results, (_, steps, inner) = len(results) > 0, shape
    before, linear = stack_vector(count, np.float64), stack_vector(count, np.float64)
    totals, is_encoded = stack_vector(columns, np.float64), stack_vector(columns, np.uint8)
    result = flat_results
    for row in count_up(start, stop):
        x, y = row // inner, row % inner
        of_row = advance_pointer(all_weights, row * columns * count), totals, is_encoded
        scales = advance_pointer(all_scales, row * columns)
        for column in count_up(0, columns):
            w, _, _ = _column_at(of_row, column, count)
            is_encoded[column], totals[column] = _has_logarithms(w, count), 1.0
        for step in count_up(0, steps):
            at_step = advance_pointers(inputs, strides, (x, step, y))
            emissions, transmat, startprob, marks, log_frameprob, shift = at_step
            frame = emissions, log_frameprob, shift
            is_marked = marks[0] != 0
            log_scale = math.log(totals[0]) if is_marked else 0.0
            for column in count_up(0, columns):
                at_column = _column_at(of_row, column, count)
                w, _, _ = at_column
                is_first = is_marked or w[0] == BEFORE_FIRST
                for j in count_up(0, count):
                    before[j] = w[j]
                total = -1.0
                if not (is_first or is_encoded[column]):
                    total = _multiply_forward(states, before, transmat, emissions, TINY * totals[column], w)
                if LEAST_TOTAL < total < MOST_TOTAL:
                    totals[column] = total
                elif is_first:
                    log_scale += _start(startprob, frame, at_column, count)
                elif total == -1.0:
                    log_scale += _in_logarithms(_FORWARD, before, linear, transmat, frame, at_column, count)
                else:
                    log_scale += _rescale(at_column, count, total)
                if not has_results:
                    scales[column] += log_scale
                    log_scale = 0.0
            if has_results:
                log_scale += shift[0]
                result = advance_pointer(flat_results, ((x * steps + step) * inner + y) * (count + 1))
                factor, w = 1.0 / totals[0], of_row[0]
                for j in count_up(0, count):
                    result[j] = w[j] * factor
                result[count] = log_scale
        if has_results:
            result[count] += math.log(totals[0])
        _normalise_all(of_row[0], columns, count, scales, totals)


@numba.njit(**SIZED)
def _write_posteriors(states: Any, filtered: Any, w: Any, least: float, result: Any) -> bool:
    """Write the products of weights of both passes, scaled to a sum of 1.

    Return whether a weight was a logarithm, or the sum was below `least`.
    """
    count, total, is_tiny = length(states), 0.0, False
    for j in count_up(0, count):
        product = filtered[j] * w[j]
        is_tiny |= product < 0.0
        result[j] = product
        total += product
    factor = 1.0 / total
    for j in count_up(0, count):
        result[j] *= factor
    return is_tiny or total < least


@numba.njit(**INNER)
def _write_posteriors_of_logarithms(filtered: Any, w: Any, count: int, result: Any) -> None:
    """Write the products of weights of both passes, of which some are logarithms."""
    most, total = -np.inf, 0.0
    for j in count_up(0, count):
        result[j] = _logarithm(filtered[j]) + _logarithm(w[j])
        most = larger_of(most, result[j])
    for j in count_up(0, count):
        result[j] = math.exp(result[j] - most)
        total += result[j]
    for j in count_up(0, count):
        result[j] /= total


@numba.njit(**SIZED)
def _multiply_backward(
    states: Any, linear: Any, transmat: Any, emissions: Any, least: float, before: Any, w: Any
) -> float:
    """Write the weights before a step; return their sum, or -1 if one is below `least`."""
    count, total, is_tiny = length(states), 0.0, False
    for j in count_up(0, count):
        linear[j] = emissions[j] * before[j]
    for i in count_up(0, count):
        weight = 0.0
        for j in count_up(0, count):
            weight += transmat[i * count + j] * linear[j]
        w[i] = weight
        total += weight
        is_tiny |= weight < least
    return -1.0 if is_tiny else total


def backward(
    states: Any, model: Any, weights: Any, log_scales: Any, results: Any, start: int, stop: int, shape: Any
) -> None:
    """Advance the columns `weights` of some rows from the last step to the first.

    The operands are the weights of the forward pass, and those of :func:`forward` except startprob.
    The weights are the probabilities of all later observations given each state. If there are
    `results`, they receive the probabilities of the states given all observations.
    """
    (inputs, strides), columns, count = inputs_of(model), weights.shape[1], length(states)
    all_weights, all_scales, flat_results = pointers_to((weights, log_scales, results))
    has_results, (_, steps, inner) = len(results) > 0, shape
    before, linear = stack_vector(count, np.float64), stack_vector(count, np.float64)
    totals, is_encoded = stack_vector(columns, np.float64), stack_vector(columns, np.uint8)
    for row in count_up(start, stop):
        x, y = row // inner, row % inner
        of_row = advance_pointer(all_weights, row * columns * count), totals, is_encoded
        scales = advance_pointer(all_scales, row * columns)
        for column in count_up(0, columns):
            w, _, _ = _column_at(of_row, column, count)
            is_encoded[column], totals[column] = _has_logarithms(w, count), 1.0
        for step in range(steps - 1, -1, -1):
            at_step = advance_pointers(inputs, strides, (x, step, y))
            filtered, emissions, transmat, marks, log_frameprob, shift = at_step
            frame = emissions, log_frameprob, shift
            if has_results:
                result = advance_pointer(flat_results, ((x * steps + step) * inner + y) * count)
                is_tiny = _write_posteriors(states, filtered, of_row[0], LOW * totals[0], result)
                if is_tiny or is_encoded[0]:
                    _write_posteriors_of_logarithms(filtered, of_row[0], count, result)
            if marks[0]:
                for column in count_up(0, columns):
                    w, _, _ = _column_at(of_row, column, count)
                    totals[column], is_encoded[column] = 1.0, False
                    for j in count_up(0, count):
                        w[j] = 1.0 / count
                continue
            for column in count_up(0, columns):
                at_column = _column_at(of_row, column, count)
                w, _, _ = at_column
                for j in count_up(0, count):
                    before[j] = w[j]
                total, least = -1.0, TINY * totals[column]
                if not is_encoded[column]:
                    total = _multiply_backward(states, linear, transmat, emissions, least, before, w)
                if LEAST_TOTAL < total < MOST_TOTAL:
                    totals[column] = total
                elif total == -1.0:
                    scales[column] += _in_logarithms(
                        _BACKWARD, before, linear, transmat, frame, at_column, count
                    )
                else:
                    scales[column] += _rescale(at_column, count, total)
        _normalise_all(of_row[0], columns, count, scales, totals)


centre_frames = compile_kernel(centre, "hmm-centre", allocates=False)
advance_forward = compile_kernel(forward, "hmm-forward", allocates=False)
advance_backward = compile_kernel(backward, "hmm-backward", allocates=False)
