"""Speculation on chunks of CuPy arrays: filter a chunk before the states before it are known.

A chunk of a contractive filter is filtered from states of 0. After its *prefix* the response to any
finite states is below the smallest number of the dtype: the prefix alone is filtered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ...core.arrays.chunk import Chunk, write_contiguous
from ...engines.cuda.device import fetch
from ..cascade import Cascade
from ..power import power
from ..recurrence import CascadeSummary

# The prefix is at most this part of a chunk.
PREFIX_FRACTION = 8

Determine = Callable[[Cascade, Chunk, Any, Any], Any]
"""As :func:`mgrec.filters.cuda.phases.determine_filter`."""


@dataclass(frozen=True)
class DevicePrefix:
    """The samples of a chunk (outer, steps, inner) on which its states have an effect."""

    cascade: Cascade
    first: Chunk
    operand_bytes: ClassVar[int] = 0  # The samples are a copy.


def speculate(
    determine: Determine, cascade: Cascade, chunk: Chunk, results: tuple[Any, ...]
) -> Callable[[], tuple[CascadeSummary, DevicePrefix] | None] | None:
    """Launch the filter of a chunk from states of 0.

    Return a function that waits for it and returns the summary and the prefix, or None if a state
    is not finite. Return None if the prefix is too long.
    """
    longest = chunk.steps // PREFIX_FRACTION
    if 2 * (cascade.decay - 1) > longest:  # The prefix is longer, whatever the powers of A are.
        return None
    steps = prefix_steps(cascade, chunk.dtype)
    if not 0 < steps <= longest:
        return None
    states = np.zeros((cascade.states, *chunk.row_shape), cascade.state_dtype(chunk.dtype))
    wait = fetch(determine(cascade, chunk, states, results[0]))
    x = chunk.operands[0][:, :steps].copy()
    prefix = DevicePrefix(cascade, Chunk((x,), x.shape, chunk.dtype))

    def outcome() -> tuple[CascadeSummary, DevicePrefix] | None:
        carry_out = wait()
        if not np.isfinite(carry_out).all():  # A state that is not finite stays so to the end.
            return None
        return CascadeSummary(cascade, chunk.steps, np.array(carry_out)), prefix

    return outcome


@lru_cache(maxsize=256)
def prefix_steps(cascade: Cascade, dtype: np.dtype[Any]) -> int:
    """Return after how many steps finite states have no effect on outputs; 0 if after too many."""
    limits = np.finfo(dtype)
    bits = limits.maxexp - limits.minexp + limits.nmant + cascade.states
    if not np.isfinite(cascade.decay):
        return 0
    # A**(2 k) is as small as the square of A**k, whose entries float64 holds.
    half = max(1, int(cascade.decay))
    while half < 1 << 40:
        high, _ = power(cascade, half)
        if np.abs(high).max(initial=0.0) <= 2.0 ** -(bits / 2):
            return 2 * half
        half *= 2
    return 0


def correct(
    determine: Determine, prefix: DevicePrefix, carry_in: np.ndarray, results: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Filter the prefix of a chunk from the states before it. May run twice."""
    (result,), first = results, prefix.first
    part = result[:, : first.steps]
    write_contiguous(lambda y: determine(prefix.cascade, first, carry_in, y), part)
    if not np.isfinite(carry_in).all():
        _write_infinite(determine, prefix, carry_in, result)
    return results


def _write_infinite(
    determine: Determine, prefix: DevicePrefix, carry_in: np.ndarray, result: Any
) -> None:
    """Write the outputs after the prefix that states before the chunk make infinite or nan."""
    import cupy

    response, zeros = cupy.empty(result.shape, result.dtype), cupy.zeros(result.shape, result.dtype)
    determine(prefix.cascade, Chunk((zeros,), result.shape, result.dtype), carry_in, response)
    later, response = result[:, prefix.first.steps :], response[:, prefix.first.steps :]
    cupy.copyto(later, response, where=~cupy.isfinite(response))
