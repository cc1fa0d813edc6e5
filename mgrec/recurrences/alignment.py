"""Alignment of sequences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..families.family import Arrays
from ..families.problem import Composed, Problem
from ..families.wavefront.alignment.door import check_alignment, check_batch, is_several, pairs_of
from ..families.wavefront.alignment.view import TracedAlignment
from ..placement import solve_pair, solved
from .filters.chunks import without_empty_chunks


class Alignment(NamedTuple):
    """Score and end of the best alignment of two sequences, or of many pairs.

    Attributes
    ----------
    score : int, float, 0-d dask.array.Array, or numpy.ndarray (pairs,)
        Of a local alignment 0 where none scores more than the empty one.
    query_end, target_end : int, 0-d dask.array.Array, or numpy.ndarray (pairs,)
        Index of its last character in either sequence; −1 where the score of a local alignment
        is 0.
    """

    score: Any
    query_end: Any
    target_end: Any


@partial(solved, labelled=solve_pair)
def smith_waterman(
    query: Any,
    target: Any,
    *,
    match: Any = None,
    mismatch: Any = None,
    gap: Any,
    matrix: Any = None,
    extend: Any = None,
    mode: str = "local",
    output: str = "score",
) -> Problem | Composed:
    """Align two sequences, or many pairs, as Smith and Waterman [1]_ or Needleman and Wunsch [2]_.

    The best alignment that ends with query[i] and target[j] scores (Gotoh [3]_)

        F[i, j] = max(H[i-1, j] + gap, F[i-1, j] + extend)
        E[i, j] = max(H[i, j-1] + gap, E[i, j-1] + extend)
        H[i, j] = max(H[i-1, j-1] + score(query[i], target[j]), E[i, j], F[i, j])

    and a local one at least 0. Two characters score `match` if they are equal and `mismatch` if
    not, or what `matrix` says.

    Parameters
    ----------
    query, target : str, bytes, array_like, cupy.ndarray, dask.array.Array, Sequences or list
        One axis of integers of any dtype; text counts by its code points. A Dask array is
        aligned chunk by chunk: the chunks of both make a grid of tiles. Two lists, or
        :class:`mgrec.Sequences`, are pairs; one sequence is aligned with each of a list.
    match, mismatch : int or float, optional
        Score of two characters that are equal, and that are not, by their code points: "a"
        differs from "A" and "N" equals "N", as in Biopython's ``PairwiseAligner``. parasail's
        ``matrix_create`` folds case and scores "N" as 0: see Examples.
    gap : int or float
        Score of the first character of a run opposite to none; at most 0.
    matrix : str, array_like or tuple, optional
        Instead of `match` and `mismatch`: the name of a matrix ("BLOSUM45", 50, 62, 80 or 90,
        "PAM30", 70 or 250), a pair of an alphabet and scores (letters, letters), or scores alone
        where sequences are codes from 0 on. Row and column are the letters of query and target.
        Small letters count as capitals unless the alphabet has them; letters that it lacks count
        as "*" if it has that.
    extend : int or float, optional
        Score of each further character of a run, from `gap` to 0; `gap` by default.
    mode : {"local", "global", "semi-global"}
        Align parts of both sequences, both entirely, or so that gaps at both ends of both cost
        nothing.
    output : {"score", "matrix", "alignment"}
        Score and end; all of H; or the alignment itself.

    Returns
    -------
    Alignment
        ``(score, query_end, target_end)``. Of equal scores that with the smallest `target_end`
        counts, then that with the smallest `query_end`, as in parasail. Numbers; 0-d Dask
        arrays where a sequence is one; arrays (pairs,) where one is a list.
    numpy.ndarray or dask.array.Array (len(query), len(target))
        H, where `output` is "matrix"; of Dask arrays in the grid of their chunks, without empty
        ones. Of DataArrays a DataArray with the dimensions of both.
    TracedAlignment, list of TracedAlignment, or dask.delayed.Delayed
        Where `output` is "alignment": score, begins, ends and the CIGAR string; of two sequences
        of which one is a Dask array a value that ``compute()`` gives.

    Raises
    ------
    TypeError
        A sequence is not one of integers, a score is no number, or neither or both of `match`
        with `mismatch` and `matrix` are given.
    ValueError
        A sequence has more than one axis or a letter that `matrix` lacks, a score is not finite,
        `gap` is above 0 or above `extend`, scores may leave the range of int64, or lists differ in
        length.
    RuntimeError
        A CUDA graph is being captured: scores go to the host.

    Notes
    -----
    The penalties of parasail are the negatives, ``open=-gap, extend=-extend``; its "sw", "nw" and
    "sg" are the modes.

    *Accuracy.* Integer scores are exact, in int64. Float scores are computed in float64, every
    cell by the same operations wherever the grid is cut: the same bits for any chunks. Of equal
    alignments that with two characters beside each other counts, from the end backwards, then
    that with a gap of one character, then a longer one; of two gaps that in the target: the same
    alignment for any chunks.

    *Cost.* len(query)·len(target) cells, at 0.04 to 0.4 ns each on one thread: scores are held in
    8, 16 or 32 bits where they fit. Threads share long pairs and lists; on Dask each tile has
    one. A GPU shares one pair among all its multiprocessors, and gives each of many pairs a warp:
    a database is best joined, as ``Sequences``. Memory grows with the sum of the lengths, not with
    the product; "alignment" computes about a third of all cells again at most. Over Dask a tile
    starts as soon as the tiles above and to the left of it are done; one row and one column of
    scores cross each border. For "alignment" those of all tiles are kept, and the tiles that it
    crosses are computed once more: of 8 by 8 at most 15. :func:`mgrec.plan` and
    :func:`mgrec.dask.solve` give the score, as numbers, or the matrix without a graph.

    *A database on a cluster* is a list or ``Sequences`` a task: ``Bag.map_partitions``, or
    ``Client.map`` over parts. Lists whose sequences are Dask arrays are not taken.

    References
    ----------
    .. [1] T. F. Smith and M. S. Waterman, "Identification of common molecular subsequences",
       J. Mol. Biol. 147 (1981).
    .. [2] S. B. Needleman and C. D. Wunsch, "A general method applicable to the search for
       similarities in the amino acid sequence of two proteins", J. Mol. Biol. 48 (1970).
    .. [3] O. Gotoh, "An improved algorithm for matching biological sequences", J. Mol. Biol. 162
       (1982).

    Examples
    --------
    >>> import mgrec
    >>> mgrec.smith_waterman("GGTTGACTA", "TGTTACGG", match=3, mismatch=-3, gap=-2)
    Alignment(score=13, query_end=6, target_end=5)

    Two proteins, and where they differ:

    >>> found = mgrec.smith_waterman(
    ...     "MKTAYIAKQRQISFVKSHFSRQ", "MKTAYIAKRQISFVKWHFSR", matrix="BLOSUM62", gap=-11, extend=-1,
    ...     output="alignment",
    ... )
    >>> found.score, found.cigar
    (81, '8=1I7=1X4=')
    >>> print(found)
    query    0 MKTAYIAKQRQISFVKSHFSR 20
               |||||||| ||||||| ||||
    target   0 MKTAYIAK-RQISFVKWHFSR 19

    One query with each of a list:

    >>> others = ["MKTAYLAKQ", "AYIAK", "GGG"]
    >>> mgrec.smith_waterman("MKTAYIAKQ", others, matrix="BLOSUM62", gap=-11, extend=-1).score
    array([42, 24,  0])

    Lower case counts as upper case, and letters beyond the alphabet, such as N, score 0, as in
    parasail:

    >>> import numpy as np
    >>> scores = np.pad(np.where(np.eye(4, dtype=bool), 2, -3), (0, 1))
    >>> mgrec.smith_waterman("acgtNN", "ACGTNN", matrix=("ACGT*", scores), gap=-5)
    Alignment(score=8, query_end=3, target_end=3)

    Sequences too long for one worker, in chunks:

    >>> import dask.array as da
    >>> letters = da.random.default_rng(0).integers(0, 4, 2000, chunks=500)
    >>> best = mgrec.smith_waterman(letters, letters[700:], match=1, mismatch=-1, gap=-2)
    >>> int(best.score.compute())
    1300
    >>> alignment = mgrec.smith_waterman(
    ...     letters, letters[700:], match=1, mismatch=-1, gap=-2, output="alignment"
    ... )
    >>> alignment.compute().cigar
    '1300='

    A list in parts, a task each:

    >>> import dask.bag as db
    >>> def scores(part):
    ...     query = "MKTAYIAKQ"
    ...     return mgrec.smith_waterman(
    ...         query, list(part), matrix="BLOSUM62", gap=-11, extend=-1
    ...     ).score.tolist()
    >>> bag = db.from_sequence(others, npartitions=2)
    >>> bag.map_partitions(scores).compute(scheduler="sync")
    [42, 24, 0]
    """
    scores = {
        "match": match, "mismatch": mismatch, "gap": gap, "matrix": matrix, "extend": extend,
        "mode": mode,
    }  # fmt: skip
    if is_several(query) or is_several(target):
        problem = check_batch(query, target, output, **scores)
        if output == "alignment":
            return Composed("alignments of many pairs", partial(_each, query, target, scores))
        return replace(problem, finish=_alignments)
    # An axis of one character that comes in several chunks would be cut where it is broadcast.
    sequences = without_empty_chunks(query), without_empty_chunks(target)
    problem = check_alignment(*sequences, output, **scores)
    if output == "matrix":
        return problem
    if output == "alignment":
        return replace(problem, finish=lambda _, alignment: alignment)
    return replace(problem, finish=_alignment)


def _alignment(results: Arrays, exit: Any) -> Alignment:
    if isinstance(exit, np.ndarray):
        score, *ends = exit.tolist()
        return Alignment(score, *map(int, ends))
    return Alignment(exit[0], exit[1].astype(np.int64), exit[2].astype(np.int64))


def _alignments(results: Arrays, exit: np.ndarray) -> Alignment:
    return Alignment(exit[:, 0].copy(), *(exit[:, k].astype(np.int64) for k in (1, 2)))


def _each(query: Any, target: Any, scores: dict[str, Any]) -> list[TracedAlignment]:
    queries, targets = pairs_of(query, target)
    count = max(len(queries), len(targets))
    pairs = zip(*(s * count if len(s) == 1 else s for s in (queries, targets)), strict=True)
    return [smith_waterman(*pair, output="alignment", **scores) for pair in pairs]
