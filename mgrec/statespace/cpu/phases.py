"""The phases of a chunk of a state space model in host memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from ...engines.cpu.columns import as_lengths, flat_operands, is_reset, kernels_of_columns, with_marks
from ...engines.cpu.threads import call_in_parts
from ..recurrence import (
    FilterSummary,
    SmootherSummary,
    StateSpaceRecurrence,
    after_filter,
    before_root_smoother,
    before_smoother,
    join,
    split,
    split_roots,
    with_root,
)
from .filtering import advance_filter
from .roots import advance_root_filter, advance_root_smoother
from .smoothing import advance_smoother

_LARGEST_EIGENVALUE, _LARGEST_GROWTH = 100.0, 1e8
_FILTERED = 7
"""Number of operands of the filter before the marks."""
_NOTHING = np.empty(0)


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk: see :func:`kernels_of_columns`."""
    return kernels_of_columns(method, _advance, precompute, propagate, lambda recurrence: (recurrence.n, 1.0))


def precompute(recurrence: StateSpaceRecurrence, chunk: Chunk) -> FilterSummary | SmootherSummary:
    """Return the summary of a chunk."""
    n, (outer, inner) = recurrence.n, chunk.row_shape
    rows = outer * inner
    dependence = np.broadcast_to(np.eye(n), (rows, n, n)).copy()
    vectors, matrices = np.zeros((rows, n)), np.zeros((rows, n, n))
    eta, information, growth = np.zeros((rows, n)), np.zeros((rows, n, n)), np.zeros(rows)

    def of_rows(array: np.ndarray) -> np.ndarray:
        return array.reshape(outer, inner, *array.shape[1:])

    if recurrence.is_smoother:
        _advance_states(recurrence, chunk, vectors, matrices, dependence)
        return SmootherSummary(
            of_rows(dependence),
            of_rows(vectors),
            of_rows(matrices),
            is_reset(chunk, recurrence.smoothed),
            *_roots(recurrence, chunk),
        )
    # Copies: the summary must not keep the chunk.
    first = [np.array(array) for array in chunk.between(0, 1).operands] if chunk.steps else []
    if chunk.steps:
        later, extra = _without_first_observation(chunk), (dependence, eta, information, growth)
        _advance_states(recurrence, later, vectors, matrices, extra)
    # The loop decides where states become nan after an infinite observation.
    is_infinite = not np.isfinite(vectors).all() or not np.isfinite(eta).all() or np.isinf(first[:1]).any()
    is_redone = is_infinite or _grows(dependence, information, growth)
    return FilterSummary(
        first,
        of_rows(dependence),
        of_rows(vectors),
        of_rows(matrices),
        of_rows(eta),
        of_rows(information),
        is_reset(chunk, _FILTERED, 1),
        chunk.map_arrays(np.array, chunk.shape) if is_redone else None,
    )


def _roots(recurrence: StateSpaceRecurrence, chunk: Chunk) -> tuple[np.ndarray, ...]:
    """Return the first and the next root of a chunk of the smoother in square-root form."""
    n = recurrence.n
    if not recurrence.square_root or not chunk.steps:
        return ()
    first = chunk.operands[0][:, 0, :, 1 + n :].reshape(*chunk.row_shape, n, n)
    last = chunk.between(chunk.steps - 1, chunk.steps)
    predicted, *arrays, state_root = last.operands[: recurrence.smoothed]
    # The same step as in the smoother, bit for bit.
    operands = (*arrays, np.zeros((1, 1, 1, n)), state_root)
    step = Chunk(operands, last.shape, recurrence.dtype)
    state = np.broadcast_to(predicted[:, 0, :, 1:], (*chunk.row_shape, n + n * n))
    after = _advanced(replace(recurrence, phase="llf", numbers=1), step, state)
    return first, split(after, n)[1]


def _grows(dependence: np.ndarray, information: np.ndarray, growth: np.ndarray) -> bool:
    """Return whether states of a row grow so much that their summary loses digits.

    The eigenvalues of a dependence do not change with the units of states, as its entries do.
    """
    if not (growth < _LARGEST_GROWTH).all() or not np.isfinite(information).all():
        return True
    suspect = dependence[growth * dependence.shape[-1] > _LARGEST_EIGENVALUE]
    return bool((abs(np.linalg.eigvals(suspect)) > _LARGEST_EIGENVALUE).any())


def _copy(array: np.ndarray) -> np.ndarray:
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
    return replace(chunk, operands=tuple(operands))


