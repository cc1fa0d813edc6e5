"""What is logged: one line a solve, at the level of debugging, by the logger ``mgrec``."""

from __future__ import annotations

import logging
from typing import Any

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
        if name.startswith(("pack-", "precompute-", "propagate-", "determine-"))
    }
    logger.debug(
        "solve: shape %s, chunks %s of up to %s, %s, tasks %s",
        array.shape,
        array.numblocks,
        tuple(max(lengths) for lengths in array.chunks),
        array.dtype,
        ", ".join(f"{name} {count}" for name, count in tasks.items()),
    )
