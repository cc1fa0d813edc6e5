"""Alignments in host memory: one tile, divided for threads or narrow dtypes, or many pairs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.simd import REGISTER
from ....engines.cpu.threads import run_in_threads, split_range, thread_count, threads_for
from ...recurrence import antidiagonals, part_of_host
from ..recurrence import AlignmentKernels, Best, Edges, Tiling, edges_of_empty, ranges
from ..scoring import MODES, Scoring
from ..sequences import Sequences
from .antidiagonals import GLOBAL, LOCAL, SATURATED, STEPS, align_pairs
from .profiles import LATE, ROWS, Encoding, encode_table, encodings_for, extremes_of, narrow_codes
from .striped import align_striped, may_stripe

Codes = tuple[np.ndarray, np.ndarray]
"""Codes of sequences, joined, and their offsets."""
# Cells from which threads pay, least rows and columns of their tiles, and least sides of tiles for
# narrow dtypes. A tile of 2048 × 4096 takes 0.4 ms for its cells and 0.1 ms besides.
_LEAST_CELLS, _LEAST_SIDES, _SIDE = 1 << 25, (2048, 4096), 512
# Scores of a tile in int16 differ by less than this.
_INT16_RANGE = 60_000
Pair = tuple[np.ndarray, np.ndarray]
_ONE = np.zeros(1, np.int64)
# A part of so many cells takes about a millisecond; a call costs 0.1 ms at most.
_CELLS = 1 << 23


def kernels(method: str) -> AlignmentKernels:
    """Return the phases of tiles and of pairs, on all threads if the method is "threads"."""
    is_threaded = method == "threads"
    return AlignmentKernels(
        partial(determine_alignment, is_threaded=is_threaded),
        determine_pairs=partial(determine_pairs, is_threaded=is_threaded),
        part=lambda scoring, shape, side: part_of_host(_CELLS, shape, side),
    )


def determine_pairs(
    scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any, is_threaded: bool = False
) -> np.ndarray:
    """Return score, query_end and target_end of each pair; see :mod:`mgrec.grids.alignment`."""
    n, m = queries.lengths, targets.lengths
    n, m = np.broadcast_arrays(n, m) if 1 in (n.size, m.size) else (n, m)
    out = np.empty((n.size, 3), dtype)
    is_empty = (n == 0) | (m == 0)
    out[is_empty] = _results_of_empty(scoring, n[is_empty], m[is_empty])
    remaining = np.flatnonzero(~is_empty)
    everywhere = np.ones(n.size, bool)
    extremes: Any = np.zeros((3, n.size), np.int64)
    if scoring.mode == "global":
        extremes = (*(scoring.gap + (size - 1) * scoring.extend for size in (m, n)), 0)
    for encoding, fits in encodings_for(scoring, extremes, (n, m), np.dtype(dtype), everywhere):
        chosen = remaining[fits[remaining]]
        if chosen.size:
            _align_all(scoring, encoding, queries, targets, chosen, out, is_threaded)
            done = chosen[out[chosen, 1] != SATURATED]
            remaining = np.setdiff1d(remaining, done, assume_unique=True)
    return out


def _results_of_empty(scoring: Scoring, n: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return the results of pairs in which a sequence is empty."""
    if scoring.is_local:
        return np.array([0, -1, -1])
    size = n + m
    gaps = np.where(size > 0, scoring.gap + (size - 1) * scoring.extend, 0)
    return np.stack([gaps if scoring.mode == "global" else 0 * size, n - 1, m - 1], axis=1)


def _align_all(
    scoring: Scoring,
    encoding: Encoding,
    queries: Sequences,
    targets: Sequences,
    chosen: np.ndarray,
    out: np.ndarray,
    is_threaded: bool,
) -> None:
    """Write the rows of chosen pairs, by scores of this encoding."""
    codes: Any = (queries.codes, targets.codes)
    if scoring.table is None:
        codes = narrow_codes(codes[0], codes[1], 8 * encoding.dtype.itemsize)
    if codes is None:  # more letters than such integers
        out[chosen, 1] = SATURATED
        return
    sides = (codes[0], queries.offsets), (codes[1], targets.offsets)
    n, m = (side.lengths[chosen] if len(side) > 1 else side.lengths for side in (queries, targets))
    sizes, longest = n * m, (int(n.max()), int(m.max()))
    threads = threads_for(int(sizes.sum()), is_threaded)
    ends = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * sizes.sum() / threads)
    calls = [
        partial(align_encoded, scoring, encoding, sides, longest, part, out)
        for part in np.split(chosen, ends)
        if part.size
    ]
    run_in_threads(calls)


