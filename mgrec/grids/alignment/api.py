"""Alignment of sequences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.array_types import without_empty_chunks
from ...core.contract.problem import Composed, Problem
from ...core.contract.recurrence import Arrays
from ...solve import public_function, solve_pair
from .arguments import check_alignment, check_batch, is_several, pairs_of
from .results import Alignment, TracedAlignment


@partial(public_function, labelled=solve_pair)
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
    """Align two sequences, or many pairs, by dynamic programming.

    The alignments are local ([1]_), global ([2]_) or semi-global, with affine gaps ([3]_).

    Parameters
    ----------
    query, target : str, bytes, array_like, cupy.ndarray, dask.array.Array, Sequences or list
        Sequences of one axis, of integers of any dtype; text is converted to its code points. The
        chunks of two Dask arrays form a grid of tiles. Two lists, or :class:`mgrec.Sequences`, are
        aligned pair by pair; one sequence is aligned with each sequence of a list.
    match, mismatch : int or float, optional
        Scores of two equal and of two different code points: "a" differs from "A", and "N" equals
        "N", as in Biopython's ``PairwiseAligner``. parasail's ``matrix_create`` ignores case and
        scores "N" as 0; pass such a `matrix` to get its scores.
    gap : int or float
        Score of the first character of a gap, at most 0.
    matrix : str, array_like or tuple, optional
        Substitution matrix in place of `match` and `mismatch`: a name ("BLOSUM45", 50, 62, 80 or
        90, "PAM30", 70 or 250, from Biopython), a pair of an alphabet and scores (letters,
        letters), or scores alone if sequences are codes that start at 0. Rows belong to the query,
        columns to the target. Lower-case letters count as capitals unless the alphabet contains
        them. Letters that the alphabet lacks count as "*" if it contains that.
    extend : int or float, optional
        Score of each further character of a gap, from `gap` to 0. The default is `gap`.
    mode : {"local", "global", "semi-global"}
        Align parts of both sequences, both sequences entirely, or both without a penalty for
        gaps at the ends.
    output : {"score", "matrix", "alignment"}
        Return the score and its position, the matrix H of all scores, or the alignment itself.

    Returns
    -------
    Alignment
        ``(score, query_end, target_end)`` for "score". Of equal scores the one with the smallest
        `target_end` is returned, then the one with the smallest `query_end`, as in parasail. The
        values are numbers, 0-d Dask arrays if a sequence is one, or arrays (pairs,) for lists.
    numpy.ndarray or dask.array.Array (len(query), len(target))
        H for "matrix". A Dask array has the grid of the sequences' chunks, without empty chunks.
        For DataArrays it is a DataArray with the dimensions of both.
    TracedAlignment, list of TracedAlignment, or dask.delayed.Delayed
        Score, start and end positions and CIGAR string for "alignment". If one of two sequences is
        a Dask array, ``compute()`` of the returned value gives them.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value, a sequence has a letter that `matrix` lacks,
        scores may leave the range of int64, or lists differ in length.
    ImportError
        If `matrix` is a name, and Biopython is not installed.
    RuntimeError
        If a CUDA graph is being captured: scores are copied to the host.

    Notes
    -----
    The penalties of parasail are the negatives, ``open=-gap, extend=-extend``, and its functions
    "sw", "nw" and "sg" are the modes.

    *Accuracy.* Integer scores are exact, in int64. Float scores are computed in float64 and have
    the same bits for any chunks. Among equal alignments a fixed rule chooses, so that the alignment
    is the same for any chunks.

    *Cost.* len(query)·len(target) cells at 0.04 to 0.4 ns each on one thread. Memory grows with the
    sum of the lengths, not with the product. :doc:`/how/grids` has the recurrence, the rule and the
    cost on a GPU and over Dask. :func:`mgrec.plan` and :func:`mgrec.dask.solve` compute the score,
    as numbers, or the matrix without a graph.

    References
    ----------
    .. [1] T. F. Smith and M. S. Waterman, J. Mol. Biol. 147 (1981).
    .. [2] S. B. Needleman and C. D. Wunsch, J. Mol. Biol. 48 (1970).
    .. [3] O. Gotoh, J. Mol. Biol. 162 (1982).

    Examples
    --------
    >>> import mgrec
    >>> mgrec.smith_waterman("GGTTGACTA", "TGTTACGG", match=3, mismatch=-3, gap=-2)
    Alignment(score=13, query_end=6, target_end=5)
    """
    scores = {
        "match": match, "mismatch": mismatch, "gap": gap, "matrix": matrix, "extend": extend,
        "mode": mode,
    }  # fmt: skip
    if is_several(query) or is_several(target):
        problem = check_batch(query, target, output, **scores)
        if output == "alignment":
            return Composed("alignments of many pairs", partial(_align_each, query, target, scores))
        return replace(problem, to_return_value=_alignments)
    # Broadcasting would divide an axis of one character that has empty chunks as well.
    sequences = without_empty_chunks(query), without_empty_chunks(target)
    problem = check_alignment(*sequences, output, **scores)
    if output == "matrix":
        return problem
    if output == "alignment":
        return replace(problem, to_return_value=lambda _, alignment: alignment)
    return replace(problem, to_return_value=_alignment)


def _alignment(results: Arrays, carry_out: Any) -> Alignment:
    if isinstance(carry_out, np.ndarray):
        score, *ends = carry_out.tolist()
        return Alignment(score, *map(int, ends))
    return Alignment(carry_out[0], carry_out[1].astype(np.int64), carry_out[2].astype(np.int64))


def _alignments(results: Arrays, carry_out: np.ndarray) -> Alignment:
    ends = (carry_out[:, k].astype(np.int64) for k in (1, 2))
    return Alignment(carry_out[:, 0].copy(), *ends)


def _align_each(query: Any, target: Any, scores: dict[str, Any]) -> list[TracedAlignment]:
    queries, targets = pairs_of(query, target)
    count = max(len(queries), len(targets))
    pairs = zip(*(s * count if len(s) == 1 else s for s in (queries, targets)), strict=True)
    return [smith_waterman(*pair, output="alignment", **scores) for pair in pairs]
