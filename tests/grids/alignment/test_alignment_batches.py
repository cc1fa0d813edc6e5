"""Many pairs in one call are those of one call a pair."""

import dask.array as da
import numpy as np
import pytest

import mgrec
from mgrec.engines.cpu import threads

BLOSUM = {"matrix": "BLOSUM62", "gap": -11, "extend": -1}
LETTERS = {"match": 3, "mismatch": -2, "gap": -4, "extend": -4}
REALS = {"match": 1.5, "mismatch": -0.7, "gap": -1.3, "extend": -0.4}
ALPHABETS = {"matrix": "ARNDCQEGHILKMFPSTWYVJ", "match": "ACGT"}
extended = pytest.mark.extended
each_kind = pytest.mark.parametrize(
    ("scores", "mode"),
    [
        pytest.param(BLOSUM, "local", id="BLOSUM62 local", marks=extended),
        *(
            pytest.param(scores, mode, id=f"{name} {mode}", marks=extended)
            for name, scores in (("BLOSUM62", BLOSUM), ("letters", LETTERS), ("reals", REALS))
            for mode in ("local", "global", "semi-global")
            if (name, mode) != ("BLOSUM62", "local")
        ),
    ],
)


def draw(scores, count):
    """Texts of 0 to 400 letters, some of which occur in others and score much."""
    generator = np.random.default_rng(count)
    letters = list(ALPHABETS[next(key for key in ALPHABETS if key in scores)])
    found = ["".join(generator.choice(letters, n)) for n in generator.integers(1, 400, count)]
    return [*found, "", found[0] + found[0], found[0]]


@each_kind
def test_pairs_are_those_of_single_calls(scores, mode):
    queries, targets = draw(scores, 12), draw(scores, 12)[::-1]
    have = mgrec.smith_waterman(queries, targets, mode=mode, **scores)
    pairs = zip(queries, targets, strict=True)
    want = [mgrec.smith_waterman(*pair, mode=mode, **scores) for pair in pairs]
    for name, part in zip(
        ("score", "query_end", "target_end"), zip(*want, strict=True), strict=True
    ):
        np.testing.assert_array_equal(getattr(have, name), np.array(part), strict=True)


@each_kind
def test_one_sequence_with_each_of_a_list(scores, mode):
    texts = draw(scores, 9)
    one = texts[0]
    for pair in ((one, texts), (texts, one)):
        have = mgrec.smith_waterman(*pair, mode=mode, **scores)
        expanded = [[one] * len(texts) if part is one else part for part in pair]
        want = mgrec.smith_waterman(*expanded, mode=mode, **scores)
        for part, wanted in zip(have, want, strict=True):
            np.testing.assert_array_equal(part, wanted, strict=True)


def test_pairs_without_a_positive_cell_have_no_end():
    queries, targets = ["A" * 5, "AC" * 300, "A"], ["AC" * 12, "GGT" * 84, "C"]
    have = mgrec.smith_waterman(queries, targets, match=0, mismatch=0, gap=-4)
    for part, wanted in zip(have, (0, -1, -1), strict=True):
        assert part.tolist() == [wanted] * 3


@extended
def test_scores_past_a_byte_and_past_two():
    long = "W" * 6000
    have = mgrec.smith_waterman([long, "WW", long[:24]], [long, "WAW", long], **BLOSUM)
    assert have.score.tolist() == [66_000, 11, 264]
    assert have.query_end.tolist() == [5999, 0, 23]


def test_threads_share_pairs(monkeypatch):
    texts = draw(BLOSUM, 20)
    want = mgrec.smith_waterman(texts, texts[::-1], **BLOSUM)
    monkeypatch.setattr(threads, "MIN_STEPS_FOR_THREADS", 1)
    monkeypatch.setenv("MGREC_NUM_THREADS", "3")
    for part, wanted in zip(mgrec.smith_waterman(texts, texts[::-1], **BLOSUM), want, strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_alignments_of_pairs():
    found = mgrec.smith_waterman("WAW", ["WW", "AWA"], output="alignment", **BLOSUM)
    want = [mgrec.smith_waterman("WAW", t, output="alignment", **BLOSUM) for t in ("WW", "AWA")]
    assert found == want


def test_lists_of_numbers_are_one_sequence():
    scores = {"match": 1, "mismatch": -1, "gap": -1}
    assert mgrec.smith_waterman([1, 2, 3], (2, 3), **scores) == (2, 2, 1)
    have = mgrec.smith_waterman([np.array([1, 2, 3]), [2]], [[2, 3], b"\x02"], **BLOSUM | scores | {
        "matrix": None, "gap": -2, "extend": -2,
    })  # fmt: skip
    assert have.score.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("query", "target", "output", "error", "message"),
    [
        (
            ["A", "C"],
            ["A"],
            "score",
            ValueError,
            "lists of the same length, one pair each; got 2 and 1",
        ),
        (
            ["A"],
            ["A"],
            "matrix",
            ValueError,
            "output must be 'score' or 'alignment' for many pairs",
        ),
        (
            [np.ones(3)],
            ["A"],
            "score",
            TypeError,
            "query must be text, bytes or an array of integers",
        ),
        (
            [da.zeros(3, dtype="u1")],
            "A",
            "score",
            TypeError,
            "query must be in memory",
        ),
    ],
)
def test_what_is_refused(query, target, output, error, message):
    with pytest.raises(error, match=message):
        mgrec.smith_waterman(query, target, output=output, **BLOSUM)
