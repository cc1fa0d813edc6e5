"""The tiles of an alignment on a CPU: edges and best score, however the sequences are cut."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mgrec.engines.cpu.simd.arithmetic import REGISTER
from mgrec.grids.alignment.cpu import tile
from mgrec.grids.alignment.cpu.encoding import encodings_for
from mgrec.grids.alignment.cpu.tile import determine_tile
from mgrec.grids.alignment.scoring import Scoring
from mgrec.grids.alignment.tiles import Best, Edges, IncomingEdges, Tiling, best_cell

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
FEW = {
    "int8 affine table": (INT, by_table(-3, -1)),
    "float64": (REAL, letters(-0.3, -0.3, 1.1, -0.7)),
}
MORE = {
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
extended = pytest.mark.extended
each_scoring = pytest.mark.parametrize(
    ("dtype", "scoring"),
    [*FEW.values(), *(pytest.param(*case, marks=extended) for case in MORE.values())],
    ids=[*FEW, *MORE],
)


def draw(generator, n, m, kinds=3):
    return [generator.integers(0, kinds, size).astype(np.uint8) for size in (n, m)]


def draw_carry_in(generator, n, m, dtype, scoring):
    """Edges such as other tiles could have."""
    unit = scoring.highest
    above, left = ((generator.integers(0, 6, s) * unit).astype(dtype) for s in (m + 1, n))
    if not scoring.is_affine:
        return IncomingEdges(above, left)
    late = [(generator.integers(0, 2, s) * unit / 2).astype(dtype) for s in (m, n)]
    return IncomingEdges(above, left, above[1:] + dtype.type(scoring.gap) + late[0], left - late[1])


def no_carry_in(n, m, dtype, scoring):
    above, left = np.zeros(m + 1, dtype), np.zeros(n, dtype)
    gap = dtype.type(scoring.gap)
    return (
        IncomingEdges(above, left, above[1:] + gap, left + gap)
        if scoring.is_affine
        else IncomingEdges(above, left)
    )


def loop(scoring, sequences, carry_in, origin, dtype, table=None):
    """Every cell, one after the other, in NumPy scalars."""
    query, target = sequences
    gap, extend = (dtype.type(score) for score in (scoring.gap, scoring.extend))
    h = np.zeros((query.size + 1, target.size + 1), dtype)
    h[0], h[1:, 0] = carry_in.above, carry_in.left
    f = np.array(h[0, 1:] + gap if carry_in.above_gaps is None else carry_in.above_gaps)
    e = np.array(carry_in.left + gap if carry_in.left_gaps is None else carry_in.left_gaps)
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
    for name in ("below", "right", "below_gaps", "right_gaps"):
        edge, wanted = getattr(have, name), getattr(want, name)
        assert (edge is None) == (wanted is None)
        if edge is not None:
            if name.endswith("gaps") and want.best is not None:
                edge, wanted = np.maximum(edge, 0), np.maximum(wanted, 0)
            np.testing.assert_array_equal(edge, wanted, strict=True)
    assert have.best == want.best
    assert type(have.best) is type(want.best)


@pytest.mark.extended
@each_scoring
def test_tiles_of_any_size_are_those_of_the_loop(dtype, scoring):
    generator = np.random.default_rng(0)
    for n in SIZES:
        m = int(generator.choice([0, 1, 2, 40, 70, 200]))
        sequences = draw(generator, n, m, 2 + m % 3)
        carry_in = draw_carry_in(generator, n, m, dtype, scoring)
        arguments = scoring, sequences, carry_in, (1000, 7), dtype
        assert_same(determine_tile(*arguments), loop(*arguments))


@each_scoring
def test_the_table_of_a_tile_is_that_of_the_loop(dtype, scoring):
    generator = np.random.default_rng(1)
    sequences = draw(generator, 133, 90)
    arguments = scoring, sequences, draw_carry_in(generator, 133, 90, dtype, scoring), (0, 0), dtype
    have, want = np.full((133, 90), -77, dtype), np.empty((133, 90), dtype)
    assert_same(determine_tile(*arguments, have), loop(*arguments, want))
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("changed", ["below", "right", "below_gaps", "best"])
def test_a_wrong_edge_is_found(changed):
    dtype, scoring = MORE["int8 affine"]
    sequences = draw(np.random.default_rng(1), 5, 4)
    want = loop(scoring, sequences, no_carry_in(5, 4, dtype, scoring), (0, 0), dtype)
    names = ("below", "right", "below_gaps", "right_gaps", "best")
    parts = {name: getattr(want, name) for name in names}
    parts[changed] = Best(9, 0, 0) if changed == "best" else np.maximum(parts[changed], 0) + 1
    with pytest.raises(AssertionError):
        assert_same(Edges(**parts), want)


def draw_cuts(generator, size):
    inner = generator.integers(0, size + 1, generator.integers(0, 7))
    # Twice the same cut is a part of size 0, two neighbours are one of size 1.
    again = np.concatenate([inner, inner[:2], np.minimum(inner[:2] + 1, size)])
    return list(pairwise([0, *np.sort(again).tolist(), size]))


@pytest.mark.extended
@each_scoring
def test_any_tiles_give_the_whole(dtype, scoring):
    generator = np.random.default_rng(2)
    for _ in range(15):
        n, m = generator.integers(0, 200, 2)
        query, target = draw(generator, n, m, generator.integers(2, 5))
        carry_in = no_carry_in(n, m, dtype, scoring)
        whole = determine_tile(scoring, (query, target), carry_in, (0, 0), dtype)
        tiling = Tiling(draw_cuts(generator, n), draw_cuts(generator, m), carry_in)
        for i, rows in enumerate(tiling.rows):
            for j, columns in enumerate(tiling.columns):
                part = query[slice(*rows)], target[slice(*columns)]
                origin = rows[0], columns[0]
                tiling.put(
                    i, j, determine_tile(scoring, part, tiling.carry_in(i, j), origin, dtype)
                )
        assert_same(tiling.edges(), whole)


@extended
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


def test_empty_tiles_hand_edges_on():
    scoring, nothing = letters(-1, -1, 2, -1), np.empty(0, np.uint8)
    above, left = np.arange(4), np.arange(10, 15)
    wide = (nothing, np.ones(3, np.uint8)), IncomingEdges(above, left[:0])
    high = (np.ones(5, np.uint8), nothing), IncomingEdges(above[:1], left)
    assert_same(determine_tile(scoring, *wide, (0, 0), INT), Edges(above, left[:0], best=Best()))
    assert_same(determine_tile(scoring, *high, (0, 0), INT), Edges(left[-1:], left, best=Best()))


@each_scoring
def test_nothing_in_common_ends_nowhere(dtype, scoring):
    sequences = np.zeros(100, np.uint8), np.ones(80, np.uint8)
    carry_in = no_carry_in(100, 80, dtype, scoring)
    edges = determine_tile(scoring, sequences, carry_in, (5, 5), dtype)
    assert_same(edges, loop(scoring, sequences, carry_in, (5, 5), dtype))
    assert edges.best in (None, Best(0, -1, -1))


@pytest.mark.parametrize(
    "start",
    [
        *(74, 75, 76),
        *(
            pytest.param(start, marks=extended)
            for start in (2**16 - 181, 2**16 - 180, 2**31 - 100, 2**40, 2**60)
        ),
    ],
)
def test_scores_pass_the_range_of_narrow_numbers(start):
    same = np.zeros(90, np.uint8)
    carry_in = IncomingEdges(np.full(91, start), np.full(90, start))
    edges = determine_tile(letters(-1, -1, 2, -1), (same, same), carry_in, (0, 0), INT)
    assert edges.best == Best(start + 180, 89, 89)
    assert edges.below[-1] == edges.right[-1] == start + 180


@extended
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("spread", [0, 20, 60, 100, 200, 2000])
def test_edges_that_are_as_far_apart_as_numbers_reach(bits, spread):
    generator = np.random.default_rng(spread)
    scoring, sequences = letters(-5, -2, 3, -4, "global"), draw(generator, 20, 30)
    carry_in = no_carry_in(20, 30, INT, scoring)
    for names in (("above", "above_gaps"), ("left", "left_gaps")):
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
    carry_in = IncomingEdges(np.full(91, start), np.full(90, start))
    found = [8 * each.dtype.itemsize for each in encodings_for(scoring, carry_in, (90, 90), INT)]
    assert found == [int(kind) for kind in kinds.split()]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint32, np.int64, np.uint64])
def test_letters_are_equal_in_all_their_bits(dtype):
    top = np.iinfo(dtype).max
    query = np.array([0, top, top // 2 + 1, 1], dtype)
    target = np.array([top // 2 + 1, 0, top, 1], dtype)
    scoring = letters(-1, -1, 2, -1)
    arguments = scoring, (query, target), no_carry_in(4, 4, INT, scoring), (0, 0), INT
    assert_same(determine_tile(*arguments), loop(*arguments))


def test_more_kinds_of_letters_than_a_byte_has():
    generator = np.random.default_rng(5)
    query = generator.permutation(400).astype(np.uint32) * 65_537
    target = query[100:200].copy()
    target[50] = 12
    scoring = letters(-1, -1, 2, -1)
    arguments = scoring, (query, target), no_carry_in(400, 100, INT, scoring), (0, 0), INT
    assert determine_tile(*arguments).best == Best(197, 199, 99)


def test_operands_may_be_strided_and_read_only_and_are_not_written():
    generator = np.random.default_rng(3)
    dtype, scoring = FEW["int8 affine table"]
    query, target = draw(generator, 140, 100)
    carry_in = draw_carry_in(generator, 140, 100, dtype, scoring)
    operands = [query[::2], target[::-2], carry_in.above[::-1][:51], carry_in.left[::2]]
    operands += [carry_in.above_gaps[::2], carry_in.left_gaps[::-2]]
    copies = [operand.copy() for operand in operands]
    for operand in operands:
        operand.setflags(write=False)
    have = determine_tile(scoring, operands[:2], IncomingEdges(*operands[2:]), (0, 0), dtype)
    assert_same(have, loop(scoring, copies[:2], IncomingEdges(*copies[2:]), (0, 0), dtype))
    for operand, copy in zip(operands, copies, strict=True):
        np.testing.assert_array_equal(operand, copy)
