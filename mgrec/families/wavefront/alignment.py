"""Local alignment of two sequences (Smith & Waterman 1981) with linear gaps.

H[i, j] is the score of the best alignment that ends with query[i] and target[j]:

    H[i, j] = max(0, H[i-1, j-1] + score(query[i], target[j]), H[i-1, j] + gap, H[i, j-1] + gap)

with H = 0 outside the grid, and score = match where both are equal, mismatch where not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scoring:
    """What an alignment's columns score: finite numbers.

    Attributes
    ----------
    match, mismatch : int or float
        Two characters that are equal, and two that are not.
    gap : int or float
        One character opposite to none; below 0 wherever gaps are to cost. The penalty of
        parasail is −gap, for opening a gap and for extending it.
    """

    match: float
    mismatch: float
    gap: float


@dataclass(frozen=True)
class Best:
    """The largest score of a grid, and the cell where it stands.

    Attributes
    ----------
    score : int or float
        0 where no alignment scores more than the empty one.
    query_end, target_end : int
        The last characters of the alignment, counted from the beginning of the whole
        sequences; −1 where the score is 0.
    """

    score: float = 0
    query_end: int = -1
    target_end: int = -1


def better(first: Best, second: Best) -> Best:
    """The best of two parts of a grid.

    The larger score; of equal ones the smaller end in the target, then the smaller end in the
    query. That is parasail's rule, but for a score of 0, which it says ends at (0, 0).

    Parameters
    ----------
    first, second : Best

    Returns
    -------
    Best

    Notes
    -----
    The order of parts, how they are grouped and whether one is counted twice do not matter;
    ``Best()`` is the identity:

        better(a, b) = better(b, a),    better(a, better(b, c)) = better(better(a, b), c),
        better(a, a) = a,               better(a, Best()) = a.

    Examples
    --------
    >>> better(Best(7, 4, 9), Best(7, 6, 8))
    Best(score=7, query_end=6, target_end=8)
    """
    return max(first, second, key=_rank)


def _rank(best: Best) -> tuple[float, int, int]:
    return best.score, -best.target_end, -best.query_end


@dataclass(frozen=True)
class Edges:
    """What the tiles below and to the right need of a tile, and its best score.

    Attributes
    ----------
    below : array (m + 1,)
        H of the last row, after H[last row, −1], the corner of the tile below.
    right : array (n,)
        H of the last column.
    best : Best
        Of this tile alone.
    """

    below: np.ndarray
    right: np.ndarray
    best: Best
