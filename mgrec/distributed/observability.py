"""What users see of tasks: names of phases, notes in errors, lines in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("mgrec")

PHASES = ("pack", "speculate", "precompute", "propagate", "determine")
"""The first words of task names, in the order of the tasks.

A pack loads the operands of a chunk; where chunks may not depend on their carry-ins, the task
"speculate" also speculates.
"""


def phase_of(key: object) -> str | None:
    """Return the phase of a task, from its key or its layer's name; None for other tasks.

    Examples
    --------
    >>> phase_of(("propagate-0a1b", 0, 3))
    'propagate'
    >>> phase_of("sum-aggregate-0a1b") is None
    True
    """
    name = key[0] if isinstance(key, tuple) else key
    phase = str(name).partition("-")[0]
    return phase if phase in PHASES else None


@contextmanager
def in_chunk(phase: str, chunk_index: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[None]:
    """Add a note that names the chunk to any error raised inside.

    `starts` is the index of the chunk's first element, -1 along an axis of unknown chunk sizes.

    Examples
    --------
    >>> try:
    ...     with in_chunk("determine", (7,), (3500,)):
    ...         raise ValueError("no such step")
    ... except ValueError as error:
    ...     error.__notes__
    ['mgrec: in the phase determine of chunk (7,), which begins at [3500]']
    """
    try:
        yield
    except Exception as error:
        first = ", ".join("?" if start < 0 else str(start) for start in starts)
        error.add_note(
            f"mgrec: in the phase {phase} of chunk {chunk_index}, which begins at [{first}]"
        )
        raise


def log_solve(array: Any) -> None:
    """Log the tasks of a lazy result at level DEBUG, without building its graph."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    tasks = {
        name.rsplit("-", 1)[0]: len(layer)
        for name, layer in array.dask.layers.items()
        if phase_of(name)
    }
    counts = ", ".join(f"{name} {count}" for name, count in tasks.items())
    logger.debug("solve: %s, tasks %s", _description(array), counts)


def log_planned(arrays: Sequence[Any], workers: int, seconds: float) -> None:
    """Log the time of a solve without a graph, whose results are arrays or a score."""
    if logger.isEnabledFor(logging.DEBUG):
        description = _description(arrays[0]) if arrays else "a score"
        logger.debug("solve: %s, %d workers, %.1f ms", description, workers, seconds * 1e3)


def _description(array: Any) -> str:
    longest = tuple(max(lengths) for lengths in array.chunks)
    return f"shape {array.shape}, chunks {array.numblocks} of up to {longest}, {array.dtype}"
