"""Affine gaps, matrices and modes of smith_waterman, against other programs."""

import sys
import zlib
from itertools import combinations

import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from hypothesis import given, settings
from hypothesis import strategies as st
from sequences import read

import mgrec
from mgrec.grids.alignment import scoring

MODES = {"local": "sw", "global": "nw", "semi-global": "sg"}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
each_mode = pytest.mark.parametrize("mode", MODES)
few_and_more = pytest.mark.parametrize(
    ("alphabet", "scores"),
    [
        pytest.param("ARNDCQEGHILKMFPSTWYVBZX*", BLOSUM, id="BLOSUM62"),
        pytest.param("ACGT", LETTERS, id="letters", marks=pytest.mark.extended),
    ],
)


def by_parasail(query, target, mode, scores, kernel="striped_sat"):
    """Score and end as parasail gives them; it says (0, 0) of a local score of 0."""
    parasail = pytest.importorskip("parasail")
    if "matrix" in scores:
        matrix = getattr(parasail, scores["matrix"].lower())
    else:
        matrix = parasail.matrix_create("ACGT", scores["match"], scores["mismatch"])
    align = getattr(parasail, f"{MODES[mode]}_{kernel}")
    found = align(query, target, -scores["gap"], -scores["extend"], matrix)
    is_none = mode == "local" and found.score == 0
    return (found.score, *((-1, -1) if is_none else (found.end_query, found.end_ref)))


def by_biopython(query, target, mode, scores):
    """The score alone."""
    align = pytest.importorskip("Bio.Align")
    if "matrix" in scores:
        matrix = align.substitution_matrices.load(scores["matrix"])
        aligner = align.PairwiseAligner(substitution_matrix=matrix)
    else:
        aligner = align.PairwiseAligner(
            match_score=scores["match"], mismatch_score=scores["mismatch"]
        )
    aligner.mode = "local" if mode == "local" else "global"
    aligner.open_gap_score, aligner.extend_gap_score = scores["gap"], scores["extend"]
    if mode == "semi-global":
        aligner.end_gap_score = 0
    return aligner.score(query, target)


def texts(alphabet, longest=150):
    return st.text(alphabet, min_size=1, max_size=longest)


@each_mode
@few_and_more
@given(data=st.data())
def test_random_texts_are_aligned_as_by_parasail(mode, alphabet, scores, data):
    query, target = (data.draw(texts(alphabet)) for _ in range(2))
    have = mgrec.smith_waterman(query, target, mode=mode, **scores)
    assert have == by_parasail(query, target, mode, scores)


@each_mode
@pytest.mark.parametrize("kernel", ["striped_16", "scan_16", "diag_32"])
def test_real_proteins_are_aligned_as_by_parasail_and_biopython(mode, kernel):
    for query, target in combinations(read("globins").values(), 2):
        have = mgrec.smith_waterman(query, target, mode=mode, **BLOSUM)
        assert have == by_parasail(query, target, mode, BLOSUM, kernel)
        assert have.score == by_biopython(query, target, mode, BLOSUM)


@each_mode
@pytest.mark.extended
def test_real_genes_are_aligned_as_by_parasail_and_biopython(mode):
    for query, target in combinations(read("orchids").values(), 2):
        have = mgrec.smith_waterman(query, target, mode=mode, **LETTERS)
        assert have == by_parasail(query, target, mode, LETTERS)
        assert have.score == by_biopython(query, target, mode, LETTERS)


@pytest.mark.extended
@pytest.mark.parametrize(
    "name", ["BLOSUM45", "BLOSUM50", "BLOSUM80", "BLOSUM90", "PAM30", "PAM250"]
)
def test_every_matrix_is_that_of_parasail_and_biopython(name):
    scores = {"matrix": name, "gap": -9, "extend": -2}
    query, target, _ = read("globins").values()
    have = mgrec.smith_waterman(query, target, **scores)
    assert have == by_parasail(query, target, "local", scores)
    assert have.score == by_biopython(query, target, "local", scores)


@each_mode
@few_and_more
@settings(max_examples=10)
@given(data=st.data())
def test_any_chunks_give_the_same(mode, alphabet, scores, data):
    pair = [data.draw(texts(alphabet, 60)).encode() for _ in range(2)]
    arrays = [np.frombuffer(text, np.uint8) for text in pair]
    lazy = [da.from_array(array, chunks=(data.draw(chunkings(array.size)),)) for array in arrays]
    best = mgrec.smith_waterman(*lazy, mode=mode, **scores)
    have = tuple(part.compute(scheduler="sync") for part in best)
    assert have == mgrec.smith_waterman(*pair, mode=mode, **scores)
    table = mgrec.smith_waterman(*lazy, mode=mode, output="matrix", **scores)
    assert table.chunks == tuple(tuple(filter(None, each.chunks[0])) for each in lazy)
    whole = mgrec.smith_waterman(*pair, mode=mode, output="matrix", **scores)
    np.testing.assert_array_equal(table.compute(scheduler="sync"), whole, strict=True)


def test_the_matrix_of_h():
    have = mgrec.smith_waterman("GGT", "TGTT", match=3, mismatch=-3, gap=-2, output="matrix")
    np.testing.assert_array_equal(have, [[0, 3, 1, 0], [0, 3, 1, 0], [3, 1, 6, 4]], strict=True)


