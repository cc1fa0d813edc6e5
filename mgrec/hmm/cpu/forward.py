"""The kernels of the forward and backward passes.

A pass advances columns of weights, scaled to a sum of 1, with the logarithms of their scales. To
solve a chunk, one column is enough; to summarise one, a column starts from each state.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel


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
def _normalise(weights: Any, column: int) -> float:
    """Scale a column of weights to a sum of 1; return the sum."""
    count = weights.shape[1]
    total = 0.0
    for state in range(count):
        total += weights[column, state]
    if total != 0.0:
        factor = 1.0 / total
        for state in range(count):
            weights[column, state] *= factor
    return total


def forward(
    emissions: Any, frame_strides: Any, transmat: Any, matrix_strides: Any, startprob: Any,
    start_strides: Any, marks: Any, mark_strides: Any, shifts: Any, weights: Any, log_scales: Any,
    results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the columns `weights` (rows, columns, states) of some rows through all steps.

    A column whose first weight is negative is before the first step of a sequence, and so are all
    columns at a mark. If there are `results`, they receive the weights of the first column after
    each step, and the probability of the observation given all earlier ones. `shifts` are the
    logarithms of the factors by which `emissions` are too small.
    """
    _, columns, count = weights.shape
    _, steps, inner = shape
    before = np.empty(count)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = weights[row]
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps):
            frame = frames + step * frame_strides[1]
            is_marked = marks[mark + step * mark_strides[1]] != 0
            matrix = matrices + step * matrix_strides[1]
            for column in range(columns):
                if is_marked:
                    log_scales[row, column] = 0.0
                if is_marked or w[column, 0] < 0:
                    for j in range(count):
                        w[column, j] = startprob[starts + j] * emissions[frame + j]
                else:
                    for j in range(count):
                        before[j] = w[column, j]
                    for j in range(count):
                        weight = 0.0
                        for i in range(count):
                            weight += before[i] * transmat[matrix + i * count + j]
                        w[column, j] = weight * emissions[frame + j]
                total = _normalise(w, column)
                if len(results):
                    result = ((x * steps + step) * inner + y) * (count + 1)
                    for j in range(count):
                        results[result + j] = w[column, j]
                    results[result + count] = total
                else:
                    log_scales[row, column] += math.log(total) + shifts[frame // count]


def backward(
    filtered: Any, filtered_strides: Any, emissions: Any, frame_strides: Any, transmat: Any,
    matrix_strides: Any, marks: Any, mark_strides: Any, shifts: Any, weights: Any,
    log_scales: Any, results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the columns `weights` of some rows from the last step to the first.

    The weights are the probabilities of all later observations given each state. If there are
    `results`, they receive the probabilities of the states given all observations, from the
    weights `filtered` of the forward pass.
    """
    _, columns, count = weights.shape
    _, steps, inner = shape
    before = np.empty(count)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = weights[row]
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        forward_row = x * filtered_strides[0] + y * filtered_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps - 1, -1, -1):
            if len(results):
                result = ((x * steps + step) * inner + y) * count
                forward_step = forward_row + step * filtered_strides[1]
                total = 0.0
                for j in range(count):
                    results[result + j] = filtered[forward_step + j] * w[0, j]
                    total += results[result + j]
                for j in range(count):
                    results[result + j] /= total
            if marks[mark + step * mark_strides[1]]:
                for column in range(columns):
                    log_scales[row, column] = 0.0
                    for j in range(count):
                        w[column, j] = 1.0 / count
                continue
            frame = frames + step * frame_strides[1]
            matrix = matrices + step * matrix_strides[1]
            for column in range(columns):
                for j in range(count):
                    before[j] = emissions[frame + j] * w[column, j]
                for i in range(count):
                    total = 0.0
                    for j in range(count):
                        total += transmat[matrix + i * count + j] * before[j]
                    w[column, i] = total
                total = _normalise(w, column)
                if columns > 1:
                    log_scales[row, column] += math.log(total) + shifts[frame // count]


centre_frames = compile_kernel(centre, "hmm-centre")
advance_forward = compile_kernel(forward, "hmm-forward")
advance_backward = compile_kernel(backward, "hmm-backward")
