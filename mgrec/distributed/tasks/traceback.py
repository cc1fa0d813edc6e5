"""The tasks of a way back through tiles whose edges are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.contract.recurrence import ChunkInputs, ChunkPosition
from ...core.contract.traceback import Traceback
from .phases import chunk_of


def start_path(recurrence: Traceback, last: Any) -> Any:
    """The path before the first tile of the way back, and no piece of it."""
    return recurrence.start_path(last), None


def follow_path(
    recurrence: Traceback,
    at: ChunkPosition,
    before: Sequence[Any],
    above: Any,
    left: Any,
    *blocks: Any,
) -> tuple[Any, Any]:
    """The path when it has left a tile, and its piece there."""
    inputs = ChunkInputs(blocks, *at)
    with chunk_of("traceback", recurrence, inputs) as (backend, _):
        return recurrence.follow(backend, inputs, above, left, [path for path, _ in before])


def join_path(recurrence: Traceback, last: Any, found: Sequence[Any]) -> Any:
    """The result, of the edges of the last tile and what was found in all tiles."""
    return recurrence.join(last, found[0][0], [piece for _, piece in found])
