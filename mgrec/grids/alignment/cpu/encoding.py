"""Encodings of scores and letters: the narrowest dtypes, so that a register holds most of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..scoring import Scoring, Table
from ..tiles import Edges


@dataclass(frozen=True)
class Encoding:
    """How scores are stored: as score − `base`, in int8, int16, int32, int64 or float64.

    `floor` and `ceiling` are stored values: the least of a score, which is a score of 0 in local
    alignments, and the largest one, to which a larger score may have saturated.
    """

    dtype: np.dtype[Any]
    base: float
    floor: float
    ceiling: float

    def parameters(self, scoring: Scoring) -> np.ndarray:
        """Return the scores that kernels need, in the order of MATCH, MISMATCH, ... there."""
        scores = scoring.match, scoring.mismatch, scoring.gap, scoring.extend
        return np.array([*scores, self.floor, self.ceiling], self.dtype)

    def encode(self, scores: np.ndarray, size: int) -> np.ndarray:
        """Return the scores of an edge, followed by zeros up to a size."""
        array = np.zeros(size, self.dtype)
        # Scores of gaps may be below the floor; they never become a maximum.
        array[: scores.size] = np.maximum(scores - self.base, self.floor)
        return array

    def decode(self, stored: np.ndarray, dtype: Any) -> np.ndarray:
        """Return stored values as scores of a dtype."""
        scores = stored.astype(dtype)
        scores += np.dtype(dtype).type(self.base)
        return scores


def encodings_for(
    scoring: Scoring, extremes: tuple[Any, Any, Any], shape: tuple[Any, Any],
    dtype: np.dtype[Any], everywhere: Any = True,
) -> Iterator[tuple[Encoding, Any]]:  # fmt: skip
    """Yield the encodings to try, and which tiles each may represent; the last one fits all.

    `extremes` and `shape`, as in `_score_bounds`, are numbers of one tile, or arrays of many;
    `everywhere` is true for each of these.
    """
    if dtype.kind == "f":
        yield Encoding(dtype, 0.0, 0.0 if scoring.is_local else -np.inf, np.inf), everywhere
        return
    lowest, highest = _score_bounds(scoring, *extremes, shape)
    for bits in (8, 16, 32, 64):
        limit, base, fits = 2 ** (bits - 1), 0, everywhere
        if bits < 64 and not _can_encode_steps(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            # Scores saturate at both ends of the range. A best score at the ceiling may be too low.
            base, fits = limit, everywhere & (extremes[2] < 2 * limit - 1)
        elif bits == 8:
            continue
        elif bits < 64:
            # Scores of one global tile may be stored as their differences from the lowest one.
            base = int(lowest) + limit if everywhere is True and not scoring.is_local else 0
            fits = (highest - base < limit) & (scoring.is_local | (lowest - base >= -limit))
        floor = -base if scoring.is_local else -limit
        yield Encoding(np.dtype(f"i{bits // 8}"), base, floor, limit - 1), fits


def _can_encode_steps(bits: int, scoring: Scoring) -> bool:
    """Return whether the scores of single columns fit; 32 bits do not saturate."""
    most = 2 ** (bits - 1 if bits < 32 else bits - 4)
    steps = scoring.highest, scoring.lowest, scoring.gap, scoring.extend
    return all(-most <= score < most for score in steps)


def extremes_of(carry_in: Edges) -> tuple[int, int, int]:
    """Return the least of the row above, the least of the left column, and the most of all."""
    arrays = [carry_in.row, carry_in.column]
    arrays += [] if carry_in.row_gaps is None else [carry_in.row_gaps, carry_in.column_gaps]
    most = max(int(array.max()) for array in arrays)
    return int(carry_in.row.min()), int(carry_in.column.min()), most


def _score_bounds(
    scoring: Scoring, above: Any, left: Any, most: Any, shape: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Return bounds of all values computed in a tile, from the extremes of its edges.

    A cell scores at least as much as a gap from the edge above or to the left. It scores at most
    as much as an edge and as many matches as fit.
    """
    n, m = shape
    highest = most + np.minimum(n, m) * max(scoring.highest, 0)
    down = above + scoring.gap + n * scoring.extend
    right = left + scoring.gap + m * scoring.extend
    lowest = np.minimum(np.maximum(down, right), np.minimum(above, left))
    # E and F are at most a gap lower, and are extended by another character.
    return lowest + 2 * (scoring.gap + scoring.extend) + min(scoring.lowest, 0), highest


def narrow_codes(query: np.ndarray, target: np.ndarray, bits: int) -> Any:
    """Return both sequences as integers of so many bits, equal where they were equal.

    None if there are too many different letters.
    """
    dtype = f"i{bits // 8}"
    if query.itemsize * 8 <= bits:
        return query.astype(dtype), target.astype(dtype)
    least = min(query.min(), target.min())
    if int(max(query.max(), target.max())) - int(least) < 2**bits:
        return (query - least).astype(dtype), (target - least).astype(dtype)
    letters, ranks = np.unique(np.concatenate([query, target]), return_inverse=True)
    if letters.size > 2**bits:
        return None
    return ranks[: query.size].astype(dtype), ranks[query.size :].astype(dtype)


@lru_cache(maxsize=64)
def encode_table(table: Table, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the scores of letters in int8 if it holds them, else in a dtype."""
    scores = np.array(table)
    is_small = dtype.kind == "i" and scores.min() >= -128 and scores.max() < 128
    return scores.astype(np.int8 if is_small else dtype)
