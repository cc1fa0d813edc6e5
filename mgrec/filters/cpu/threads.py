"""Filters on the threads of a CPU: they share rows, or one row whose filter forgets its entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cpu.threads import cuts, threads_for, together
from ..cascade import Cascade
from . import one_thread as cpu
from .begin import PIECE, is_negligible, response_of

# A filter must forget a piece's entry within this part of it: else a thread does not pay.
FORGETS = 1 / 16


def determine_on_threads(
    cascade: Cascade, chunk: Chunk, entry: np.ndarray | None, result: np.ndarray
) -> np.ndarray:
    """Filter a chunk in host memory from its entry, 0 where None; returns its exit."""
    threads = threads_for(result.size)
    entry = cpu.at_rest(cascade, chunk) if entry is None else np.ascontiguousarray(entry)
    outer, _, inner = chunk.shape
    if threads > 1 and outer >= threads:
        parts = cuts(outer, threads)

        def rows(left: int, right: int) -> Callable[[], np.ndarray]:
            part, before = chunk.rows(left, right), entry[:, left:right]
            return lambda: cpu.determine_filter(cascade, part, before, result[left:right]).exit

        return np.concatenate(together([rows(*part) for part in parts]), axis=1)
    if threads > 1 and inner == 1 and cascade.decay < FORGETS * chunk.steps / threads:
        exits = [
            _long_row(
                cascade, chunk.rows(k, k + 1), entry[:, k : k + 1], result[k : k + 1], threads
            )
            for k in range(outer)
        ]
        return np.concatenate(exits, axis=1)
    return cpu.determine_filter(cascade, chunk, entry, result).exit


def _long_row(
    cascade: Cascade, chunk: Chunk, entry: np.ndarray, result: np.ndarray, threads: int
) -> np.ndarray:
    """Pieces of one row side by side, each from states of 0.

    The response to the true entry of each piece is then added, until it is below the rounding
    errors of the outputs.
    """
    pieces = cuts(chunk.steps, threads)

    def determine(k: int) -> Callable[[], Any]:
        left, right = pieces[k]
        before = np.zeros_like(entry) if k else entry
        part = chunk.between(left, right)
        part = Chunk(tuple(map(np.ascontiguousarray, part.operands)), part.shape, part.dtype)
        return lambda: cpu.determine_filter(cascade, part, before, result[:, left:right])

    outcomes = together([determine(k) for k in range(threads)])
    if any(outcome.redo.any() for outcome in outcomes):
        # Near overflow rounding may decide: one thread computes the row.
        return cpu.determine_filter(cascade, chunk, entry, result).exit
    exit: np.ndarray = outcomes[0].exit
    for (left, right), outcome in zip(pieces[1:], outcomes[1:], strict=True):
        exit = outcome.exit + _add_response(cascade, exit, result[:, left:right])
    return exit


def _add_response(cascade: Cascade, entry: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Add the response to an entry to outputs that were computed without it; its exit."""
    for left in range(0, result.shape[1], PIECE):
        part = result[:, left : left + PIECE]
        response, entry = response_of(cascade, entry, part)
        part += response.astype(part.dtype)
        if is_negligible(response, part):
            return np.zeros_like(entry)
    return entry
