"""Many pairs of sequences in host memory, shared by threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ....engines.cpu.simd.arithmetic import REGISTER
from ....engines.cpu.threads import run_in_threads, threads_for
from ..scoring import Scoring
from ..sequences import Sequences
from .antidiagonals.pairs import GLOBAL, LOCAL, SATURATED, SEMI_GLOBAL, align_pairs
from .codes import memory, narrowed, table_of
from .numbers import Numbers, bounds, holds, integers, real, saturating

# Numbers, and which pairs they may hold.
_Tries = Iterator[tuple[Numbers, np.ndarray]]
_MODES = {"local": LOCAL, "global": GLOBAL, "semi-global": SEMI_GLOBAL}


def determine_pairs(
    scoring: Scoring, queries: Sequences, targets: Sequences, dtype: Any, is_shared: bool = False
) -> np.ndarray:
    """Score, query_end and target_end of each pair, as the contract of alignments says."""
    n, m = queries.lengths, targets.lengths
    n, m = np.broadcast_arrays(n, m) if 1 in (n.size, m.size) else (n, m)
    out = np.empty((n.size, 3), dtype)
    is_empty = (n == 0) | (m == 0)
    out[is_empty] = _of_empty(scoring, n[is_empty], m[is_empty])
    left = np.flatnonzero(~is_empty)
    for numbers, fits in _tries(scoring, n, m, np.dtype(dtype)):
        chosen = left[fits[left]]
        if chosen.size:
            _run(scoring, numbers, queries, targets, chosen, out, is_shared)
            done = chosen[out[chosen, 1] != SATURATED]
            left = np.setdiff1d(left, done, assume_unique=True)
    return out


def _of_empty(scoring: Scoring, n: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Of pairs of which one sequence is empty, or both."""
    if scoring.is_local:
        return np.array([0, -1, -1])
    size = n + m
    gaps = np.where(size > 0, scoring.gap + (size - 1) * scoring.extend, 0)
    return np.stack([gaps if scoring.mode == "global" else 0 * size, n - 1, m - 1], axis=1)


def _tries(scoring: Scoring, n: np.ndarray, m: np.ndarray, dtype: np.dtype[Any]) -> _Tries:
    """In the order in which pairs are to be tried; the last numbers hold all."""
    everywhere = np.ones(n.size, bool)
    if dtype.kind == "f":
        yield real(scoring), everywhere
        return
    border = np.zeros(n.size, np.int64)
    above: Any = border
    left: Any = border
    if scoring.mode == "global":
        above, left = (scoring.gap + (size - 1) * scoring.extend for size in (m, n))
    lowest, highest = bounds(scoring, above, left, 0, (n, m))
    for bits in (8, 16, 32):
        most = 2 ** (bits - 1)
        if not holds(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            yield saturating(bits), everywhere
        elif scoring.is_local:
            yield integers(bits, scoring), highest < most
        elif bits > 8:
            yield integers(bits, scoring), (highest < most) & (lowest >= -most)
    yield integers(64, scoring), everywhere


def _run(
    scoring: Scoring,
    numbers: Numbers,
    queries: Sequences,
    targets: Sequences,
    chosen: np.ndarray,
    out: np.ndarray,
    is_shared: bool,
) -> None:
    """Write the rows of chosen pairs, in these numbers."""
    codes = _codes(scoring, queries.codes, targets.codes, numbers)
    if codes is None:
        out[chosen, 1] = SATURATED
        return
    sizes = _cells(queries, targets, chosen)
    threads = threads_for(int(sizes.sum())) if is_shared else 1
    ends = np.searchsorted(np.cumsum(sizes), np.arange(1, threads) * sizes.sum() / threads)
    calls = [
        partial(_align, scoring, numbers, codes, queries, targets, part, out)
        for part in np.split(chosen, ends)
        if part.size
    ]
    run_in_threads(calls)


def _codes(scoring: Scoring, queries: np.ndarray, targets: np.ndarray, numbers: Numbers) -> Any:
    """Codes beside scores, or as they are where a table judges; None if there are too many."""
    if scoring.table is None:
        return narrowed(queries, targets, 8 * numbers.dtype.itemsize)
    return queries, targets


def _cells(queries: Sequences, targets: Sequences, chosen: np.ndarray) -> np.ndarray:
    n, m = (each.lengths[chosen] if len(each) > 1 else each.lengths for each in (queries, targets))
    cells: np.ndarray = n * m
    return cells


def _align(
    scoring: Scoring,
    numbers: Numbers,
    codes: tuple[np.ndarray, np.ndarray],
    queries: Sequences,
    targets: Sequences,
    chosen: np.ndarray,
    out: np.ndarray,
) -> None:
    """The same on one thread, with memory of its own."""
    n, m = (int(each.lengths.max()) for each in (queries, targets))
    kind, word = numbers.dtype, np.dtype(f"i{numbers.dtype.itemsize}")
    lanes = REGISTER // kind.itemsize
    words, table, judge = codes[0], None, None
    if scoring.table is not None:
        table = table_of(scoring.table, kind)
        letters = np.zeros(m + 2 * lanes, np.uint8)
        judge = codes[0], letters, *memory(table, n, lanes)
        words = np.empty(codes[0].size, word)
    edge, left = np.zeros(m + 1 + lanes, kind), np.empty(n, kind)
    gaps: Any = (None, None)
    if scoring.is_affine:
        gaps = np.zeros(m + lanes, kind), np.empty(n, kind)
    align_pairs(
        chosen, words, queries.offsets, codes[1], targets.offsets,
        np.zeros(m + 2 * lanes, word), edge, gaps[0], left, gaps[1], numbers.of(scoring), table,
        judge, _MODES[scoring.mode], out.dtype.type(numbers.base), out,
    )  # fmt: skip
