"""Scores of smith_waterman, against the definition and other programs."""

import sys
from itertools import combinations

import dask.array as da
import numpy as np
import pytest
from alignments import by_the_loop
from chunkings import chunkings
from hypothesis import given, settings
from hypothesis import strategies as st
from sequences import read

import mgrec

quick = pytest.mark.quick
extended = pytest.mark.extended

SCORES = {"match": 2, "mismatch": -1, "gap": -1}


def letters(seed, n, count=3):
    return np.random.default_rng(seed).integers(0, count, n).astype(np.uint8)


def computed(best):
    return tuple(part.compute(scheduler="sync") for part in best)


@quick
@pytest.mark.parametrize(
    "scores", [SCORES, SCORES | {"gap": 0}, {"match": 1.5, "mismatch": -0.75, "gap": -0.5, "extend": -0.25}]
)
@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 1), (7, 40), (40, 7), (60, 60)])
def test_equals_the_definition(n, m, scores):
    query, target = letters(n, n), letters(m + 1, m)
    found = mgrec.smith_waterman(query, target, **scores)
    assert found == by_the_loop((query, target), scores)[1]
    assert (found.score, found.query_end, found.target_end) == found
    assert [type(part) for part in found] == [type(scores["match"]), int, int]


@quick
def test_one_changed_letter_is_seen():
    query = letters(0, 50)
    other = np.where(np.arange(50) == 20, 7, query)
    assert mgrec.smith_waterman(query, query, **SCORES) == (100, 49, 49)
    assert mgrec.smith_waterman(query, other, **SCORES) == (98 - 1, 49, 49)


@quick
def test_one_letter_in_chunks_that_are_empty_but_one():
    letter = da.from_array(letters(0, 1), chunks=((0, 1, 0),))
    assert computed(mgrec.smith_waterman(letter, letter, **SCORES)) == (2, 0, 0)


@quick
@pytest.mark.parametrize(
    "kind",
    [
        str.encode,
        lambda text: bytearray(text, "ascii"),
        lambda text: np.array(list(text)),
        lambda text: np.array(list(text.encode()), np.int16),
        lambda text: np.array(list(text), "S1"),
        lambda text: np.array(list(text[::-1]))[::-1],
        lambda text: [ord(letter) for letter in text],
    ],
)
def test_every_kind_of_sequence(kind):
    query, target = "GGTTGACTA", "TGTTACGG"
    wanted = mgrec.smith_waterman(query, target, match=3, mismatch=-3, gap=-2)
    assert wanted == (13, 6, 5)
    assert mgrec.smith_waterman(kind(query), kind(target), match=3, mismatch=-3, gap=-2) == wanted
    assert mgrec.smith_waterman(kind(query), target, match=3, mismatch=-3, gap=-2) == wanted


@quick
def test_letters_beyond_a_byte_differ():
    """Codes that agree in their last byte are not the same letter."""
    assert mgrec.smith_waterman("\u0161\U0001f600", "a\u0600", **SCORES).score == 0
    assert mgrec.smith_waterman("né\U0001f600", "é\U0001f600!", **SCORES) == (4, 2, 1)
    for dtype in "b H I q Q".split():
        top = np.iinfo(dtype).max
        sides = [0, top, top // 2 + 1, 1], [top // 2 + 1, 0, top, 1]
        pair = [np.array(side, dtype) for side in sides]
        assert mgrec.smith_waterman(*pair, **SCORES) == by_the_loop(pair, SCORES)[1]
    many = np.random.default_rng(5).permutation(60).astype(np.uint32) * 65_537
    target = many[20:50].copy()
    target[15] = 12
    assert mgrec.smith_waterman(many, target, **SCORES) == (57, 49, 29)


@quick
def test_chunks_of_unknown_sizes_are_refused():
    x = da.from_array(letters(0, 20), chunks=5)
    with pytest.raises(ValueError, match=r"an alignment needs the index .*compute_chunk_sizes"):
        mgrec.smith_waterman(x[x > 0], x, **SCORES)


@quick
def test_a_plan_does_not_take_an_alignment():
    x = da.from_array(letters(0, 20), chunks=5)
    with pytest.raises(TypeError, match="output of smith_waterman must be 'score' or 'matrix'"):
        mgrec.plan(mgrec.smith_waterman, x, x, **SCORES, output="alignment")


MODES = {"local": "sw", "global": "nw", "semi-global": "sg"}
BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}
PROTEIN = "ARNDCQEGHILKMFPSTWYVBZX*"
each_mode = pytest.mark.parametrize("mode", MODES)


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