def propagate(
    recurrence: StateSpaceRecurrence, summary: FilterSummary | SmootherSummary, carry_in: np.ndarray
) -> np.ndarray:
    """Return the states after a chunk, from those before it."""
    n = recurrence.n
    if isinstance(summary, FilterSummary) and not summary.first:
        return carry_in
    if isinstance(summary, FilterSummary) and summary.redo is not None:
        return _advanced(recurrence, summary.redo, carry_in)
    with np.errstate(all="ignore"):
        if isinstance(summary, SmootherSummary) and recurrence.square_root:
            return carry_in if summary.first_root is None else before_root_smoother(summary, carry_in)
        if isinstance(summary, SmootherSummary):
            vectors, matrices = before_smoother(summary, *split(carry_in, n))
            fixed = join(summary.r, summary.N)
        else:
            observed = _after_first_observation(recurrence, summary, carry_in)
            if recurrence.square_root:
                after = _after_root_filter(recurrence, summary, observed)
            else:
                after = after_filter(summary, *split(observed, n))
            vectors, matrices = after
            fixed = join(summary.mean, summary.covariance)
    return np.where(summary.is_reset[..., None], fixed, join(vectors, matrices))


def _after_first_observation(
    recurrence: StateSpaceRecurrence, summary: FilterSummary, carry_in: np.ndarray
) -> np.ndarray:
    """Return the states after the first observation of a chunk: the filtered ones."""
    n, (outer, inner, _) = recurrence.n, carry_in.shape
    # Without a transition the predicted state is the filtered one.
    still = [np.eye(n).reshape(1, 1, 1, -1), np.zeros((1, 1, 1, n)), np.zeros((1, 1, 1, n * n))]
    arrays = [*summary.first[:4], *still, *summary.first[_FILTERED:]]
    chunk = Chunk(tuple(arrays), (outer, 1, inner), recurrence.dtype)
    return _advanced(recurrence, chunk, carry_in)


def _after_root_filter(
    recurrence: StateSpaceRecurrence, summary: FilterSummary, carry_in: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted state after a chunk, from the state after its first observation.

    The summary is a step of a model with n entries of an observation: see :mod:`.roots`.
    """
    n, (outer, inner, _) = recurrence.n, carry_in.shape
    J, unit = summary.information.swapaxes(-1, -2), np.eye(n).reshape(1, 1, 1, -1)
    numbers = [summary.eta, J, np.zeros((1, 1, n)), unit, summary.dependence, summary.mean]
    arrays = [array.reshape(*array.shape[:2], -1)[:, None] for array in (*numbers, summary.covariance)]
    chunk = Chunk(tuple(arrays), (outer, 1, inner), recurrence.dtype)
    return split(_advanced(replace(recurrence, p=n), chunk, carry_in), n)


def _advanced(recurrence: StateSpaceRecurrence, chunk: Chunk, carry_in: np.ndarray) -> np.ndarray:
    """Return the states after a chunk, computed step by step."""
    columns = carry_in.reshape(-1, 1, carry_in.shape[-1]).copy()
    _advance(recurrence, chunk, columns, _NOTHING, 1)
    return columns.reshape(carry_in.shape)


def _advance(
    recurrence: StateSpaceRecurrence, chunk: Chunk, columns: np.ndarray, results: np.ndarray, threads: int
) -> None:
    """Advance columns of means and covariances, or of r and N, through a chunk."""
    n, roots = recurrence.n, list[np.ndarray]()
    if recurrence.is_smoother and recurrence.square_root:
        (first, after), later = _roots(recurrence, chunk), split_roots(columns[:, 0], n)
        after, roots = after.reshape(-1, n, n), [first.reshape(-1, n, n)]
        with np.errstate(all="ignore"):
            vectors, matrices = map(_copy, with_root(after, *later))
    else:
        vectors, matrices = map(_copy, split(columns[:, 0], n))
    _advance_states(recurrence, chunk, vectors, matrices, None, results, threads)
    columns[:, 0] = join(vectors, matrices, *roots)


def _advance_states(
    recurrence: StateSpaceRecurrence,
    chunk: Chunk,
    vectors: np.ndarray,
    matrices: np.ndarray,
    summaries: Any,
    results: np.ndarray = _NOTHING,
    threads: int = 1,
) -> None:
    """Advance states through a chunk, and the arrays of its summary unless they are None."""
    n, option = recurrence.n, int(recurrence.phase == "sums")
    if recurrence.is_smoother:
        kernel = advance_root_smoother if recurrence.square_root else advance_smoother
        operands = with_marks(chunk.operands, recurrence.smoothed)
    else:
        kernel = advance_root_filter if recurrence.square_root else advance_filter
        operands = with_marks(chunk.operands, _FILTERED, n + n * n)
        option = recurrence.numbers if len(results) else 0
    arguments = flat_operands(operands), (vectors, matrices), summaries, (results, option)
    sizes = as_lengths((n, recurrence.p), chunk.size)

    def advance(start: int, stop: int) -> None:
        kernel(*sizes, *arguments, start, stop, chunk.shape)

    call_in_parts(advance, len(vectors), threads)
