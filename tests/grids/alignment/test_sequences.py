"""Sequences that their owner has joined."""

import numpy as np
import pytest

import mgrec
from mgrec.grids.alignment.sequences import Sequences, join

SCORES = {"match": 2, "mismatch": -1, "gap": -1}
WORDS = ["GATTACA", "", "TACATACA", "CCC"]


def joined(words):
    return join([np.frombuffer(word.encode(), np.uint8) for word in words])


def test_joined_sequences_are_a_list_of_them():
    have = mgrec.smith_waterman("ATTAC", joined(WORDS), **SCORES)
    want = mgrec.smith_waterman("ATTAC", WORDS, **SCORES)
    for own, other in zip(have, want, strict=True):
        np.testing.assert_array_equal(own, other)
    pairs = mgrec.smith_waterman(joined(WORDS), joined(WORDS[::-1]), **SCORES)
    np.testing.assert_array_equal(
        pairs.score, mgrec.smith_waterman(WORDS, WORDS[::-1], **SCORES).score
    )
    assert [bytes(word).decode() for word in joined(WORDS)] == WORDS


def test_alignments_of_joined_sequences():
    have = mgrec.smith_waterman("ATTAC", joined(WORDS), output="alignment", **SCORES)
    assert have == mgrec.smith_waterman("ATTAC", WORDS, output="alignment", **SCORES)


@pytest.mark.parametrize("offsets", [[0, 3], [1, 4], [0, 3, 2, 4], [], [[0, 4]], [0.0, 4.0]])
def test_offsets_must_be_those_of_the_codes(offsets):
    words = Sequences(np.zeros(4, np.uint8), np.array(offsets))
    with pytest.raises(ValueError, match=r"target must have offsets of int64.* from 0 to 4"):
        mgrec.smith_waterman("ATTAC", words, **SCORES)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="lists of the same length"):
        mgrec.smith_waterman(joined(WORDS), joined(WORDS[1:]), **SCORES)
