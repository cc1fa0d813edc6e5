"""The phases of a chunk of a state space model in host memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ...engines.cpu.flat import flat_operand
from ...engines.cpu.sizes import as_lengths
from ...engines.cpu.threads import run_in_threads, split_range, threads_for
from ..recurrence import (
    FilterSummary,
    SmootherSummary,
    StateSpaceRecurrence,
    after_filter,
    before_smoother,
    join,
    split,
)
from .filtering import advance_filter
from .smoothing import advance_smoother

_NO_MARKS = np.zeros((1, 1, 1, 1), np.uint8)
_LARGEST_EIGENVALUE, _LARGEST_GROWTH = 100.0, 1e8
_FILTERED, _SMOOTHED = 7, 6
"""Numbers of operands before the marks."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all."""
    return Kernels(
        partial(determine, uses_threads=method == "threads"), at_once(precompute), propagate
    )


def determine(
    recurrence: StateSpaceRecurrence,
    chunk: Chunk,
    carry_in: np.ndarray,
    result: np.ndarray,
    uses_threads: bool = False,
) -> None:
    """Write the results of every step to `result` (outer, steps, inner, numbers)."""
    if result.size == 0:
        return
    n = recurrence.n
    vectors, matrices = map(_own, split(carry_in.reshape(-1, n + n * n), n))
    width = result.shape[-1]
    _advance(recurrence, chunk, vectors, matrices, (), result.reshape(-1), width, uses_threads)


def precompute(recurrence: StateSpaceRecurrence, chunk: Chunk) -> Any:
    """Return the summary of a chunk."""
    n, (outer, _, inner) = recurrence.n, chunk.shape
    rows = outer * inner
    dependence = np.broadcast_to(np.eye(n), (rows, n, n)).copy()
    vectors, matrices = np.zeros((rows, n)), np.zeros((rows, n, n))
    eta, information, growth = np.zeros((rows, n)), np.zeros((rows, n, n)), np.zeros(rows)
    nothing = np.empty(0)

    def of_rows(array: np.ndarray) -> np.ndarray:
        return array.reshape(outer, inner, *array.shape[1:])

    if recurrence.is_smoother:
        _advance(recurrence, chunk, vectors, matrices, (dependence,), nothing, 0, False)
        marks = chunk.operands[_SMOOTHED] if len(chunk.operands) > _SMOOTHED else _NO_MARKS
        is_reset = np.broadcast_to(marks.any((1, -1)), (outer, inner))
        return SmootherSummary(of_rows(dependence), of_rows(vectors), of_rows(matrices), is_reset)
    first = chunk.between(0, 1)
    # Copies: the summary must not keep the chunk.
    start = [np.array(array) for array in first.operands] if chunk.steps else []
    if chunk.steps:
        later, extra = _without_first_observation(chunk), (dependence, eta, information, growth)
        _advance(recurrence, later, vectors, matrices, extra, nothing, 0, False)
    marks = chunk.operands[_FILTERED] if len(chunk.operands) > _FILTERED else _NO_MARKS
    is_reset = np.broadcast_to(marks[:, 1:].any((1, -1)), (outer, inner))
    return FilterSummary(
        start,
        of_rows(dependence),
        of_rows(vectors),
        of_rows(matrices),
        of_rows(eta),
        of_rows(information),
        is_reset,
        _own_chunk(chunk) if _grows(dependence, information, growth) else None,
    )


def _grows(dependence: np.ndarray, information: np.ndarray, growth: np.ndarray) -> bool:
    """Return whether states of a row grow so much that their summary loses digits.

    The eigenvalues of a dependence do not change with the units of states, as its entries do.
    """
    if not (growth < _LARGEST_GROWTH).all() or not np.isfinite(information).all():
        return True
    suspect = dependence[growth * dependence.shape[-1] > _LARGEST_EIGENVALUE]
    return bool((abs(np.linalg.eigvals(suspect)) > _LARGEST_EIGENVALUE).any())


def _own_chunk(chunk: Chunk) -> Chunk:
    operands = tuple([np.array(array) for array in chunk.operands])
    return Chunk(operands, chunk.shape, chunk.dtype, chunk.reverse)


def _own(array: np.ndarray) -> np.ndarray:
    """Return a contiguous copy, for which numba has compiled."""
    return np.array(array, order="C")


