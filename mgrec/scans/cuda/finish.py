"""What the true entry changes of a chunk that was begun: see :mod:`.begin`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.algebra.affine import affine
from ...core.arrays.chunk import Chunk
from ...engines.cuda.device.launches import is_value, run_prepared
from ..prefix import DeviceHead
from .determine import prepare
from .entry import states_of

Arrays = tuple[Any, ...]

_SAFE = 4.0
"""An entry that grows to less than so small a part of the largest number overflows nowhere in the
head, whose results from 0 are small."""


def finish(head: DeviceHead, entry: Arrays, results: Arrays) -> Arrays:
    """Determine the first steps of a chunk from its entry, over the provisional results.

    It reads none of these, so that it may run twice. A state that is not finite after them stays
    so to the end, and takes the results after them along.
    """
    (result,), first = results, head.first
    part = _split(result, head)[0]
    target = part if part.flags.c_contiguous else _empty_like(part)
    _determine(first, entry, target)
    if target is not part:
        part[...] = target
    if not _is_safe(head, entry[0]):
        _carry(head, target, result)
    return results


def _is_safe(head: DeviceHead, entry: np.ndarray) -> bool:
    """Whether no state of the head can overflow."""
    largest = float(np.finfo(head.first.dtype).max) / _SAFE
    with np.errstate(all="ignore"):
        bits = np.log2(np.abs(entry.astype(np.float64))) + head.growth
    return bool((bits < np.log2(largest)).all())


def _carry(head: DeviceHead, written: Any, result: Any) -> None:
    """Determine the rows again whose head ends in a state that is not finite, without terms."""
    state = written[:, 0 if head.first.reverse else -1].get()
    is_lost = ~np.isfinite(state)
    rest = _split(result, head)[1]
    if not is_lost.any() or not rest.size:
        return
    s = head.s if is_value(head.s) else _split(head.s, head)[1]
    again = Chunk(
        (s, np.zeros((1, 1, 1), rest.dtype)), rest.shape, rest.dtype, head.first.reverse
    )  # fmt: skip
    values = _empty_like(rest)
    _determine(again, (state,), values)
    for outer, inner in np.argwhere(is_lost):
        rest[outer, :, inner] = values[outer, :, inner]


def _split(array: Any, head: DeviceHead) -> tuple[Any, Any]:
    """The steps of the head, and those after it, of an array (outer, steps, inner)."""
    at = array.shape[1] - head.steps if head.first.reverse else head.steps
    parts = array[:, :at], array[:, at:]
    return (parts[1], parts[0]) if head.first.reverse else parts


def _determine(chunk: Chunk, entry: Arrays, result: Any) -> None:
    run_prepared(prepare, affine, chunk, states_of(entry, chunk), (result,))


def _empty_like(array: Any) -> Any:
    import cupy

    return cupy.empty(array.shape, array.dtype)
