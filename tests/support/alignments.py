"""Alignments cell by cell: the oracle of all tests of alignments."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Edges


def table_by_the_loop(
    scoring: Scoring, query: Any, target: Any, dtype: Any, carry_in: Edges | None = None
) -> Any:
    """H, F of the rows after and E of the columns after every cell, with a border before them."""
    n, m = query.size, target.size
    h = np.zeros((n + 1, m + 1), dtype)
    if carry_in is not None:
        h[0], h[1:, 0] = carry_in.row, carry_in.column
    elif scoring.mode == "global":
        h[0, 1:] = scoring.gap + np.arange(m) * np.asarray(scoring.extend, dtype)
        h[1:, 0] = scoring.gap + np.arange(n) * np.asarray(scoring.extend, dtype)
    f, e = h + scoring.gap, h + scoring.gap
    if carry_in is not None and scoring.is_affine:
        f[0, 1:], e[1:, 0] = carry_in.row_gaps, carry_in.column_gaps
    if scoring.table is None:
        scores = np.where(query[:, None] == target, scoring.match, scoring.mismatch)
    else:
        scores = np.array(scoring.table)[query][:, target]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            vertical, horizontal = f[i - 1, j], e[i, j - 1]
            h[i, j] = max(h[i - 1, j - 1] + scores[i - 1, j - 1], horizontal, vertical)
            if scoring.is_local:
                h[i, j] = max(h[i, j], 0)
            f[i, j] = max(h[i, j] + scoring.gap, vertical + scoring.extend)
            e[i, j] = max(h[i, j] + scoring.gap, horizontal + scoring.extend)
    return h, f, e


def end_of(h: Any, mode: str) -> tuple[Any, int, int]:
    """The score and the end: of equal ones the first by the target, then by the query."""
    n, m = h.shape[0] - 1, h.shape[1] - 1
    if mode == "global":
        return h[-1, -1], n - 1, m - 1
    if 0 in (n, m):
        return (0, -1, -1) if mode == "local" else (0, n - 1, m - 1)
    is_end = np.ones((n, m), bool)
    if mode == "semi-global":
        is_end[:-1, :-1] = False
    best = h[1:, 1:][is_end].max()
    if mode == "local" and best <= 0:
        return 0, -1, -1
    j, i = np.argwhere(((h[1:, 1:] == best) & is_end).T)[0].tolist()
    return best, i, j
