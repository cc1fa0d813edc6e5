"""Chunks of a kind in host memory: what was checked and laid out for one is not for the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Again
from ..cascade import Cascade
from .one_thread import at_rest, determine_filter


def again(cascade: Cascade, chunk: Chunk, entry: Any, result: Any) -> Again:
    """Prepare what filters chunks of the kind of this one, on the caller's thread.

    Returns
    -------
    callable, ``(given, targets) -> exit``
        `given` are x and, where `entry` is not None, the states before the first step.
    """
    shape, dtype, rest = chunk.shape, chunk.dtype, at_rest(cascade, chunk)
    is_asked = entry is not None

    def solve(given: Sequence[Any], targets: Sequence[Any]) -> np.ndarray:
        before = given[1].reshape(rest.shape).astype(rest.dtype) if is_asked else rest
        own = Chunk((given[0].reshape(shape),), shape, dtype)
        return determine_filter(cascade, own, before, targets[0].reshape(shape)).exit

    return solve
