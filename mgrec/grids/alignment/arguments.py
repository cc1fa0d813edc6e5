"""Validation of the arguments of smith_waterman: sequences, scores and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays.array_types import as_native, check_same_device, is_lazy
from ...core.arrays.validation import is_one_of
from ...core.backends import backend_of
from ...core.contract.problem import Problem, varying
from .recurrence import AlignmentGrid, PairsGrid
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
    sequences = {
        "query": _as_one("query", query, alphabet),
        "target": _as_one("target", target, alphabet),
    }
    check_same_device(list(sequences.items()), [])
    codes, code_dtype = _encoded(sequences, alphabet)
    (n,), (m,) = (array.shape for array in codes)
    dtype = _dtype_for(scoring, n, m)
    has_letters = output == "alignment" and alphabet
    blocks = [*codes, *sequences.values()] if has_letters else codes
    operands = [block[:, None] if k % 2 == 0 else block[None] for k, block in enumerate(blocks)]
    if output == "alignment":
        grid = TracebackOverChunks if any(map(is_lazy, codes)) else TracebackInMemory
        build: Callable[..., AlignmentGrid] = partial(grid, alphabet=alphabet)
    else:
        build = partial(AlignmentGrid, has_matrix=output == "matrix")
    recurrence = build(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, (n, m)) for operand in operands),
        block_dtypes=(code_dtype, code_dtype, *(block.dtype for block in blocks[2:])),
        axes=(0, 1),
        result_size=3,
        scoring=scoring,
        lengths=(n, m),
    )
    return Problem(recurrence, tuple(operands), (), (n, m))


def check_batch(query: Any, target: Any, output: Any, **scores: Any) -> Problem:
    """Return the problem of aligning lists: pairs, or one sequence with each of a list."""
    if not is_one_of(output, ("score", "alignment")):
        raise ValueError(f"output must be 'score' or 'alignment' for many pairs; got {output!r}")
    scoring, alphabet = as_scoring(**scores)
    queries, targets = pairs_of(query, target)
    joined = {
        name: _joined(name, side, alphabet)
        for name, side in (("query", queries), ("target", targets))
    }
    check_same_device([(name, side.codes) for name, side in joined.items()], [])
    codes, code_dtype = _encoded({name: side.codes for name, side in joined.items()}, alphabet)
    longest = (int(side.lengths.max(initial=0)) for side in joined.values())
    dtype = _dtype_for(scoring, *longest)
    recurrence = PairsGrid(
        dtype=dtype,
        result_dtype=dtype,
        varying=((True,), (True,)),
        block_dtypes=(code_dtype, code_dtype),
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


def _encoded(
    sequences: dict[str, Any], alphabet: Alphabet | None
) -> tuple[list[Any], np.dtype[Any]]:
    """Return both sequences as arrays of one dtype, and that dtype."""
    if alphabet is not None:
        codes = [alphabet.encode(name, sequence) for name, sequence in sequences.items()]
        return codes, np.dtype(np.uint8)
    dtype = np.result_type(*(array.dtype for array in sequences.values()))
    if dtype.kind not in "iu":
        dtypes = " and ".join(str(array.dtype) for array in sequences.values())
        raise TypeError(f"query and target must be of integers that compare; got {dtypes}")
    # A copy on a GPU takes as long as aligning short sequences.
    codes = [
        array if array.dtype == dtype and not backend_of(array).is_host else array.astype(dtype)
        for array in sequences.values()
    ]
    return codes, dtype


def _dtype_for(scoring: Scoring, n: Any, m: Any) -> np.dtype[Any]:
    if isinstance(scoring.gap, float):
        return np.dtype(np.float64)
    extremes = scoring.highest, scoring.lowest, scoring.gap
    if max(map(abs, extremes)) * max(n + m, 1) > _LARGEST_SCORE:
        raise ValueError(
            f"scores must stay within int64 over {n} and {m} characters; got {extremes}"
        )
    return np.dtype(np.int64)
