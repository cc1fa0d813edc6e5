"""The phases of a chunk of a hidden Markov model in host memory, and the kernels of best paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import as_lengths, flat_operands, kernels_of_columns, summarise, with_marks
from ...engines.cpu.compilation import INNER, SIZED, compile_kernel, writable
from ...engines.cpu.pointers import (
    advance_pointer,
    advance_pointers,
    count_up,
    inputs_of,
    length,
    pointer_to,
    pointers_to,
    stack_vector,
)
from ...engines.cpu.scalars import larger_of
from ...engines.cpu.threads import call_in_parts
from ..recurrence import TIE, HmmRecurrence, HmmSummary, PosteriorRecurrence, propagate
from .forward import advance_backward, advance_forward, centre_frames

NO_STATE = 255
"""Pointer of the first step of a sequence."""
LARGEST_SCORE = 64.0
"""The highest score is subtracted from all once it is larger: to do so at each step took longer.
The scores near it have roundings of 1e-14, which are small to a tie."""


@numba.njit(**SIZED)
def _extend(states: Any, before: Any, after: Any, log_transmat: Any, log_frameprob: Any, best: Any) -> float:
    """Write the scores after a step, and those without its observation; return the highest."""
    count, most = length(states), -np.inf
    for j in count_up(0, count):
        # Two chains of dependent instructions, each of half of the paths.
        first = second = -np.inf
        for i in range(0, count, 2):
            first = larger_of(first, before[i] + log_transmat[i * count + j])
        for i in range(1, count, 2):
            second = larger_of(second, before[i] + log_transmat[i * count + j])
        best[j] = larger_of(first, second)
        after[j] = best[j] + log_frameprob[j]
        most = larger_of(most, after[j])
    return most


@numba.njit(**SIZED)
def _write_pointers(states: Any, before: Any, log_transmat: Any, best: Any, result: Any) -> None:
    """Write for each state the lowest state of a best path to it."""
    count = length(states)
    for j in count_up(0, count):
        pointer, least = 0, best[j] - TIE
        for i in range(count - 1, -1, -1):
            path = before[i] + log_transmat[i * count + j]
            pointer = i if path >= least else pointer
        result[j] = pointer


@numba.njit(**INNER)
def _start(
    log_startprob: Any, log_frameprob: Any, count: int, after: Any, has_results: bool, result: Any
) -> float:
    """Write the scores of a first step, and pointers to no state; return the highest."""
    most = -np.inf
    for j in count_up(0, count):
        after[j] = log_startprob[j] + log_frameprob[j]
        most = larger_of(most, after[j])
        if has_results:
            result[j] = NO_STATE
    return most


@numba.njit(**SIZED)
def _lowest_best(states: Any, after: Any, most: float) -> int:
    """Return the lowest state with the highest score of a column."""
    state, least = 0, most - TIE
    for j in range(length(states) - 1, -1, -1):
        state = j if after[j] >= least else state
    return state


def score(
    states: Any, model: Any, scores: Any, memory: Any, results: Any, start: int, stop: int, shape: Any
) -> None:
    """Advance the columns `scores` (rows, columns, states) of some rows through all steps.

    `model` are flat operands and their strides: log_frameprob, log_transmat, log_startprob and
    marks. A score is the logarithm of the probability of the best path to a state, up to a number
    that all columns of a row share. A column whose first score is inf is before the first step of a
    sequence, and so are all columns at a mark. If there are `results`, they receive for each state
    the state before it on its best path, and last the state with the highest score. `memory` is
    (2, columns, states).
    """
    (inputs, strides), columns, count = inputs_of(model), scores.shape[1], length(states)
    has_results, (_, steps, inner), width = len(results) > 0, shape, columns * count
    all_scores, flat_results = pointers_to((scores, results))
    best = stack_vector(count, np.float64)
    for row in count_up(start, stop):
        x, y = row // inner, row % inner
        # Scores before and after a step take turns.
        all_before = pointer_to(memory)
        all_after, of_row = advance_pointer(all_before, width), advance_pointer(all_scores, row * width)
        for i in count_up(0, width):
            all_before[i] = of_row[i]
        for step in count_up(0, steps):
            at_step = advance_pointers(inputs, strides, (x, step, y))
            log_frameprob, log_transmat, log_startprob, marks = at_step
            result = advance_pointer(flat_results, ((x * steps + step) * inner + y) * (count + 1))
            is_marked, most = marks[0] != 0, -np.inf
            for column in count_up(0, columns):
                before = advance_pointer(all_before, column * count)
                after = advance_pointer(all_after, column * count)
                if is_marked or before[0] == np.inf:
                    highest = _start(log_startprob, log_frameprob, count, after, has_results, result)
                else:
                    highest = _extend(states, before, after, log_transmat, log_frameprob, best)
                    if has_results:
                        _write_pointers(states, before, log_transmat, best, result)
                most = larger_of(most, highest)
            if has_results:
                result[count] = _lowest_best(states, all_after, most)
            if LARGEST_SCORE < abs(most) < np.inf:
                for i in count_up(0, width):
                    all_after[i] -= most
            all_before, all_after = all_after, all_before
        for i in count_up(0, width):
            of_row[i] = all_before[i]


@numba.njit(**SIZED)
def _is_valid(logarithms: Any, count: int) -> bool:
    """Return whether no logarithm is nan or inf."""
    is_valid = True
    for k in count_up(0, count):
        is_valid = is_valid and logarithms[k] < np.inf
    return is_valid


def follow(states: Any, model: Any, current: Any, results: Any, start: int, stop: int, shape: Any) -> None:
    """Follow the pointers of some rows from the last step to the first.

    `model` are flat operands and their strides: pointers, log_frameprob, log_transmat and
    log_startprob. `current` (rows, columns) are the states of the last step. A negative one is
    replaced by the state with the highest score, and so is that of the last step of each sequence.
    If there are `results`, they receive the state at each step and the logarithm of the probability
    of its transition and its observation: nan if an entry of a step is nan, which scores ignore.
    """
    (inputs, strides), columns, count = inputs_of(model), current.shape[1], length(states)
    has_results, (_, steps, inner) = len(results) > 0, shape
    all_states, flat_results = pointers_to((current, results))
    for row in count_up(start, stop):
        x, y = row // inner, row % inner
        of_row, is_checked, is_valid = advance_pointer(all_states, row * columns), False, False
        for step in range(steps - 1, -1, -1):
            at_step = advance_pointers(inputs, strides, (x, step, y))
            pointers, log_frameprob, log_transmat, log_startprob = at_step
            for column in count_up(0, columns):
                state = of_row[column]
                if state < 0:
                    state = np.int64(pointers[count])
                before = np.int64(pointers[state])
                is_first = before == NO_STATE
                of_row[column] = -1 if is_first else before
                if has_results:
                    if is_first:
                        log_prob = log_startprob[state]
                        if not _is_valid(log_startprob, count):
                            log_prob = np.nan
                    else:
                        log_prob = log_transmat[before * count + state]
                        if not is_checked:
                            is_valid = _is_valid(log_transmat, count * count)
                            is_checked = strides[2][1] == 0
                        if not is_valid:
                            log_prob = np.nan
                    log_prob += log_frameprob[state]
                    if not _is_valid(log_frameprob, count):
                        log_prob = np.nan
                    result = advance_pointer(flat_results, ((x * steps + step) * inner + y) * 2)
                    result[0], result[1] = state, log_prob


def draw(count: int, model: Any, states: Any, results: Any, start: int, stop: int, shape: Any) -> None:
    """Draw the next of `count` states of some rows from the first step to the last.

    `model` are flat operands and their strides: uniform, transmat, startprob and marks. `states`
    (rows, columns) are those before the first step. A negative one is before the first step of a
    sequence, and so are all at a mark. If there are `results`, they receive the state at each step.
    """
    (inputs, strides), columns = inputs_of(model), states.shape[1]
    has_results, (_, steps, inner) = len(results) > 0, shape
    all_states, flat_results = pointers_to((states, results))
    for row in count_up(start, stop):
        x, y, of_row = row // inner, row % inner, advance_pointer(all_states, row * columns)
        for step in count_up(0, steps):
            at_step = advance_pointers(inputs, strides, (x, step, y))
            uniform, transmat, startprob, marks = at_step
            for column in count_up(0, columns):
                before = of_row[column]
                probabilities = advance_pointer(transmat, before * count)
                if marks[0] or before < 0:
                    probabilities = startprob
                # If the sum is below 1, the last state of positive probability.
                state, total = np.int64(0), 0.0
                for j in count_up(0, count):
                    if probabilities[j] > 0.0:
                        state = j
                        total += probabilities[j]
                        if total > uniform[0]:
                            break
                of_row[column] = state
            if has_results:
                flat_results[(x * steps + step) * inner + y] = of_row[0]


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
    if phase in ("forward", "backward"):
        kernel: Any = advance_forward if phase == "forward" else advance_backward
        model = flat_operands(_with_emissions(chunk, 1 if phase == "backward" else 0, threads))
        arguments: tuple[Any, ...] = (*sizes, model, columns, log_scales)
    else:
        kernel = {"score": advance_scores, "follow": follow_pointers, "draw": draw_states}[phase]
        model = flat_operands(chunk.operands if phase == "follow" else with_marks(chunk.operands, _MARKS))
        arguments = (count if phase == "draw" else sizes[0], model, states)

    def advance(start: int, stop: int) -> None:
        memory = (np.empty((2, columns.shape[1], count)),) if phase == "score" else ()
        kernel(*arguments, *memory, results, start, stop, chunk.shape)

    call_in_parts(advance, len(columns), threads)
    if is_one_state:
        columns[..., 0] = states
    return log_scales


def _with_emissions(chunk: Chunk, frames: int, threads: int) -> tuple[np.ndarray, ...]:
    """Return operands, with emissions in place of the operand `frames`, and with marks.

    The last two are that operand, and the logarithms of the factors by which emissions are too
    small.
    """
    log_frameprob = np.ascontiguousarray(chunk.operands[frames])
    emissions, shifts = emissions_of(log_frameprob, threads, chunk.size)
    operands = (*chunk.operands[:frames], emissions, *chunk.operands[frames + 1 :])
    shifts = shifts.reshape(*log_frameprob.shape[:3], 1)
    return (*with_marks(operands, _MARKS), log_frameprob, shifts)


def emissions_of(log_frameprob: np.ndarray, threads: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of observations, divided by the largest of a step, and its logarithm.

    NumPy computes exponentials in SIMD: 0.7 ns each, and 6 ns in a kernel of numba.
    """
    frames = log_frameprob.reshape(-1, log_frameprob.shape[-1])
    sizes = as_lengths((frames.shape[1],), steps)
    emissions, shifts = np.empty_like(frames), np.empty(len(frames))
    arrays = writable(frames), emissions, shifts

    def compute(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            centre_frames(*sizes, arrays, first, last)
            np.exp(emissions[first:last], out=emissions[first:last])

    call_in_parts(compute, len(frames), threads)
    return emissions.reshape(log_frameprob.shape), shifts
