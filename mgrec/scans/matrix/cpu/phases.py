"""The phases of a chunk of matrix maps in host memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels, at_once
from ....engines.cpu.flat import flat_operand
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ..maps import STRUCTURES
from ..recurrence import MatrixRecurrence, MatrixSummary, propagate
from .kernels import advance_columns

_NO_MARKS = np.zeros((1, 1, 1, 1), np.uint8)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return Kernels(
        partial(determine, uses_threads=method == "threads"), at_once(precompute), propagate
    )


def determine(
    recurrence: MatrixRecurrence,
    chunk: Chunk,
    carry_in: np.ndarray,
    result: np.ndarray,
    uses_threads: bool = False,
) -> None:
    """Write the states after every step to `result` (outer, steps, inner, n)."""
    if result.size:
        states = carry_in.reshape(-1, 1, recurrence.matrix_map.n).copy()
        _advance(recurrence, chunk, states, result.reshape(-1), uses_threads)


def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    matrix_map = recurrence.matrix_map
    n, (outer, _, inner) = matrix_map.n, chunk.shape
    states = np.full((outer * inner, n + 1, n), matrix_map.zero)
    states[:, range(n), range(n)] = matrix_map.one
    exponents = _advance(recurrence, chunk, states, np.empty(0), False)
    shape = (outer, inner, n + 1, n)
    marks = chunk.operands[2] if len(chunk.operands) > 2 else _NO_MARKS
    is_reset = np.broadcast_to(marks.any((1, -1)), (outer, inner))
    return MatrixSummary(states.reshape(shape), exponents.reshape(shape[:-1]), is_reset)


def _advance(
    recurrence: MatrixRecurrence,
    chunk: Chunk,
    states: np.ndarray,
    results: np.ndarray,
    uses_threads: bool,
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    matrix_map, rows = recurrence.matrix_map, len(states)
    exponents = np.zeros(states.shape[:2], np.int64)
    a, b, *resets = chunk.operands
    marks, initial = resets or (_NO_MARKS, np.zeros((1, 1, 1, matrix_map.n)))
    operands = [part for array in (a, b, marks, initial) for part in flat_operand(array)]

    def advance(start: int, stop: int) -> None:
        advance_columns(
            *operands, states, exponents, results, start, stop, chunk.shape, chunk.reverse,
            matrix_map.algebra_number, STRUCTURES.index(matrix_map.structure), matrix_map.zero,
        )  # fmt: skip

    threads = threads_for(rows * chunk.steps * matrix_map.n) if uses_threads else 1
    run_in_threads([partial(advance, *part) for part in split_range(rows, threads)])
    return exponents
