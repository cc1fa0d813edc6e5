"""Transfer maps on the threads of a CPU: they share rows, columns, or the pieces of one row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...core.algebra.transfer_map import TransferMap
from ...core.arrays.chunk import Chunk
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from . import one_thread as cpu
from .apart import carry_out_of, determine_apart, first_column, forgets
from .operands import flatten

# A long row that does not forget is cut where composing costs as little as applying, or there are
# this many threads: two threads took twice the time of one over a row of Möbius maps.
MANY_THREADS = 8
# One thread solves arrays of coefficients at the speed of the memory, and the three phases read
# them twice: two threads took 0.92 ns a step and one 0.56.
FEW_THREADS = 2
# Pieces of fewer steps are not worth the three phases: a thread takes such rows whole.
SHORT = 512
# Numbers, of any dtype, that fill whole lines of memory.
ALIGNED = 64

Arrays = tuple[np.ndarray, ...]


def determine_on_threads(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays
) -> None:
    """Write the states after every step of a chunk: see :func:`.one_thread.determine`."""
    threads = threads_for(results[0].size)
    if threads == 1:
        cpu.determine(transfer_map, chunk, carry_in, results)
    elif chunk.shape[0] >= threads:
        _solve_rows(transfer_map, chunk, carry_in, results, threads)
    elif chunk.shape[2] > 1:
        _solve_columns(transfer_map, chunk, carry_in, results, threads)
    elif chunk.shape[0] > 1 and chunk.steps < threads * SHORT:
        _solve_rows(transfer_map, chunk, carry_in, results, threads)
    else:
        _solve_long_rows(transfer_map, chunk, carry_in, results, threads)


def _solve_rows(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> None:
    def part(begin: int, end: int) -> Callable[[], None]:
        before = tuple(state[begin:end] for state in carry_in)
        after = tuple(result[begin:end] for result in results)
        rows = chunk.rows(begin, end)
        return lambda: cpu.determine(transfer_map, rows, before, after)

    run_in_threads([part(*cut) for cut in split_range(chunk.shape[0], threads)])


def _solve_columns(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> None:
    if chunk.shape[0] == 1 and chunk.steps >= threads * SHORT:
        # Each thread reads whole lines, which half a line each does not let it.
        pieces, targets = _cut(chunk, results, _equal_pieces(chunk.steps, threads, chunk.reverse))
        if forgets(transfer_map, *first_column(pieces[1], carry_in)) and determine_apart(
            transfer_map, pieces, carry_in, targets
        ):
            return

    def part(begin: int, end: int) -> Callable[[], None]:
        return lambda: cpu.determine_columns(transfer_map, chunk, carry_in, results, begin, end)

    columns, unit = chunk.shape[2], ALIGNED if chunk.shape[2] >= ALIGNED * threads else 1
    ends = [
        (a * unit, min(b * unit, columns)) for a, b in split_range(-(-columns // unit), threads)
    ]
    run_in_threads([part(*cut) for cut in ends])


def _solve_long_rows(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> None:
    """One row after the other, each by all threads, or all side by side where none can be cut."""
    whole = []
    for row in range(chunk.shape[0]):
        before = tuple(state[row : row + 1] for state in carry_in)
        after = tuple(result[row : row + 1] for result in results)
        own = chunk.rows(row, row + 1)
        if not _solve_long_row(transfer_map, own, before, after, threads):
            whole.append((own, before, after))
    run_in_threads([partial(cpu.determine, transfer_map, *row) for row in whole])


def _solve_long_row(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> bool:
    """Solve one row by its pieces, if that pays."""
    pieces, targets = _cut(chunk, results, _equal_pieces(chunk.steps, threads, chunk.reverse))
    if forgets(transfer_map, pieces[1], carry_in):
        if not determine_apart(transfer_map, pieces, carry_in, targets):
            cpu.determine(transfer_map, chunk, carry_in, results)
        return True
    pays = transfer_map.capabilities.composes_cheaply and not (
        threads <= FEW_THREADS and cpu.is_direct(flatten(chunk), chunk, is_constant=False)
    )
    if pays or threads >= MANY_THREADS:
        _solve_by_phases(transfer_map, chunk, carry_in, results, threads)
        return True
    return False


def _cut(
    chunk: Chunk, results: Arrays, pieces: list[tuple[int, int]]
) -> tuple[list[Chunk], list[Arrays]]:
    parts = [chunk.between(*piece) for piece in pieces]
    return parts, [tuple(result[:, a:b] for result in results) for a, b in pieces]


def _solve_by_phases(
    transfer_map: TransferMap, chunk: Chunk, carry_in: Arrays, results: Arrays, threads: int
) -> None:
    """The three phases over the pieces of one row.

    The first piece is determined while all others but the last are precomputed; then the others
    are determined side by side. Where a piece must be done again from its true carry-in, one thread
    takes the whole row: the pieces would wait for each other.
    """
    parts, targets = _cut(chunk, results, _pieces(chunk.steps, threads, chunk.reverse))

    def determine(k: int, before: Arrays) -> Callable[[], None]:
        return lambda: cpu.determine(transfer_map, parts[k], before, targets[k])

    def precompute(k: int) -> Callable[[], Any]:
        return lambda: cpu.precompute(transfer_map, parts[k])

    _, *summaries = run_in_threads([determine(0, carry_in), *map(precompute, range(1, threads))])
    if any(getattr(summary, "redo", None) for summary in summaries):
        return cpu.determine(transfer_map, chunk, carry_in, results)
    entries = [carry_out_of(parts[0], targets[0])]
    for summary in summaries:
        entries.append(cpu.propagate(summary, entries[-1]))
    run_in_threads([determine(k, before) for k, before in enumerate(entries, 1)])
    entries.append(carry_out_of(chunk, results))
    if not all(np.isfinite(state).all() for before in entries for state in before):
        # Rounding may have decided whether the row overflows: the loop decides.
        cpu.determine(transfer_map, chunk, carry_in, results)
    return None


def _pieces(steps: int, threads: int, reverse: bool) -> list[tuple[int, int]]:
    """threads + 1 pieces in the order of the recurrence.

    The first is determined while others are precomputed. It has 0.95 of their size, since
    precompute takes about 0.95 of the time of determine.
    """
    unit = steps / (threads + 0.95)
    return _between(steps, [unit * (k + 0.95) for k in range(threads)], reverse)


def _equal_pieces(steps: int, threads: int, reverse: bool) -> list[tuple[int, int]]:
    """As many pieces as threads in the order of the recurrence."""
    return _between(steps, [steps / threads * k for k in range(1, threads)], reverse)


def _between(steps: int, ends: list[float], reverse: bool) -> list[tuple[int, int]]:
    # A piece that begins at a line of memory goes past the caches as a whole row does.
    aligned = steps >= ALIGNED * 8 * len(ends)
    cuts = [int(end) // ALIGNED * ALIGNED if aligned else int(end) for end in ends]
    pieces = list(pairwise([0, *cuts, steps]))
    if reverse:
        pieces = [(steps - b, steps - a) for a, b in pieces]
    return pieces
