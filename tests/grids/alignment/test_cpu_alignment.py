"""The tiles of an alignment on a CPU: edges and best score, however the sequences are cut."""

from dataclasses import replace

import numpy as np
import pytest

from mgrec.engines.cpu.simd.arithmetic import REGISTER
from mgrec.grids.alignment.cpu import striped, tile
from mgrec.grids.alignment.cpu.encoding import encodings_for, extremes_of
from mgrec.grids.alignment.cpu.tile import determine_tile
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Best, Edges, best_cell

# The tests of the public functions run the same kernels.
pytestmark = pytest.mark.extended

# Rows of a strip: those of four lanes' rows, in the widest numbers and in int32.
WIDE, NARROW = REGISTER // 2, REGISTER
SIZES = [0, 1, 2, 5, WIDE - 1, WIDE, WIDE + 1, NARROW, 150]
TABLE = tuple(tuple(4 * (a == b) - (a + b) % 4 for b in range(5)) for a in range(5))
INT, REAL = np.dtype(np.int64), np.dtype(np.float64)


def letters(gap, extend, match, mismatch, mode="local"):
    return Scoring(gap, extend, match, mismatch, mode=mode)


def by_table(gap, extend, table=TABLE, mode="local"):
    return Scoring(gap, extend, table=table, mode=mode)


REALS = tuple(tuple(1.1 * score for score in row) for row in TABLE)
KINDS = {
    "int8 affine table": (INT, by_table(-3, -1)),
    "float64": (REAL, letters(-0.3, -0.3, 1.1, -0.7)),
    "int8 linear": (INT, letters(-1, -1, 2, -1)),
    "int8 affine": (INT, letters(-5, -1, 2, -3)),
    "int8 table": (INT, by_table(-2, -2)),
    "int16": (INT, letters(-200, -100, 130, -131)),
    "int16 affine global": (INT, letters(-6, -2, 3, -2, "global")),
    "int16 table global": (INT, by_table(-3, -3, mode="semi-global")),
    "int32 affine": (INT, letters(-(3 << 17), -(1 << 16), 1 << 17, -(1 << 16))),
    "int64": (INT, letters(-(2 << 40), -(2 << 40), 3 << 40, -(1 << 40))),
    "int64 global": (INT, letters(-(2 << 40), -(1 << 39), 3 << 40, -(1 << 40), "global")),
    "int64 table": (INT, by_table(-(2 << 40), -5, tuple(tuple(s << 40 for s in r) for r in TABLE))),
    "float64 affine global": (REAL, letters(-1.3, -0.3, 1.1, -0.7, "global")),
    "float64 affine table": (REAL, by_table(-1.3, -0.3, REALS)),
}
each_scoring = pytest.mark.parametrize(("dtype", "scoring"), KINDS.values(), ids=KINDS)


def draw(generator, n, m, kinds=3):
    return [generator.integers(0, kinds, size).astype(np.uint8) for size in (n, m)]


def draw_carry_in(generator, n, m, dtype, scoring):
    """Edges such as other tiles could have."""
    unit = scoring.highest
    above, left = ((generator.integers(0, 6, s) * unit).astype(dtype) for s in (m + 1, n))
    if not scoring.is_affine:
        return Edges(above, left)
    late = [(generator.integers(0, 2, s) * unit / 2).astype(dtype) for s in (m, n)]
    return Edges(above, left, above[1:] + dtype.type(scoring.gap) + late[0], left - late[1])


def no_carry_in(n, m, dtype, scoring):
    above, left = np.zeros(m + 1, dtype), np.zeros(n, dtype)
    gap = dtype.type(scoring.gap)
    return (
        Edges(above, left, above[1:] + gap, left + gap) if scoring.is_affine else Edges(above, left)
    )