def texts(alphabet, longest=150):
    return st.text(alphabet, min_size=1, max_size=longest)


@st.composite
def letter_scores(draw):
    match, mismatch, gap = (draw(st.integers(*ends)) for ends in ((1, 5), (-4, 0), (-9, -1)))
    return {"match": match, "mismatch": mismatch, "gap": gap, "extend": draw(st.integers(gap, -1))}


kinds_of_scores = pytest.mark.parametrize(
    ("alphabet", "scores"),
    [
        pytest.param(PROTEIN, st.just(BLOSUM), id="BLOSUM62"),
        # Compiled for themselves, for bytes and for wider scores.
        pytest.param("ACGT", letter_scores(), id="letters", marks=extended),
    ],
)


@each_mode
@kinds_of_scores
@given(data=st.data())
def test_random_texts_are_aligned_as_by_parasail(mode, alphabet, scores, data):
    query, target = (data.draw(texts(alphabet)) for _ in range(2))
    # With 1, 0 and -1, parasail's global score of "ACC" and "A" is -2, not -1.
    scores = LETTERS if mode != "local" and alphabet == "ACGT" else data.draw(scores)
    have = mgrec.smith_waterman(query, target, mode=mode, **scores)
    assert have == by_parasail(query, target, mode, scores)


@each_mode
@pytest.mark.parametrize(
    ("file", "scores", "kernels"),
    [
        ("globins", BLOSUM, ["striped_16", "scan_16", "diag_32"]),
        pytest.param("orchids", LETTERS, ["striped_sat"], marks=extended),
    ],
)
def test_real_sequences_are_aligned_as_by_parasail(mode, file, scores, kernels):
    for query, target in combinations(read(file).values(), 2):
        have = mgrec.smith_waterman(query, target, mode=mode, **scores)
        for kernel in kernels:
            assert have == by_parasail(query, target, mode, scores, kernel)


@pytest.mark.parametrize("name", "BLOSUM45 BLOSUM50 BLOSUM62 BLOSUM80 BLOSUM90 PAM30 PAM250".split())
def test_every_matrix_is_that_of_parasail(name):
    scores, pair = {"matrix": name, "gap": -9, "extend": -2}, list(read("globins").values())[:2]
    assert mgrec.smith_waterman(*pair, **scores) == by_parasail(*pair, "local", scores)


@each_mode
@kinds_of_scores
@settings(max_examples=10)
@given(data=st.data())
def test_any_chunks_give_the_same(mode, alphabet, scores, data):
    pair = [data.draw(texts(alphabet, 60)).encode() for _ in range(2)]
    scores = LETTERS if mode != "local" and alphabet == "ACGT" else data.draw(scores)
    arrays = [np.frombuffer(text, np.uint8) for text in pair]
    lazy = [da.from_array(array, chunks=(data.draw(chunkings(array.size)),)) for array in arrays]
    best = mgrec.smith_waterman(*lazy, mode=mode, **scores)
    assert [(type(part), part.shape, part.dtype) for part in best] == [(da.Array, (), np.int64)] * 3
    assert computed(best) == mgrec.smith_waterman(*pair, mode=mode, **scores)
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


def test_kinds_of_matrices():
    scores = np.array([[5, -4, 0], [-4, 5, 1], [2, 1, 6]])
    codes = np.array([0, 1, 2, 2]), np.array([2, 1, 2], np.uint8)
    given = {"gap": -3, "extend": -1}
    want = mgrec.smith_waterman(*codes, matrix=scores, **given)
    # The score of (query 0, target 2) is 0, that of (2, 0) is 2.
    assert want == (5 + 6, 2, 2)
    assert mgrec.smith_waterman("abcc", "cbc", matrix=("abc", scores), **given) == want
    assert mgrec.smith_waterman("ABCC", "cbc", matrix=("ABC", scores.tolist()), **given) == want
    # Letters that a matrix lacks count as its star.
    assert mgrec.smith_waterman("WJW", "WUW", mode="global", **BLOSUM).score == 11 + 1 + 11
    assert mgrec.smith_waterman("wjW", "W\U0001f600w", mode="global", **BLOSUM).score == 23


