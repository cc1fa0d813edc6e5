"""What crosses the borders of tiles of an alignment, and the best cell of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Best:
    """The best score of a grid, and the cell where it stands.

    Attributes
    ----------
    score : int or float
        Of a local alignment 0 where none scores more than the empty one.
    query_end, target_end : int
        The last characters of the alignment, counted from the beginning of the whole
        sequences; −1 where the score of a local alignment is 0.
    """

    score: float = 0
    query_end: int = -1
    target_end: int = -1


def better(first: Best, second: Best) -> Best:
    """The best of two parts of a grid.

    The larger score; of equal ones the smaller end in the target, then the smaller end in the
    query. That is parasail's rule, but for a local score of 0, which it says ends at (0, 0).

    Parameters
    ----------
    first, second : Best

    Returns
    -------
    Best

    Notes
    -----
    The order of parts, how they are grouped and whether one is counted twice do not matter. Of
    local alignments ``Best()`` is the identity:

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
class Entry:
    """What a tile of n rows and m columns needs of its neighbours, or of the border of the grid.

    Attributes
    ----------
    above : array (m + 1,)
        H of the row above, after H[−1, −1], the corner.
    left : array (n,)
        H of the column to the left.
    above_gaps : array (m,) or None
        F of the tile's own first row: F[0, j] = max(H[−1, j] + gap, F[−1, j] + extend), which at
        the border of the grid is H[−1, j] + gap. None where gaps are linear.
    left_gaps : array (n,) or None
        E of the tile's own first column: E[i, 0].
    """

    above: Any
    left: Any
    above_gaps: Any = None
    left_gaps: Any = None


@dataclass(frozen=True)
class Edges:
    """What the tiles below and to the right need of a tile, and its best score.

    Attributes
    ----------
    below : array (m + 1,)
        H of the last row, after H[last row, −1], the corner of the tile below.
    right : array (n,)
        H of the last column.
    below_gaps : array (m,) or None
        F of the row below the tile: F[n, j] = max(H[n−1, j] + gap, F[n−1, j] + extend). None
        where gaps are linear. Of a local alignment states below 0 may be any below 0: they
        never count.
    right_gaps : array (n,) or None
        E of the column to the right of the tile: E[i, m].
    best : Best or None
        Of this tile alone; None where the alignment is not local.
    """

    below: Any
    right: Any
    below_gaps: Any = None
    right_gaps: Any = None
    best: Best | None = None