def loop(scoring, sequences, carry_in, origin, dtype, table=None):
    """Every cell, one after the other, in NumPy scalars."""
    query, target = sequences
    gap, extend = (dtype.type(score) for score in (scoring.gap, scoring.extend))
    h = np.zeros((query.size + 1, target.size + 1), dtype)
    h[0], h[1:, 0] = carry_in.row, carry_in.column
    f = np.array(h[0, 1:] + gap if carry_in.row_gaps is None else carry_in.row_gaps)
    e = np.array(carry_in.column + gap if carry_in.column_gaps is None else carry_in.column_gaps)
    best = Best()
    for i in range(query.size):
        for j in range(target.size):
            pair = scoring.match if query[i] == target[j] else scoring.mismatch
            score = dtype.type(scoring.table[query[i]][target[j]] if scoring.table else pair)
            value = max(h[i, j] + score, e[i], f[j], *([0] if scoring.is_local else []))
            h[i + 1, j + 1] = value
            f[j], e[i] = max(value + gap, f[j] + extend), max(value + gap, e[i] + extend)
            if value > 0:
                best = best_cell(best, Best(value.item(), origin[0] + i, origin[1] + j))
    if table is not None:
        table[...] = h[1:, 1:]
    gaps = (f, e) if scoring.is_affine else (None, None)
    return Edges(h[-1], h[1:, -1], *gaps, best if scoring.is_local else None)


def assert_same(have, want):
    for name in ("row", "column", "row_gaps", "column_gaps"):
        edge, wanted = getattr(have, name), getattr(want, name)
        assert (edge is None) == (wanted is None)
        if edge is not None:
            if name.endswith("gaps") and want.best is not None:
                edge, wanted = np.maximum(edge, 0), np.maximum(wanted, 0)
            np.testing.assert_array_equal(edge, wanted, strict=True)
    assert have.best == want.best
    assert type(have.best) is type(want.best)


@each_scoring
def test_tiles_of_any_size_are_those_of_the_loop(dtype, scoring):
    generator = np.random.default_rng(0)
    for n in SIZES:
        m = int(generator.choice([0, 1, 2, 40, 70, 200]))
        sequences = draw(generator, n, m, 2 + m % 3)
        carry_in = draw_carry_in(generator, n, m, dtype, scoring)
        arguments = scoring, sequences, carry_in, (1000, 7), dtype
        have, want = np.full((2, n, m), -77, dtype)
        wanted = loop(*arguments, want)
        assert_same(determine_tile(*arguments), wanted)
        if n and m:
            assert_same(determine_tile(*arguments, have), wanted)
            np.testing.assert_array_equal(have, want)
    sequences = np.zeros(100, np.uint8), np.ones(80, np.uint8)  # nothing in common
    arguments = scoring, sequences, no_carry_in(100, 80, dtype, scoring), (5, 5), dtype
    edges = determine_tile(*arguments)
    assert_same(edges, loop(*arguments))
    assert edges.best in (None, Best(0, -1, -1))


@pytest.mark.parametrize("changed", ["row", "column", "row_gaps", "best"])
def test_a_wrong_edge_is_found(changed):
    dtype, scoring = KINDS["int8 affine"]
    sequences = draw(np.random.default_rng(1), 5, 4)
    want = loop(scoring, sequences, no_carry_in(5, 4, dtype, scoring), (0, 0), dtype)
    names = ("row", "column", "row_gaps", "column_gaps", "best")
    parts = {name: getattr(want, name) for name in names}
    parts[changed] = Best(9, 0, 0) if changed == "best" else np.maximum(parts[changed], 0) + 1
    with pytest.raises(AssertionError):
        assert_same(Edges(**parts), want)


@pytest.mark.parametrize("mode", ["local", "global"])
def test_threads_and_parts_give_the_whole(monkeypatch, mode):
    generator = np.random.default_rng(3)
    scoring, sequences = by_table(-3, -1, mode=mode), draw(generator, 300, 400)
    arguments = scoring, sequences, draw_carry_in(generator, 300, 400, INT, scoring), (3, 4), INT
    have, want = np.empty((2, 300, 400), INT)
    whole = determine_tile(*arguments, want)
    monkeypatch.setattr(tile, "_LEAST_CELLS", 1)
    monkeypatch.setattr(tile, "_LEAST_SIDES", (50, 50))
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    assert_same(tile.determine_alignment(*arguments, have, is_threaded=True), whole)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("start", [74, 75, 76, 2**16 - 181, 2**16 - 180, 2**31 - 100, 2**40, 2**60])
def test_scores_pass_the_range_of_narrow_numbers(start):
    same = np.zeros(90, np.uint8)
    carry_in = Edges(np.full(91, start), np.full(90, start))
    edges = determine_tile(letters(-1, -1, 2, -1), (same, same), carry_in, (0, 0), INT)
    assert edges.best == Best(start + 180, 89, 89)
    assert edges.row[-1] == edges.column[-1] == start + 180


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("spread", [0, 20, 60, 100, 200, 2000])
def test_edges_that_are_as_far_apart_as_numbers_reach(bits, spread):
    generator = np.random.default_rng(spread)
    scoring, sequences = letters(-5, -2, 3, -4, "global"), draw(generator, 20, 30)
    carry_in = no_carry_in(20, 30, INT, scoring)
    for names in (("row", "row_gaps"), ("column", "column_gaps")):
        apart = {name: getattr(carry_in, name) - 2**bits + spread for name in names}
        far = replace(carry_in, **apart)
        arguments = scoring, sequences, far, (0, 0), INT
        assert_same(determine_tile(*arguments), loop(*arguments))


