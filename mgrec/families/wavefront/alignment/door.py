"""The door of alignments: sequences and scores, checked once."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from ....arrays.arguments import as_real
from ....arrays.door import as_array
from ....arrays.kinds import check_together
from ...problem import Problem, varying
from .recurrence import Alignment
from .scoring import Scoring

# Scores of int64 that no path through two sequences can reach.
_MOST = 2**62


def check_alignment(query: Any, target: Any, match: Any, mismatch: Any, gap: Any) -> Problem:
    """Arguments of ``smith_waterman``."""
    named = {"query": _as_sequence("query", query), "target": _as_sequence("target", target)}
    check_together(list(named.items()), [])
    (n,), (m,) = (array.shape for array in named.values())
    code = np.result_type(*(array.dtype for array in named.values()))
    if code.kind not in "iu":
        dtypes = " and ".join(str(array.dtype) for array in named.values())
        raise TypeError(f"query and target must be of integers that compare; got {dtypes}")
    scoring = _as_scoring(match, mismatch, gap)
    scores = scoring.match, scoring.mismatch, scoring.gap
    dtype = np.dtype(np.int64 if all(isinstance(s, int) for s in scores) else np.float64)
    if dtype.kind == "i" and max(map(abs, scores)) * max(n + m, 1) > _MOST:
        raise ValueError(f"scores must stay within int64 over {n} and {m} characters; got {scores}")
    operands = named["query"].astype(code)[:, None], named["target"].astype(code)[None]
    recurrence = Alignment(
        dtype=dtype,
        result_dtype=dtype,
        varying=tuple(varying(operand.shape, (n, m)) for operand in operands),
        block_dtypes=(code, code),
        axes=(0, 1),
        exit_size=3,
        scoring=scoring,
        lengths=(n, m),
    )
    return Problem(recurrence, operands, (), (n, m))


def _as_sequence(name: str, value: Any) -> Any:
    """One axis of integers: code points of text, or what the caller's array holds."""
    if isinstance(value, str):
        return np.frombuffer(value.encode("utf-32-le", "surrogatepass"), "<u4")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.frombuffer(value, np.uint8)
    if isinstance(value, np.ndarray) and value.dtype.str in ("|S1", "<U1"):
        return np.ascontiguousarray(value).view(np.uint8 if value.itemsize == 1 else "<u4")
    array = as_array(name, value)
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu":
        got = getattr(array, "dtype", type(array).__name__)
        raise TypeError(f"{name} must be text, bytes or an array of integers; got {got}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one axis; got shape {array.shape}")
    return array


def _as_scoring(match: Any, mismatch: Any, gap: Any) -> Scoring:
    numbers = []
    for name, value in (("match", match), ("mismatch", mismatch), ("gap", gap)):
        real = as_real(name, value, "a finite number")
        if not isfinite(real):
            raise ValueError(f"{name} must be a finite number; got {value!r}")
        numbers.append(int(value) if isinstance(value, (int, np.integer)) else real)
    if numbers[2] > 0:
        raise ValueError(
            f"gap must be at most 0: the score of one character opposite to none; got {gap}"
        )
    match, mismatch, gap = numbers
    return Scoring(gap, gap, match, mismatch)
