"""The door of alignments: sequences and what they score, checked once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ...core.arrays.array_types import as_native, check_same_device, is_lazy, is_on_gpu
from ...core.arrays.validation import is_one_of
from ...core.contract.problem import Problem, varying
from .batch import Batch
from .letters import Alphabet, as_sequence, is_text
from .recurrence import Alignment
from .scores import as_scoring
from .scoring import Scoring
from .sequences import Sequences, join
from .traceback import TracedTiles
from .traced import TracedAlignment

OUTPUTS = ("score", "matrix", "alignment")
# Scores of int64 that no path through two sequences can reach.
_MOST = 2**61
_SEQUENCES = (str, bytes, bytearray, memoryview, list, tuple)


def is_several(value: Any) -> bool:
    """Whether it is many sequences; a list of numbers is one."""
    return isinstance(value, Sequences) or (
        isinstance(value, (list, tuple))
        and any(isinstance(each, _SEQUENCES) or getattr(each, "ndim", 0) for each in value)
    )


def check_alignment(query: Any, target: Any, output: Any, **scores: Any) -> Problem:
    """Arguments of ``smith_waterman`` of two sequences."""
    if not is_one_of(output, OUTPUTS):
        raise ValueError(f"output must be one of {', '.join(map(repr, OUTPUTS))}; got {output!r}")
    scoring, alphabet = as_scoring(**scores)
    named = {
        "query": _as_one("query", query, alphabet),
        "target": _as_one("target", target, alphabet),
    }
    check_same_device(list(named.items()), [])
    letters, code = _coded(named, alphabet)
    (n,), (m,) = (array.shape for array in letters)
    dtype = _dtype_for(scoring, n, m)
    given = [*letters, *named.values()] if output == "alignment" and alphabet else letters
    operands = [each[:, None] if k % 2 == 0 else each[None] for k, each in enumerate(given)]
    recurrence = Alignment(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, (n, m)) for operand in operands),
        block_dtypes=(code, code, *(each.dtype for each in given[2:])),
        axes=(0, 1),
        result_size=3,
        scoring=scoring,
        lengths=(n, m),
        has_matrix=output == "matrix",
    )
    if output == "alignment":
        kind = TracedTiles if any(map(is_lazy, letters)) else TracedAlignment
        own = {each.name: getattr(recurrence, each.name) for each in fields(recurrence)}
        recurrence = kind(alphabet=alphabet, **own)
    return Problem(recurrence, tuple(operands), (), (n, m))


def check_batch(query: Any, target: Any, output: Any, **scores: Any) -> Problem:
    """Arguments of ``smith_waterman`` of lists: pairs, or one sequence with each of a list."""
    if not is_one_of(output, ("score", "alignment")):
        raise ValueError(f"output must be 'score' or 'alignment' of many pairs; got {output!r}")
    scoring, alphabet = as_scoring(**scores)
    queries, targets = pairs_of(query, target)
    joined = {
        name: _joined(name, several, alphabet)
        for name, several in (("query", queries), ("target", targets))
    }
    check_same_device([(name, each.codes) for name, each in joined.items()], [])
    codes, code = _coded({name: each.codes for name, each in joined.items()}, alphabet)
    longest = (int(each.lengths.max(initial=0)) for each in joined.values())
    dtype = _dtype_for(scoring, *longest)
    recurrence = Batch(
        dtype=dtype,
        result_dtype=dtype,
        varying=((True,), (True,)),
        block_dtypes=(code, code),
        axes=(0, 0),
        scoring=scoring,
        offsets=(joined["query"].offsets, joined["target"].offsets),
    )
    return Problem(recurrence, tuple(codes), (), (max(len(queries), len(targets)),))


def _joined(name: str, several: Any, alphabet: Alphabet | None) -> Sequences:
    if not isinstance(several, Sequences):
        return join([_as_one(name, each, alphabet) for each in several])
    codes, offsets = _as_one(name, several.codes, alphabet), as_native(np.asarray(several.offsets))
    return Sequences(codes, offsets)


def pairs_of(query: Any, target: Any) -> tuple[Any, Any]:
    """Queries and targets, lists or joined; one that is neither stands for itself."""
    queries, targets = _listed("query", query), _listed("target", target)
    for name, several in (("query", queries), ("target", targets)):
        if any(map(is_lazy, [several.codes] if isinstance(several, Sequences) else several)):
            raise TypeError(
                f"{name} must be of sequences in memory where there is a list of them; got a Dask "
                f"array: compute() it, align one pair a call, or give each task a part of the list"
            )
    if is_several(query) and is_several(target) and len(queries) != len(targets):
        raise ValueError(
            f"query and target must be lists of the same length, one pair each; got {len(queries)} "
            f"and {len(targets)} sequences: for each with each other call once a query"
        )
    return queries, targets


def _listed(name: str, value: Any) -> Any:
    if isinstance(value, Sequences):
        value.check(name)
        return value
    return list(value) if is_several(value) else [value]


def _as_one(name: str, value: Any, alphabet: Alphabet | None) -> Any:
    if alphabet is not None and alphabet.letters is None and is_text(value):
        raise TypeError(
            f"matrix must be (alphabet, numbers) where {name} is text; got numbers alone"
        )
    return as_sequence(name, value)


def _coded(named: dict[str, Any], alphabet: Alphabet | None) -> tuple[list[Any], np.dtype[Any]]:
    """Both sequences as the kernels take them, of one dtype."""
    if alphabet is not None:
        return [alphabet.coded(name, each) for name, each in named.items()], np.dtype(np.uint8)
    code = np.result_type(*(array.dtype for array in named.values()))
    if code.kind not in "iu":
        dtypes = " and ".join(str(array.dtype) for array in named.values())
        raise TypeError(f"query and target must be of integers that compare; got {dtypes}")
    return [_as_code(array, code) for array in named.values()], code


def _as_code(array: Any, code: np.dtype[Any]) -> Any:
    """Of a dtype: no copy on a GPU, which takes as long there as little sequences."""
    return array if is_on_gpu(array) and array.dtype == code else array.astype(code)


def _dtype_for(scoring: Scoring, n: Any, m: Any) -> np.dtype[Any]:
    if isinstance(scoring.gap, float):
        return np.dtype(np.float64)
    ends = scoring.highest, scoring.least, scoring.gap
    if max(map(abs, ends)) * max(n + m, 1) > _MOST:
        raise ValueError(f"scores must stay within int64 over {n} and {m} characters; got {ends}")
    return np.dtype(np.int64)
