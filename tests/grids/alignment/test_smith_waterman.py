"""Smith-Waterman scores, as the public function gives them."""

import dask.array as da
import numpy as np
import pytest
from chunkings import chunkings
from hypothesis import given
from hypothesis import strategies as st

import mgrec
from mgrec.grids.alignment.results import Alignment

pytestmark = pytest.mark.quick

SCORES = {"match": 2, "mismatch": -1, "gap": -1}


def by_the_loop(query, target, match, mismatch, gap):
    """The definition, cell by cell; the first best cell by target, then query."""
    H = np.zeros((len(query) + 1, len(target) + 1))
    for i, a in enumerate(query, 1):
        for j, b in enumerate(target, 1):
            diagonal = H[i - 1, j - 1] + (match if a == b else mismatch)
            H[i, j] = max(0, diagonal, H[i - 1, j] + gap, H[i, j - 1] + gap)
    if H.max() == 0:
        return 0, -1, -1
    j, i = (int(k) for k in np.argwhere(H.max() == H.T)[0])
    return H.max(), i - 1, j - 1


def letters(seed, n, count=3):
    return np.random.default_rng(seed).integers(0, count, n).astype(np.uint8)


def computed(best):
    return tuple(part.compute(scheduler="sync") for part in best)


@pytest.mark.parametrize("scores", [SCORES, {"match": 1.5, "mismatch": -0.75, "gap": -0.5}])
@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 1), (7, 40), (40, 7), (60, 60)])
def test_equals_the_definition(n, m, scores):
    query, target = letters(n, n), letters(m + 1, m)
    found = mgrec.smith_waterman(query, target, **scores)
    assert found == by_the_loop(query, target, **scores)
    assert isinstance(found, Alignment)
    assert [type(part) for part in found] == [type(scores["match"]), int, int]


def test_one_changed_letter_is_seen():
    query = letters(0, 50)
    found = mgrec.smith_waterman(query, query, **SCORES)
    other = query.copy()
    other[20] = 7
    assert found == (100, 49, 49)
    assert mgrec.smith_waterman(query, other, **SCORES) == by_the_loop(query, other, **SCORES)
    assert mgrec.smith_waterman(query, other, **SCORES) != found


@given(st.data())
def test_any_chunks_give_the_same(data):
    n, m = data.draw(st.integers(0, 40)), data.draw(st.integers(0, 40))
    query, target = letters(data.draw(st.integers(0, 99)), n), letters(5, m)
    lazy = [da.from_array(a, chunks=(data.draw(chunkings(a.size)),)) for a in (query, target)]
    best = mgrec.smith_waterman(*lazy, **SCORES)
    assert all(isinstance(part, da.Array) and part.shape == () for part in best)
    assert computed(best) == mgrec.smith_waterman(query, target, **SCORES)


def test_one_letter_in_chunks_that_are_empty_but_one():
    letter = da.from_array(letters(0, 1), chunks=((0, 1, 0),))
    assert computed(mgrec.smith_waterman(letter, letter, **SCORES)) == (2, 0, 0)


@pytest.mark.parametrize("lazy", ["query", "target"])
def test_one_sequence_in_chunks(lazy):
    given = {"query": letters(1, 100), "target": letters(2, 80)}
    wanted = mgrec.smith_waterman(**given, **SCORES)
    given[lazy] = da.from_array(given[lazy], chunks=30)
    best = mgrec.smith_waterman(**given, **SCORES)
    assert computed(best) == wanted
    assert [part.dtype for part in best] == [np.int64] * 3


ALPHABET = "ACDEFGHIKLMNPQRSTVWY"


def random_pairs(count):
    """Texts of 0 to 200 letters of 2, 4 and 20 kinds, and scores."""
    generator = np.random.default_rng(4)
    for k in range(count):
        kinds = ALPHABET[: (2, 4, 20)[k % 3]]
        texts = ("".join(generator.choice(list(kinds), n)) for n in generator.integers(0, 201, 2))
        match, mismatch, gap = (int(part) for part in generator.integers([1, -4, -4], [6, 1, 1]))
        yield kinds, *texts, {"match": match, "mismatch": mismatch, "gap": gap}


