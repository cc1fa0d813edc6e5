"""The phases of a chunk in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import Kernels, at_once
from ..cascade import Cascade
from .again import again
from .begin import begin, finish
from .one_thread import at_rest, determine_filter, precompute_filter, propagate_filter
from .threads import determine_on_threads


def kernels(method: str) -> Kernels:
    """The phases of a chunk, on the caller's thread or, by the method "threads", on all."""
    determine = determine_on_threads if method == "threads" else _determine
    phases = determine, at_once(precompute_filter), propagate_filter
    return Kernels(*phases, begin=at_once(begin), finish=finish, again=again)


def _determine(cascade: Cascade, chunk: Chunk, entry: Any, result: np.ndarray) -> np.ndarray:
    entry = at_rest(cascade, chunk) if entry is None else np.ascontiguousarray(entry)
    return determine_filter(cascade, chunk, entry, result).exit
