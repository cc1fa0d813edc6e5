"""Log one line a solve at level DEBUG, by the logger ``mgrec``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from .tasks.keys import phase_of

logger = logging.getLogger("mgrec")


def log_solve(array: Any) -> None:
    """Log the tasks of a lazy result, without building its graph."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    tasks = {
        name.rsplit("-", 1)[0]: len(layer)
        for name, layer in array.dask.layers.items()
        if phase_of(name)
    }
    counts = ", ".join(f"{name} {count}" for name, count in tasks.items())
    logger.debug("solve: %s, tasks %s", _about(array), counts)


def log_planned(arrays: Sequence[Any], workers: int, seconds: float) -> None:
    """Log the time of a solve without a graph, whose results are arrays, or a score."""
    if logger.isEnabledFor(logging.DEBUG):
        about = _about(arrays[0]) if arrays else "a score"
        logger.debug("solve: %s, %d workers, %.1f ms", about, workers, seconds * 1e3)


def _about(array: Any) -> str:
    longest = tuple(max(lengths) for lengths in array.chunks)
    return f"shape {array.shape}, chunks {array.numblocks} of up to {longest}, {array.dtype}"
