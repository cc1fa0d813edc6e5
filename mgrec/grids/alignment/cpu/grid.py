"""A tile in host memory, cut into tiles: for threads, or for narrow numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.threads import run_in_threads, split_range, thread_count
from ..scoring import Scoring
from ..tiles import Edges, Entry
from ..tiling import Tiling, ranges
from .tile import determine_tile

# Cells from which threads pay, and rows and columns of their tiles at least: a tile takes 0.1 ms
# beside its cells, which are 0.4 ms. Of tiles for narrow numbers 512 are enough.
_SHARED, _SHARES, _SIDE = 1 << 25, (2048, 4096), 512
# How far scores inside a tile may be apart in int16.
_APART = 60_000


def determine_alignment(
    scoring: Scoring,
    sequences: tuple[np.ndarray, np.ndarray],
    entry: Entry,
    origin: tuple[int, int],
    dtype: Any,
    table: np.ndarray | None = None,
    is_shared: bool = False,
) -> Edges:
    """:func:`.tile.determine_tile`, by all threads if the tile is shared and large."""
    shape = sequences[0].size, sequences[1].size
    threads = thread_count() if is_shared and shape[0] * shape[1] >= _SHARED else 1
    rows, columns = _parts(scoring, shape, threads, np.dtype(dtype))
    determine = partial(_determine_part, scoring, sequences, origin, np.dtype(dtype), table)
    tiling = Tiling(ranges(shape[0], rows), ranges(shape[1], columns), entry)
    for diagonal in range(rows + columns - 1):
        first, last = max(0, diagonal - columns + 1), min(rows, diagonal + 1)
        places = [(row, diagonal - row) for row in range(first, last)]
        calls = [
            partial(_determine_all, determine, tiling, places[begin:end])
            for begin, end in split_range(len(places), threads)
        ]
        for done in run_in_threads(calls):
            for (row, column), edges in done:
                tiling.put(row, column, edges)
    return tiling.edges()


def _parts(
    scoring: Scoring, shape: tuple[int, int], threads: int, dtype: np.dtype[Any]
) -> tuple[int, int]:
    """Into how many rows and columns of tiles a tile is cut."""
    least = (1, 1)
    if not scoring.is_local and dtype.kind == "i":
        side = int(_APART // max(scoring.highest - 2 * scoring.extend, 1))
        if side >= _SIDE:
            least = -(-shape[0] // side), -(-shape[1] // side)
    if threads == 1:
        return max(least[0], 1), max(least[1], 1)
    # More rows than columns: every column of tiles needs the profile of the query again.
    wanted = 8 * threads, 4 * threads
    rows, columns = (
        max(few, min(many, size // share), 1)
        for few, many, size, share in zip(least, wanted, shape, _SHARES, strict=True)
    )
    return rows, columns


def _determine_all(determine: Any, tiling: Tiling, places: list[tuple[int, int]]) -> list[Any]:
    return [(place, determine(tiling, place)) for place in places]


def _determine_part(
    scoring: Scoring,
    sequences: tuple[np.ndarray, np.ndarray],
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None,
    tiling: Tiling,
    place: tuple[int, int],
) -> Edges:
    rows, columns = slice(*tiling.rows[place[0]]), slice(*tiling.columns[place[1]])
    own = None if table is None else table[rows, columns]
    # Kernels take contiguous tables, so that there is one of each kind.
    whole = own if own is None or own.flags.c_contiguous else np.empty(own.shape, dtype)
    edges = determine_tile(
        scoring,
        (sequences[0][rows], sequences[1][columns]),
        tiling.entry(*place),
        (origin[0] + rows.start, origin[1] + columns.start),
        dtype,
        whole,
    )
    if own is not None and own is not whole:
        own[...] = whole
    return edges
