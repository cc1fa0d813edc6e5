"""The phases of a chunk of matrix maps in host memory."""

from __future__ import annotations

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cpu.columns import flat_operands, kernels_of_columns, summarise
from ....engines.cpu.threads import call_in_parts, threads_for
from ..maps import STRUCTURES
from ..recurrence import MatrixRecurrence, MatrixSummary, propagate
from .kernels import advance_columns

_MARKS = 2


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    return kernels_of_columns(method, _advance, precompute, propagate)


def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    matrix_map, n = recurrence.matrix_map, recurrence.matrix_map.n
    starts = np.full((n + 1, n), matrix_map.zero)
    starts[range(n), range(n)] = matrix_map.one
    return MatrixSummary(*summarise(_advance, recurrence, chunk, starts, _MARKS))


def _advance(
    recurrence: MatrixRecurrence,
    chunk: Chunk,
    states: np.ndarray,
    results: np.ndarray,
    is_threaded: bool,
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    matrix_map, rows = recurrence.matrix_map, len(states)
    exponents = np.zeros(states.shape[:2], np.int64)
    operands = flat_operands(chunk.operands, _MARKS, matrix_map.n)

    def advance(start: int, stop: int) -> None:
        advance_columns(
            *operands, states, exponents, results, start, stop, chunk.shape, chunk.reverse,
            matrix_map.algebra_number, STRUCTURES.index(matrix_map.structure), matrix_map.zero,
        )  # fmt: skip

    call_in_parts(advance, rows, threads_for(rows * chunk.steps * matrix_map.n, is_threaded))
    return exponents
