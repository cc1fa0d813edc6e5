"""The phases of a chunk of a varying filter in host memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels, at_once
from ....engines.cpu.flat import flat_operand
from ....engines.cpu.threads import run_in_threads, split_range, threads_for
from ....scans.matrix.recurrence import MatrixSummary, propagate
from ..recurrence import VaryingFilter
from .kernels import advance_columns

_NO_MARKS = np.zeros((1, 1, 1, 1), np.uint8)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return Kernels(
        partial(determine, uses_threads=method == "threads"), at_once(precompute), propagate
    )


def determine(
    recurrence: VaryingFilter,
    chunk: Chunk,
    carry_in: np.ndarray,
    result: np.ndarray,
    uses_threads: bool = False,
) -> np.ndarray:
    """Write the outputs to `result` (outer, steps, inner), and return the states after them."""
    states = carry_in.reshape(-1, 1, recurrence.order).copy()
    _advance(recurrence, chunk, states, result.reshape(-1), uses_threads)
    return states.reshape(carry_in.shape)


def precompute(recurrence: VaryingFilter, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    order, (outer, _, inner) = recurrence.order, chunk.shape
    states = np.broadcast_to(np.eye(order + 1, order), (outer * inner, order + 1, order)).copy()
    exponents = _advance(recurrence, chunk, states, np.empty(0), False)
    shape = (outer, inner, order + 1, order)
    marks = chunk.operands[3] if len(chunk.operands) > 3 else _NO_MARKS
    is_reset = np.broadcast_to(marks.any((1, -1)), (outer, inner))
    return MatrixSummary(states.reshape(shape), exponents.reshape(shape[:-1]), is_reset)


def _advance(
    recurrence: VaryingFilter,
    chunk: Chunk,
    states: np.ndarray,
    outputs: np.ndarray,
    uses_threads: bool,
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    rows, order = len(states), recurrence.order
    exponents = np.zeros(states.shape[:2], np.int64)
    x, b, a, *resets = chunk.operands
    marks, initial = resets or (_NO_MARKS, np.zeros((1, 1, 1, order)))
    operands = [part for array in (x, b, a, marks, initial) for part in flat_operand(array)]
    advance = advance_columns(recurrence.counts)

    def advance_rows(start: int, stop: int) -> None:
        advance(*operands, states, exponents, outputs, start, stop, chunk.shape)

    threads = threads_for(rows * chunk.steps * order) if uses_threads else 1
    run_in_threads([partial(advance_rows, *part) for part in split_range(rows, threads)])
    return exponents
