"""The phases of a chunk of a hidden Markov model in host memory, and the kernels of best paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import as_lengths, flat_operands, kernels_of_columns, summarise
from ...engines.cpu.compilation import INNER, SIZED, compile_kernel, writable
from ...engines.cpu.pointers import length
from ...engines.cpu.scalars import larger_of
from ...engines.cpu.stack import stack_empty
from ...engines.cpu.threads import call_in_parts
from ..recurrence import TIE, HmmRecurrence, HmmSummary, PosteriorRecurrence, propagate
from .forward import advance_backward, advance_forward, centre_frames

NO_STATE = 255
"""Pointer of the first step of a sequence."""
LARGEST_SCORE = 64.0
"""The highest score is subtracted from all once it is larger: to do so at each step took longer.
The scores near it have roundings of 1e-14, which are small to a tie."""


@numba.njit(**SIZED)
def _extend(
    states: Any,
    before: int,
    after: int,
    log_transmat: Any,
    matrix: int,
    log_frameprob: Any,
    frame: int,
    best: Any,
    w: Any,
    column: int,
) -> float:
    """Write the scores after a step, and those without its observation; return the highest.

    `before` and `after` are the indices of the scores before and after the step.
    """
    count, most = length(states), -np.inf
    for j in range(count):
        # Two chains of dependent instructions, each of half of the paths.
        first = second = -np.inf
        for i in range(0, count, 2):
            first = larger_of(first, w[column, before + i] + log_transmat[matrix + i * count + j])
        for i in range(1, count, 2):
            second = larger_of(second, w[column, before + i] + log_transmat[matrix + i * count + j])
        best[j] = larger_of(first, second)
        w[column, after + j] = best[j] + log_frameprob[frame + j]
        most = larger_of(most, w[column, after + j])
    return most


@numba.njit(**SIZED)
def _write_pointers(
    states: Any, w: Any, before: int, log_transmat: Any, matrix: int, best: Any, results: Any, result: int
) -> None:
    """Write for each state the lowest state of a best path to it."""
    count = length(states)
    for j in range(count):
        pointer, least = 0, best[j] - TIE
        for i in range(count - 1, -1, -1):
            path = w[0, before + i] + log_transmat[matrix + i * count + j]
            pointer = i if path >= least else pointer
        results[result + j] = pointer


@numba.njit(**INNER)
def _start(
    log_startprob: Any,
    starts: int,
    log_frameprob: Any,
    frame: int,
    count: int,
    w: Any,
    column: int,
    after: int,
    results: Any,
    result: int,
) -> float:
    """Write the scores of a first step, and pointers to no state; return the highest."""
    most = -np.inf
    for j in range(count):
        score = log_startprob[starts + j] + log_frameprob[frame + j]
        w[column, after + j] = score
        most = larger_of(most, score)
        if len(results):
            results[result + j] = NO_STATE
    return most


@numba.njit(**SIZED)
def _lowest_best(states: Any, w: Any, after: int, most: float) -> int:
    """Return the lowest state with the highest score of the first column."""
    state, least = 0, most - TIE
    for j in range(length(states) - 1, -1, -1):
        state = j if w[0, after + j] >= least else state
    return state


def score(
    states: Any,
    frame_operand: Any,
    matrix_operand: Any,
    start_operand: Any,
    reset: Any,
    scores: Any,
    w: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
) -> None:
    """Advance the columns `scores` (rows, columns, states) of some rows through all steps.

    A score is the logarithm of the probability of the best path to a state, up to a number that
    all columns of a row share. A column whose first score is inf is before the first step of a
    sequence, and so are all columns at a mark. If there are `results`, they receive for each state
    the state before it on its best path, and last the state with the highest score. `w` is memory
    (columns, 2 * states).
    """
    (log_frameprob, frame_strides), (log_transmat, matrix_strides) = frame_operand, matrix_operand
    (log_startprob, start_strides), (marks, mark_strides) = start_operand, reset
    columns, count = scores.shape[1], length(states)
    _, steps, inner = shape
    # Scores before and after a step take turns.
    best = stack_empty(count, np.float64)
    for row in range(start, stop):
        x, y = row // inner, row % inner
        # numba would also compile functions for the type of the constant 0.
        zero: Any = np.int64(0)
        before, after = zero, count
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
                        log_startprob, starts, log_frameprob, frame, count, w, column, after, results, result
                    )
                else:
                    highest = _extend(
                        states, before, after, log_transmat, matrix, log_frameprob, frame, best, w, column
                    )
                    if len(results):
                        _write_pointers(states, w, before, log_transmat, matrix, best, results, result)
                most = larger_of(most, highest)
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


@numba.njit(**SIZED)
def _is_valid(logarithms: Any, first: int, count: int) -> bool:
    """Return whether no logarithm is nan or inf."""
    is_valid = True
    for k in range(first, first + count):
        is_valid = is_valid and logarithms[k] < np.inf
    return is_valid


def follow(
    states: Any,
    pointer_operand: Any,
    frame_operand: Any,
    matrix_operand: Any,
    start_operand: Any,
    current: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
) -> None:
    """Follow the pointers of some rows from the last step to the first.

    `current` (rows, columns) are those of the last step. A negative one is replaced by the state
    with the highest score, and so is that of the last step of each sequence. If there are
    `results`, they receive the state at each step and the logarithm of the probability of its
    transition and its observation: nan if an entry of a step is nan, which scores ignore.
    """
    (pointers, pointer_strides), (log_frameprob, frame_strides) = pointer_operand, frame_operand
    (log_transmat, matrix_strides), (log_startprob, start_strides) = matrix_operand, start_operand
    columns, count = current.shape[1], length(states)
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
                    state = np.int64(pointers[pointer + count])
                before = np.int64(pointers[pointer + state])
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
    uniform_operand: Any,
    matrix_operand: Any,
    start_operand: Any,
    reset: Any,
    count: int,
    states: Any,
    results: Any,
    start: int,
    stop: int,
    shape: Any,
) -> None:
    """Draw the next of `count` states of some rows from the first step to the last.

    `states` (rows, columns) are those before the first step. A negative one is before the first
    step of a sequence, and so are all at a mark. If there are `results`, they receive the state at
    each step.
    """
    (uniform, uniform_strides), (transmat, matrix_strides) = uniform_operand, matrix_operand
    (startprob, start_strides), (marks, mark_strides) = start_operand, reset
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


advance_scores = compile_kernel(score, "hmm-score", allocates=False)
follow_pointers = compile_kernel(follow, "hmm-follow", allocates=False)
draw_states = compile_kernel(draw, "hmm-draw", allocates=False)


_MARKS = 3
_BLOCK = 4096  # steps whose emissions stay in the L1 or L2 cache


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    of_passes = kernels_of_columns(method, _advance, precompute, propagate, _work)

    def determine(
        recurrence: HmmRecurrence, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray
    ) -> np.ndarray:
        if not isinstance(recurrence, PosteriorRecurrence):
            carry_out: np.ndarray = of_passes.determine(recurrence, chunk, carry_in, result)
            return carry_out
        (forward, backward), (before, after) = recurrence.passes, np.split(carry_in, 2, axis=-1)
        filtered = np.empty((*chunk.shape, recurrence.count + 1))
        of_passes.determine(forward, chunk, before, filtered)
        of_passes.determine(backward, _with_filtered(chunk, filtered), after, result)
        log_prob: np.ndarray = filtered[..., -1].sum(axis=1)
        return log_prob

    return replace(of_passes, determine=determine)


def _with_filtered(chunk: Chunk, filtered: np.ndarray) -> Chunk:
    """Return the chunk of the backward pass, from that of the forward pass and its result."""
    frames, transmat, _, *marks = chunk.operands
    return replace(chunk, operands=(filtered, frames, transmat, *marks), reverse=True)


def _work(recurrence: HmmRecurrence) -> tuple[int, float]:
    costs = {"forward": 0.65, "backward": 0.6, "score": 0.4, "draw": 0.8}
    count = recurrence.count
    return count, costs.get(recurrence.phase, 0.0) * count + 0.7


def precompute(recurrence: HmmRecurrence, chunk: Chunk) -> HmmSummary:
    """Return the summary of a chunk."""
    if isinstance(recurrence, PosteriorRecurrence):
        forward, backward = recurrence.passes
        no_result = np.zeros((1, 1, 1, recurrence.count + 1))
        # The forward map has the backward one, transposed, but its scales have too few digits.
        of_backward = precompute(backward, _with_filtered(chunk, no_result))
        return replace(precompute(forward, chunk), backward=of_backward)
    # "follow" has four operands, and no marks.
    marks = _MARKS + 1 if recurrence.phase == "follow" else _MARKS
    return HmmSummary(*summarise(_advance, recurrence, chunk, _starts(recurrence), marks))


def _starts(recurrence: HmmRecurrence) -> np.ndarray:
    """Return the states from which a summary starts, one a row."""
    count, phase = recurrence.count, recurrence.phase
    if phase in ("follow", "draw"):
        return np.append(np.arange(count), recurrence.first_state())[:, None]
    with np.errstate(divide="ignore"):
        starts = np.log(np.eye(count)) if phase == "score" else np.eye(count)
    if phase == "backward":
        return starts
    return np.concatenate([starts, recurrence.first_state()[None]])


def _advance(
    recurrence: HmmRecurrence, chunk: Chunk, columns: np.ndarray, results: np.ndarray, threads: int
) -> np.ndarray:
    """Advance columns through a chunk, and return the logarithms of their scales."""
    count, phase = recurrence.count, recurrence.phase
    log_scales, sizes = np.zeros(columns.shape[:2]), as_lengths((count,), chunk.size)
    is_one_state = phase in ("follow", "draw")
    states = columns[..., 0].astype(np.int64) if is_one_state else columns
    arguments: tuple[Any, ...]
    if phase in ("forward", "backward"):
        kernel = advance_forward if phase == "forward" else advance_backward
        operands = _with_emissions(chunk, 1 if phase == "backward" else 0, threads)
        arguments = (*sizes, *operands, columns, log_scales)
    elif phase == "draw":
        kernel, arguments = draw_states, (*flat_operands(chunk.operands, _MARKS), count, states)
    else:
        kernel = advance_scores if phase == "score" else follow_pointers
        arguments = (*sizes, *flat_operands(chunk.operands, _MARKS), states)

    def advance(start: int, stop: int) -> None:
        memory = (np.empty((columns.shape[1], 2 * count)),) if phase == "score" else ()
        kernel(*arguments, *memory, results, start, stop, chunk.shape)

    call_in_parts(advance, len(columns), threads)
    if is_one_state:
        columns[..., 0] = states
    return log_scales


def _with_emissions(chunk: Chunk, frames: int, threads: int) -> list[Any]:
    """Return flat operands, with emissions in place of the operand `frames`.

    The last two are that operand, and the logarithms of the factors by which emissions are too
    small.
    """
    log_frameprob = np.ascontiguousarray(chunk.operands[frames])
    emissions, shifts = emissions_of(log_frameprob, threads, chunk.size)
    operands = (*chunk.operands[:frames], emissions, *chunk.operands[frames + 1 :])
    return [*flat_operands(operands, _MARKS), writable(log_frameprob.reshape(-1)), shifts]


def emissions_of(log_frameprob: np.ndarray, threads: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of observations, divided by the largest of a step, and its logarithm.

    NumPy computes exponentials in SIMD: 0.7 ns each, and 6 ns in a kernel of numba.
    """
    frames = log_frameprob.reshape(-1, log_frameprob.shape[-1])
    sizes = as_lengths((frames.shape[1],), steps)
    emissions, shifts = np.empty_like(frames), np.empty(len(frames))

    def compute(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            centre_frames(*sizes, writable(frames), emissions, shifts, first, last)
            np.exp(emissions[first:last], out=emissions[first:last])

    call_in_parts(compute, len(frames), threads)
    return emissions.reshape(log_frameprob.shape), shifts
