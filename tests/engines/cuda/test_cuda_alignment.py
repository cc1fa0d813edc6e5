"""Kernels of one alignment, run on this machine, against the definition cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from alignments import end_of, table_by_the_loop
from cuda_alignments import (
    AFFINE,
    GOOD_MISMATCH,
    HALF_TABLE,
    HALVES,
    LARGE,
    LARGE_TABLE,
    LINEAR,
    TABLE,
    WIDE_TABLE,
    align_on_host,
    border_of,
    carry_in_of,
    draw,
    use,
    with_mode,
)
from cuda_on_host import DeviceArray, HostCompiler, poisoned

from mgrec.grids.alignment.cuda import layout, tile
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Best

extended = pytest.mark.extended


@pytest.fixture(autouse=True)
def _on_host(compiler: HostCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    align_on_host(compiler, monkeypatch)


def check_tile(
    scoring: Scoring, n: int, m: int, dtype: Any, letter: str, is_border: bool, has_matrix: bool
) -> None:
    """Edges, the best cell and, where it is written, H."""
    kinds, dtype = len(scoring.table or "ACGT"), np.dtype(dtype)
    query, target = draw(n, n, letter, kinds), draw(m + 7, m, letter, kinds)
    carry_in = (border_of if is_border else carry_in_of)(scoring, n, m, dtype)
    loop = scoring, np.asarray(query), np.asarray(target), dtype
    h, f, e = table_by_the_loop(*loop, None if is_border else carry_in)
    table = poisoned((n, m), dtype).view(DeviceArray) if has_matrix else None
    edges = tile.determine_alignment(scoring, (query, target), carry_in, (50, 900), dtype, table)
    if table is not None:
        np.testing.assert_array_equal(table, h[1:, 1:])
    pairs = [(edges.row, h[-1]), (edges.column, h[1:, -1])]
    if scoring.is_affine:
        pairs += [(edges.row_gaps, f[-1, 1:]), (edges.column_gaps, e[1:, -1])]
    for have, want in pairs:
        np.testing.assert_array_equal(have, want, strict=True)
    best = None
    if scoring.is_local:
        score, i, j = end_of(h, "local")
        best = Best(score, i + 50, j + 900) if score > 0 else Best()
    assert edges.best == best


# Rows of one lane and more, of one strip (64) and more, of one band (256) and more.
SHAPES = [(1, 1), (2, 40), (64, 16), (70, 33), (255, 20), (300, 50), (600, 7)]


@pytest.mark.parametrize(
    ("scoring", "mode"),
    [
        (LINEAR, "local"),
        (TABLE, "local"),
        pytest.param(AFFINE, "local", marks=extended),
        pytest.param(LINEAR, "global", marks=extended),
        pytest.param(AFFINE, "semi-global", marks=extended),
        pytest.param(TABLE, "global", marks=extended),
    ],
)
def test_every_shape(scoring: Scoring, mode: str) -> None:
    scoring = with_mode(scoring, mode)
    for number, (n, m) in enumerate(SHAPES):
        check_tile(scoring, n, m, np.int64, "u1", number % 2 == 0, False)


@pytest.mark.parametrize(
    ("scoring", "mode", "dtype", "letter", "has_matrix"),
    [
        (AFFINE, "global", "i8", "i8", True),
        pytest.param(LINEAR, "local", "i8", "u4", True, marks=extended),
        pytest.param(HALVES, "local", "f8", "u1", True, marks=extended),
        pytest.param(HALVES, "global", "f8", "i2", False, marks=extended),
        pytest.param(HALF_TABLE, "semi-global", "f8", "u1", False, marks=extended),
        pytest.param(LARGE, "local", "i8", "u1", True, marks=extended),
        pytest.param(LARGE_TABLE, "local", "i8", "u1", False, marks=extended),
        pytest.param(WIDE_TABLE, "local", "i8", "u1", False, marks=extended),
        pytest.param(GOOD_MISMATCH, "local", "i8", "u1", False, marks=extended),
    ],
)
def test_every_dtype(
    scoring: Scoring, mode: str, dtype: str, letter: str, has_matrix: bool
) -> None:
    """int32 where all fits, int64 and float64; scores of letters from bytes or wider tables."""
    scoring = with_mode(scoring, mode)
    for is_border in (True, False):
        check_tile(scoring, 71, 45, dtype, letter, is_border, has_matrix)
        check_tile(scoring, 256, 33, dtype, letter, is_border, has_matrix)


@extended
@pytest.mark.parametrize(
    ("rows", "strips", "wide"),
    [(4, 4, 1), (6, 4, 2), (8, 4, 4), (12, 4, 1), (16, 4, 2), (2, 1, 1), (2, 1, 2)],
)
def test_how_a_tile_is_cut_does_not_matter(
    rows: int, strips: int, wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_LATENCIES", {wide: (150, 8, 1.0)})
    monkeypatch.setattr(layout, "_LATENCIES_WRITTEN", {wide: (150, 8, 1.0)})
    use(monkeypatch, rows, strips)
    for scoring in (LINEAR, TABLE):
        check_tile(scoring, 150, 61, np.int64, "u1", True, rows < 12)
        check_tile(scoring, 32 * strips * rows + 5, 20, np.int64, "u1", False, False)


def test_tiles_without_rows_or_columns_hand_edges_on() -> None:
    for n, m in [(0, 5), (5, 0), (0, 0)]:
        carry_in = carry_in_of(AFFINE, n, m, np.int64)
        edges = tile.determine_alignment(
            AFFINE, (draw(0, n), draw(1, m)), carry_in, (0, 0), np.int64
        )
        np.testing.assert_array_equal(edges.row, carry_in.column[-1:] if n else carry_in.row)
        np.testing.assert_array_equal(edges.column, carry_in.column)
        np.testing.assert_array_equal(edges.row_gaps, carry_in.row_gaps)
        np.testing.assert_array_equal(edges.column_gaps, carry_in.column_gaps)
        assert edges.best == Best()


def test_a_wrong_letter_is_found() -> None:
    """The oracle of these tests can fail."""
    query = draw(1, 70)
    h, *_ = table_by_the_loop(LINEAR, query, query, np.int64)
    other = query.copy()
    other[30] = 9
    carry_in = border_of(LINEAR, 70, 70, np.int64)
    edges = tile.determine_alignment(LINEAR, (query, other), carry_in, (0, 0), np.int64)
    assert edges.best.score < h.max() == 210


def test_parts_of_a_table_are_written() -> None:
    query, target = draw(1, 40), draw(2, 30)
    carry_in = border_of(LINEAR, 40, 30, np.int64)
    h, *_ = table_by_the_loop(LINEAR, query, target, np.int64)
    whole = np.full((80, 71), -7, np.int64).view(DeviceArray)
    for part in (whole[::2, 5:35], whole[::2, 4:34], whole[40:, 6:36]):
        whole[...] = -7
        tile.determine_alignment(LINEAR, (query, target), carry_in, (0, 0), np.int64, part)
        np.testing.assert_array_equal(part, h[1:, 1:])
        assert (whole == -7).sum() == whole.size - part.size
