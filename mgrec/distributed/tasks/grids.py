"""The tasks over tiles of grids, once, in several sweeps, or traced back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.contract.grid import Grid, Swept, Traceback
from ...core.contract.kernels import Edges
from ...core.contract.recurrence import ChunkInputs, ChunkPosition
from ..observability import in_chunk
from .phases import chunk_of


def determine_tile(
    recurrence: Grid, position: ChunkPosition, above: Edges | None, left: Edges | None, *blocks: Any
) -> Any:
    """Return the result and the edges of a tile, or only its edges if it has no result."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        results, edges = recurrence.determine(backend, inputs, shape, above, left)
        edges = recurrence.export_edges(edges)
    return (*results, edges) if results else edges


def final_result_block(recurrence: Grid, edges: Edges) -> Any:
    """Return the result of the whole grid from the edges of its last tile."""
    return recurrence.final_result(edges)


def start_tile(
    recurrence: Swept, position: ChunkPosition, around: tuple[bool, ...], *blocks: Any
) -> tuple[Any, Any]:
    """Return the state of a tile before the first sweep, and its sides."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        return recurrence.start_tile(backend, inputs, shape, around)


def sweep_tile(
    recurrence: Swept, position: ChunkPosition, is_last: bool, previous: Any, around: Any, done: Any
) -> tuple[Any, Any]:
    """Return the state of a tile after one more sweep, and its sides, from the `previous` pair."""
    with in_chunk("determine", *position):
        return recurrence.sweep(previous[0], tuple(around), is_last, done)


def write_tile(recurrence: Swept, last: Any) -> Any:
    """Return a tile from its state and sides after the last sweep."""
    return recurrence.tile(last[0])


def are_done(recurrence: Swept, previous: Any, sides: list[Any]) -> Any:
    """Return whether tiles need no more sweeps."""
    return recurrence.is_done(previous, sides)


def start_path(recurrence: Traceback, last: Edges) -> Any:
    """Return the path before the first tile of the traceback, and no piece of it."""
    return recurrence.start_path(last), None


def follow_path(
    recurrence: Traceback,
    position: ChunkPosition,
    previous: Sequence[Any],
    above: Edges | None,
    left: Edges | None,
    *blocks: Any,
) -> tuple[Any, Any]:
    """Return the path where it leaves a tile, and its piece in the tile."""
    inputs = ChunkInputs(blocks, *position)
    with chunk_of("traceback", recurrence, inputs) as (backend, _):
        return recurrence.follow(backend, inputs, above, left, [path for path, _ in previous])


def join_path(recurrence: Traceback, last: Edges, paths: Sequence[Any]) -> Any:
    """Return the result, from the edges of the last tile and the path and piece of every tile."""
    return recurrence.join(last, paths[0][0], [piece for _, piece in paths])
