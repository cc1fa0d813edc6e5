"""Many pairs of sequences on a GPU: one warp for each pair, or the whole GPU for a long pair."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....engines.cuda.device import Device
from ..scoring import Scoring
from ..sequences import Sequences
from ..tiles import Best, best_of_edges, carry_in_from
from .layout import LANES, AlignmentLayout
from .program import run_kernel, score_dtype, source_of
from .tile import determine_alignment

_MOST_ROWS = 16
_WARPS = 4
# Blocks of a multiprocessor, and most bytes of the rows that pass from strip to strip.
_BLOCKS = 4
_MOST_BYTES = 1 << 28
# Number of pairs whose lengths determine the rows of a lane.
_SAMPLE_SIZE = 1000
# A step takes so many times longer if all warps are busy. So many steps are worth a launch.
_SLOWER, _LAUNCH = 4, 50_000


def determine_pairs(
    scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any
) -> np.ndarray:
    """Return score, query_end and target_end of pairs; see :mod:`mgrec.grids.alignment`.

    The codes are in device memory, the result is in host memory.
    """
    if min(len(queries), len(targets)) == 0:
        return np.empty((0, 3), dtype)
    sides, count = (queries, targets), max(len(queries), len(targets))
    n, m = (np.broadcast_to(side.lengths, count) for side in sides)
    # Long pairs would take a warp longer than all other pairs take all warps.
    steps = -(-n // (LANES * _MOST_ROWS)) * (m + LANES)
    others = steps.sum() // (Device.current().multiprocessors * _BLOCKS * _WARPS)
    is_long = steps > _SLOWER * others + _LAUNCH
    result, order = np.empty((count, 3), dtype), None
    if is_long.any():
        order = np.flatnonzero(~is_long).astype(np.int32)
        n, m = n[order], m[order]
    if n.size:
        result = _align(scoring, sides, np.dtype(dtype), order, n, m)
    for k in np.flatnonzero(is_long).tolist():
        query, target = (side[0 if len(side) == 1 else k] for side in sides)
        result[k] = _align_alone(scoring, query, target, np.dtype(dtype))
    return result


def _align_alone(
    scoring: Scoring, query: Any, target: Any, dtype: np.dtype[Any]
) -> tuple[Any, int, int]:
    """Align one pair as a tile."""
    shape = query.size, target.size
    carry_in = carry_in_from(scoring, None, None, (0, 0), shape, dtype)
    edges = determine_alignment(scoring, (query, target), carry_in, (0, 0), dtype)
    best = edges.best
    if scoring.mode == "global":
        best = Best(edges.row[-1].item(), shape[0] - 1, shape[1] - 1)
    elif best is None:
        best = best_of_edges(edges, (0, 0), (True, True))
    assert best is not None
    return best.score, best.query_end, best.target_end


def _align(
    scoring: Scoring, sides: tuple[Sequences, Sequences], dtype: np.dtype[Any],
    order: np.ndarray | None, n: np.ndarray, m: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Align all pairs, or those of `order`, of lengths `n` and `m`, by warps that take one in turn.

    Other rows of the result are undefined.
    """
    import cupy

    queries, targets = sides
    score = score_dtype(scoring, int(n.max() + m.max()), 0, dtype)
    layout = AlignmentLayout(
        letter=queries.codes.dtype, score=score, dtype=dtype, source=source_of(scoring, score),
        mode=scoring.mode, is_affine=scoring.is_affine, rows=_rows(n, m), strips=_WARPS,
        is_chain_short=False,
    )  # fmt: skip
    is_one_strip = int(n.max()) <= layout.strip_rows
    is_profile_shared = len(queries) == 1 and is_one_strip
    columns = 0 if is_one_strip else int(m.max())
    row_bytes = columns * layout.column_words * 4 * layout.strips
    blocks = min(-(-n.size // layout.strips), _BLOCKS * Device.current().multiprocessors)
    blocks = max(1, min(blocks, _MOST_BYTES // max(1, row_bytes)))
    best_cells = cupy.empty((max(len(queries), len(targets)), 3), np.int64)
    rows = cupy.empty(max(1, blocks * row_bytes), np.uint8)
    taken, chosen = cupy.zeros(1, np.uint64), None if order is None else cupy.asarray(order)
    words, arrays = [], []
    for side in sides:
        arrays += [cupy.ascontiguousarray(cupy.asarray(side.codes)), cupy.asarray(side.offsets)]
        words += [*(array.data.ptr for array in arrays[-2:]), len(side) == 1]
    words += [best_cells.data.ptr, rows.data.ptr, taken.data.ptr]
    after = [0 if chosen is None else chosen.data.ptr, n.size, columns, is_profile_shared]
    profiles = 1 if is_profile_shared else layout.strips
    shared = profiles * layout.profile_bytes(len(scoring.table or ()))
    run_kernel("pairs", scoring, layout, blocks, _BLOCKS, shared, words, after)
    result: np.ndarray = best_cells.get()
    if dtype.kind == "i":
        return result
    return np.column_stack([result[:, 0].view(dtype), result[:, 1:]])


def _rows(n: np.ndarray, m: np.ndarray) -> int:
    """Return the rows of a lane with the fewest instructions for a sample of the pairs."""
    n, m = (lengths[:: max(n.size, m.size) // _SAMPLE_SIZE + 1] for lengths in (n, m))
    rows = np.arange(1, _MOST_ROWS + 1)[:, None]
    strips = -(-n // (LANES * rows))
    steps = strips * (m + LANES - 1) * (24 + 4 * rows)
    return int(rows[steps.sum(1).argmin(), 0])
