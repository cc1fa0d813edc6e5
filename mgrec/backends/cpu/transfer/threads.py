"""Transfer maps on the threads of a CPU: they share rows, columns, or the pieces of one row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ....algebra.transfer_map import TransferMap
from ....arrays.chunk import Chunk
from ..threads import cuts, threads_for, together
from . import phases as cpu

# A long row is cut where composing costs as little as applying, or there are this many threads:
# two threads took twice the time of one over a row of Möbius maps.
MANY_THREADS = 8
# Pieces of fewer steps are not worth the three phases: a thread takes such rows whole.
SHORT = 512

Arrays = tuple[np.ndarray, ...]


def determine_on_threads(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays
) -> None:
    """Write the states after every step of a chunk: see :func:`.phases.determine`."""
    threads = threads_for(results[0].size)
    if threads == 1:
        cpu.determine(transfer_map, chunk, entry, results)
    elif chunk.shape[0] >= threads:
        _solve_rows(transfer_map, chunk, entry, results, threads)
    elif chunk.shape[2] > 1:
        _solve_columns(transfer_map, chunk, entry, results, threads)
    elif chunk.shape[0] > 1 and chunk.steps < threads * SHORT:
        _solve_rows(transfer_map, chunk, entry, results, threads)
    elif transfer_map.capabilities.composes_cheaply or threads >= MANY_THREADS:
        _solve_long_rows(transfer_map, chunk, entry, results, threads)
    elif chunk.shape[0] > 1:
        _solve_rows(transfer_map, chunk, entry, results, threads)
    else:
        cpu.determine(transfer_map, chunk, entry, results)


def _solve_rows(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays, threads: int
) -> None:
    def part(begin: int, end: int) -> Callable[[], None]:
        before = tuple(state[begin:end] for state in entry)
        after = tuple(result[begin:end] for result in results)
        rows = chunk.rows(begin, end)
        return lambda: cpu.determine(transfer_map, rows, before, after)

    together([part(*cut) for cut in cuts(chunk.shape[0], threads)])


def _solve_columns(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays, threads: int
) -> None:
    def part(begin: int, end: int) -> Callable[[], None]:
        return lambda: cpu.determine_columns(transfer_map, chunk, entry, results, begin, end)

    together([part(*cut) for cut in cuts(chunk.shape[2], threads)])


def _solve_long_rows(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays, threads: int
) -> None:
    for row in range(chunk.shape[0]):
        before = tuple(state[row : row + 1] for state in entry)
        after = tuple(result[row : row + 1] for result in results)
        _solve_long_row(transfer_map, chunk.rows(row, row + 1), before, after, threads)


def _solve_long_row(
    transfer_map: TransferMap, chunk: Chunk, entry: Arrays, results: Arrays, threads: int
) -> None:
    """The three phases over the pieces of one row.

    The first piece is determined while all others but the last are precomputed; then the others
    are determined side by side. Where a piece must be done again from its true entry, one thread
    takes the whole row: the pieces would wait for each other.
    """
    pieces = _pieces(chunk.steps, threads, chunk.reverse)
    parts = [chunk.between(*piece) for piece in pieces]
    targets = [tuple(result[:, a:b] for result in results) for a, b in pieces]

    def determine(k: int, before: Arrays) -> Callable[[], None]:
        return lambda: cpu.determine(transfer_map, parts[k], before, targets[k])

    def precompute(k: int) -> Callable[[], Any]:
        return lambda: cpu.precompute(transfer_map, parts[k])

    _, *summaries = together([determine(0, entry), *map(precompute, range(1, threads))])
    if any(getattr(summary, "redo", None) for summary in summaries):
        return cpu.determine(transfer_map, chunk, entry, results)
    last = 0 if chunk.reverse else -1
    before = tuple(target[:, last].copy() for target in targets[0])
    calls = [determine(1, before)]
    for k, summary in enumerate(summaries, 2):
        before = cpu.propagate(summary, before)
        calls.append(determine(k, before))
    together(calls)
    if not all(np.isfinite(result[0, last, 0]) for result in results):
        # Rounding may have decided whether the row overflows: the loop decides.
        cpu.determine(transfer_map, chunk, entry, results)
    return None


def _pieces(steps: int, threads: int, reverse: bool) -> list[tuple[int, int]]:
    """threads + 1 pieces in the order of the recurrence.

    The first is determined while others are precomputed. It has 0.95 of their size, since
    precompute takes about 0.95 of the time of determine.
    """
    unit = steps / (threads + 0.95)
    ends = [0, *(int(unit * (k + 0.95)) for k in range(threads)), steps]
    pieces = list(pairwise(ends))
    if reverse:
        pieces = [(steps - b, steps - a) for a, b in pieces]
    return pieces