def align_encoded(
    scoring: Scoring,
    encoding: Encoding,
    sides: tuple[Codes, Codes],
    longest: tuple[int, int],
    chosen: np.ndarray,
    out: np.ndarray,
    carry_in: Edges | None = None,
    h: np.ndarray | None = None,
) -> tuple[np.ndarray | None, ...]:
    """Write the rows of chosen pairs on one thread, with memory of its own.

    Or align one tile with a carry-in, and return its edges: H and F below, H and E to the right.
    Without a table of scores, codes are as wide as the scores.
    """
    (n, m), dtype = longest, encoding.dtype
    code, lanes = np.dtype(f"i{dtype.itemsize}"), REGISTER // dtype.itemsize
    (query_codes, query_offsets), (target_codes, target_offsets) = sides
    table, lookup = None, None
    if scoring.table is not None:
        table, size = encode_table(scoring.table, dtype), ROWS * lanes
        profiles = np.empty((-(-n // size), size * table.shape[0]), table.dtype)
        sheared = np.zeros(LATE * size, table.dtype), np.empty(STEPS * size, table.dtype)
        lookup = query_codes, np.zeros(m + 2 * lanes, np.uint8), profiles, *sheared
        query_codes = np.empty(query_codes.size, code)
    row_size, gaps_size = m + 1 + lanes, m + lanes
    row_gaps: Any = None
    column_gaps: Any = None
    if carry_in is None:
        row, column = np.zeros(row_size, dtype), np.empty(n, dtype)
        if scoring.is_affine:
            row_gaps, column_gaps = np.zeros(gaps_size, dtype), np.empty(n, dtype)
        mode = MODES.index(scoring.mode)
    else:
        row, column = encoding.encode(carry_in.row, row_size), encoding.encode(carry_in.column, n)
        if scoring.is_affine:
            row_gaps = encoding.encode(carry_in.row_gaps, gaps_size)
            column_gaps = encoding.encode(carry_in.column_gaps, n)
        mode = LOCAL if scoring.is_local else GLOBAL
    align_pairs(
        chosen,
        (query_codes, query_offsets),
        (target_codes, target_offsets),
        np.zeros(m + 2 * lanes, code),
        row,
        row_gaps,
        column,
        column_gaps,
        encoding.parameters(scoring),
        table,
        lookup,
        mode,
        carry_in is not None,
        out.dtype.type(encoding.base),
        np.empty((0, 0), out.dtype) if h is None else h,
        out,
    )
    return row[: m + 1], None if row_gaps is None else row_gaps[:m], column, column_gaps


def determine_alignment(
    scoring: Scoring,
    sequences: Pair,
    carry_in: Edges,
    origin: tuple[int, int],
    dtype: Any,
    table: np.ndarray | None = None,
    is_threaded: bool = False,
) -> Edges:
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
    scoring: Scoring,
    sequences: Pair,
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None,
    tiling: Tiling,
    indices: list[tuple[int, int]],
) -> list[Any]:
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
    scoring: Scoring,
    sequences: Pair,
    carry_in: Edges,
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None = None,
) -> Edges:
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
    scoring: Scoring,
    encoding: Encoding,
    sequences: Pair,
    carry_in: Edges,
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None,
) -> Edges | None:
    """Return the edges of a tile by scores of this encoding; None if they saturate."""
    result: Any = None
    if may_stripe(scoring, encoding, sequences[0].size, table is not None):
        result = align_striped(scoring, encoding, sequences, carry_in)
    if result is None:
        result = _align_strips(scoring, encoding, sequences, carry_in, dtype, table)
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


def _align_strips(
    scoring: Scoring,
    encoding: Encoding,
    sequences: Pair,
    carry_in: Edges,
    dtype: np.dtype[Any],
    table: np.ndarray | None,
) -> Any:
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