@extended
def test_a_matrix_of_real_numbers():
    real = np.array([[1.5, -1], [-1, 2.25]])
    assert mgrec.smith_waterman([0, 1, 1], [1, 1], matrix=real, gap=-3) == (4.5, 2, 1)


def test_a_matrix_of_biopython():
    loaded = pytest.importorskip("Bio.Align.substitution_matrices").load("BLOSUM62")
    pair = list(read("globins").values())[:2]
    have = mgrec.smith_waterman(*pair, **{**BLOSUM, "matrix": loaded})
    assert have == mgrec.smith_waterman(*pair, **BLOSUM)
    assert isinstance(have.score, int)


def test_named_matrices_need_biopython(monkeypatch):
    monkeypatch.setitem(sys.modules, "Bio.Align", None)
    # No other test loads this one.
    with pytest.raises(ImportError, match=r"pip install 'mgrec\[align\]'"):
        mgrec.smith_waterman("W", "W", matrix="PAM70", gap=-11)
    assert mgrec.smith_waterman("W", "W", matrix=("W", [[11]]), gap=-11, extend=-1) == (11, 0, 0)


ONES = {"matrix": None, "match": 1, "mismatch": -1, "extend": None}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"matrix": None}, TypeError, "match and mismatch, or matrix"),
        ({"match": 1}, TypeError, "matrix must stand alone"),
        (ONES | {"match": np.inf}, ValueError, "match must be a finite number"),
        (ONES | {"mismatch": "a"}, TypeError, "mismatch must be a finite number"),
        (ONES | {"match": 2**61}, ValueError, "scores must stay within int64"),
        ({"query": np.ones(3)}, TypeError, "query must be text, bytes or .* got float64"),
        ({"query": np.ones((3, 3), int)}, ValueError, "query must have one axis"),
        ({"query": 3}, TypeError, "query must be text, bytes or .* got int"),
        (ONES | {"query": np.ones(3, "i8"), "target": np.ones(3, "u8")}, TypeError, "compare"),
        ({"matrix": "BLOSUM61"}, ValueError, "matrix must be one of BLOSUM45, .* got 'BLOSUM61'"),
        ({"matrix": np.ones((2, 3))}, ValueError, r"matrix must be a name.* got float64 \(2, 3\)"),
        ({"matrix": ("AB", np.eye(3))}, ValueError, "alphabet of 3 different characters"),
        ({"matrix": ("AA", np.eye(2))}, ValueError, "alphabet of 2 different characters"),
        ({"matrix": [[np.nan]]}, ValueError, "finite scores"),
        ({"matrix": [[1], [1, 2]]}, ValueError, "matrix must have rows of one length"),
        ({"matrix": np.eye(2)}, TypeError, r"matrix must be \(alphabet, numbers\) if query is"),
        ({"matrix": ("AC", np.eye(2))}, ValueError, "target must have .* got 'W' at index 2"),
        ({"matrix": np.eye(2), "query": [0, 2], "target": [0]}, ValueError, "codes from 0 to 1"),
        ({"extend": -12}, ValueError, "extend must be from gap to 0.* got -12 after a gap of -11"),
        ({"extend": 1}, ValueError, "extend must be from gap to 0"),
        ({"gap": 1}, ValueError, "gap must be at most 0.*; got 1"),
        ({"mode": "glocal"}, ValueError, "mode must be one of 'local', 'global', 'semi-global'"),
        ({"output": "path"}, ValueError, "output must be one of 'score', 'matrix', 'alignment'"),
    ],
)
def test_what_is_refused(given, error, message):
    call = {"query": "ACCA", "target": "ACWA", **BLOSUM, **given}
    with pytest.raises(error, match=message):
        mgrec.smith_waterman(**call)
