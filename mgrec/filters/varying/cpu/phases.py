"""The phases of a chunk of a varying filter in host memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cpu.columns import flat_operands, kernels_of_columns, summarise
from ....engines.cpu.threads import call_in_parts, threads_for
from ....scans.matrix.recurrence import MatrixSummary, propagate
from ..recurrence import VaryingFilter
from .gradients import multiply_lags
from .kernels import advance_columns

_MARKS = 3


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    phases = kernels_of_columns(method, _advance, precompute, propagate)
    return replace(phases, multiply_lags=multiply_lags)


def precompute(recurrence: VaryingFilter, chunk: Chunk) -> MatrixSummary:
    """Return the summary of a chunk."""
    starts = np.eye(recurrence.state_numbers + 1, recurrence.state_numbers)
    return MatrixSummary(*summarise(_advance, recurrence, chunk, starts, _MARKS))


def _advance(
    recurrence: VaryingFilter,
    chunk: Chunk,
    states: np.ndarray,
    outputs: np.ndarray,
    is_threaded: bool,
) -> np.ndarray:
    """Advance states through a chunk, and return the exponents of their columns."""
    rows, order = len(states), recurrence.order
    exponents, failed = np.zeros(states.shape[:2], np.int64), np.zeros(1, bool)
    states = states.view(recurrence.state_dtype)
    *operands, initial, initial_strides = flat_operands(chunk.operands, _MARKS, order)
    operands += [initial.astype(states.dtype, copy=False), initial_strides]
    kernel = advance_columns(recurrence.counts, recurrence.form, states.dtype.kind == "c")

    def advance(start: int, stop: int) -> None:
        kernel(
            *operands, states, exponents, outputs, start, stop, chunk.shape, chunk.reverse, failed
        )

    call_in_parts(advance, rows, threads_for(rows * chunk.steps * order, is_threaded))
    if failed[0]:
        raise ValueError("a[..., 0] must not be 0 at any step: the filter would need later samples")
    return exponents