@pytest.mark.parametrize(
    ("query", "target", "mode", "wanted"),
    [
        ("", "", "global", (0, -1, -1)),
        ("", "AAA", "global", (-13, -1, 2)),
        ("AAA", "", "global", (-13, 2, -1)),
        ("AAA", "", "semi-global", (0, 2, -1)),
        ("", "AAA", "local", (0, -1, -1)),
        ("A", "W", "semi-global", (-3, 0, 0)),
    ],
)
def test_empty_and_short_texts(query, target, mode, wanted):
    assert mgrec.smith_waterman(query, target, mode=mode, **BLOSUM) == wanted
    alignment = mgrec.smith_waterman(query, target, mode=mode, output="alignment", **BLOSUM)
    assert alignment.score == wanted[0]


def test_letters_that_a_matrix_lacks_count_as_its_star():
    assert mgrec.smith_waterman("WJW", "WUW", mode="global", **BLOSUM).score == 11 + 1 + 11
    assert mgrec.smith_waterman("wjW", "W\U0001f600w", mode="global", **BLOSUM).score == 23


def test_kinds_of_matrices():
    scores = np.array([[5, -4, 0], [-4, 5, 1], [2, 1, 6]])
    codes = np.array([0, 1, 2, 2]), np.array([2, 1, 2], np.uint8)
    given = {"gap": -3, "extend": -1}
    want = mgrec.smith_waterman(*codes, matrix=scores, **given)
    # The score of (query 0, target 2) is 0, that of (2, 0) is 2.
    assert want == (5 + 6, 2, 2)
    assert mgrec.smith_waterman("abcc", "cbc", matrix=("abc", scores), **given) == want
    assert mgrec.smith_waterman("ABCC", "cbc", matrix=("ABC", scores.tolist()), **given) == want


@pytest.mark.extended
def test_a_matrix_of_real_scores():
    scores, codes = np.array([[1.5, -1], [-1, 2.25]]), ([0, 1, 1], [1, 1])
    assert mgrec.smith_waterman(*codes, matrix=scores, gap=-3) == (4.5, 2, 1)


def test_a_matrix_of_biopython():
    loaded = pytest.importorskip("Bio.Align.substitution_matrices").load("BLOSUM62")
    query, target, _ = read("globins").values()
    want = mgrec.smith_waterman(query, target, **BLOSUM)
    have = mgrec.smith_waterman(query, target, **{**BLOSUM, "matrix": loaded})
    assert have == want
    assert isinstance(have.score, int)


# CRC-32 of the scores that NCBI published, as int64 in the order ARNDCQEGHILKMFPSTWYVBZX*.
CHECKSUMS = {
    "BLOSUM45": 0x1DF9D0FF, "BLOSUM50": 0x5531159F, "BLOSUM62": 0x856013A1, "BLOSUM80": 0x4C54DA89,
    "BLOSUM90": 0x84148315, "PAM30": 0xF9DDC755, "PAM70": 0x9ACAAC9E, "PAM250": 0x6AB681C1,
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKSUMS)
def test_named_matrices_have_the_scores_of_ncbi(name):
    pytest.importorskip("Bio")
    alphabet, scores = scoring._as_matrix(name.lower())
    assert alphabet.letters == "ARNDCQEGHILKMFPSTWYVBZX*"
    assert zlib.crc32(np.array(scores, "<i8").tobytes()) == CHECKSUMS[name]


def test_named_matrices_need_biopython(monkeypatch):
    scoring._load_matrix.cache_clear()
    monkeypatch.setitem(sys.modules, "Bio.Align", None)
    with pytest.raises(ImportError, match=r"pip install 'mgrec\[align\]'"):
        mgrec.smith_waterman("W", "W", **BLOSUM)
    assert mgrec.smith_waterman("W", "W", matrix=("W", [[11]]), gap=-11).score == 11


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"matrix": None}, TypeError, "match and mismatch, or matrix"),
        ({"match": 1}, TypeError, "matrix must stand alone"),
        ({"matrix": "BLOSUM61"}, ValueError, "matrix must be one of BLOSUM45, .* got 'BLOSUM61'"),
        ({"matrix": np.ones((2, 3))}, ValueError, r"matrix must be a name.* got float64 \(2, 3\)"),
        ({"matrix": ("AB", np.eye(3))}, ValueError, "alphabet of 3 different characters"),
        ({"matrix": ("AA", np.eye(2))}, ValueError, "alphabet of 2 different characters"),
        ({"matrix": [[np.nan]]}, ValueError, "finite scores"),
        ({"matrix": np.eye(2)}, TypeError, r"matrix must be \(alphabet, numbers\) if query is"),
        (
            {"matrix": ("AC", np.eye(2))},
            ValueError,
            "target must have letters .* got 'W' at index 2",
        ),
        ({"matrix": np.eye(2), "query": [0, 2], "target": [0]}, ValueError, "codes from 0 to 1"),
        ({"extend": -12}, ValueError, "extend must be from gap to 0.* got -12 after a gap of -11"),
        ({"extend": 1}, ValueError, "extend must be from gap to 0"),
        ({"gap": 1}, ValueError, "gap must be at most 0"),
        ({"mode": "glocal"}, ValueError, "mode must be one of 'local', 'global', 'semi-global'"),
        ({"output": "path"}, ValueError, "output must be one of 'score', 'matrix', 'alignment'"),
    ],
)
def test_what_is_refused(given, error, message):
    call = {"query": "ACCA", "target": "ACWA", **BLOSUM, **given}
    with pytest.raises(error, match=message):
        mgrec.smith_waterman(**call)
