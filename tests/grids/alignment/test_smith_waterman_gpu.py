"""Alignments of CuPy arrays, against those of NumPy arrays."""

from importlib.util import find_spec
from itertools import product

import dask.array as da
import numpy as np
import pytest
from places import from_gpu
from places import on_gpu as moved

import mgrec

pytestmark = pytest.mark.gpu

LINEAR = {"match": 2, "mismatch": -1, "gap": -2}
AFFINE = {"match": 5, "mismatch": -4, "gap": -10, "extend": -1}
HALVES = {"match": 1.5, "mismatch": -0.75, "gap": -2.25, "extend": -0.5}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
NEEDS_BIOPYTHON = pytest.mark.skipif(
    find_spec("Bio") is None, reason="needs Biopython: pip install 'mgrec[align]'"
)
SCORES = [
    pytest.param(LINEAR, id="linear"),
    pytest.param(AFFINE, id="affine"),
    pytest.param(HALVES, id="halves"),
    pytest.param(BLOSUM, id="BLOSUM62", marks=NEEDS_BIOPYTHON),
]
MODES = ["local", "global", "semi-global"]
LETTERS = np.frombuffer(b"ARNDCQEGHILKMFPSTWYV", np.uint8)
each_mode = pytest.mark.parametrize("mode", MODES)
each_scoring = pytest.mark.parametrize("scores", SCORES)


def letters(seed, n, scores=LINEAR):
    kinds = LETTERS if "matrix" in scores else LETTERS[:4]
    return np.random.default_rng(seed).choice(kinds, n)


