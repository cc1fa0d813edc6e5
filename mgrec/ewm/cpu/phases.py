"""precompute, propagate and determine for one chunk of series in host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ...engines.cpu.compilation import writable
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import EwmRecurrence
from ..summary import PARTS, STATES, EwmSummary
from ..weights import Weights
from .chunks import determine_kernel, precompute_kernel, propagate_kernel

_READ = "fdhilqBHILQb"
"""dtypes that kernels read as they are."""


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    own = determine_on_threads if method == "threads" else determine
    return Kernels(own, at_once(precompute), propagate)


def determine(recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray) -> None:
    """Write the statistic after every step."""
    weights = recurrence.weights
    kernel = determine_kernel(weights.statistic, weights.is_adjusted)
    carry_in = (
        np.empty((0, 0, 0)) if carry_in is None else np.ascontiguousarray(carry_in, np.float64)
    )
    kernel(*_series(recurrence, chunk), carry_in, result, weights.numbers)


def determine_on_threads(
    recurrence: EwmRecurrence, chunk: Chunk, carry_in: Any, result: np.ndarray
) -> None:
    """The same by all threads, which share the outer rows."""
    threads = threads_for(result.size)

    def rows(left: int, right: int) -> Callable[[], None]:
        before = None if carry_in is None else carry_in[:, left:right]
        part = chunk.rows(left, right)
        return lambda: determine(recurrence, part, before, result[left:right])

    run_in_threads(
        [rows(*cut) for cut in split_range(chunk.shape[0], max(1, min(threads, chunk.shape[0])))]
    )


def precompute(recurrence: EwmRecurrence, chunk: Chunk) -> EwmSummary:
    """Reduce every row to how it changes a state."""
    weights, rows = recurrence.weights, chunk.row_shape
    parts, carry_outs = np.zeros((PARTS, *rows)), np.zeros((STATES, *rows))
    is_reset = np.zeros(rows, bool)
    kernel = precompute_kernel(weights.statistic, weights.is_adjusted)
    kernel(*_series(recurrence, chunk), weights.numbers, parts, carry_outs, is_reset)
    return EwmSummary(parts, carry_outs, is_reset)


def propagate(algebra: tuple[Weights, EwmSummary], carry_in: np.ndarray) -> np.ndarray:
    """The states after a chunk."""
    weights, summary = algebra
    flat = (len(carry_in), 1, summary.is_reset.size)
    before = np.ascontiguousarray(carry_in, np.float64).reshape(flat)
    carry_out = np.empty(flat)
    kernel = propagate_kernel(weights.statistic == "sum", weights.is_adjusted)
    kernel(
        summary.parts.reshape(PARTS, -1), before, carry_out, weights.share, weights.is_complement
    )
    return np.where(summary.is_reset, summary.carry_outs, carry_out.reshape(carry_in.shape))


def _series(recurrence: EwmRecurrence, chunk: Chunk) -> tuple[Any, Any, Any, Any]:
    """x, y, gaps and marks of a chunk; the last two None where there are none."""
    given = dict(zip(recurrence.roles, chunk.operands, strict=True))
    x = _readable(given["x"])
    y = _readable(given["y"]) if "y" in given else x
    gaps, marks = (
        _full(given[name], chunk) if name in given else None for name in ("gaps", "marks")
    )
    return x, y, gaps, marks


def _readable(x: np.ndarray) -> np.ndarray:
    is_read = x.dtype.char in _READ
    return writable(x if is_read else x.astype(np.float64))


def _full(array: np.ndarray, chunk: Chunk) -> np.ndarray:
    """With all steps."""
    shape = (array.shape[0], chunk.steps, array.shape[2])
    return writable(np.ascontiguousarray(np.broadcast_to(array, shape)))
