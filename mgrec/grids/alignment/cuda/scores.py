"""Scores as kernels take them, in the narrowest dtype that holds all of an alignment."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..scoring import Scoring

# States of gaps in local alignments begin anywhere below 0, and get longer: twice as low at most.
_MOST = 2**29
# Letters whose profile fits shared memory.
_MOST_KINDS = 64


def score_dtype(scoring: Scoring, size: int, largest: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """int32 where nothing that a kernel computes can exceed it.

    Parameters
    ----------
    scoring : Scoring
    size : int
        Rows and columns together: a path through a tile has no more cells.
    largest : int or float
        The largest magnitude of H around the tile.
    dtype : numpy.dtype
        int64 or float64.
    """
    if dtype.kind == "f":
        return dtype
    step = max(abs(number) for number in (scoring.gap, scoring.highest, scoring.least))
    return np.dtype(np.int32) if largest + (size + 2) * step <= _MOST else dtype


def source_of(scoring: Scoring, score: np.dtype[Any]) -> str:
    """What two letters score: see :class:`.layout.AlignmentLayout`."""
    if scoring.table is None:
        return "EQUAL"
    is_narrow = score.itemsize == 4 and scoring.least >= -128 and scoring.highest <= 127
    return "BYTES" if is_narrow and len(scoring.table) <= _MOST_KINDS else "TABLE"


@lru_cache(maxsize=256)
def packed_scores(scoring: Scoring, score: np.dtype[Any]) -> np.ndarray:
    """The numbers of a scoring as one struct that a kernel takes by value."""
    numbers = [scoring.gap, scoring.extend, scoring.gap, scoring.match, scoring.mismatch]
    return np.array(numbers, score).view(f"V{len(numbers) * score.itemsize}")


@dataclass(frozen=True)
class Alphabet:
    """The scores of letters beside letters on a device: bytes, or of the dtype of scores."""

    table: Any = None
    kinds: int = 0

    @property
    def words(self) -> list[int]:
        """Where the bytes are, or the table of another dtype, and the number of letters."""
        if self.table is None:
            return [0, 0, 0]
        address = self.table.data.ptr
        return [address, 0, self.kinds] if self.table.itemsize == 1 else [0, address, self.kinds]


def alphabet_of(scoring: Scoring, score: np.dtype[Any], source: str, device: int) -> Alphabet:
    if scoring.table is None:
        return Alphabet()
    dtype = np.dtype(np.int8) if source == "BYTES" else score
    return Alphabet(_on_device(scoring.table, dtype, device), len(scoring.table))


@lru_cache(maxsize=32)
def _on_device(table: tuple[tuple[float, ...], ...], dtype: np.dtype[Any], device: int) -> Any:
    """A copy that all streams may read from now on."""
    import cupy

    copy = cupy.asarray(np.array(table, dtype))
    cupy.cuda.get_current_stream().synchronize()
    return copy
