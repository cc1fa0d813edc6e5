"""The tasks of a way back through tiles whose edges are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.contract.recurrence import Pack, Where
from ...core.contract.traceback import Traceback
from .phases import chunk_of


def begin_path(recurrence: Traceback, last: Any) -> Any:
    """The path before the first tile of the way back, and no piece of it."""
    return recurrence.begin(last), None


def follow_path(
    recurrence: Traceback, at: Where, before: Sequence[Any], above: Any, left: Any, *blocks: Any
) -> tuple[Any, Any]:
    """The path when it has left a tile, and its piece there."""
    pack = Pack(blocks, *at)
    with chunk_of("traceback", recurrence, pack) as (backend, _):
        return recurrence.follow(backend, pack, above, left, [path for path, _ in before])


def join_path(recurrence: Traceback, last: Any, found: Sequence[Any]) -> Any:
    """The result, of the edges of the last tile and what was found in all tiles."""
    return recurrence.join(last, found[0][0], [piece for _, piece in found])
