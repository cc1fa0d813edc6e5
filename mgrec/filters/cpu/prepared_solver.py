"""Chunks of a kind in host memory: what was checked and laid out for one is not for the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import PreparedSolver
from ..cascade import Cascade
from .one_thread import at_rest, determine_filter


def prepare_solver(cascade: Cascade, chunk: Chunk, carry_in: Any, result: Any) -> PreparedSolver:
    """Prepare what filters chunks of the kind of this one, on the caller's thread.

    Returns
    -------
    callable, ``(given, targets) -> carry_out``
        `given` are x and, where `carry_in` is not None, the states before the first step.
    """
    shape, dtype, rest = chunk.shape, chunk.dtype, at_rest(cascade, chunk)
    is_asked = carry_in is not None

    def solve(given: Sequence[Any], targets: Sequence[Any]) -> np.ndarray:
        before = given[1].reshape(rest.shape).astype(rest.dtype) if is_asked else rest
        own = Chunk((given[0].reshape(shape),), shape, dtype)
        return determine_filter(cascade, own, before, targets[0].reshape(shape)).carry_out

    return solve
