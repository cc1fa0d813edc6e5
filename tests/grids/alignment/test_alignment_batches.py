"""Many pairs in one call are those of one call a pair."""

import dask.array as da
import numpy as np
import pytest
from internals import divide_among_threads

import mgrec

BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = {"match": 3, "mismatch": -2, "gap": -4, "extend": -4}
REALS = {"match": 1.5, "mismatch": -0.7, "gap": -1.3, "extend": -0.4}
ALPHABETS = {"matrix": "ARNDCQEGHILKMFPSTWYVJ", "match": "ACGT"}
each_scoring = pytest.mark.parametrize(
    "scores",
    [
        pytest.param(BLOSUM, id="BLOSUM62"),
        pytest.param(LETTERS, id="letters", marks=pytest.mark.extended),
        pytest.param(REALS, id="reals", marks=pytest.mark.extended),
    ],
)


def assert_same(have, want):
    for part, wanted in zip(have, want, strict=True):
        np.testing.assert_array_equal(part, np.array(wanted), strict=True)


def draw(scores, count):
    """Texts of 0 to 400 letters, some of which occur in others and score much."""
    generator = np.random.default_rng(count)
    letters = list(ALPHABETS[next(key for key in ALPHABETS if key in scores)])
    found = ["".join(generator.choice(letters, n)) for n in generator.integers(1, 400, count)]
    return [*found, "", found[0] + found[0], found[0]]


@each_scoring
@pytest.mark.parametrize("mode", ["local", "global", "semi-global"])
def test_pairs_are_those_of_single_calls(scores, mode):
    queries, targets = draw(scores, 12), draw(scores, 12)[::-1]
    ones, scores = [queries[0]] * len(queries), scores | {"mode": mode}
    for first, second in ((queries, targets), (ones, targets), (queries, ones)):
        want = [mgrec.smith_waterman(*pair, **scores) for pair in zip(first, second, strict=True)]
        sides = [side[0] if side is ones else side for side in (first, second)]
        assert_same(mgrec.smith_waterman(*sides, **scores), zip(*want, strict=True))
        traced = mgrec.smith_waterman(*sides, output="alignment", **scores)
        assert [(x.score, x.query_end, x.target_end) for x in traced] == want


def test_pairs_without_a_positive_cell_have_no_end():
    queries, targets = ["A" * 5, "AC" * 300, "A"], ["AC" * 12, "GGT" * 84, "C"]
    have = mgrec.smith_waterman(queries, targets, match=0, mismatch=0, gap=-4)
    assert_same(have, ([0] * 3, [-1] * 3, [-1] * 3))


@pytest.mark.extended
def test_scores_past_a_byte_and_past_two():
    long = "W" * 6000
    have = mgrec.smith_waterman([long, "WW", long[:24]], [long, "WAW", long], **BLOSUM)
    assert have.score.tolist() == [66_000, 11, 264]
    assert have.query_end.tolist() == [5999, 0, 23]


def test_threads_share_pairs(monkeypatch):
    texts = draw(BLOSUM, 20)
    want = mgrec.smith_waterman(texts, texts[::-1], **BLOSUM)
    divide_among_threads(monkeypatch, 1)
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    assert_same(mgrec.smith_waterman(texts, texts[::-1], **BLOSUM), want)


def test_lists_of_numbers_are_one_sequence():
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    assert mgrec.smith_waterman([1, 2, 3], (2, 3), **scores) == (2, 2, 1)
    have = mgrec.smith_waterman(
        [np.array([1, 2, 3]), [2]],
        [[2, 3], b"\x02"],
        **BLOSUM | scores | {"matrix": None, "gap": -2, "extend": -2},
    )
    assert have.score.tolist() == [2, 1]


def joined(words):
    codes = np.frombuffer("".join(words).encode(), np.uint8)
    return mgrec.Sequences(codes, np.cumsum([0, *map(len, words)]))


def test_joined_sequences_are_a_list_of_them():
    words, scores = ["GATTACA", "", "TACATACA", "CCC"], {"match": 2, "mismatch": -1, "gap": -1}
    assert [bytes(word).decode() for word in joined(words)] == words
    for query, texts in (("ATTAC", "ATTAC"), (joined(words[::-1]), words[::-1])):
        have = mgrec.smith_waterman(query, joined(words), **scores)
        assert_same(have, mgrec.smith_waterman(texts, words, **scores))
    have = mgrec.smith_waterman("ATTAC", joined(words), output="alignment", **scores)
    assert have == mgrec.smith_waterman("ATTAC", words, output="alignment", **scores)


@pytest.mark.parametrize("offsets", [[0, 3], [1, 4], [0, 3, 2, 4], [], [[0, 4]], [0.0, 4.0]])
def test_offsets_must_be_those_of_the_codes(offsets):
    words = mgrec.Sequences(np.zeros(4, np.uint8), np.array(offsets))
    with pytest.raises(ValueError, match=r"target must have offsets of int64.* from 0 to 4"):
        mgrec.smith_waterman("ATTAC", words, **BLOSUM)


@pytest.mark.parametrize(
    ("query", "target", "output", "error", "message"),
    [
        (["A", "C"], ["A"], "score", ValueError, "lists of the same length.* got 2 and 1"),
        (joined("AC"), joined("A"), "score", ValueError, "lists of the same length"),
        (["A"], ["A"], "matrix", ValueError, "output must be 'score' or 'alignment' for many"),
        ([np.ones(3)], ["A"], "score", TypeError, "query must be text, bytes or an array of int"),
        ([da.zeros(3, dtype="u1")], "A", "score", TypeError, "query must be in memory"),
    ],
)
def test_what_is_refused(query, target, output, error, message):
    with pytest.raises(error, match=message):
        mgrec.smith_waterman(query, target, output=output, **BLOSUM)
