"""What the true carry-in changes of a speculative chunk: see :mod:`.speculate`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.transfer_map import affine
from ...core.arrays.chunk import Chunk
from ...engines.cuda.launches import is_value, run_cached
from ..prefix import DevicePrefix
from .carry_in import states_of
from .determine import prepare

Arrays = tuple[Any, ...]

_SAFE = 4.0
"""A carry-in that grows to less than so small a part of the largest number overflows nowhere in the
head, whose results from 0 are small."""


def correct(prefix: DevicePrefix, carry_in: Arrays, results: Arrays) -> Arrays:
    """Determine the first steps of a chunk from its carry-in, over the provisional results.

    It reads none of these, so that it may run twice. A state that is not finite after them stays
    so to the end, and takes the results after them along.
    """
    (result,), first = results, prefix.first
    part = _split(result, prefix)[0]
    target = part if part.flags.c_contiguous else _empty_like(part)
    _determine(first, carry_in, target)
    if target is not part:
        part[...] = target
    if not _is_safe(prefix, carry_in[0]):
        _carry(prefix, target, result)
    return results


def _is_safe(prefix: DevicePrefix, carry_in: np.ndarray) -> bool:
    """Whether no state of the head can overflow."""
    largest = float(np.finfo(prefix.first.dtype).max) / _SAFE
    with np.errstate(all="ignore"):
        bits = np.log2(np.abs(carry_in.astype(np.float64))) + prefix.growth
    return bool((bits < np.log2(largest)).all())


def _carry(prefix: DevicePrefix, written: Any, result: Any) -> None:
    """Determine the rows again whose head ends in a state that is not finite, without terms."""
    state = written[:, 0 if prefix.first.reverse else -1].get()
    is_lost = ~np.isfinite(state)
    rest = _split(result, prefix)[1]
    if not is_lost.any() or not rest.size:
        return
    s = prefix.s if is_value(prefix.s) else _split(prefix.s, prefix)[1]
    again = Chunk(
        (s, np.zeros((1, 1, 1), rest.dtype)), rest.shape, rest.dtype, prefix.first.reverse
    )  # fmt: skip
    values = _empty_like(rest)
    _determine(again, (state,), values)
    for outer, inner in np.argwhere(is_lost):
        rest[outer, :, inner] = values[outer, :, inner]


def _split(array: Any, prefix: DevicePrefix) -> tuple[Any, Any]:
    """The steps of the head, and those after it, of an array (outer, steps, inner)."""
    at = array.shape[1] - prefix.steps if prefix.first.reverse else prefix.steps
    parts = array[:, :at], array[:, at:]
    return (parts[1], parts[0]) if prefix.first.reverse else parts


def _determine(chunk: Chunk, carry_in: Arrays, result: Any) -> None:
    run_cached(prepare, affine, chunk, states_of(carry_in, chunk), (result,))


def _empty_like(array: Any) -> Any:
    import cupy

    return cupy.empty(array.shape, array.dtype)
