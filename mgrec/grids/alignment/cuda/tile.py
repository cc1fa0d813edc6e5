"""One tile of an alignment on a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ....engines.cuda.device import Device, on_device
from ..scoring import Scoring
from ..tiles import Best, Edges, edges_of_empty
from .layout import AlignmentLayout, choose_launch
from .program import run_kernel, score_dtype, source_of

# Kernels count rows and columns of a tile with 32 bits.
_LARGEST_SIDE = 2**31 - 2**12


def determine_alignment(
    scoring: Scoring, sequences: tuple[Any, Any], carry_in: Edges, origin: tuple[int, int],
    dtype: Any, table: Any = None,
) -> Edges:  # fmt: skip
    """Return the edges of a tile, on the device, and its best cell.

    The parameters are those of :mod:`mgrec.grids.alignment`. Integers are computed in int32 if it
    holds all scores of the tile, else in int64. The same operations compute a cell for any
    tiles: the bits are the same.
    """
    import cupy

    query, target = map(cupy.ascontiguousarray, sequences)
    n, m, dtype = query.size, target.size, np.dtype(dtype)
    if n == 0 or m == 0:
        return edges_of_empty(scoring, carry_in).map_arrays(partial(_as_edge, dtype=dtype))
    if max(n, m) > _LARGEST_SIDE:
        raise ValueError(
            f"a tile on a GPU must have at most {_LARGEST_SIDE} rows and columns; got {n} and {m}"
        )
    before = _edges_before(scoring, carry_in)
    score = score_dtype(scoring, n + m, _largest(before), dtype)
    launch = choose_launch(
        (n, m), Device.current(), letter=query.dtype, score=score, dtype=dtype,
        source=source_of(scoring, score), mode=scoring.mode, is_affine=scoring.is_affine,
        has_matrix=table is not None, store_size=_store_size(table),
        letters=len(scoring.table or ()),
    )  # fmt: skip
    if _may_skip(launch.layout, scoring, before):
        launch = replace(launch, skip=-n % launch.layout.rows)
    edges = [None if edge is None else _as_edge(edge, dtype) for edge in before]
    sizes = (m + 1, n, m, n) if scoring.is_affine else (m + 1, n)
    after: list[Any] = [cupy.empty(size, dtype) for size in sizes]
    # The best cell of each strip, with the bits of its score.
    best_cells = cupy.empty((launch.strips, 3), np.int64)
    after += [None] * (4 - len(after))
    words = cupy.zeros(launch.words, np.uint64)
    arrays = query, target, *edges, *after, best_cells, table, words
    addresses = [0 if array is None else array.data.ptr for array in arrays]
    pitch = 0 if table is None else table.strides[0] // table.itemsize
    run_kernel(
        "tile", scoring, launch.layout, launch.blocks, launch.per_processor, launch.shared_bytes,
        addresses, [n, m, pitch, launch.skip],
    )  # fmt: skip
    best = _best_of_strips(best_cells, dtype, origin) if scoring.is_local else None
    row, column, row_gaps, column_gaps = after
    return Edges(row, column, row_gaps, column_gaps, best)


def _edges_before(scoring: Scoring, carry_in: Edges) -> list[Any]:
    """Return the edges above and to the left; None for a border of zeros, or of new gaps."""
    edges = [None if _is(edge, 0) else edge for edge in (carry_in.row, carry_in.column)]
    gaps = (carry_in.row_gaps, carry_in.column_gaps) if scoring.is_affine else (None, None)
    return edges + [
        None if gap is None or (edge is None and _is(gap, scoring.gap)) else gap
        for gap, edge in zip(gaps, edges, strict=True)
    ]


def _is(edge: Any, value: Any) -> bool:
    """Return whether an edge is one number, broadcast, with this value."""
    return isinstance(edge, np.ndarray) and edge.strides == (0,) and edge[0] == value


def _largest(before: list[Any]) -> int:
    """Return the largest magnitude of H around a tile."""
    return max((int(abs(edge).max()) for edge in before[:2] if edge is not None), default=0)


def _may_skip(layout: AlignmentLayout, scoring: Scoring, before: list[Any]) -> bool:
    """Return whether padding rows, which equal no letter, are 0 as the borders are."""
    if layout.mode != "local" or any(edge is not None for edge in before):
        return False
    is_unequal = layout.letter.itemsize <= 2 and scoring.mismatch <= 0
    return layout.source == "BYTES" or (layout.source == "EQUAL" and is_unequal)


def _store_size(table: Any) -> int:
    """Return how many numbers of every row, of 8 bytes, are an aligned word of up to 16 bytes."""
    return 1 if table is None or (table.data.ptr | table.strides[0]) % 16 else 2


def _as_edge(edge: Any, dtype: np.dtype[Any]) -> Any:
    import cupy

    return cupy.ascontiguousarray(on_device(edge).astype(dtype, copy=False))


def _best_of_strips(best_cells: Any, dtype: np.dtype[Any], origin: tuple[int, int]) -> Best:
    """Return the best cell of all strips, counted from the start of the sequences."""
    cells = best_cells.get()
    score = cells[:, 0].view(dtype)
    first = np.lexsort((cells[:, 1], cells[:, 2], -score))[0]
    if score[first] <= 0:
        return Best()
    row, column = cells[first, 1:].tolist()
    return Best(score[first].item(), origin[0] + row, origin[1] + column)
