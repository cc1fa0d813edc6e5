"""The tiles of a grid on a CPU: edges and best score, however the sequences are cut."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

from mgrec.backends.cpu.simd.choice import WIDE
from mgrec.backends.cpu.wavefront.alignment import _inner_dtype
from mgrec.backends.cpu.wavefront.alignment import determine_alignment as determine
from mgrec.families.wavefront.alignment.scoring import Scoring as Full
from mgrec.families.wavefront.alignment.tiles import Best, Edges, better


def Scoring(match, mismatch, gap):
    return Full(gap, gap, match, mismatch)


# A strip has WIDE // 4 rows in int32 and half as many in int64 and float64.
SIZES = [0, 1, 2, WIDE // 8 - 1, WIDE // 8, WIDE // 4 - 1, WIDE // 4, WIDE // 4 + 1, 150]
WHOLE = np.int64, Scoring(2, -1, -1)
LARGE = np.int64, Scoring(3 << 40, -(1 << 40), -(2 << 40))
REAL = np.float64, Scoring(1.1, -0.7, -0.3)
SCORINGS = {"int32": WHOLE, "int64": LARGE, "float64": REAL}
each_scoring = pytest.mark.parametrize(("dtype", "scoring"), SCORINGS.values(), ids=SCORINGS)


def draw(generator, n, m, letters=3, dtype=np.uint8):
    return [generator.integers(0, letters, size).astype(dtype) for size in (n, m)]


def no_edges(n, m, dtype):
    return np.zeros(m + 1, dtype), np.zeros(n, dtype)


def draw_edges(generator, n, m, dtype, scoring):
    edges = generator.integers(0, 6, m + 1), generator.integers(0, 6, n)
    return [(edge * scoring.match).astype(dtype) for edge in edges]


def loop(scoring, query, target, above, left, origin, dtype):
    """Every cell, one after the other, in NumPy scalars."""
    match, mismatch, gap = np.array([scoring.match, scoring.mismatch, scoring.gap], dtype)
    h = np.zeros((query.size + 1, target.size + 1), dtype)
    h[0], h[1:, 0] = above, left
    best = Best()
    for i in range(query.size):
        for j in range(target.size):
            score = match if query[i] == target[j] else mismatch
            h[i + 1, j + 1] = max(0, h[i, j] + score, h[i, j + 1] + gap, h[i + 1, j] + gap)
            if h[i + 1, j + 1] > 0:
                best = better(best, Best(h[i + 1, j + 1].item(), origin[0] + i, origin[1] + j))
    return Edges(h[-1], h[1:, -1], best=best)


def assert_same(have, want):
    np.testing.assert_array_equal(have.below, want.below, strict=True)
    np.testing.assert_array_equal(have.right, want.right, strict=True)
    assert have.best == want.best
    assert type(have.best.score) is type(want.best.score)


@each_scoring
@pytest.mark.parametrize("n", SIZES)
def test_tiles_of_any_size_are_those_of_the_loop(n, dtype, scoring):
    generator = np.random.default_rng(n)
    for m in (0, 1, 2, 40, 70):
        query, target = draw(generator, n, m, letters=2 + m % 3)
        above, left = draw_edges(generator, n, m, dtype, scoring)
        arguments = scoring, query, target, above, left, (1000, 7), dtype
        assert_same(determine(*arguments), loop(*arguments))


@pytest.mark.parametrize("changed", ["below", "right", "best"])
def test_a_wrong_edge_is_found(changed):
    query, target = draw(np.random.default_rng(1), 5, 4)
    want = loop(WHOLE[1], query, target, *no_edges(5, 4, np.int64), (0, 0), np.int64)
    parts = {name: getattr(want, name) for name in ("below", "right", "best")}
    parts[changed] = Best(9, 0, 0) if changed == "best" else parts[changed] + 1
    with pytest.raises(AssertionError):
        assert_same(Edges(**parts), want)


def determine_tiles(scoring, query, target, rows, columns, dtype):
    """The edges of a whole grid, from tiles between the given rows and columns."""
    above, left = no_edges(query.size, target.size, dtype)
    # Of each part of the target: H of the row above its tile, after the corner.
    edges = [above[begin : end + 1] for begin, end in pairwise(columns)]
    rights, bests = [], []
    for i, end in pairwise(rows):
        right = left[i:end]
        for k, (j, stop) in enumerate(pairwise(columns)):
            part = query[i:end], target[j:stop]
            tile = determine(scoring, *part, edges[k], right, (i, j), dtype)
            edges[k], right = tile.below, tile.right
            bests.append(tile.best)
        rights.append(right)
    below = np.concatenate([edges[0][:1], *(edge[1:] for edge in edges)])
    return Edges(below, np.concatenate(rights), best=reduce(better, bests))


def draw_cuts(generator, size):
    inner = generator.integers(0, size + 1, generator.integers(0, 7))
    # Twice the same cut is a part of size 0, two neighbours are one of size 1.
    again = np.concatenate([inner, inner[:2], np.minimum(inner[:2] + 1, size)])
    return [0, *np.sort(again).tolist(), size]


@each_scoring
def test_any_tiles_give_the_whole(dtype, scoring):
    generator = np.random.default_rng(2)
    for _ in range(40):
        n, m = generator.integers(0, 200, 2)
        query, target = draw(generator, n, m, letters=generator.integers(2, 5))
        whole = determine(scoring, query, target, *no_edges(n, m, dtype), (0, 0), dtype)
        cuts = draw_cuts(generator, n), draw_cuts(generator, m)
        assert_same(determine_tiles(scoring, query, target, *cuts, dtype), whole)


def test_empty_tiles_hand_edges_on():
    above, left = np.arange(4), np.arange(10, 15)
    wide = determine(
        WHOLE[1], np.empty(0, np.uint8), np.ones(3, np.uint8), above, left[:0], (0, 0), int
    )
    high = determine(
        WHOLE[1], np.ones(5, np.uint8), np.empty(0, np.uint8), above[:1], left, (0, 0), int
    )
    assert_same(wide, Edges(above, left[:0], best=Best()))
    assert_same(high, Edges(left[-1:], left, best=Best()))


@each_scoring
def test_nothing_in_common_ends_nowhere(dtype, scoring):
    query, target = np.zeros(100, np.uint8), np.ones(80, np.uint8)
    edges = determine(scoring, query, target, *no_edges(100, 80, dtype), (5, 5), dtype)
    assert edges.best == Best(0, -1, -1)
    assert not edges.below.any()


@pytest.mark.parametrize("start", [2**31 - 181, 2**31 - 100, 2**31, 2**40, 2**62])
def test_scores_pass_the_range_of_int32(start):
    letters = np.zeros(90, np.uint8)
    above, left = np.full(91, start), np.full(90, start)
    edges = determine(WHOLE[1], letters, letters, above, left, (0, 0), np.int64)
    assert edges.best == Best(start + 180, 89, 89)
    assert edges.below[-1] == edges.right[-1] == start + 180


@pytest.mark.parametrize(
    ("start", "scoring", "inner"),
    [
        (0, WHOLE[1], np.int32),
        (2**30, WHOLE[1], np.int32),
        (2**31 - 180, WHOLE[1], np.int64),
        (0, Scoring(2**25, -1, -1), np.int64),
        (0, Scoring(1, -(2**31), -1), np.int64),
        (0, Scoring(1, -1, -(2**31)), np.int64),
    ],
)
def test_int32_is_used_only_where_it_holds_every_score(start, scoring, inner):
    letters, edges = np.zeros(90, np.uint8), (np.full(91, start), np.full(90, start))
    assert _inner_dtype(scoring, letters, letters, *edges, np.dtype(np.int64)) == inner


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.uint32, np.int64, np.uint64])
def test_letters_are_equal_in_all_their_bits(dtype):
    top = np.iinfo(dtype).max
    query = np.array([0, top, top // 2 + 1, 1], dtype)
    target = np.array([top // 2 + 1, 0, top, 1], dtype)
    arguments = WHOLE[1], query, target, *no_edges(4, 4, np.int64), (0, 0), np.int64
    assert_same(determine(*arguments), loop(*arguments))


def test_operands_may_be_strided_and_read_only_and_are_not_written():
    generator = np.random.default_rng(3)
    query, target = draw(generator, 140, 100)
    above, left = draw_edges(generator, 140, 100, np.int64, WHOLE[1])
    operands = [query[::2], target[::-2], above[::-1][:51], left[::2]]
    copies = [operand.copy() for operand in operands]
    for operand in operands:
        operand.setflags(write=False)
    have = determine(WHOLE[1], *operands, (0, 0), np.int64)
    assert_same(have, loop(WHOLE[1], *copies, (0, 0), np.int64))
    for operand, copy in zip(operands, copies, strict=True):
        np.testing.assert_array_equal(operand, copy)
