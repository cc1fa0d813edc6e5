"""The phases of a chunk in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ..cascade import Cascade
from .one_thread import at_rest, determine_filter, precompute_filter, propagate_filter
from .prepared_solver import prepare_solver
from .speculate import correct, speculate
from .threads import determine_on_threads


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    determine = determine_on_threads if method == "threads" else _determine
    phases = determine, at_once(precompute_filter), propagate_filter
    return Kernels(
        *phases, speculate=at_once(speculate), correct=correct, prepare_solver=prepare_solver
    )


def _determine(cascade: Cascade, chunk: Chunk, carry_in: Any, result: np.ndarray) -> np.ndarray:
    carry_in = at_rest(cascade, chunk) if carry_in is None else np.ascontiguousarray(carry_in)
    return determine_filter(cascade, chunk, carry_in, result).carry_out
