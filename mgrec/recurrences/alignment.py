"""Alignment of sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..families.family import Arrays
from ..families.problem import Problem
from ..families.wavefront.alignment.door import check_alignment
from ..placement import solved
from .filters.chunks import without_empty_chunks


class Alignment(NamedTuple):
    """The best local alignment of two sequences.

    Attributes
    ----------
    score : int, float or 0-d dask.array.Array
        0 where no alignment scores more than the empty one.
    query_end, target_end : int or 0-d dask.array.Array
        Index of its last character in either sequence; −1 where the score is 0.
    """

    score: Any
    query_end: Any
    target_end: Any


@solved
def smith_waterman(query: Any, target: Any, *, match: Any, mismatch: Any, gap: Any) -> Problem:
    """Score the best local alignment of two sequences (Smith and Waterman [1]_), linear gaps.

    The best score of any stretch of the query beside any stretch of the target is the largest

        H[i, j] = max(0, H[i-1, j-1] + score(query[i], target[j]), H[i-1, j] + gap, H[i, j-1] + gap)

    with H = 0 before the first characters, where two characters score `match` if they are equal
    and `mismatch` if not.

    Parameters
    ----------
    query, target : str, bytes, array_like or dask.array.Array
        One axis of integers of any dtype; text counts by its code points. A Dask array is
        aligned chunk by chunk: the chunks of both make a grid of tiles.
    match, mismatch : int or float
        Score of two characters that are equal, and that are not.
    gap : int or float
        Score of one character opposite to none; at most 0.

    Returns
    -------
    Alignment
        ``(score, query_end, target_end)``. Of equal scores that with the smallest `target_end`
        counts, then that with the smallest `query_end`, as in parasail. Numbers, or 0-d Dask
        arrays where a sequence is one.

    Raises
    ------
    TypeError
        A sequence is not one of integers, or a score is no number.
    ValueError
        A sequence has more than one axis, a score is not finite, `gap` is above 0, or scores
        may leave the range of int64.
    NotImplementedError
        A sequence is on a GPU.

    Notes
    -----
    *Accuracy.* Integer scores are exact, in int64. Float scores are computed in float64, every
    cell by the same operations wherever the grid is cut: the same bits for any chunks.

    *Cost.* len(query)·len(target) cells, each by one thread at 0.1 to 0.5 ns; memory grows with
    the sum of the lengths, not with the product. Over Dask a tile starts as soon as the tiles
    above and to the left of it are done; one row and one column of scores cross each border.

    References
    ----------
    .. [1] T. F. Smith and M. S. Waterman, "Identification of common molecular subsequences",
       J. Mol. Biol. 147 (1981).

    Examples
    --------
    >>> import mgrec
    >>> mgrec.smith_waterman("GGTTGACTA", "TGTTACGG", match=3, mismatch=-3, gap=-2)
    Alignment(score=13, query_end=6, target_end=5)

    Sequences too long for one worker, in chunks:

    >>> import dask.array as da
    >>> letters = da.random.default_rng(0).integers(0, 4, 2000, chunks=500)
    >>> best = mgrec.smith_waterman(letters, letters[700:], match=1, mismatch=-1, gap=-2)
    >>> int(best.score.compute())
    1300
    """
    # An axis of one character that comes in several chunks would be cut where it is broadcast.
    sequences = without_empty_chunks(query), without_empty_chunks(target)
    return replace(check_alignment(*sequences, match, mismatch, gap), finish=_alignment)


def _alignment(results: Arrays, exit: Any) -> Alignment:
    if isinstance(exit, np.ndarray):
        score, *ends = exit.tolist()
        return Alignment(score, *map(int, ends))
    return Alignment(exit[0], exit[1].astype(np.int64), exit[2].astype(np.int64))