def test_scores_and_ends_are_those_of_parasail():
    """Of 1,000 pairs, every 20th also in chunks; parasail takes no empty text."""
    parasail = pytest.importorskip("parasail")
    aligned = 0
    for k, (kinds, query, target, scores) in enumerate(random_pairs(1000)):
        have = mgrec.smith_waterman(query, target, **scores)
        if query and target:
            matrix = parasail.matrix_create(kinds, scores["match"], scores["mismatch"])
            want = parasail.sw(query, target, -scores["gap"], -scores["gap"], matrix)
            ends = (want.end_query, want.end_ref) if want.score else (-1, -1)
            assert have == (want.score, *ends)
            aligned += want.score > 0
        if k % 20 == 0:
            codes = (np.frombuffer(text.encode(), np.uint8) for text in (query, target))
            lazy = (da.from_array(code, chunks=37) for code in codes)
            assert computed(mgrec.smith_waterman(*lazy, **scores)) == have
    assert 900 < aligned < 1000


@pytest.mark.parametrize(
    "kind",
    [
        str.encode,
        lambda text: bytearray(text, "ascii"),
        lambda text: np.array(list(text)),
        lambda text: np.array(list(text.encode()), np.int16),
        lambda text: np.array(list(text), "S1"),
        lambda text: [ord(letter) for letter in text],
    ],
)
def test_every_kind_of_sequence(kind):
    query, target = "GGTTGACTA", "TGTTACGG"
    wanted = mgrec.smith_waterman(query, target, match=3, mismatch=-3, gap=-2)
    assert wanted == (13, 6, 5)
    assert mgrec.smith_waterman(kind(query), kind(target), match=3, mismatch=-3, gap=-2) == wanted
    assert mgrec.smith_waterman(kind(query), target, match=3, mismatch=-3, gap=-2) == wanted


def test_letters_beyond_a_byte_differ():
    """Codes that agree in their last byte are not the same letter."""
    assert mgrec.smith_waterman("\u0161\U0001f600", "a\u0600", **SCORES).score == 0
    assert mgrec.smith_waterman("né\U0001f600", "é\U0001f600!", **SCORES) == (4, 2, 1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"gap": 1}, ValueError, "gap must be at most 0.*; got 1"),
        ({"match": np.inf}, ValueError, "match must be a finite number"),
        ({"mismatch": "a"}, TypeError, "mismatch must be a finite number"),
        ({"match": 2**61}, ValueError, "scores must stay within int64"),
        ({"query": np.ones(3)}, TypeError, "query must be text, bytes or .* got float64"),
        ({"query": np.ones((3, 3), int)}, ValueError, "query must have one axis"),
        ({"query": 3}, TypeError, "query must be text, bytes or .* got int"),
        ({"query": np.ones(3, np.int64), "target": np.ones(3, np.uint64)}, TypeError, "compare"),
    ],
)
def test_what_is_refused(given, error, message):
    call = {"query": "ACGT", "target": "ACGT", **SCORES, **given}
    with pytest.raises(error, match=message):
        mgrec.smith_waterman(**call)


def test_chunks_of_unknown_sizes_are_refused():
    x = da.from_array(letters(0, 20), chunks=5)
    with pytest.raises(ValueError, match=r"an alignment needs the index .*compute_chunk_sizes"):
        mgrec.smith_waterman(x[x > 0], x, **SCORES)


def test_a_plan_does_not_take_an_alignment():
    x = da.from_array(letters(0, 20), chunks=5)
    with pytest.raises(TypeError, match="output of smith_waterman must be 'score' or 'matrix'"):
        mgrec.plan(mgrec.smith_waterman, x, x, **SCORES, output="alignment")
