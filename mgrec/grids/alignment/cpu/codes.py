"""Letters as integers that are as wide as the scores beside them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ....engines.cpu.simd.arithmetic import REGISTER
from ..scoring import Scoring
from .antidiagonals.align import STEPS
from .antidiagonals.pieces import ROWS
from .antidiagonals.profiles import LATE


def narrowed(query: np.ndarray, target: np.ndarray, bits: int) -> Any:
    """Both in signed integers of some bits, equal where they were; None where they have too many.

    Examples
    --------
    >>> narrowed(np.array([65, 300]), np.array([300]), 8)
    (array([  0, -21], dtype=int8), array([-21], dtype=int8))
    """
    kind = f"i{bits // 8}"
    if query.itemsize * 8 <= bits:
        return query.astype(kind), target.astype(kind)
    least = min(query.min(), target.min())
    if int(max(query.max(), target.max())) - int(least) < 2**bits:
        return (query - least).astype(kind), (target - least).astype(kind)
    kinds, ranks = np.unique(np.concatenate([query, target]), return_inverse=True)
    if kinds.size > 2**bits:
        return None
    return ranks[: query.size].astype(kind), ranks[query.size :].astype(kind)


def padded(codes: np.ndarray, lanes: int) -> np.ndarray:
    """Codes of a target after a register of others, and before as many."""
    array = np.zeros(codes.size + 2 * lanes, codes.dtype)
    array[lanes : lanes + codes.size] = codes
    return array


def words_of(scoring: Scoring, sequences: tuple[np.ndarray, np.ndarray], dtype: Any) -> Any:
    """Both sequences beside scores of a dtype, a table and what judges by it, or None twice.

    None where the sequences have more kinds of letters than there are such integers.
    """
    query, target = sequences
    lanes = REGISTER // dtype.itemsize
    if scoring.table is None:
        words = narrowed(query, target, 8 * dtype.itemsize)
        return None if words is None else ((words[0], padded(words[1], lanes)), None, None)
    table = table_of(scoring.table, dtype)
    judge = (np.array(query), padded(target, lanes), *memory(table, query.size, lanes))
    # What is not compared is still typed.
    word = f"i{dtype.itemsize}"
    return (np.empty(query.size, word), np.empty(0, word)), table, judge


@lru_cache(maxsize=64)
def table_of(table: tuple[tuple[float, ...], ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Scores of letters in int8 where it holds them, else in a dtype."""
    scores = np.array(table)
    is_small = dtype.kind == "i" and scores.min() >= -128 and scores.max() < 128
    return scores.astype(np.int8 if is_small else dtype)


def memory(table: np.ndarray, longest: int, lanes: int) -> tuple[np.ndarray, ...]:
    """For the profiles of a query up to a length, what a shear holds, and its scores."""
    size = ROWS * lanes
    profiles = np.empty((-(-longest // size), size * table.shape[0]), table.dtype)
    return profiles, np.zeros(LATE * size, table.dtype), np.empty(STEPS * size, table.dtype)
