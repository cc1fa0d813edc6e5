"""Alignments cell by cell, and a stand-in for a GPU that aligns: for tests of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_on_host import DeviceArray, HostCompiler, run_on_host

from mgrec.engines.cuda.device import Device
from mgrec.grids.alignment.cuda import layout, pairs, program, tile
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Best, Edges, best_cell, carry_in_from

LINEAR = Scoring(-2, -2, 3, -1)
AFFINE = Scoring(-5, -1, 3, -2)
MATRIX = np.random.default_rng(8).integers(-4, 9, (7, 7))
TABLE = Scoring(-6, -1, table=tuple(map(tuple, (MATRIX + MATRIX.T).tolist())))
HALVES = Scoring(-2.25, -0.5, 1.75, -0.75)
HALF_TABLE = Scoring(-2.5, -0.5, table=tuple(map(tuple, (MATRIX / 4).tolist())))
# Beyond int32, beyond bytes, more letters than a profile has, and letters that need not be equal.
LARGE = Scoring(-3 * 2**40, -(2**40), 2**41, -(2**40))
LARGE_TABLE = Scoring(-(2**40), -(2**40), table=tuple(map(tuple, (MATRIX * 2**40).tolist())))
WIDE_TABLE = Scoring(-500, -300, table=tuple(map(tuple, (MATRIX * 100).tolist())))
GOOD_MISMATCH = Scoring(-4, -4, 1, 3)
MODES = ["local", "global", "semi-global"]


def with_mode(scoring: Scoring, mode: str) -> Scoring:
    return Scoring(**(vars(scoring) | {"mode": mode}))


def align_on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let launches of alignments run here."""
    run_on_host(monkeypatch, compiler, tile, device=Device(90, 4, 227 * 1024))
    program.prepare_launch.cache_clear()
    program._on_device.cache_clear()
    use(monkeypatch, 2)


def use(monkeypatch: pytest.MonkeyPatch, rows: int, strips: int = 4) -> None:
    """Let lanes have so many rows: little grids have several strips and bands then."""
    monkeypatch.setattr(layout, "_ROWS", (rows,))
    monkeypatch.setattr(layout, "_STRIPS", (strips,))
    monkeypatch.setattr(pairs, "_rows", lambda *given: rows)
    layout.choose_launch.cache_clear()


def draw(seed: int, size: int, dtype: str = "u1", kinds: int = 4) -> Any:
    letters = np.random.default_rng(seed).integers(0, kinds, size)
    return letters.astype(dtype).view(DeviceArray)


def carry_in_of(scoring: Scoring, n: int, m: int, dtype: Any, seed: int = 0) -> Edges:
    """Edges that any neighbours may have."""
    rng = np.random.default_rng(seed)
    low = 0 if scoring.is_local else -30
    row, column = rng.integers(low, 20, m + 1), rng.integers(low, 20, n)
    gaps = (None, None)
    if scoring.is_affine:
        gaps = rng.integers(-40, 10, m).astype(dtype), rng.integers(-40, 10, n).astype(dtype)
    return Edges(row.astype(dtype), column.astype(dtype), *gaps)


def border_of(scoring: Scoring, n: int, m: int, dtype: Any) -> Edges:
    return carry_in_from(scoring, None, None, (0, 0), (n, m), np.dtype(dtype))


def by_the_loop(scoring: Scoring, query: Any, target: Any, carry_in: Edges, dtype: Any) -> Any:
    """H, F of the rows after and E of the columns after every cell."""
    n, m = query.size, target.size
    h = np.empty((n + 1, m + 1), dtype)
    h[0], h[1:, 0] = carry_in.row, carry_in.column
    f, e = h + scoring.gap, h + scoring.gap
    if scoring.is_affine:
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


def best_of(h: Any, rows: Any, columns: Any) -> Best:
    """The best cell among some, by the rule of the contract."""
    cells = zip(rows.tolist(), columns.tolist(), strict=True)
    best = best_cell(*(Best(h[i + 1, j + 1].item(), i, j) for i, j in cells))
    assert best is not None
    return best


def pair_by_the_loop(scoring: Scoring, query: Any, target: Any, dtype: Any) -> tuple[Any, ...]:
    n, m = query.size, target.size
    if 0 in (n, m):
        gap = scoring.gap + (n + m - 1) * scoring.extend if n + m else 0
        score = gap if scoring.mode == "global" else 0
        return (score, -1, -1) if scoring.is_local else (score, n - 1, m - 1)
    h, *_ = by_the_loop(scoring, query, target, border_of(scoring, n, m, dtype), dtype)
    if scoring.mode == "global":
        return h[-1, -1], n - 1, m - 1
    rows, columns = np.unravel_index(np.arange(n * m), (n, m))
    if not scoring.is_local:
        is_end = (rows == n - 1) | (columns == m - 1)
        rows, columns = rows[is_end], columns[is_end]
    best = best_of(h, rows, columns)
    best = Best() if scoring.is_local and best.score <= 0 else best
    return best.score, best.query_end, best.target_end
