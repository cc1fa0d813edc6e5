"""A tile in stripes: its rows among the lanes of registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....engines.cpu.simd.arithmetic import REGISTER
from ...scoring import Scoring
from ...tiles import Entry
from ..codes import table_of
from ..numbers import Numbers
from .columns import run_columns

# Registers of a column from which stripes are faster than antidiagonals. Of 10,000 columns and
# BLOSUM62 in int8, on one core of an EPYC: 0.67 with 300 rows, 1.02 with 1,600, 1.28 with 4,000 and
# 1.44 with 10,000. In int16, whose scores are high, F is carried far: 0.1 to 0.35 of related
# sequences, 0.55 to 1.05 of global alignments.
_SEGMENTS = 32

Found = tuple[tuple[Any, int, int], tuple[np.ndarray, ...]]


def may_stripe(scoring: Scoring, numbers: Numbers, rows: int, is_table_wanted: bool) -> bool:
    """Whether a tile can be computed in stripes, and is most often faster so."""
    if scoring.table is None or not scoring.is_affine or not scoring.is_local or is_table_wanted:
        return False
    return numbers.dtype.itemsize == 1 and rows >= _SEGMENTS * REGISTER


def run_striped(
    scoring: Scoring, numbers: Numbers, sequences: tuple[np.ndarray, np.ndarray], entry: Entry
) -> Found | None:
    """The best score of a tile, its row and its column, and H and F below, H and E to the right.

    All as these numbers, which are int8. None where antidiagonals are faster. Rows before the
    first one fill the lanes.
    """
    query, target = sequences
    lanes = REGISTER
    segments = -(-query.size // lanes)
    skipped = segments * lanes - query.size
    floor = numbers.dtype.type(numbers.floor)
    # A letter more, which scores 0 with all others, is that of the rows before.
    table = np.pad(table_of(scoring.table, numbers.dtype).T, ((0, 0), (0, 1)))
    letters = _striped(query, skipped, lanes, table.shape[1] - 1)
    scores = np.take(table, letters, axis=1).reshape(-1)
    edge = numbers.stored(entry.above, entry.above.size)
    edge_gaps = numbers.stored(entry.above_gaps, target.size)
    h, e = (
        _striped(numbers.stored(each, query.size), skipped, lanes, floor)
        for each in (entry.left, entry.left_gaps)
    )
    place = np.zeros(lanes, numbers.dtype)
    place[skipped // segments] = 1
    best = run_columns(
        scores, np.ascontiguousarray(target), edge, edge_gaps, h, e, numbers.of(scoring)[2:],
        place, skipped,
    )  # fmt: skip
    if best[1] < -1:
        return None
    right = (each.reshape(segments, lanes).T.reshape(-1)[skipped:] for each in (h, e))
    return best, (edge, edge_gaps, *right)


def _striped(values: np.ndarray, skipped: int, lanes: int, filling: Any) -> np.ndarray:
    """Values of rows as (register, lane)."""
    rows = np.full(skipped + values.size, filling, values.dtype)
    rows[skipped:] = values
    return np.ascontiguousarray(rows.reshape(lanes, -1).T).reshape(-1)
