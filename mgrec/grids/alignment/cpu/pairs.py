"""Many pairs of sequences in host memory, divided among threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.simd import REGISTER
from ....engines.cpu.threads import run_in_threads, threads_for
from ..scoring import MODES, Scoring
from ..sequences import Sequences
from ..tiles import Edges
from .antidiagonals import GLOBAL, LOCAL, SATURATED, STEPS, align_pairs
from .encoding import Encoding, encode_table, encodings_for, narrow_codes
from .profiles import LATE, ROWS

Codes = tuple[np.ndarray, np.ndarray]
"""Codes of sequences, joined, and their offsets."""


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
            _run(scoring, encoding, queries, targets, chosen, out, is_threaded)
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


def _run(
    scoring: Scoring, encoding: Encoding, queries: Sequences, targets: Sequences,
    chosen: np.ndarray, out: np.ndarray, is_threaded: bool,
) -> None:  # fmt: skip
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
    scoring: Scoring, encoding: Encoding, sides: tuple[Codes, Codes],
    longest: tuple[int, int], chosen: np.ndarray, out: np.ndarray, carry_in: Edges | None = None,
    h: np.ndarray | None = None,
) -> tuple[np.ndarray | None, ...]:  # fmt: skip
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
        chosen, query_codes, query_offsets, target_codes, target_offsets,
        np.zeros(m + 2 * lanes, code), row, row_gaps, column, column_gaps,
        encoding.parameters(scoring), table, lookup, mode, carry_in is not None,
        out.dtype.type(encoding.base), np.empty((0, 0), out.dtype) if h is None else h, out,
    )  # fmt: skip
    return row[: m + 1], None if row_gaps is None else row_gaps[:m], column, column_gaps
