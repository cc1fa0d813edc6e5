"""One tile in host memory, divided into tiles for threads or for narrow dtypes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.threads import run_in_threads, split_range, thread_count
from ...recurrence import antidiagonals
from ..scoring import Scoring
from ..tiles import Best, Edges, Tiling, edges_of_empty, ranges
from .antidiagonals import SATURATED
from .encoding import Encoding, encodings_for, extremes_of, narrow_codes
from .pairs import align_encoded
from .striped import may_stripe, run_striped

# Cells from which threads pay, least rows and columns of their tiles, and least sides of tiles for
# narrow dtypes. A tile of 2048 × 4096 takes 0.4 ms for its cells and 0.1 ms besides.
_LEAST_CELLS, _LEAST_SIDES, _SIDE = 1 << 25, (2048, 4096), 512
# Scores of a tile in int16 differ by less than this.
_INT16_RANGE = 60_000

Pair = tuple[np.ndarray, np.ndarray]
_ONE = np.zeros(1, np.int64)


def determine_alignment(
    scoring: Scoring, sequences: Pair, carry_in: Edges, origin: tuple[int, int],
    dtype: Any, table: np.ndarray | None = None, is_threaded: bool = False,
) -> Edges:  # fmt: skip
    """Determine a tile, on all threads if it is large and `is_threaded`."""
    shape = sequences[0].size, sequences[1].size
    threads = thread_count() if is_threaded and shape[0] * shape[1] >= _LEAST_CELLS else 1
    rows, columns = _part_counts(scoring, shape, threads, np.dtype(dtype))
    determine = partial(_determine_parts, scoring, sequences, origin, np.dtype(dtype), table)
    tiling = Tiling(ranges(0, shape[0], rows), ranges(0, shape[1], columns), carry_in)
    for indices in antidiagonals(range(rows), range(columns)):
        calls = [
            partial(determine, tiling, indices[start:end])
            for start, end in split_range(len(indices), threads)
        ]
        for results in run_in_threads(calls):
            for (row, column), edges in results:
                tiling.put(row, column, edges)
    return tiling.edges()


def _part_counts(
    scoring: Scoring, shape: tuple[int, int], threads: int, dtype: np.dtype[Any]
) -> tuple[int, int]:
    """Return the numbers of parts down and to the right."""
    least = (1, 1)
    if not scoring.is_local and dtype.kind == "i":
        side = int(_INT16_RANGE // max(scoring.highest - 2 * scoring.extend, 1))
        if side >= _SIDE:
            least = -(-shape[0] // side), -(-shape[1] // side)
    if threads == 1:
        return max(least[0], 1), max(least[1], 1)
    # More rows than columns: each column of tiles computes the profile of the query again.
    wanted = 8 * threads, 4 * threads
    rows, columns = (
        max(few, min(many, size // side), 1)
        for few, many, size, side in zip(least, wanted, shape, _LEAST_SIDES, strict=True)
    )
    return rows, columns


def _determine_parts(
    scoring: Scoring, sequences: Pair, origin: tuple[int, int], dtype: np.dtype[Any],
    table: np.ndarray | None, tiling: Tiling, indices: list[tuple[int, int]],
) -> list[Any]:  # fmt: skip
    """Return the indices and the edges of some parts."""
    results = []
    for index in indices:
        rows, columns = slice(*tiling.rows[index[0]]), slice(*tiling.columns[index[1]])
        view = None if table is None else table[rows, columns]
        # Kernels are compiled for contiguous tables only.
        part = view if view is None or view.flags.c_contiguous else np.empty(view.shape, dtype)
        pair = sequences[0][rows], sequences[1][columns]
        start = origin[0] + rows.start, origin[1] + columns.start
        edges = determine_tile(scoring, pair, tiling.carry_in(*index), start, dtype, part)
        if view is not None and view is not part:
            view[...] = part
        results.append((index, edges))
    return results


def determine_tile(
    scoring: Scoring, sequences: Pair, carry_in: Edges, origin: tuple[int, int],
    dtype: np.dtype[Any], table: np.ndarray | None = None,
) -> Edges:  # fmt: skip
    """Return the edges and the best cell of a tile, on one thread; see :mod:`..alignment`.

    O(n·m) operations and O(n + m) memory, and as much again for each letter of a table. The same
    operations compute a cell for any tiles: floating-point scores have the same bits. int64
    scores outside its range wrap around.
    """
    shape = sequences[0].size, sequences[1].size
    if 0 in shape:
        return edges_of_empty(scoring, carry_in).map_arrays(partial(np.array, dtype=dtype))
    extremes = (0, 0, 0) if dtype.kind == "f" else extremes_of(carry_in)
    for encoding, fits in encodings_for(scoring, extremes, shape, dtype):
        if not fits:
            continue
        edges = _determine(scoring, encoding, sequences, carry_in, origin, dtype, table)
        if edges is not None:
            return edges
    raise AssertionError("the last encoding must represent every score")


def _determine(
    scoring: Scoring, encoding: Encoding, sequences: Pair, carry_in: Edges,
    origin: tuple[int, int], dtype: np.dtype[Any], table: np.ndarray | None,
) -> Edges | None:  # fmt: skip
    """Return the edges of a tile by scores of this encoding; None if they saturate."""
    result: Any = None
    if may_stripe(scoring, encoding, sequences[0].size, table is not None):
        result = run_striped(scoring, encoding, sequences, carry_in)
    if result is None:
        result = _run_strips(scoring, encoding, sequences, carry_in, dtype, table)
    (score, row, column), edges = result
    if row == SATURATED:
        return None
    best = None
    if scoring.is_local:
        best = Best(score, origin[0] + row, origin[1] + column) if score > 0 else Best()
    below, below_gaps, right, right_gaps = (
        None if edge is None else encoding.decode(edge, dtype) for edge in edges
    )
    return Edges(below, right, below_gaps, right_gaps, best)


def _run_strips(
    scoring: Scoring, encoding: Encoding, sequences: Pair, carry_in: Edges,
    dtype: np.dtype[Any], table: np.ndarray | None,
) -> Any:  # fmt: skip
    """Return the best score with its row and column, and H and F below, H and E to the right."""
    codes: Any = map(np.array, sequences)
    if scoring.table is None:
        codes = narrow_codes(*sequences, 8 * encoding.dtype.itemsize)
    if codes is None:  # more letters than such integers
        return (0, SATURATED, 0), ()
    out = np.empty((1, 3), dtype)
    query, target = ((side, np.array([0, side.size])) for side in codes)
    shape = sequences[0].size, sequences[1].size
    edges = align_encoded(scoring, encoding, (query, target), shape, _ONE, out, carry_in, table)
    score, row, column = out[0].tolist()
    return (score, int(row), int(column)), edges