@pytest.mark.parametrize(
    ("start", "scoring", "kinds"),
    [
        (0, letters(-1, -1, 2, -1), "8 16 32 64"),
        (254, letters(-1, -1, 2, -1), "8 16 32 64"),
        (255, letters(-1, -1, 2, -1), "16 32 64"),
        (0, letters(-129, -1, 2, -1), "16 32 64"),
        (2**31 - 181, letters(-1, -1, 2, -1), "32 64"),
        (2**31 - 180, letters(-1, -1, 2, -1), "64"),
        (0, letters(-1, -1, 2**25, -1), "64"),
        (0, letters(-1, -1, 1, -(2**31) - 1), "64"),
        (0, letters(-1, -1, 2, -1, "global"), "16 32 64"),
        (2**40, letters(-1, -1, 2, -1, "global"), "16 32 64"),
        (0, letters(-800, -800, 2, -1, "global"), "32 64"),
    ],
)
def test_narrow_numbers_are_used_only_where_they_hold_every_score(start, scoring, kinds):
    carry_in = Edges(np.full(91, start), np.full(90, start))
    found = encodings_for(scoring, extremes_of(carry_in), (90, 90), INT)
    found = [8 * encoding.dtype.itemsize for encoding, fits in found if fits]
    assert found == [int(kind) for kind in kinds.split()]


@pytest.fixture
def results(monkeypatch):
    """Results of stripes for every tile that they may take, of any size."""
    found, run = [], striped.run_striped
    monkeypatch.setattr(striped, "_SEGMENTS", 0)
    monkeypatch.setattr(tile, "run_striped", lambda *given: found.append(run(*given)) or found[-1])
    return found


@pytest.mark.parametrize(("gap", "extend"), [(-3, -1), (-4, 0), (-11, -2)])
def test_stripes_of_any_size_are_those_of_the_loop(results, gap, extend):
    generator, scoring = np.random.default_rng(0), by_table(gap, extend)
    for n in (1, 2, REGISTER - 1, REGISTER, REGISTER + 1, 3 * REGISTER + 20):
        for m in (1, 7, 90):
            pair = draw(generator, n, m, kinds=5)
            carry_in = draw_carry_in(generator, n, m, INT, scoring)
            have = determine_tile(scoring, pair, carry_in, (3, 5), INT)
            assert_same(have, loop(scoring, pair, carry_in, (3, 5), INT))
    assert any(found is not None for found in results)


def test_tiles_that_stripes_leave_to_antidiagonals(results):
    """A gap that costs nothing to extend reaches all rows below; a score is beyond a byte."""
    zeros = np.zeros(20 * REGISTER, np.uint8)
    far = np.append(4, zeros), np.array([4] + [1] * 300), by_table(-1, 0)
    large = zeros[: 3 * REGISTER], zeros[: 3 * REGISTER], by_table(-11, -1)
    for query, target, scoring in (far, large):
        pair = query.astype(np.uint8), target.astype(np.uint8)
        carry_in = draw_carry_in(np.random.default_rng(0), query.size, target.size, INT, scoring)
        have = determine_tile(scoring, pair, carry_in, (0, 0), INT)
        assert (results == [None]) == (scoring is far[2])
        assert_same(have, loop(scoring, pair, carry_in, (0, 0), INT))
    assert have.best.score > 255