def _without_first_observation(chunk: Chunk) -> Chunk:
    """Return a chunk whose first observation is missing, and whose first mark is removed."""
    operands = list(chunk.operands)
    full = (*chunk.shape[:1], chunk.steps, *chunk.shape[2:])
    endog = np.broadcast_to(operands[0], (*full, operands[0].shape[-1])).copy()
    endog[:, 0] = np.nan
    operands[0] = endog
    if len(operands) > _FILTERED and operands[_FILTERED].shape[1] == chunk.steps:
        marks = operands[_FILTERED].copy()
        marks[:, 0] = 0
        operands[_FILTERED] = marks
    return Chunk(tuple(operands), chunk.shape, chunk.dtype, chunk.reverse)


def propagate(recurrence: StateSpaceRecurrence, summary: Any, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk, from those before it."""
    n = recurrence.n
    if isinstance(summary, FilterSummary) and not summary.first:
        return carry_in
    if isinstance(summary, FilterSummary) and summary.chunk is not None:
        vectors, matrices = map(_own, split(carry_in.reshape(-1, n + n * n), n))
        _advance(recurrence, summary.chunk, vectors, matrices, (), np.empty(0), 0, False)
        return join(vectors, matrices).reshape(carry_in.shape)
    with np.errstate(all="ignore"):
        if isinstance(summary, SmootherSummary):
            vectors, matrices = before_smoother(summary, *split(carry_in, n))
            fixed = join(summary.r, summary.N)
        else:
            mean, covariance = _after_first_observation(recurrence, summary, carry_in)
            vectors, matrices = after_filter(summary, mean, covariance)
            fixed = join(summary.mean, summary.covariance)
    return np.where(summary.is_reset[..., None], fixed, join(vectors, matrices))


def _after_first_observation(
    recurrence: StateSpaceRecurrence, summary: FilterSummary, carry_in: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the states after the first observation of a chunk: the filtered ones."""
    n, (outer, inner, _) = recurrence.n, carry_in.shape
    # Without a transition the predicted state is the filtered one.
    still = [np.eye(n).reshape(1, 1, 1, -1), np.zeros((1, 1, 1, n)), np.zeros((1, 1, 1, n * n))]
    arrays = [*summary.first[:4], *still, *summary.first[_FILTERED:]]
    chunk = Chunk(tuple(arrays), (outer, 1, inner), recurrence.dtype)
    vectors, matrices = map(_own, split(carry_in.reshape(-1, n + n * n), n))
    _advance(recurrence, chunk, vectors, matrices, (), np.empty(0), 0, False)
    return vectors.reshape(outer, inner, n), matrices.reshape(outer, inner, n, n)


def _advance(
    recurrence: StateSpaceRecurrence,
    chunk: Chunk,
    vectors: np.ndarray,
    matrices: np.ndarray,
    extra: tuple[np.ndarray, ...],
    results: np.ndarray,
    width: int,
    uses_threads: bool,
) -> None:
    """Advance states through a chunk, and the arrays `extra` of its summary."""
    n, rows = recurrence.n, len(vectors)
    is_smoother = recurrence.is_smoother
    count = _SMOOTHED if is_smoother else _FILTERED
    flat = [flat_operand(array) for array in chunk.operands]
    first = 1 if is_smoother else 0
    operands = tuple([array for array, _ in flat[first:count]])
    strides = np.array([numbers for _, numbers in flat[first:count]])
    marks = flat[count] if len(flat) > count else flat_operand(_NO_MARKS)
    no_numbers = np.zeros((1, 1, 1, n + n * n))
    initial = flat[count + 1] if len(flat) > count + 1 else flat_operand(no_numbers)
    none = np.empty((0, n, n))
    sizes = as_lengths((n, recurrence.p), rows * chunk.steps)

    def advance(start: int, stop: int) -> None:
        if is_smoother:
            (dependence,) = extra or (none,)
            advance_smoother(
                *sizes, *flat[0], operands, strides, *marks, vectors, matrices, dependence, results,
                recurrence.phase == "sums", start, stop, chunk.shape,
            )  # fmt: skip
        else:
            nothing = none, np.empty((0, n)), none, np.empty(0)
            dependence, eta, information, growth = extra or nothing
            advance_filter(
                *sizes, operands, strides, *marks, *initial, vectors, matrices, dependence, eta,
                information, growth, results, width, start, stop, chunk.shape,
            )  # fmt: skip

    threads = threads_for(rows * chunk.steps * n) if uses_threads else 1
    run_in_threads([partial(advance, *part) for part in split_range(rows, threads)])
