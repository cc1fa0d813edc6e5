"""Smith-Waterman for one tile in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....families.wavefront.alignment.scoring import Scoring
from ....families.wavefront.alignment.tiles import Best, Edges
from ..simd.choice import WIDE
from .antidiagonals import align

_LIMIT = np.iinfo(np.int32).max


def determine_alignment(
    scoring: Scoring,
    query: np.ndarray,
    target: np.ndarray,
    above: np.ndarray,
    left: np.ndarray,
    origin: tuple[int, int],
    dtype: Any,
) -> Edges:
    """The edges of a tile and its best score, from the edges of its neighbours.

    Parameters
    ----------
    scoring : Scoring
    query : array (n,)
        Integers, of the same dtype as `target`'s.
    target : array (m,)
    above : array (m + 1,)
        H of the row above, after H[−1, −1].
    left : array (n,)
        H of the column to the left.
    origin : tuple of two ints
        Where in the whole sequences the tile begins, in the query and in the target.
    dtype : int64 or float64
        Of the scores. int64 scores past its range wrap around.

    Returns
    -------
    Edges
        Of `dtype`. A tile without rows or columns hands on what it got.

    Notes
    -----
    O(n·m) operations, O(n + m) memory. Every cell is computed alike wherever the grid is cut:
    results of floating-point scores are the same to the last bit.
    """
    n, m, dtype = query.size, target.size, np.dtype(dtype)
    if n == 0 or m == 0:
        below = left[-1:] if n else above
        return Edges(np.array(below, dtype), np.array(left, dtype), best=Best())
    inner = _inner_dtype(scoring, query, target, above, left, dtype)
    codes, padded = np.dtype(f"i{inner.itemsize}"), n + -n % (WIDE // inner.itemsize)
    edge, right = np.array(above, inner), np.empty(padded, inner)
    score, row, column = align(
        _pad(query, padded, codes),
        np.array(target, codes),
        edge,
        _pad(left, padded, inner),
        right,
        np.array([scoring.match, scoring.mismatch, scoring.gap], inner),
        n,
    )
    best = Best(score, origin[0] + row, origin[1] + column) if score > 0 else Best()
    return Edges(edge.astype(dtype), right[:n].astype(dtype), best=best)


def _pad(values: np.ndarray, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    padded = np.zeros(size, dtype)
    padded[: values.size] = values
    return padded


def _inner_dtype(
    scoring: Scoring,
    query: np.ndarray,
    target: np.ndarray,
    above: np.ndarray,
    left: np.ndarray,
    dtype: np.dtype[Any],
) -> np.dtype[Any]:
    """int32 where nothing of a tile can exceed it, since a register holds twice as many."""
    if dtype.kind == "f" or query.itemsize > 4:
        return dtype
    scores = scoring.match, scoring.mismatch, scoring.gap
    # A path through a tile has fewer cells than rows and columns together.
    size = query.size + target.size + WIDE
    highest = max(int(above.max()), int(left.max())) + size * max(*scores, 1)
    is_narrow = highest <= _LIMIT and min(scores) >= -_LIMIT
    return np.dtype(np.int32) if is_narrow else dtype
