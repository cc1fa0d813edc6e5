"""The phases of a chunk in host memory: on one thread or all, speculative, or prepared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import PreparedSolver, at_once
from ...engines.cpu.scan import Piece, pieces_of, solve_side_by_side
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..cascade import Cascade
from ..kernels import FilterKernels
from ..recurrence import CascadeSummary, FilterPrefix
from .correlations import differentiate_coefficients
from .one_thread import WIDE, chunk_filter, determine_filter, precompute_filter, propagate_filter, zero_states

# A response that is smaller than the outputs by this factor is below their rounding errors.
NEGLIGIBLE = 2.0**-75
# Responses to a carry-in are computed so many steps at a time.
PIECE = 4096
# Filters of so few states take as long as memory. Threads that share the columns of a step wait for
# each other's pages then, unless each writes so many bytes of it: 40,000 steps of 100 columns took
# 5.2 ms on one thread and 7 on two, 4,000 steps of 1,000 columns 6.1 and 3.3.
MEMORY_BOUND, BYTES = 2, 2048
# Threads split a row only if its states decay within this part of a thread's steps.
MAX_DECAY = 1 / 16


def kernels(method: str) -> FilterKernels:
    """Return the phases: on all threads for the method "threads", otherwise on the calling one."""
    return FilterKernels(
        _determine_on_threads if method == "threads" else _determine,
        at_once(precompute_filter),
        propagate_filter,
        speculate=at_once(_speculate),
        correct=_correct,
        prepare_solver=_prepare_solver,
        differentiate_coefficients=differentiate_coefficients,
    )


def _determine(cascade: Cascade, chunk: Chunk, carry_in: Any, result: np.ndarray) -> np.ndarray:
    carry_in = zero_states(cascade, chunk) if carry_in is None else np.ascontiguousarray(carry_in)
    return determine_filter(cascade, chunk, carry_in, result).carry_out


def _prepare_solver(cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any) -> PreparedSolver:
    """Return a solver for chunks of the same shape and dtype, on the calling thread."""
    shape, zeros, has_carry_in = chunk.shape, zero_states(cascade, chunk), carry_in is not None
    filter_chunk = chunk_filter(cascade, chunk)

    def solve(operands: Sequence[Any], results: Sequence[Any]) -> np.ndarray:
        before = operands[1].reshape(zeros.shape).astype(zeros.dtype) if has_carry_in else zeros
        return filter_chunk(operands[0].reshape(shape), before, results[0].reshape(shape)).carry_out

    return solve


def _determine_on_threads(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray | None, result: np.ndarray
) -> np.ndarray:
    """Filter a chunk on several threads: each takes rows, columns or a piece of a row."""
    threads, (outer, steps, inner) = threads_for(result.size), chunk.shape
    if threads == 1:
        return _determine(cascade, chunk, carry_in, result)
    carry_in = zero_states(cascade, chunk) if carry_in is None else np.ascontiguousarray(carry_in)
    if outer < threads and inner >= WIDE:
        sharing = min(threads, inner // WIDE)
        if cascade.states <= MEMORY_BOUND:
            sharing = max(1, min(sharing, result[0, 0].nbytes // BYTES))
        return determine_filter(cascade, chunk, carry_in, result, threads=sharing).carry_out
    chunk = chunk.for_threads()
    rows = [
        (cascade, chunk.rows(a, b), carry_in[:, a:b], result[a:b]) for a, b in split_range(outer, threads)
    ]
    if outer < threads and inner == 1 and cascade.decay < MAX_DECAY * steps / threads:
        return np.concatenate([_determine_long_row(*row, threads) for row in rows], axis=1)
    outcomes = run_in_threads([partial(determine_filter, *row) for row in rows])
    return np.concatenate([outcome.carry_out for outcome in outcomes], axis=1)


def _determine_long_row(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray, threads: int
) -> np.ndarray:
    """Filter pieces of one row on several threads, each from states of 0."""

    def determine(piece: Piece, before: np.ndarray) -> np.ndarray | None:
        part = chunk.between(*piece), before, result[:, slice(*piece)]
        outcome = determine_filter(cascade, *part)
        return None if outcome.redo.any() else outcome.carry_out

    def join(piece: Piece, before: np.ndarray, after: np.ndarray | None) -> np.ndarray | None:
        part = result[:, slice(*piece)]
        _, states = _add_response(cascade, before, part, part) if after is not None else (0, None)
        return after if after is None or states is None else after + states

    pieces = pieces_of(chunk.steps, threads, reverse=False)
    carry_out = solve_side_by_side(determine, join, pieces, carry_in, np.zeros_like(carry_in))
    # Near overflow the result may depend on rounding: one thread computes the row.
    return determine_filter(cascade, chunk, carry_in, result).carry_out if carry_out is None else carry_out


def _add_response(
    cascade: Cascade, carry_in: np.ndarray, outputs: np.ndarray, result: np.ndarray
) -> tuple[int, np.ndarray | None]:
    """Write the sums of outputs from states of 0 and the response to a carry-in.

    Return the number of samples written, and the states after them: None if they are negligible.
    """
    for left in range(0, outputs.shape[1], PIECE):
        before = outputs[:, left : left + PIECE]
        response, carry_in = _response(cascade, carry_in, before.shape)
        is_negligible = _is_negligible(response, before)
        with np.errstate(all="ignore"):
            result[:, left : left + before.shape[1]] = before + response
        if is_negligible:
            return left + before.shape[1], None
    return outputs.shape[1], carry_in


def _speculate(
    cascade: Cascade, chunk: Chunk, results: tuple[np.ndarray, ...]
) -> tuple[CascadeSummary, FilterPrefix] | None:
    """Filter a chunk from states of 0; return None if outputs come near overflow."""
    (result,) = results
    outcome = determine_filter(cascade, chunk, zero_states(cascade, chunk), result)
    if outcome.redo.any():
        return None
    pieces = 2 + int(cascade.decay) // PIECE
    prefix = FilterPrefix(cascade, result[:, : pieces * PIECE].copy())
    return CascadeSummary(cascade, chunk.steps, outcome.carry_out), prefix


def _correct(
    prefix: FilterPrefix, carry_in: np.ndarray, results: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Add the response to the carry-in to the outputs of a speculative chunk.

    The sums of the prefix overwrite the results. If the response is longer, as for an input of
    zeros, the results are copied first, so that the function can run twice.
    """
    (result,), cascade = results, prefix.cascade
    carry_in = np.ascontiguousarray(carry_in)
    written, states = _add_response(cascade, carry_in, prefix.outputs, result)
    if states is not None and written < result.shape[1]:
        provisional, result = result, result.copy()
        _add_response(cascade, states, provisional[:, written:], result[:, written:])
    return (result,)


def _response(
    cascade: Cascade, carry_in: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs for an input of zeros, and the states after it."""
    outer, steps, inner = shape
    zeros = Chunk((np.zeros(shape, carry_in.dtype),), (outer, steps, inner), carry_in.dtype)
    response = np.empty(shape, carry_in.dtype)
    return response, determine_filter(cascade, zeros, carry_in, response).carry_out


def _is_negligible(response: np.ndarray, outputs: np.ndarray) -> bool:
    """Return whether each row's response is below the rounding errors of its outputs."""
    largest = np.abs(response).max(axis=1)
    return bool((largest <= NEGLIGIBLE * np.abs(outputs).max(axis=1)).all())
