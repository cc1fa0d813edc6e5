"""Alignments themselves: their columns score what they say, in memory and over chunks."""

import re
from dataclasses import replace

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.sizeof import sizeof
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from sequences import read

import mgrec
from mgrec.grids.alignment import traceback
from mgrec.grids.alignment.traceback import ScoredTile

MODES = ["local", "global", "semi-global"]
each_mode = pytest.mark.parametrize("mode", MODES)
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}


def rescored(found, query, target, score, gap, extend):
    """The score of the columns of a CIGAR string, which end where the alignment says."""
    i, j, total = found.query_begin, found.target_begin, 0
    for count, kind in re.findall(r"(\d+)([=XID])", found.cigar):
        for k in range(int(count)):
            if kind in "=X":
                assert (query[i] == target[j]) == (kind == "=")
                total += score(query[i], target[j])
            else:
                total += extend if k else gap
            i, j = i + (kind != "D"), j + (kind != "I")
    assert (i - 1, j - 1) == (found.query_end, found.target_end)
    return total


def ends_are_those_of(mode, found, query, target):
    if mode == "global":
        return (found.query_begin, found.target_begin) == (0, 0)
    if mode == "semi-global":
        return 0 in (found.query_begin, found.target_begin) or found.cigar == ""
    return found.cigar == "" or (found.cigar.endswith("=") and "=" in found.cigar.split("X")[0])


def divide_small_tables(patch):
    """Let tables of more than 60 cells be divided again and again."""
    patch.setattr(traceback, "LARGEST_TABLE", 60)
    patch.setattr(traceback, "_SIDE", 2)


extended = pytest.mark.extended
SCORES = {
    "linear": {"match": 2, "mismatch": -1, "gap": -2, "extend": -2},
    "real": {"match": 1.1, "mismatch": -0.7, "gap": -1.3, "extend": -1.3},
    "affine": {"match": 5, "mismatch": -4, "gap": -8, "extend": -1},
    "free": {"match": 2, "mismatch": -3, "gap": -4, "extend": 0},
    "real affine": {"match": 1.1, "mismatch": -0.7, "gap": -2.3, "extend": -0.4},
}
EACH = [
    pytest.param(scores, id=name, marks=[] if name in ("linear", "real affine") else extended)
    for name, scores in SCORES.items()
]


@each_mode
@pytest.mark.parametrize("scores", EACH)
def test_columns_score_what_the_alignment_says(mode, scores):
    generator = np.random.default_rng(3)
    match, mismatch, gap, extend = scores.values()
    for n, m in generator.integers(0, 70, (40, 2)):
        query, target = ("".join(generator.choice(list("ACG"), size)) for size in (n, m))
        found = mgrec.smith_waterman(query, target, mode=mode, output="alignment", **scores)
        end = found.score, found.query_end, found.target_end
        assert end == mgrec.smith_waterman(query, target, mode=mode, **scores)
        total = rescored(found, query, target, lambda a, b: match if a == b else mismatch, gap, extend)
        assert total == pytest.approx(found.score, abs=1e-9) if match % 1 else total == found.score
        assert ends_are_those_of(mode, found, query, target)


@each_mode
def test_real_proteins(mode):
    matrix = pytest.importorskip("Bio.Align.substitution_matrices").load("BLOSUM62")
    alpha, beta, myoglobin = read("globins").values()
    for query, target in ((alpha, beta), (myoglobin, alpha)):
        found = mgrec.smith_waterman(query, target, mode=mode, output="alignment", **BLOSUM)
        total = rescored(found, query, target, lambda a, b: matrix[a, b], -11, -1)
        assert total == found.score
        assert total == mgrec.smith_waterman(query, target, mode=mode, **BLOSUM).score
        lazy, own = da.from_array(codes_of(query), chunks=40), target.lower()
        for chunked in (da.from_array(codes_of(own), chunks=50), own):
            want = mgrec.smith_waterman(query, own, mode=mode, output="alignment", **BLOSUM)
            assert lazily(lazy, chunked, mode=mode, **BLOSUM) == want


def test_a_wrong_cigar_is_seen():
    found = mgrec.smith_waterman("ACGTAC", "ACGAC", match=2, mismatch=-1, gap=-1, output="alignment")
    assert found.cigar == "3=1I2="
    wrong = replace(found, cigar="2=1I3=")
    with pytest.raises(AssertionError):
        rescored(wrong, "ACGTAC", "ACGAC", lambda a, b: 2 if a == b else -1, -1, -1)


def test_three_lines():
    found = mgrec.smith_waterman("xxACGTACyy", "ACGAg", match=2, mismatch=-1, gap=-1, output="alignment")
    assert found.lines == ("ACGTA", "||| |", "ACG-A")
    assert (found.query_begin, found.query_end) == (2, 6)
    assert str(found) == "query   2 ACGTA 6\n          ||| |\ntarget  0 ACG-A 3"
    assert "cigar='3=1I1='" in repr(found)
    text = "ACGT" * 20
    found = mgrec.smith_waterman(text, text, match=1, mismatch=-1, gap=-1, output="alignment")
    rows = str(found).splitlines()  # of 60 columns
    assert len(rows) == 7
    assert (rows[0], rows[4]) == (f"query    0 {text[:60]} 59", f"query   60 {text[60:]} 79")


