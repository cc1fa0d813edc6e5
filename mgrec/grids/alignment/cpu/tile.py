"""One tile in host memory, on one thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....engines.cpu.simd.arithmetic import REGISTER
from ..scoring import Scoring
from ..tiles import Best, Edges, Entry
from .antidiagonals.align import align
from .codes import words_of
from .numbers import Numbers, numbers_for
from .striped.tile import may_stripe, run_striped

Pair = tuple[np.ndarray, np.ndarray]


def determine_tile(
    scoring: Scoring,
    sequences: Pair,
    entry: Entry,
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None = None,
) -> Edges:
    """The edges of a tile and its best score, from the edges of its neighbours.

    As of :mod:`mgrec.grids.alignment`. O(n·m) operations, O(n + m) memory and as
    much again for each letter of a scoring by a table. Every cell is computed alike wherever the
    grid is cut: results of floating-point scores are the same to the last bit. int64 scores past
    its range wrap around.
    """
    query, target = sequences
    if query.size == 0 or target.size == 0:
        return _handed_on(scoring, entry, (query.size, target.size), dtype)
    shape = query.size, target.size
    for numbers in numbers_for(scoring, entry, shape, dtype):
        edges = _determine(scoring, numbers, sequences, entry, origin, dtype, table)
        if edges is not None:
            return edges
    raise AssertionError("the last numbers hold every score")


def _handed_on(scoring: Scoring, entry: Entry, shape: tuple[int, int], dtype: Any) -> Edges:
    below = entry.left[-1:] if shape[0] else entry.above
    arrays = below, entry.left, entry.above_gaps, entry.left_gaps
    own: list[Any] = [None if array is None else np.array(array, dtype) for array in arrays]
    return Edges(*own, best=Best() if scoring.is_local else None)  # type: ignore[misc]


def _determine(
    scoring: Scoring,
    numbers: Numbers,
    sequences: Pair,
    entry: Entry,
    origin: tuple[int, int],
    dtype: np.dtype[Any],
    table: np.ndarray | None,
) -> Edges | None:
    """The same in these numbers; None if they do not hold it."""
    found: Any = None
    if may_stripe(scoring, numbers, sequences[0].size, table is not None):
        found = run_striped(scoring, numbers, sequences, entry)
    if found is None:
        found = _run_strips(scoring, numbers, sequences, entry, dtype, table)
    if found is None:
        return None
    (score, row, column), edges = found
    if scoring.is_local and score == numbers.ceiling and numbers.dtype.itemsize < 4:
        return None
    best = None
    if scoring.is_local:
        score = dtype.type(score + dtype.type(numbers.base)).item()
        best = Best(score, origin[0] + row, origin[1] + column) if score > 0 else Best()
    below, below_gaps, right, right_gaps = (
        None if edge is None else numbers.told(edge, dtype) for edge in edges
    )
    return Edges(below, right, below_gaps, right_gaps, best)


def _run_strips(
    scoring: Scoring,
    numbers: Numbers,
    sequences: Pair,
    entry: Entry,
    dtype: np.dtype[Any],
    table: np.ndarray | None,
) -> Any:
    """Along antidiagonals: the best score and its place, and H and F below, H and E to the right.

    None where there are more letters than such numbers.
    """
    n, m = (sequence.size for sequence in sequences)
    lanes = REGISTER // numbers.dtype.itemsize
    words = words_of(scoring, sequences, numbers.dtype)
    if words is None:
        return None
    (query, target), scores, judge = words
    edge, left = numbers.stored(entry.above, m + 1 + lanes), numbers.stored(entry.left, n)
    edge_gaps: Any = None
    left_gaps: Any = None
    if scoring.is_affine:
        edge_gaps = numbers.stored(entry.above_gaps, m + lanes)
        left_gaps = numbers.stored(entry.left_gaps, n)
    best = align(
        query, target, edge, edge_gaps, left, left_gaps, numbers.of(scoring), scores, judge,
        np.empty((0, 0), dtype) if table is None else table, dtype.type(numbers.base), m,
        scoring.is_local,
    )  # fmt: skip
    below_gaps = edge_gaps[:m] if scoring.is_affine else None
    return best, (edge[: m + 1], below_gaps, left, left_gaps)
