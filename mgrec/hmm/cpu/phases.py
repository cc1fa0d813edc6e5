"""The phases of a chunk of a hidden Markov model in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.flat import flat_operand
from ...engines.cpu.sizes import as_lengths
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import HmmRecurrence, HmmSummary, propagate
from .forward import advance_backward, advance_forward, centre_frames
from .paths import advance_scores, draw_states, follow_pointers

_NO_MARKS = np.zeros((1, 1, 1, 1), np.uint8)
_BLOCK = 4096  # steps whose emissions stay in the L1 or L2 cache


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return Kernels(
        partial(determine, uses_threads=method == "threads"), at_once(precompute), propagate
    )


def determine(
    recurrence: HmmRecurrence,
    chunk: Chunk,
    carry_in: np.ndarray,
    result: np.ndarray,
    uses_threads: bool = False,
) -> None:
    """Write the results of every step to `result` (outer, steps, inner, numbers)."""
    if result.size:
        columns = carry_in.reshape(-1, 1, carry_in.shape[-1]).copy()
        _advance(recurrence, chunk, columns, result.reshape(-1), uses_threads)


def precompute(recurrence: HmmRecurrence, chunk: Chunk) -> HmmSummary:
    """Return the summary of a chunk."""
    outer, _, inner = chunk.shape
    starts = _columns(recurrence)
    columns = np.broadcast_to(starts, (outer * inner, *starts.shape)).copy()
    results = np.empty(0, {"score": np.uint8, "draw": np.int32}.get(recurrence.phase, np.float64))
    log_scales = _advance(recurrence, chunk, columns, results, False)
    has_marks = len(chunk.operands) == 4 and recurrence.phase != "follow"
    is_reset = (chunk.operands[3] if has_marks else _NO_MARKS).any((1, -1))
    shape = (outer, inner, *starts.shape)
    return HmmSummary(
        columns.reshape(shape),
        log_scales.reshape(shape[:-1]),
        np.broadcast_to(is_reset, (outer, inner)),
    )


def _columns(recurrence: HmmRecurrence) -> np.ndarray:
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
    uses_threads: bool,
) -> np.ndarray:
    """Advance columns through a chunk, and return the logarithms of their scales."""
    rows, count, phase = len(columns), recurrence.count, recurrence.phase
    threads = threads_for(rows * chunk.steps * count) if uses_threads else 1
    arrays = list(chunk.operands)
    log_scales = np.zeros(columns.shape[:2])
    sizes = as_lengths((count,), rows * chunk.steps)
    if phase in ("forward", "backward"):
        frames = 1 if phase == "backward" else 0
        log_frameprob = np.ascontiguousarray(arrays[frames])
        arrays[frames], shifts = emissions_of(log_frameprob, threads)
    if phase != "follow" and len(arrays) < 4:
        arrays.append(_NO_MARKS)
    operands = [part for array in arrays for part in flat_operand(array)]
    arguments: tuple[Any, ...]
    if phase in ("follow", "draw"):
        states = columns[..., 0].astype(np.int64)
        if phase == "follow":
            kernel, arguments = follow_pointers, (*sizes, *operands, states, results)
        else:
            kernel, arguments = draw_states, (*operands, count, states, results)
    elif phase == "score":
        kernel, arguments = advance_scores, (*sizes, *operands, columns, results)
    else:
        kernel = advance_forward if phase == "forward" else advance_backward
        frames_in_logarithms = writable(log_frameprob.reshape(-1))
        arguments = (*sizes, *operands, frames_in_logarithms, shifts, columns, log_scales, results)

    def advance(start: int, stop: int) -> None:
        kernel(*arguments, start, stop, chunk.shape)

    run_in_threads([partial(advance, *part) for part in split_range(rows, threads)])
    if phase in ("follow", "draw"):
        columns[..., 0] = states
    return log_scales


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

    run_in_threads([partial(compute, *part) for part in split_range(len(frames), threads)])
    return emissions.reshape(log_frameprob.shape), shifts
