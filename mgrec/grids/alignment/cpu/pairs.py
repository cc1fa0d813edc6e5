"""Many pairs of sequences in host memory, divided among threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.simd.arithmetic import REGISTER
from ....engines.cpu.threads import run_in_threads, threads_for
from ..scoring import Scoring
from ..sequences import Sequences
from .antidiagonals import GLOBAL, LOCAL, SATURATED, SEMI_GLOBAL, align_pairs
from .encoding import (
    Encoding,
    allocate_profiles,
    can_encode_steps,
    encode_table,
    float_encoding,
    integer_encoding,
    narrow_codes,
    saturating_encoding,
    score_bounds,
)

_MODES = {"local": LOCAL, "global": GLOBAL, "semi-global": SEMI_GLOBAL}


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
    for encoding, fits in _encodings(scoring, n, m, np.dtype(dtype)):
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


def _encodings(
    scoring: Scoring, n: np.ndarray, m: np.ndarray, dtype: np.dtype[Any]
) -> Iterator[tuple[Encoding, np.ndarray]]:
    """Yield the encodings to try, and the pairs that each may represent; the last one fits all."""
    everywhere = np.ones(n.size, bool)
    if dtype.kind == "f":
        yield float_encoding(scoring), everywhere
        return
    border = np.zeros(n.size, np.int64)
    above: Any = border
    left: Any = border
    if scoring.mode == "global":
        above, left = (scoring.gap + (size - 1) * scoring.extend for size in (m, n))
    lowest, highest = score_bounds(scoring, above, left, 0, (n, m))
    for bits in (8, 16, 32):
        most = 2 ** (bits - 1)
        if not can_encode_steps(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            yield saturating_encoding(bits), everywhere
        elif scoring.is_local:
            yield integer_encoding(bits, scoring), highest < most
        elif bits > 8:
            yield integer_encoding(bits, scoring), (highest < most) & (lowest >= -most)
    yield integer_encoding(64, scoring), everywhere


def _run(
    scoring: Scoring, encoding: Encoding, queries: Sequences, targets: Sequences,
    chosen: np.ndarray, out: np.ndarray, is_threaded: bool,
) -> None:  # fmt: skip
    """Write the rows of chosen pairs, by scores of this encoding."""
    codes: Any = (queries.codes, targets.codes)
    if scoring.table is None:
        codes = narrow_codes(queries.codes, targets.codes, 8 * encoding.dtype.itemsize)
    if codes is None:  # more letters than such integers
        out[chosen, 1] = SATURATED
        return
    n, m = (side.lengths[chosen] if len(side) > 1 else side.lengths for side in (queries, targets))
    sizes = n * m
    threads = threads_for(int(sizes.sum())) if is_threaded else 1
    ends = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * sizes.sum() / threads)
    calls = [
        partial(_align, scoring, encoding, codes, queries, targets, part, out)
        for part in np.split(chosen, ends)
        if part.size
    ]
    run_in_threads(calls)


def _align(
    scoring: Scoring, encoding: Encoding, codes: tuple[np.ndarray, np.ndarray],
    queries: Sequences, targets: Sequences, chosen: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    """Write the rows of chosen pairs on one thread, with memory of its own."""
    n, m = (int(side.lengths.max()) for side in (queries, targets))
    dtype, code = encoding.dtype, np.dtype(f"i{encoding.dtype.itemsize}")
    lanes = REGISTER // dtype.itemsize
    query_codes, table, lookup = codes[0], None, None
    if scoring.table is not None:
        table = encode_table(scoring.table, dtype)
        target_letters = np.zeros(m + 2 * lanes, np.uint8)
        lookup = codes[0], target_letters, *allocate_profiles(table, n, lanes)
        query_codes = np.empty(codes[0].size, code)
    edge, left = np.zeros(m + 1 + lanes, dtype), np.empty(n, dtype)
    gaps: Any = (None, None)
    if scoring.is_affine:
        gaps = np.zeros(m + lanes, dtype), np.empty(n, dtype)
    align_pairs(
        chosen, query_codes, queries.offsets, codes[1], targets.offsets,
        np.zeros(m + 2 * lanes, code), edge, gaps[0], left, gaps[1], encoding.parameters(scoring),
        table, lookup, _MODES[scoring.mode], out.dtype.type(encoding.base), out,
    )  # fmt: skip
