"""What is logged: one line a solve, at the level of debugging, by the logger ``mgrec``."""

from __future__ import annotations

import logging
from typing import Any

from .dask.tasks.keys import phase_of

logger = logging.getLogger("mgrec")


def log_solve(array: Any) -> None:
    """Say what a lazy result will cost; its graph is not built for it.

    Parameters
    ----------
    array : dask.array.Array
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    tasks = {
        name.rsplit("-", 1)[0]: len(layer)
        for name, layer in array.dask.layers.items()
        if phase_of(name)
    }
    counts = ", ".join(f"{name} {count}" for name, count in tasks.items())
    logger.debug("solve: %s, tasks %s", _about(array), counts)


def log_planned(array: Any, workers: int, seconds: float) -> None:
    """Say what a solve without a graph took.

    Parameters
    ----------
    array : dask.array.Array
    workers : int
    seconds : float
    """
    if logger.isEnabledFor(logging.DEBUG):
        milliseconds = seconds * 1e3
        logger.debug("solve: %s, %d workers, %.1f ms", _about(array), workers, milliseconds)


def _about(array: Any) -> str:
    longest = tuple(max(lengths) for lengths in array.chunks)
    return f"shape {array.shape}, chunks {array.numblocks} of up to {longest}, {array.dtype}"
