"""The kernels of Viterbi's algorithm: scores, and the states of the best path."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INNER, compile_kernel
from ..ties import TIE

NO_STATE = 255
"""Pointer of the first step of a sequence."""


def score(
    states: Any, log_frameprob: Any, frame_strides: Any, log_transmat: Any, matrix_strides: Any,
    log_startprob: Any, start_strides: Any, marks: Any, mark_strides: Any, scores: Any,
    results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Advance the columns `scores` (rows, columns, states) of some rows through all steps.

    A score is the logarithm of the probability of the best path to a state, up to a number that
    all columns of a row share. A column whose first score is inf is before the first step of a
    sequence, and so are all columns at a mark. If there are `results`, they receive for each state
    the state before it on its best path, and last the state with the highest score.
    """
    columns, count = scores.shape[1], len(states)
    _, steps, inner = shape
    before = np.empty(count)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        w = scores[row]
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps):
            frame = frames + step * frame_strides[1]
            matrix = matrices + step * matrix_strides[1]
            is_marked = marks[mark + step * mark_strides[1]] != 0
            result = ((x * steps + step) * inner + y) * (count + 1)
            most = -np.inf
            for column in range(columns):
                for i in range(count):
                    before[i] = w[column, i]
                is_first = is_marked or before[0] == np.inf
                for j in range(count):
                    best = -np.inf
                    if is_first:
                        best = log_startprob[starts + j]
                    else:
                        for i in range(count):
                            best = max(best, before[i] + log_transmat[matrix + i * count + j])
                    if len(results):
                        pointer = NO_STATE
                        if not is_first:
                            pointer = 0
                            for i in range(count):
                                path = before[i] + log_transmat[matrix + i * count + j]
                                if path >= best - TIE:
                                    pointer = i
                                    break
                        results[result + j] = pointer
                    w[column, j] = best + log_frameprob[frame + j]
                    most = max(most, w[column, j])
            if math.isfinite(most):
                for column in range(columns):
                    for j in range(count):
                        w[column, j] -= most
            if len(results):
                last = 0
                for j in range(count):
                    if w[0, j] >= -TIE:
                        last = j
                        break
                results[result + count] = last


@numba.njit(**INNER)
def _is_valid(logarithms: Any, first: int, count: int) -> bool:
    """Return whether no logarithm is nan or inf."""
    is_valid = True
    for k in range(first, first + count):
        is_valid = is_valid and logarithms[k] < np.inf
    return is_valid


def follow(
    pointers: Any, pointer_strides: Any, log_frameprob: Any, frame_strides: Any,
    log_transmat: Any, matrix_strides: Any, log_startprob: Any, start_strides: Any,
    count: int, states: Any, results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Follow the pointers of some rows, over `count` states, from the last step to the first.

    `states` (rows, columns) are those of the last step. A negative one is replaced by the state
    with the highest score, and so is that of the last step of each sequence. If there are
    `results`, they receive the state at each step and the logarithm of the probability of its
    transition and its observation: nan if an entry of a step is nan, which scores ignore.
    """
    columns = states.shape[1]
    _, steps, inner = shape
    for row in range(start, stop):
        x, y = row // inner, row % inner
        pointer_row = x * pointer_strides[0] + y * pointer_strides[2]
        frames = x * frame_strides[0] + y * frame_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        is_checked = is_valid = False
        for step in range(steps - 1, -1, -1):
            pointer = pointer_row + step * pointer_strides[1]
            for column in range(columns):
                state = states[row, column]
                if state < 0:
                    state = int(pointers[pointer + count])
                before = int(pointers[pointer + state])
                is_first = before == NO_STATE
                states[row, column] = -1 if is_first else before
                if len(results):
                    frame = frames + step * frame_strides[1]
                    if is_first:
                        log_prob = log_startprob[starts + state]
                        if not _is_valid(log_startprob, starts, count):
                            log_prob = np.nan
                    else:
                        matrix = matrices + step * matrix_strides[1]
                        log_prob = log_transmat[matrix + before * count + state]
                        if not is_checked:
                            is_valid = _is_valid(log_transmat, matrix, count * count)
                            is_checked = matrix_strides[1] == 0
                        if not is_valid:
                            log_prob = np.nan
                    log_prob += log_frameprob[frame + state]
                    if not _is_valid(log_frameprob, frame, count):
                        log_prob = np.nan
                    result = ((x * steps + step) * inner + y) * 2
                    results[result] = state
                    results[result + 1] = log_prob


def draw(
    uniform: Any, uniform_strides: Any, transmat: Any, matrix_strides: Any, startprob: Any,
    start_strides: Any, marks: Any, mark_strides: Any, count: int, states: Any, results: Any,
    start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Draw the next of `count` states of some rows from the first step to the last.

    `states` (rows, columns) are those before the first step. A negative one is before the first
    step of a sequence, and so are all at a mark. If there are `results`, they receive the state at
    each step.
    """
    columns = states.shape[1]
    _, steps, inner = shape
    for row in range(start, stop):
        x, y = row // inner, row % inner
        numbers = x * uniform_strides[0] + y * uniform_strides[2]
        matrices = x * matrix_strides[0] + y * matrix_strides[2]
        starts = x * start_strides[0] + y * start_strides[2]
        mark = x * mark_strides[0] + y * mark_strides[2]
        for step in range(steps):
            number = uniform[numbers + step * uniform_strides[1]]
            is_marked = marks[mark + step * mark_strides[1]] != 0
            for column in range(columns):
                before = states[row, column]
                probabilities = transmat
                first = matrices + step * matrix_strides[1] + before * count
                if is_marked or before < 0:
                    probabilities, first = startprob, starts
                # If the sum is below 1, the last state of positive probability.
                state, total = 0, 0.0
                for j in range(count):
                    if probabilities[first + j] > 0.0:
                        state = j
                        total += probabilities[first + j]
                        if total > number:
                            break
                states[row, column] = state
            if len(results):
                results[(x * steps + step) * inner + y] = states[row, 0]


advance_scores = compile_kernel(score, "hmm-score")
follow_pointers = compile_kernel(follow, "hmm-follow")
draw_states = compile_kernel(draw, "hmm-draw")
