"""The phases of a chunk of a hidden Markov model in host memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import as_lengths, flat_operands, kernels_of_columns, summarise
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import call_in_parts, threads_for
from ..recurrence import HmmRecurrence, HmmSummary, PosteriorRecurrence, propagate
from .forward import advance_backward, advance_forward, centre_frames
from .paths import advance_scores, draw_states, follow_pointers

_MARKS = 3
_BLOCK = 4096  # steps whose emissions stay in the L1 or L2 cache


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    of_passes = kernels_of_columns(method, _advance, precompute, propagate)

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
    return replace(chunk, operands=(filtered, frames, transmat, *marks))


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
    recurrence: HmmRecurrence,
    chunk: Chunk,
    columns: np.ndarray,
    results: np.ndarray,
    is_threaded: bool,
) -> np.ndarray:
    """Advance columns through a chunk, and return the logarithms of their scales."""
    rows, count, phase = len(columns), recurrence.count, recurrence.phase
    threads = threads_for(rows * chunk.steps * count, is_threaded)
    log_scales, sizes = np.zeros(columns.shape[:2]), as_lengths((count,), rows * chunk.steps)
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
        kernel(*arguments, results, start, stop, chunk.shape)

    call_in_parts(advance, rows, threads)
    if is_one_state:
        columns[..., 0] = states
    return log_scales


def _with_emissions(chunk: Chunk, frames: int, threads: int) -> list[Any]:
    """Return flat operands, with emissions in place of the operand `frames`.

    The last two are that operand, and the logarithms of the factors by which emissions are too
    small.
    """
    log_frameprob = np.ascontiguousarray(chunk.operands[frames])
    emissions, shifts = emissions_of(log_frameprob, threads)
    operands = (*chunk.operands[:frames], emissions, *chunk.operands[frames + 1 :])
    return [*flat_operands(operands, _MARKS), writable(log_frameprob.reshape(-1)), shifts]


def emissions_of(log_frameprob: np.ndarray, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of observations, divided by the largest of a step, and its logarithm.

    NumPy computes exponentials in SIMD: 0.7 ns each, and 6 ns in a kernel of numba.
    """
    frames = log_frameprob.reshape(-1, log_frameprob.shape[-1])
    sizes = as_lengths((frames.shape[1],), len(frames))
    emissions, shifts = np.empty_like(frames), np.empty(len(frames))

    def compute(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            centre_frames(*sizes, writable(frames), emissions, shifts, first, last)
            np.exp(emissions[first:last], out=emissions[first:last])

    call_in_parts(compute, len(frames), threads)
    return emissions.reshape(log_frameprob.shape), shifts
