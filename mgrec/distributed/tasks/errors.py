"""Name the chunk in an error: the traceback of a worker does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_chunk(phase: str, chunk_index: tuple[int, ...], starts: tuple[int, ...]) -> Iterator[None]:
    """Add a note to whatever is raised inside.

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
        begins = ", ".join("?" if start < 0 else str(start) for start in starts)
        error.add_note(
            f"mgrec: in the phase {phase} of chunk {chunk_index}, which begins at [{begins}]"
        )
        raise
