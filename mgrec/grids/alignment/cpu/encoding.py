"""Encodings of scores and letters: the narrowest dtypes, so that a register holds most of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ....engines.cpu.simd.arithmetic import REGISTER
from ..scoring import Scoring, Table
from ..tiles import IncomingEdges
from .antidiagonals import STEPS
from .profiles import LATE, ROWS


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
    scoring: Scoring, carry_in: IncomingEdges, shape: tuple[int, int], dtype: np.dtype[Any]
) -> Iterator[Encoding]:
    """Yield the encodings to try for a tile; the last one represents every score."""
    if dtype.kind == "f":
        yield float_encoding(scoring)
        return
    above, left, most = _extremes(carry_in)
    lowest, highest = score_bounds(scoring, above, left, most, shape)
    for bits in (8, 16, 32):
        if not can_encode_steps(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            if most < 2**bits - 1:
                yield saturating_encoding(bits)
        elif bits > 8 and highest - (0 if scoring.is_local else lowest) < 2**bits:
            base = 2 ** (bits - 1)
            if not scoring.is_local:
                yield integer_encoding(bits, scoring, int(lowest) + base)
            elif highest < base:
                yield integer_encoding(bits, scoring)
    yield integer_encoding(64, scoring)


def float_encoding(scoring: Scoring) -> Encoding:
    return Encoding(np.dtype(np.float64), 0.0, 0.0 if scoring.is_local else -np.inf, np.inf)


def saturating_encoding(bits: int) -> Encoding:
    """Return an encoding of local scores up to 254 in int8, or 65,534 in int16.

    Scores saturate at both ends of the range. A best score at the ceiling may be too low.
    """
    most = 2 ** (bits - 1)
    return Encoding(np.dtype(f"i{bits // 8}"), most, -most, most - 1)


def integer_encoding(bits: int, scoring: Scoring, base: int = 0) -> Encoding:
    """Return an encoding of scores that do not saturate."""
    most = 2 ** (bits - 1)
    return Encoding(np.dtype(f"i{bits // 8}"), base, 0 if scoring.is_local else -most, most - 1)


def can_encode_steps(bits: int, scoring: Scoring) -> bool:
    """Return whether the scores of single columns fit; 32 bits do not saturate."""
    most = 2 ** (bits - 1 if bits < 32 else bits - 4)
    steps = scoring.highest, scoring.lowest, scoring.gap, scoring.extend
    return all(-most <= score < most for score in steps)


def _extremes(carry_in: IncomingEdges) -> tuple[int, int, int]:
    """Return the least of the row above, the least of the left column, and the most of all."""
    arrays = [carry_in.above, carry_in.left]
    arrays += [] if carry_in.above_gaps is None else [carry_in.above_gaps, carry_in.left_gaps]
    most = max(int(array.max()) for array in arrays)
    return int(carry_in.above.min()), int(carry_in.left.min()), most


def score_bounds(
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

    Examples
    --------
    >>> narrow_codes(np.array([65, 300]), np.array([300]), 8)
    (array([  0, -21], dtype=int8), array([-21], dtype=int8))
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


def _padded(codes: np.ndarray, lanes: int) -> np.ndarray:
    """Return the codes of a target with a register of padding on both sides."""
    array = np.zeros(codes.size + 2 * lanes, codes.dtype)
    array[lanes : lanes + codes.size] = codes
    return array


def encode_sequences(scoring: Scoring, sequences: tuple[np.ndarray, np.ndarray], dtype: Any) -> Any:
    """Return sequences as wide as scores of a dtype, a table and a lookup, or None twice.

    None if the sequences have more different letters than such integers.
    """
    query, target = sequences
    lanes = REGISTER // dtype.itemsize
    if scoring.table is None:
        codes = narrow_codes(query, target, 8 * dtype.itemsize)
        return None if codes is None else ((codes[0], _padded(codes[1], lanes)), None, None)
    table = encode_table(scoring.table, dtype)
    lookup = (np.array(query), _padded(target, lanes), *allocate_profiles(table, query.size, lanes))
    # Kernels do not read these sequences, but need their dtype.
    code = f"i{dtype.itemsize}"
    return (np.empty(query.size, code), np.empty(0, code)), table, lookup


@lru_cache(maxsize=64)
def encode_table(table: Table, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the scores of letters in int8 if it holds them, else in a dtype."""
    scores = np.array(table)
    is_small = dtype.kind == "i" and scores.min() >= -128 and scores.max() < 128
    return scores.astype(np.int8 if is_small else dtype)


def allocate_profiles(table: np.ndarray, longest: int, lanes: int) -> tuple[np.ndarray, ...]:
    """Return memory for the profiles of a query up to a length, and for a shear and its scores."""
    size = ROWS * lanes
    profiles = np.empty((-(-longest // size), size * table.shape[0]), table.dtype)
    return profiles, np.zeros(LATE * size, table.dtype), np.empty(STEPS * size, table.dtype)
