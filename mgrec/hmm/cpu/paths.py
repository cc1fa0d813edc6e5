"""The kernels of Viterbi's algorithm: scores, and the states of the best path."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from ...engines.cpu.compilation import INLINED, INNER, compile_kernel
from ..recurrence import TIE

NO_STATE = 255
"""Pointer of the first step of a sequence."""
LARGEST_SCORE = 64.0
"""The highest score is subtracted from all once it is larger: to do so at each step took longer.
The scores near it have roundings of 1e-14, which are small to a tie."""


@numba.njit(**INLINED)
def _extend(
    states: Any, before: int, after: int, log_transmat: Any, matrix: int, log_frameprob: Any,
    frame: int, best: Any, w: Any, column: int,
) -> float:  # fmt: skip
    """Write the scores after a step, and those without its observation; return the highest.

    `before` and `after` are the indices of the scores before and after the step.
    """
    count, most = len(states), -np.inf
    for j in range(count):
        # Two chains of dependent instructions, each of half of the paths.
        first = second = -np.inf
        for i in range(0, count, 2):
            first = max(first, w[column, before + i] + log_transmat[matrix + i * count + j])
        for i in range(1, count, 2):
            second = max(second, w[column, before + i] + log_transmat[matrix + i * count + j])
        best[j] = max(first, second)
        w[column, after + j] = best[j] + log_frameprob[frame + j]
        most = max(most, w[column, after + j])
    return most


@numba.njit(**INLINED)
def _write_pointers(
    states: Any, w: Any, before: int, log_transmat: Any, matrix: int, best: Any, results: Any,
    result: int,
) -> None:  # fmt: skip
    """Write for each state the lowest state of a best path to it."""
    count = len(states)
    for j in range(count):
        pointer, least = 0, best[j] - TIE
        for i in range(count - 1, -1, -1):
            path = w[0, before + i] + log_transmat[matrix + i * count + j]
            pointer = i if path >= least else pointer
        results[result + j] = pointer


@numba.njit(**INNER)
def _start(
    log_startprob: Any, starts: int, log_frameprob: Any, frame: int, count: int, w: Any,
    column: int, after: int, results: Any, result: int,
) -> float:  # fmt: skip
    """Write the scores of a first step, and pointers to no state; return the highest."""
    most = -np.inf
    for j in range(count):
        score = log_startprob[starts + j] + log_frameprob[frame + j]
        w[column, after + j] = score
        most = max(most, score)
        if len(results):
            results[result + j] = NO_STATE
    return most


@numba.njit(**INLINED)
def _lowest_best(states: Any, w: Any, after: int, most: float) -> int:
    """Return the lowest state with the highest score of the first column."""
    state, least = 0, most - TIE
    for j in range(len(states) - 1, -1, -1):
        state = j if w[0, after + j] >= least else state
    return state


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
    # Scores before and after a step take turns.
    w, best = np.empty((columns, 2 * count)), np.empty(count)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        before, after = 0, count
        for column in range(columns):
            for i in range(count):
                w[column, i] = scores[row, column, i]
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
                if is_marked or w[column, before] == np.inf:
                    highest = _start(
                        log_startprob, starts, log_frameprob, frame, count, w, column, after,
                        results, result,
                    )  # fmt: skip
                else:
                    highest = _extend(
                        states, before, after, log_transmat, matrix, log_frameprob, frame, best, w,
                        column,
                    )  # fmt: skip
                    if len(results):
                        _write_pointers(
                            states, w, before, log_transmat, matrix, best, results, result
                        )
                most = max(most, highest)
            if len(results):
                results[result + count] = _lowest_best(states, w, after, most)
            if LARGEST_SCORE < abs(most) < np.inf:
                for column in range(columns):
                    for j in range(count):
                        w[column, after + j] -= most
            before, after = after, before
        for column in range(columns):
            for i in range(count):
                scores[row, column, i] = w[column, before + i]


@numba.njit(**INLINED)
def _is_valid(logarithms: Any, first: int, count: int) -> bool:
    """Return whether no logarithm is nan or inf."""
    is_valid = True
    for k in range(first, first + count):
        is_valid = is_valid and logarithms[k] < np.inf
    return is_valid


def follow(
    states: Any, pointers: Any, pointer_strides: Any, log_frameprob: Any, frame_strides: Any,
    log_transmat: Any, matrix_strides: Any, log_startprob: Any, start_strides: Any,
    current: Any, results: Any, start: int, stop: int, shape: Any,
) -> None:  # fmt: skip
    """Follow the pointers of some rows from the last step to the first.

    `current` (rows, columns) are those of the last step. A negative one is replaced by the state
    with the highest score, and so is that of the last step of each sequence. If there are
    `results`, they receive the state at each step and the logarithm of the probability of its
    transition and its observation: nan if an entry of a step is nan, which scores ignore.
    """
    columns, count = current.shape[1], len(states)
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
                state = current[row, column]
                if state < 0:
                    state = int(pointers[pointer + count])
                before = int(pointers[pointer + state])
                is_first = before == NO_STATE
                current[row, column] = -1 if is_first else before
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