def test_small_letters_are_equal_to_capitals_by_a_matrix_alone():
    assert mgrec.smith_waterman("WwAW", "wWAW", output="alignment", **BLOSUM).cigar == "4="
    by_letter = mgrec.smith_waterman(
        "WwAW", "wWAW", match=1, mismatch=-1, gap=-9, mode="global", output="alignment"
    )
    assert by_letter.cigar == "2X2="
    # Both letters count as the star, but they are two.
    assert mgrec.smith_waterman("WJW", "WUW", output="alignment", **BLOSUM).cigar == "1=1X1="


each_scoring = pytest.mark.parametrize("scores", [pytest.param(BLOSUM, id="BLOSUM62"), *EACH])


def codes_of(text):
    return np.frombuffer(text.encode(), np.uint8)


def related(generator, alphabet, longest):
    """Two texts, of which one has parts of the other and others between them."""
    query, inserted = (
        "".join(generator.choice(list(alphabet), n)) for n in generator.integers(0, longest, 2)
    )
    cut = len(query) // 3
    return query, inserted[:3] + query[:cut] + inserted + query[2 * cut :]


def lazily(query, target, **scores):
    have = mgrec.smith_waterman(query, target, output="alignment", **scores)
    assert isinstance(have, Delayed)
    return have.compute(scheduler="sync")


@each_mode
@each_scoring
@settings(max_examples=12)
@given(data=st.data())
def test_any_tiles_and_chunks_give_the_same(mode, scores, data):
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pair = related(generator, "ARN", 60)
    want = mgrec.smith_waterman(*pair, mode=mode, output="alignment", **scores)
    with pytest.MonkeyPatch.context() as patch:
        divide_small_tables(patch)
        assert mgrec.smith_waterman(*pair, mode=mode, output="alignment", **scores) == want
    arrays = [codes_of(text) for text in pair]
    lazy = [da.from_array(array, chunks=(data.draw(chunkings(array.size)),)) for array in arrays]
    assert lazily(*lazy, mode=mode, **scores) == want


@extended
def test_a_gap_over_many_tiles_and_chunks(monkeypatch):
    divide_small_tables(monkeypatch)
    left, right = codes_of("ACGTTGCAAC" * 2), codes_of("GGATCCTTAG" * 2)
    long = np.concatenate([left, codes_of("T" * 90), right])
    pair = long, np.concatenate([left, right])
    scores = {"match": 5, "mismatch": -4, "gap": -8, "extend": 0}
    for query, target in (pair, pair[::-1]):
        want = mgrec.smith_waterman(query, target, output="alignment", **scores)
        lazy = [da.from_array(each, chunks=7) for each in (query, target)]
        assert lazily(*lazy, **scores) == want
        assert want.score == 5 * 40 - 8
        assert ("90I" in want.cigar) != ("90D" in want.cigar)


def test_edges_alone_cross_chunks_and_tiles_off_the_path_are_not_repeated(monkeypatch):
    """Of 8 by 8 tiles of 64 by 64: nothing is as large as a tile's table."""
    largest, walked, walk = [0], [], ScoredTile.walk
    monkeypatch.setattr(ScoredTile, "walk", lambda tile, path: walked.append(tile.starts) or walk(tile, path))
    query = np.random.default_rng(0).integers(0, 4, 512, dtype="u1")
    lazy = da.from_array(query, chunks=64)
    own = {"matrix": 4 * np.eye(4, dtype=int) - 1, "gap": -3, "extend": -1}
    alignment = mgrec.smith_waterman(lazy, lazy, output="alignment", **own)

    def measure(key, result, graph, state, worker):
        parts = result if isinstance(result, tuple) else (result,)
        parts = [x for part in parts for x in (part, *getattr(part, "__dict__", {}).values())]
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        largest[0] = max(largest[0], sum(map(sizeof, arrays)))

    with Callback(posttask=measure), dask.config.set(scheduler="sync"):
        assert alignment.compute().cigar == "512="
    assert 0 < largest[0] <= 5 * 65 * 8
    assert len(walked) == 8


def test_the_same_call_has_the_same_key():
    x = da.from_array(np.arange(40) % 4, chunks=10)
    given = {"match": 1, "mismatch": -1, "gap": -2, "output": "alignment"}
    first, second = (mgrec.smith_waterman(x, x[5:], **given) for _ in range(2))
    assert first.key == second.key
    assert first.key != mgrec.smith_waterman(x, x[5:], **{**given, "gap": -3}).key


@extended
def test_two_workers_align_one_pair():
    generator = np.random.default_rng(1)
    query = generator.integers(0, 4, 6000, dtype="u1")
    target = np.concatenate([query[:2000], query[2500:]])
    scores = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
    want = mgrec.smith_waterman(query, target, output="alignment", **scores)
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        lazy = [da.from_array(each, chunks=900) for each in (query, target)]
        have = mgrec.smith_waterman(*lazy, output="alignment", **scores)
        assert have.compute() == want