def related(seed, n, m, scores=LINEAR):
    """Two sequences, a part of one of which is like a part of the other."""
    query, target = letters(seed, n, scores), letters(seed + 1, m, scores)
    size = min(n, m) // 2
    part = query[n // 3 : n // 3 + size]
    is_other = np.random.default_rng(seed).random(size) < 0.2
    target[m // 4 : m // 4 + size] = np.where(is_other, letters(seed + 2, size, scores), part)
    return query, target


def on_gpu(*arrays):
    return tuple(map(moved, arrays))


SHORT = 0, 1, 31, 64, 250, 1500
LONG = (5000, 40), (40, 5000), (20_011, 3_001), (3_001, 20_011), (30_000, 20_000)


@each_mode
@each_scoring
@pytest.mark.parametrize(
    "sizes", [[*product(SHORT, SHORT)], pytest.param(LONG, marks=pytest.mark.hardware)], ids=["short", "long"]
)
def test_scores_are_those_of_numpy_arrays(scores, mode, sizes):
    for number, (n, m) in enumerate(sizes):
        query, target = related(number, n, m, scores)
        have = mgrec.smith_waterman(*on_gpu(query, target), mode=mode, **scores)
        assert have == mgrec.smith_waterman(query, target, mode=mode, **scores)
        assert [type(part) for part in have][1:] == [int, int]


TABLE = np.random.default_rng(8).integers(-4, 9, (7, 7))
TABLE = TABLE + TABLE.T
# In float64; beyond int32; beyond bytes; letters that need not be equal; no positive score.
OTHER_SCORES = {
    "table of halves": {"matrix": TABLE / 8, "gap": -2.5, "extend": -0.5},
    "large table": {"matrix": TABLE << 40, "gap": -(2**40)},
    "large": {"match": 2**41, "mismatch": -(2**40), "gap": -3 * 2**40, "extend": -(2**40)},
    "wide table": {"matrix": TABLE * 50, "gap": -500, "extend": -300},
    "good mismatch": {"match": 1, "mismatch": 3, "gap": -4},
    "nothing": {"matrix": 0 * TABLE, "gap": -6},
}


@each_mode
@pytest.mark.parametrize("scores", OTHER_SCORES.values(), ids=OTHER_SCORES)
def test_scores_of_every_dtype(scores, mode):
    draw = np.random.default_rng(1).integers
    for sizes in [(71, 45), (256, 33)]:
        pair = [draw(0, 7, size, "u1") for size in sizes]
        for output in ("score", "matrix"):
            options = {"mode": mode, "output": output, **scores}
            want = mgrec.smith_waterman(*pair, **options)
            have = mgrec.smith_waterman(*on_gpu(*pair), **options)
            assert have == want if output == "score" else (from_gpu(have) == want).all()
        lists = [[part, part[::2], part[:0], part[5:]] for part in pair]
        have = mgrec.smith_waterman(*([*on_gpu(*each)] for each in lists), mode=mode, **scores)
        assert_same(have, mgrec.smith_waterman(*lists, mode=mode, **scores))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4", "i8", "u8"])
def test_letters_of_every_dtype(dtype):
    """Contiguous and strided; scores in int32 and beyond."""
    query, target = (part.astype(dtype) for part in related(1, 700, 900))
    large = {name: score * 2**40 for name, score in AFFINE.items()}
    for scores, step in ((LINEAR, 1), (LINEAR, -2), (large, 1)):
        pair = query[::step], target[::step]
        have = mgrec.smith_waterman(*(part[::step] for part in on_gpu(query, target)), **scores)
        assert have == mgrec.smith_waterman(*pair, **scores)


@each_mode
@each_scoring
def test_matrices_are_those_of_numpy_arrays(scores, mode):
    for n, m in [(1, 1), (33, 700), (700, 33), (1200, 1500)]:
        query, target = related(n, n, m, scores)
        have = mgrec.smith_waterman(*on_gpu(query, target), mode=mode, output="matrix", **scores)
        want = mgrec.smith_waterman(query, target, mode=mode, output="matrix", **scores)
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(from_gpu(have), want)


@each_mode
@each_scoring
def test_lists_are_aligned_pair_by_pair(scores, mode):
    lengths = np.random.default_rng(3).integers(0, 1200, (40, 2))
    pairs = [related(k, n, m, scores) for k, (n, m) in enumerate(lengths.tolist())]
    queries, targets = map(list, zip(*pairs, strict=True))
    for own, other in ((queries, targets), (queries[1], targets), (queries, targets[2])):
        given = [[*on_gpu(*each)] if isinstance(each, list) else moved(each) for each in (own, other)]
        have = mgrec.smith_waterman(*given, mode=mode, **scores)
        assert_same(have, mgrec.smith_waterman(own, other, mode=mode, **scores))


def test_pairs_without_a_positive_cell_have_no_end():
    queries, targets = ([np.full(n, code, "u1") for n in (5, 600, 1)] for code in (65, 67))
    have = mgrec.smith_waterman([*on_gpu(*queries)], [*on_gpu(*targets)], match=0, mismatch=0, gap=-4)
    assert_same(have, [[0] * 3, [-1] * 3, [-1] * 3])


def assert_same(have, want):
    for own, other in zip(have, want, strict=True):
        assert isinstance(own, np.ndarray)
        np.testing.assert_array_equal(own, other)


@each_scoring
@pytest.mark.parametrize(
    ("count", "long"), [(200, (3000, 2000)), pytest.param(3000, (40_000, 25_000), marks=pytest.mark.hardware)]
)
def test_joined_sequences(scores, count, long):
    """Of a database, some much longer than others."""
    lengths = np.random.default_rng(4).integers(0, 300, count)
    lengths[[5, 70]] = long
    offsets = np.concatenate([[0], lengths.cumsum()])
    codes, query = letters(1, offsets[-1], scores), letters(2, 1000, scores)
    given = moved(query), mgrec.Sequences(moved(codes), offsets)
    have = mgrec.smith_waterman(*given, **scores)
    assert_same(have, mgrec.smith_waterman(query, mgrec.Sequences(codes, offsets), **scores))


@each_mode
@each_scoring
def test_alignments_are_those_of_numpy_arrays(scores, mode):
    query, target = related(8, 3000, 4000, scores)
    want = mgrec.smith_waterman(query, target, mode=mode, output="alignment", **scores)
    pair = on_gpu(query, target)
    have = mgrec.smith_waterman(*pair, mode=mode, output="alignment", **scores)
    assert have == want
    lazy = [da.from_array(part, chunks=900) for part in pair]
    have = mgrec.smith_waterman(*lazy, mode=mode, output="alignment", **scores)
    assert have.compute(scheduler="sync") == want
    best = mgrec.smith_waterman(*lazy, mode=mode, **scores)
    have = tuple(part.compute(scheduler="sync") for part in best)
    assert have == (want.score, want.query_end, want.target_end)


@pytest.mark.hardware
def test_the_same_input_gives_the_same_on_any_stream():
    """Blocks come in any order: the best cell of many equal ones does not depend on it."""
    cupy = pytest.importorskip("cupy")
    query = cupy.zeros(20_000, "u1")
    cupy.cuda.get_current_stream().synchronize()
    for _ in range(10):
        with cupy.cuda.Stream(non_blocking=True):
            have = mgrec.smith_waterman(query, query[:15_000], **LINEAR)
        assert have == (30_000, 14_999, 14_999)
