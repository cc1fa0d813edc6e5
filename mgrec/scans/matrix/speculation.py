"""Chunks of matrix maps whose last state does not depend on their carry-in.

Where the product of the matrices of the first steps vanishes, a chunk is read once: it is
determined from a carry-in of 0, and its first steps again from the true one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels
from .recurrence import MatrixRecurrence, MatrixSummary

_FRACTION, _MOST_STEPS = 32, 1 << 14
"""The first steps are at most 1/32 of a chunk: they are read three times. On an H200 the host waited 0.3 ms
for the map of 2^19 steps."""
VANISHED = -2200
"""Exponent below which a product of matrices takes every finite state to 0 in float64."""
_MOST = 2.0**500
"""Larger carry-ins may overflow within the first steps, although the product of all of them vanishes."""


@dataclass(frozen=True)
class MatrixPrefix:
    """The chunk, and the bounds of its first steps, counted in array order."""

    recurrence: MatrixRecurrence
    chunk: Chunk
    bounds: tuple[int, int]

    @property
    def operand_bytes(self) -> int:
        """Bytes of the chunk: it is determined again if its carry-in is not finite."""
        return sum(array.nbytes for array in self.chunk.operands)


def first_steps(chunk: Chunk) -> tuple[int, int]:
    """Return the bounds of the first steps of a chunk, counted in array order; they may be equal."""
    count = min(chunk.steps // _FRACTION, _MOST_STEPS)
    return (chunk.steps - count, chunk.steps) if chunk.reverse else (0, count)


def with_speculation(
    kernels: Kernels, is_read_once: Callable[[MatrixRecurrence, Chunk], bool], is_asynchronous: bool = False
) -> Kernels:
    """Return kernels that determine chunks speculatively where their `determine` reads them once.

    Their `determine` returns the states after a chunk, or None if these are the last results. Kernels
    that are asynchronous wait twice, for the map of the first steps and for the states.
    """

    def speculate(recurrence: MatrixRecurrence, chunk: Chunk, results: tuple[Any, ...]) -> Any:
        (result,) = results
        bounds = start, stop = first_steps(chunk)
        if start == stop or not is_read_once(recurrence, chunk):
            return None
        # The host waits for the map of few steps: a pass over a chunk in vain would take longer.
        wait_for_map = kernels.precompute(recurrence, chunk.between(*bounds))

        def determine() -> Callable[[], tuple[MatrixSummary, MatrixPrefix] | None] | None:
            summary = wait_for_map()
            if not _vanishes(summary):
                return None
            before = np.zeros((*chunk.row_shape, recurrence.state_numbers))
            carry_out = kernels.determine(recurrence, chunk, before, result)
            return partial(with_states, summary, carry_out)

        def with_states(summary: MatrixSummary, carry_out: Any) -> tuple[MatrixSummary, MatrixPrefix] | None:
            last = result[:, 0 if chunk.reverse else -1]
            after = np.asarray(last.get()) if carry_out is None else carry_out
            if not np.isfinite(after).all():
                return None
            columns = np.concatenate([summary.columns[..., :-1, :], after[..., None, :]], axis=-2)
            return replace(summary, columns=columns), MatrixPrefix(recurrence, chunk, bounds)

        return determine if is_asynchronous else determine()

    def correct(prefix: MatrixPrefix, carry_in: np.ndarray, results: tuple[Any, ...]) -> tuple[Any, ...]:
        (result,), chunk = results, prefix.chunk
        if not (np.abs(carry_in) < _MOST).all():
            kernels.determine(prefix.recurrence, chunk, carry_in, result)
            return results
        steps = slice(*prefix.bounds)
        part = result[:, steps]
        first = part if part.flags.c_contiguous else part.copy()
        kernels.determine(prefix.recurrence, chunk.between(*prefix.bounds), carry_in, first)
        if first is not part:
            part[...] = first
        return results

    return replace(kernels, speculate=speculate, correct=correct)


def _vanishes(summary: MatrixSummary) -> bool:
    """Return whether the state after some steps is the same for all finite carry-ins."""
    if summary.redo:
        return False
    columns = summary.columns[..., :-1, :]
    exponents = np.frexp(columns)[1] + summary.exponents[..., :-1, None]
    are_zero = (columns == 0) | (np.isfinite(columns) & (exponents < VANISHED))
    return bool((are_zero.all((-1, -2)) | summary.is_reset).all())
