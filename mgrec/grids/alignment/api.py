"""Alignment of sequences, and the validation of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.array_types import as_native, in_one_memory, is_lazy, without_empty_chunks
from ...core.arrays.validation import is_one_of
from ...core.backends import backend_of
from ...core.contract.problem import Composed, Problem
from ...core.contract.recurrence import Arrays
from ...distributed.groups.calls import CALL
from ...distributed.groups.ends import total_length
from ...solve import public_function, solve_pair
from .recurrence import AlignmentGrid, PairsGrid
from .results import Alignment, TracedAlignment
from .scoring import Scoring, as_scoring
from .sequences import Alphabet, Sequences, as_sequence, is_text, join
from .traceback import TracebackInMemory, TracebackOverChunks

OUTPUTS = ("score", "matrix", "alignment")
# Below the range of int64: the sum of any path through two sequences stays below it.
_LARGEST_SCORE = 2**61
_SEQUENCES = (str, bytes, bytearray, memoryview, list, tuple)


def is_several(value: Any) -> bool:
    """Return whether an argument is several sequences; a list of numbers is one sequence."""
    return isinstance(value, Sequences) or (
        isinstance(value, (list, tuple))
        and any(isinstance(item, _SEQUENCES) or getattr(item, "ndim", 0) for item in value)
    )


def check_alignment(query: Any, target: Any, output: Any, **scores: Any) -> Problem:
    """Return the problem of aligning two sequences."""
    if not is_one_of(output, OUTPUTS):
        raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {output!r}")
    scoring, alphabet = as_scoring(**scores)
    sequences = {"query": _as_one("query", query, alphabet), "target": _as_one("target", target, alphabet)}
    in_one_memory(list(sequences.items()))
    codes = _encoded(sequences, alphabet)
    for name, array in zip(sequences, codes, strict=True):
        if array.ndim != 1:
            raise ValueError(f"{name} must be a sequence of one axis; got shape {array.shape}")
    (n,), (m,) = (array.shape for array in codes)
    all_rows = total_length(n)
    dtype = _dtype_for(scoring, all_rows, m)
    has_letters = output == "alignment" and alphabet
    blocks = [*codes, *sequences.values()] if has_letters else codes
    operands = [block[:, None] if k % 2 == 0 else block[None] for k, block in enumerate(blocks)]
    if output == "alignment":
        grid = TracebackOverChunks if any(map(is_lazy, codes)) else TracebackInMemory
        build: Callable[..., AlignmentGrid] = partial(grid.over, alphabet=alphabet)
    else:
        build = partial(AlignmentGrid.over, has_matrix=output == "matrix")
    recurrence = build(
        operands, (n, m), dtype, axes=(0, 1), result_size=3, scoring=scoring, lengths=(all_rows, m)
    )
    return Problem(recurrence, tuple(operands), (), (n, m))


def check_batch(query: Any, target: Any, output: Any, **scores: Any) -> Problem:
    """Return the problem of aligning lists: pairs, or one sequence with each of a list."""
    if not is_one_of(output, ("score", "alignment")):
        raise ValueError(f"output must be 'score' or 'alignment' for many pairs; got {output!r}")
    scoring, alphabet = as_scoring(**scores)
    queries, targets = pairs_of(query, target)
    joined = {name: _joined(name, side, alphabet) for name, side in (("query", queries), ("target", targets))}
    in_one_memory([(name, side.codes) for name, side in joined.items()])
    codes = _encoded({name: side.codes for name, side in joined.items()}, alphabet)
    longest = (int(side.lengths.max(initial=0)) for side in joined.values())
    dtype = _dtype_for(scoring, *longest)
    recurrence = PairsGrid(
        dtype=dtype,
        result_dtype=dtype,
        varying=((True,), (True,)),
        block_dtypes=(codes[0].dtype, codes[1].dtype),
        axes=(0, 0),
        scoring=scoring,
        offsets=(joined["query"].offsets, joined["target"].offsets),
    )
    return Problem(recurrence, tuple(codes), (), (max(len(queries), len(targets)),))


def _joined(name: str, side: Any, alphabet: Alphabet | None) -> Sequences:
    if not isinstance(side, Sequences):
        return join([_as_one(name, sequence, alphabet) for sequence in side])
    codes, offsets = _as_one(name, side.codes, alphabet), as_native(np.asarray(side.offsets))
    return Sequences(codes, offsets)


def pairs_of(query: Any, target: Any) -> tuple[Any, Any]:
    """Return queries and targets, each a list or Sequences; one sequence becomes a list of one."""
    queries, targets = _as_list("query", query), _as_list("target", target)
    for name, side in (("query", queries), ("target", targets)):
        if any(map(is_lazy, [side.codes] if isinstance(side, Sequences) else side)):
            raise TypeError(
                f"{name} must be in memory if query or target is a list of sequences; got a Dask "
                f"array: compute() it, align one pair a call, or give each task a part of the list"
            )
    if is_several(query) and is_several(target) and len(queries) != len(targets):
        raise ValueError(
            f"query and target must be lists of the same length, one pair each; got {len(queries)} "
            f"and {len(targets)} sequences: to align all with all, call once for each query"
        )
    return queries, targets


def _as_list(name: str, value: Any) -> Any:
    if isinstance(value, Sequences):
        value.check(name)
        return value
    return list(value) if is_several(value) else [value]


def _as_one(name: str, value: Any, alphabet: Alphabet | None) -> Any:
    if alphabet is not None and alphabet.letters is None and is_text(value):
        raise TypeError(f"matrix must be (alphabet, numbers) if {name} is text; got numbers alone")
    return as_sequence(name, value)


def _encoded(sequences: dict[str, Any], alphabet: Alphabet | None) -> list[Any]:
    """Return both sequences as arrays of one dtype."""
    if alphabet is not None:
        return [alphabet.encode(name, sequence) for name, sequence in sequences.items()]
    dtype = np.result_type(*(array.dtype for array in sequences.values()))
    if dtype.kind not in "iu":
        dtypes = " and ".join(str(array.dtype) for array in sequences.values())
        raise TypeError(f"query and target must be of integers that compare; got {dtypes}")
    # A copy on a GPU takes as long as aligning short sequences.
    return [
        array if array.dtype == dtype and not backend_of(array).is_host else array.astype(dtype)
        for array in sequences.values()
    ]


def _dtype_for(scoring: Scoring, n: Any, m: Any) -> np.dtype[Any]:
    if isinstance(scoring.gap, float):
        return np.dtype(np.float64)
    extremes = scoring.highest, scoring.lowest, scoring.gap
    if max(map(abs, extremes)) * max(n + m, 1) > _LARGEST_SCORE:
        raise ValueError(f"scores must stay within int64 over {n} and {m} characters; got {extremes}")
    return np.dtype(np.int64)


@partial(public_function, labelled=solve_pair, takes_group=True)
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
    group : mgrec.collective.Group, optional
        Processes that each have a part of the query, for scores. See :ref:`guide-ranks`.

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
        "match": match,
        "mismatch": mismatch,
        "gap": gap,
        "matrix": matrix,
        "extend": extend,
        "mode": mode,
    }
    if CALL.get() is not None:
        _check_on_group(query, target, output)
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


def _check_on_group(query: Any, target: Any, output: Any) -> None:
    if is_several(query) or is_several(target):
        raise NotImplementedError("query and target must be one sequence each with a group; got lists")
    if output == "alignment":
        raise NotImplementedError("output must be 'score' or 'matrix' with a group; got 'alignment'")


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
