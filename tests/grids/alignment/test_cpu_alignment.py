"""Kernels on a CPU, of every dtype: any sizes, chunks and threads give the plain loop's bits."""

import dask.array as da
import numpy as np
import pytest
from alignments import assert_right, by_the_loop

import mgrec
from mgrec.engines.cpu.simd import REGISTER
from mgrec.grids.alignment.cpu import phases
from mgrec.grids.alignment.cpu.profiles import encodings_for
from mgrec.grids.alignment.scoring import Scoring

# Other tests of the public functions compile fewer kernels.
pytestmark = pytest.mark.extended

# Rows of a strip: those of four lanes' rows, in the widest numbers, in int32 and in int8.
WIDE, NARROW, NARROWEST = REGISTER // 2, REGISTER, 4 * REGISTER
SIZES = [1, 2, 5, WIDE - 1, WIDE, WIDE + 1, NARROW, 150, NARROWEST + 9]
TABLE = np.array([[4 * (a == b) - (a + b) % 4 for b in range(5)] for a in range(5)])


def letters(gap, extend, match, mismatch, mode="local"):
    return {"gap": gap, "extend": extend, "match": match, "mismatch": mismatch, "mode": mode}


def by_table(gap, extend, table=TABLE, mode="local"):
    return {"gap": gap, "extend": extend, "matrix": table, "mode": mode}


KINDS = {
    "int8 affine table": by_table(-3, -1),
    "float64": letters(-0.3, -0.3, 1.1, -0.7),
    "int8 linear": letters(-1, -1, 2, -1),
    "int8 affine": letters(-5, -1, 2, -3),
    "int8 table": by_table(-2, -2),
    "int16": letters(-200, -100, 130, -131),
    "int16 affine global": letters(-6, -2, 3, -2, "global"),
    "int16 table global": by_table(-3, -3, mode="semi-global"),
    "int32 affine": letters(-(3 << 17), -(1 << 16), 1 << 17, -(1 << 16)),
    "int64": letters(-(2 << 40), -(2 << 40), 3 << 40, -(1 << 40)),
    "int64 global": letters(-(2 << 40), -(1 << 39), 3 << 40, -(1 << 40), "global"),
    "int64 table": by_table(-(2 << 40), -5, TABLE << 40),
    "float64 affine global": letters(-1.3, -0.3, 1.1, -0.7, "global"),
    "float64 affine table": by_table(-1.3, -0.3, 1.1 * TABLE),
    # The edges of a chunk are about as far apart as numbers of 16 and of 32 bits reach.
    "beyond int16": letters(-900, -700, 3, -4, "global"),
    "beyond int32": letters(-(50 << 20), -(45 << 20), 3, -4, "global"),
}


def draw(generator, n, m, kinds=3):
    return [generator.integers(0, kinds, size).astype(np.uint8) for size in (n, m)]


def check(pair, scores, chunks):
    """Arrays in memory and in chunks."""
    wanted = by_the_loop(pair, scores)
    lazy = [da.from_array(part, chunks=size) for part, size in zip(pair, chunks, strict=True)]
    for sequences in (pair, lazy):
        assert_right(sequences, wanted, scores)


@pytest.mark.parametrize("scores", KINDS.values(), ids=KINDS)
def test_any_sizes_and_chunks_are_those_of_the_loop(scores):
    generator = np.random.default_rng(0)
    for n in SIZES:
        m = int(generator.choice([1, 2, 40, 70, 100]))
        check(draw(generator, n, m, 2 + m % 3), scores, (n // 3 + 1, m // 2 + 1))
    nothing_in_common = np.zeros(100, np.uint8), np.ones(80, np.uint8)
    check(nothing_in_common, scores, (30, 70))


def test_a_wrong_score_is_found():
    pair, scores = draw(np.random.default_rng(1), 5, 4), KINDS["int8 affine"]
    h, end = by_the_loop(pair, scores)
    other, other_end = by_the_loop(pair, scores | {"match": 3})
    assert end != other_end
    assert (h != other).any()


@pytest.mark.parametrize("mode", ["local", "global"])
def test_threads_and_parts_give_the_whole(monkeypatch, mode):
    pair, scores = draw(np.random.default_rng(3), 300, 400), by_table(-3, -1, mode=mode)
    monkeypatch.setattr(phases, "_LEAST_CELLS", 1)
    monkeypatch.setattr(phases, "_LEAST_SIDES", (50, 50))
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    check(pair, scores, (300, 400))


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize(
    "total", [254, 255, 256, *(2**16 - k for k in (2, 1, 0)), 2**31 - 1, 2**31, 2**40, 2**59]
)
def test_scores_pass_the_range_of_narrow_numbers(mode, total):
    share, rest = divmod(total, 90)
    same = np.zeros(90, np.uint8)
    same[40] = 1
    scores = by_table(-1, -1, np.diag([share, share + rest]), mode)
    assert mgrec.smith_waterman(same, same, **scores) == (total, 89, 89)


@pytest.mark.parametrize(
    ("start", "scores", "kinds"),
    [
        (254, letters(-1, -1, 2, -1), "8 16 32 64"),
        (255, letters(-1, -1, 2, -1), "16 32 64"),
        (0, letters(-129, -1, 2, -1), "16 32 64"),
        (2**31 - 181, letters(-1, -1, 2, -1), "32 64"),
        (2**31 - 180, letters(-1, -1, 2, -1), "64"),
        (0, letters(-1, -1, 2**25, -1), "64"),
        (0, letters(-1, -1, 1, -(2**31) - 1), "64"),
        (2**40, letters(-1, -1, 2, -1, "global"), "16 32 64"),
        (0, letters(-800, -800, 2, -1, "global"), "32 64"),
    ],
)
def test_narrow_numbers_are_used_only_where_they_hold_every_score(start, scores, kinds):
    found = encodings_for(Scoring(**scores), (start,) * 3, (90, 90), np.dtype(np.int64))
    found = [8 * encoding.dtype.itemsize for encoding, fits in found if fits]
    assert found == [int(kind) for kind in kinds.split()]
