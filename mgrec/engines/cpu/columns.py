"""The phases of element chains, whose kernels advance columns of states step by step.

A chunk is solved with one column of each row: the states before it. It is summarised with several,
which start from other states, and without results.

Kernels are compiled for the sizes of small matrices. A kernel takes a size as a number or as a
tuple of this length, and passes it on: see :func:`.pointers.length`. The length of a tuple is part
of its type, for which numba compiles the kernel. In loops over a number a step of a model of two
states takes 3 to 4 times as long.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, Summary, at_once
from ...core.contract.scan import ElementChain
from .compilation import writable
from .scan import Phases, are_faster_by_phases, determine_rows
from .threads import threads_for

logger = logging.getLogger("mgrec")
NO_MARKS = np.zeros((1, 1, 1, 1), np.uint8)


Advance = Callable[[Any, Chunk, np.ndarray, np.ndarray, int], np.ndarray | None]
"""``(recurrence, chunk, columns, results, threads) -> scales`` advances the columns in place.

`columns` has the axes (rows, columns, numbers), and `scales` (rows, columns). `results` is flat,
and empty if none are wanted. Threads share rows.
"""


def kernels_of_columns(
    method: str,
    advance: Advance,
    precompute: Callable[[Any, Chunk], Summary],
    propagate: Callable[[Any, Any, np.ndarray], np.ndarray],
    work: Callable[[Any], tuple[int, float]],
) -> Kernels:
    """Return the phases of a chunk, on the calling thread or, for method "threads", on all.

    ``work(recurrence)`` returns the number of a step that one column computes, and the time to
    summarise a chunk in units of the time to determine it.
    """

    def determine(
        recurrence: ElementChain, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray
    ) -> np.ndarray:
        if not result.size:
            return carry_in
        numbers, cost = work(recurrence)
        rows, steps = prod(chunk.row_shape), chunk.steps
        threads = threads_for(rows * steps * numbers, method == "threads")
        if rows >= threads or not are_faster_by_phases(steps, threads, cost):
            return advanced(recurrence, chunk, carry_in, result, threads)
        phases = Phases(
            lambda piece, states, target: advanced(recurrence, piece, states, target, 1),
            partial(precompute, recurrence),
            partial(propagate, recurrence),
        )
        return determine_rows(phases, chunk, carry_in, result, threads, cost)

    def advanced(
        recurrence: ElementChain, chunk: Chunk, carry_in: np.ndarray, result: np.ndarray, threads: int
    ) -> np.ndarray:
        columns = carry_in.reshape(-1, 1, carry_in.shape[-1]).copy()
        advance(recurrence, chunk, columns, result.reshape(-1), threads)
        return columns.reshape(carry_in.shape)

    return Kernels(determine, at_once(precompute), propagate)


def summarise(
    advance: Advance, recurrence: ElementChain, chunk: Chunk, starts: np.ndarray, marks: int
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Return columns (outer, inner, columns, numbers) after a chunk, their scales, and `is_reset`.

    All rows start from `starts` (columns, numbers).
    """
    shape = (*chunk.row_shape, *starts.shape)
    columns = np.broadcast_to(starts, shape).copy().reshape(-1, *starts.shape)
    results = np.empty(0, recurrence.computed_dtype)
    scales: Any = advance(recurrence, chunk, columns, results, 1)
    return columns.reshape(shape), scales.reshape(shape[:-1]), is_reset(chunk, marks)


def is_reset(chunk: Chunk, marks: int, first: int = 0) -> np.ndarray:
    """Return whether rows (outer, inner) have a mark at the step `first` or a later one.

    `marks` is the index of the marks among the operands.
    """
    operand = chunk.operands[marks] if len(chunk.operands) > marks else NO_MARKS
    return np.broadcast_to(operand[:, first:].any((1, -1)), chunk.row_shape)


def flat_operands(operands: Iterable[np.ndarray]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the operands of a kernel as flat arrays, and their strides along (outer, steps, inner).

    Strides count numbers, and are 0 along axes that are broadcast.
    """
    flat, all_strides = [], []
    for array in operands:
        sizes = [prod(array.shape[k + 1 :]) for k in range(3)]
        all_strides.append([size if array.shape[k] > 1 else 0 for k, size in enumerate(sizes)])
        flat.append(writable(array.reshape(-1)))
    return tuple(flat), np.array(all_strides, np.intp)


def with_marks(
    operands: tuple[np.ndarray, ...], marks: int, state_numbers: int = 0
) -> tuple[np.ndarray, ...]:
    """Return operands, with marks of 0 if there are none from the index `marks` on.

    Then there are also states of 0, if there are `state_numbers`.
    """
    if len(operands) > marks:
        return operands
    return (*operands, NO_MARKS, *((np.zeros((1, 1, 1, state_numbers)),) if state_numbers else ()))


MIN_STEPS_FOR_SIZES = 1 << 17
"""Number of steps from which a kernel is compiled for the sizes of a call, once for 1 to 4 s."""
_LARGEST = 8
"""Largest size for which kernels are compiled. Larger ones gain little."""


def is_long(steps: int) -> bool:
    """Return whether a call of so many steps is worth the compilation of kernels for its sizes."""
    return steps >= MIN_STEPS_FOR_SIZES


@cache
def log_sizes(sizes: str) -> None:
    """Log once that a call is long enough for kernels of its sizes."""
    logger.info(
        "calls of %d steps or more run kernels for %s, which are compiled once; shorter calls of "
        "all sizes share kernels",
        MIN_STEPS_FOR_SIZES,
        sizes,
    )


def as_lengths(sizes: tuple[int, ...], steps: int) -> tuple[Any, ...]:
    """Return sizes as numbers, or as tuples for a call of so many steps that this pays."""
    if not is_long(steps) or max(sizes) > _LARGEST:
        return sizes
    log_sizes(f"the sizes {sizes}")
    return tuple([(0,) * size for size in sizes])
