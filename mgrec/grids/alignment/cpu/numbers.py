"""The narrowest numbers that hold all scores of a tile: a register holds the more of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scoring import Scoring
from ..tiles import Entry


@dataclass(frozen=True)
class Numbers:
    """How scores are stored: less `base`.

    Attributes
    ----------
    dtype : numpy.dtype
        int8, int16, int32, int64 or float64.
    base : int or float
    floor, ceiling : int or float
        Stored: the least that a score can be, which is 0 in local alignments, and one that may
        be the end of the range, so that it was larger.
    """

    dtype: np.dtype[Any]
    base: float
    floor: float
    ceiling: float

    def of(self, scoring: Scoring) -> np.ndarray:
        """What the kernels of strips need, in the order that they name."""
        judged = scoring.match, scoring.mismatch, scoring.gap, scoring.extend
        return np.array([*judged, self.floor, self.ceiling], self.dtype)

    def stored(self, scores: np.ndarray, size: int) -> np.ndarray:
        """Scores of an edge, and numbers that do not matter up to a size."""
        array = np.zeros(size, self.dtype)
        # Below the floor are states of gaps that never count.
        array[: scores.size] = np.maximum(scores - self.base, self.floor)
        return array

    def told(self, stored: np.ndarray, dtype: Any) -> np.ndarray:
        """Scores, in the dtype of the caller."""
        scores = stored.astype(dtype)
        scores += np.dtype(dtype).type(self.base)
        return scores


def numbers_for(
    scoring: Scoring, entry: Entry, shape: tuple[int, int], dtype: np.dtype[Any]
) -> Iterator[Numbers]:
    """In the order in which they are to be tried; the last ones hold every score for sure."""
    if dtype.kind == "f":
        yield real(scoring)
        return
    above, left, most = _ends(entry)
    lowest, highest = bounds(scoring, above, left, most, shape)
    for bits in (8, 16, 32):
        if not holds(bits, scoring):
            continue
        if scoring.is_local and bits < 32:
            if most < 2**bits - 1:
                yield saturating(bits)
        elif bits > 8 and highest - (0 if scoring.is_local else lowest) < 2**bits:
            base = 2 ** (bits - 1)
            if not scoring.is_local:
                yield integers(bits, scoring, int(lowest) + base)
            elif highest < base:
                yield integers(bits, scoring)
    yield integers(64, scoring)


def real(scoring: Scoring) -> Numbers:
    """float64."""
    return Numbers(np.dtype(np.float64), 0.0, 0.0 if scoring.is_local else -np.inf, np.inf)


def saturating(bits: int) -> Numbers:
    """Of small local scores: int8 holds 255 and int16 65,535 of them.

    They stop at both ends of their range. Whether they were enough is seen by the ceiling.
    """
    most = 2 ** (bits - 1)
    return Numbers(np.dtype(f"i{bits // 8}"), most, -most, most - 1)


def integers(bits: int, scoring: Scoring, base: int = 0) -> Numbers:
    """Of scores that fit."""
    most = 2 ** (bits - 1)
    return Numbers(np.dtype(f"i{bits // 8}"), base, 0 if scoring.is_local else -most, most - 1)


def holds(bits: int, scoring: Scoring) -> bool:
    """Whether numbers hold what every column scores; those of 32 bits do not saturate."""
    most = 2 ** (bits - 1 if bits < 32 else bits - 4)
    ends = scoring.highest, scoring.least, scoring.gap, scoring.extend
    return all(-most <= score < most for score in ends)


def _ends(entry: Entry) -> tuple[int, int, int]:
    """The least of the row above and of the column to the left, and the most of all edges."""
    arrays = [entry.above, entry.left]
    arrays += [] if entry.above_gaps is None else [entry.above_gaps, entry.left_gaps]
    most = max(int(array.max()) for array in arrays)
    return int(entry.above.min()), int(entry.left.min()), most


def bounds(
    scoring: Scoring, above: Any, left: Any, most: Any, shape: tuple[Any, Any]
) -> tuple[Any, Any]:
    """Two numbers between which all that is computed of a tile lies, from the ends of its edges.

    A cell scores at least what a gap from above or from the left makes of an edge, and at most
    what as many matches as fit make of one.
    """
    n, m = shape
    highest = most + np.minimum(n, m) * max(scoring.highest, 0)
    down = above + scoring.gap + n * scoring.extend
    right = left + scoring.gap + m * scoring.extend
    lowest = np.minimum(np.maximum(down, right), np.minimum(above, left))
    # A state is at most a gap less, and is tried with another character.
    return lowest + 2 * (scoring.gap + scoring.extend) + min(scoring.least, 0), highest
