"""Filters on the threads of a CPU: threads share rows, or one row whose filter is contractive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..cascade import Cascade
from . import one_thread as cpu
from .speculate import PIECE, is_negligible, response_of

# A filter must forget a piece's carry-in within this part of it: else a thread does not pay.
FORGETS = 1 / 16


def determine_on_threads(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray | None, result: np.ndarray
) -> np.ndarray:
    """Filter a chunk in host memory from its carry-in, 0 where None; returns its carry-out."""
    threads = threads_for(result.size)
    carry_in = cpu.at_rest(cascade, chunk) if carry_in is None else np.ascontiguousarray(carry_in)
    outer, _, inner = chunk.shape
    if threads > 1 and outer >= threads:
        parts = split_range(outer, threads)

        def rows(left: int, right: int) -> Callable[[], np.ndarray]:
            part, before = chunk.rows(left, right), carry_in[:, left:right]
            return lambda: cpu.determine_filter(cascade, part, before, result[left:right]).carry_out

        return np.concatenate(run_in_threads([rows(*part) for part in parts]), axis=1)
    if threads > 1 and inner == 1 and cascade.decay < FORGETS * chunk.steps / threads:
        carry_outs = [
            _long_row(
                cascade, chunk.rows(k, k + 1), carry_in[:, k : k + 1], result[k : k + 1], threads
            )
            for k in range(outer)
        ]
        return np.concatenate(carry_outs, axis=1)
    return cpu.determine_filter(cascade, chunk, carry_in, result).carry_out


def _long_row(
    cascade: Cascade, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray, threads: int
) -> np.ndarray:
    """Pieces of one row side by side, each from states of 0.

    The response to the true carry-in of each piece is then added, until it is below the rounding
    errors of the outputs.
    """
    pieces = split_range(chunk.steps, threads)

    def determine(k: int) -> Callable[[], Any]:
        left, right = pieces[k]
        before = np.zeros_like(carry_in) if k else carry_in
        part = chunk.between(left, right)
        part = Chunk(tuple(map(np.ascontiguousarray, part.operands)), part.shape, part.dtype)
        return lambda: cpu.determine_filter(cascade, part, before, result[:, left:right])

    outcomes = run_in_threads([determine(k) for k in range(threads)])
    if any(outcome.redo.any() for outcome in outcomes):
        # Near overflow rounding may decide: one thread computes the row.
        return cpu.determine_filter(cascade, chunk, carry_in, result).carry_out
    carry_out: np.ndarray = outcomes[0].carry_out
    for (left, right), outcome in zip(pieces[1:], outcomes[1:], strict=True):
        carry_out = outcome.carry_out + _add_response(cascade, carry_out, result[:, left:right])
    return carry_out


def _add_response(cascade: Cascade, carry_in: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Add the response to a carry-in to outputs that were computed without it; its carry-out."""
    for left in range(0, result.shape[1], PIECE):
        part = result[:, left : left + PIECE]
        response, carry_in = response_of(cascade, carry_in, part)
        part += response.astype(part.dtype)
        if is_negligible(response, part):
            return np.zeros_like(carry_in)
    return carry_in
