"""The phases of a chunk in host memory: precompute, propagate and determine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import PARTS, STATES, EwmRecurrence, EwmSummary, Weights
from .chunks import determine_kernel, precompute_kernel, propagate_kernel

# Dtypes that kernels read without a cast.
_READ = "fdhilqBHILQb"
_NO_MARKS = np.empty((1, 0, 1), np.uint8)


def kernels(method: str) -> Kernels:
    """Return the phases: on all threads for the method "threads", otherwise on the calling one."""
    phase = _determine_on_threads if method == "threads" else _determine
    return Kernels(phase, at_once(_precompute), _propagate)


def _determine(recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray) -> None:
    """Write the statistic after every step."""
    weights = recurrence.weights
    kernel = determine_kernel(weights.statistic, weights.is_adjusted)
    if carry_in is None:
        carry_in = np.empty((0, 0, 0))
    carry_in = np.ascontiguousarray(carry_in, np.float64)
    kernel(*_series(recurrence, chunk), carry_in, result, weights.kernel_arguments)


def _determine_on_threads(
    recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray
) -> None:
    """Write the statistic on several threads, each of which takes outer rows."""
    threads = threads_for(result.size)

    def rows(left: int, right: int) -> Callable[[], None]:
        before = None if carry_in is None else carry_in[:, left:right]
        part = chunk.rows(left, right)
        return lambda: _determine(recurrence, part, before, result[left:right])

    outer = chunk.shape[0]
    run_in_threads([rows(*part) for part in split_range(outer, max(1, min(threads, outer)))])


def _precompute(recurrence: EwmRecurrence, chunk: Chunk) -> EwmSummary:
    """Return the summary of a chunk."""
    weights, rows = recurrence.weights, chunk.row_shape
    parts, carry_outs = np.zeros((PARTS, *rows)), np.zeros((STATES, *rows))
    is_reset = np.zeros(rows, bool)
    kernel = precompute_kernel(weights.statistic, weights.is_adjusted)
    kernel(*_series(recurrence, chunk), weights.kernel_arguments, parts, carry_outs, is_reset)
    return EwmSummary(parts, carry_outs, is_reset)


def _propagate(algebra: tuple[Weights, EwmSummary], carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk."""
    weights, summary = algebra
    flat = (len(carry_in), 1, summary.is_reset.size)
    before = np.ascontiguousarray(carry_in, np.float64).reshape(flat)
    carry_out = np.empty(flat)
    kernel = propagate_kernel(weights.statistic == "sum", weights.is_adjusted)
    kernel(
        summary.parts.reshape(PARTS, -1), before, carry_out, weights.alpha, weights.is_complement
    )
    return np.where(summary.is_reset, summary.carry_outs, carry_out.reshape(carry_in.shape))


def _series(recurrence: EwmRecurrence, chunk: Chunk) -> tuple[Any, Any, Any, Any]:
    """Return x, y, gaps and marks of a chunk; gaps may be None, and marks empty.

    Kernels would compile again for None in place of marks.
    """
    arrays = dict(zip(recurrence.roles, chunk.operands, strict=True))
    x = _readable(arrays["x"])
    y = _readable(arrays["y"]) if "y" in arrays else x
    gaps = _full(arrays["gaps"], chunk) if "gaps" in arrays else None
    marks = _full(arrays["marks"], chunk) if "marks" in arrays else _NO_MARKS
    return x, y, gaps, marks


def _readable(x: np.ndarray) -> np.ndarray:
    return writable(x if x.dtype.char in _READ else x.astype(np.float64))


def _full(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    """Return an array with all steps of a chunk."""
    shape = (array.shape[0], chunk.steps, array.shape[2])
    return writable(np.ascontiguousarray(np.broadcast_to(array, shape)))
