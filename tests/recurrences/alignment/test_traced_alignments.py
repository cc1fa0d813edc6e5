"""Alignments themselves: their columns score what they say, from begin to end."""

import re

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sequences import read

import mgrec
from mgrec.families.wavefront.alignment import traced

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


@pytest.fixture(params=[1 << 18, 60], ids=["whole", "cut"])
def largest_tile(request, monkeypatch):
    """Of alignments that are found in one table, and of those that are cut again and again."""
    monkeypatch.setattr(traced, "WHOLE", request.param)
    if request.param < 100:
        monkeypatch.setattr(traced, "_SIDE", 2)


SCORINGS = [
    pytest.param(2, -1, -2, -2, id="linear"),
    pytest.param(1.1, -0.7, -1.3, -1.3, id="real"),
    pytest.param(5, -4, -8, -1, id="affine", marks=pytest.mark.extended),
    pytest.param(2, -3, -4, 0, id="free", marks=pytest.mark.extended),
    pytest.param(1.1, -0.7, -2.3, -0.4, id="real affine", marks=pytest.mark.extended),
]


@each_mode
@pytest.mark.parametrize(("match", "mismatch", "gap", "extend"), SCORINGS)
def test_columns_score_what_the_alignment_says(largest_tile, mode, match, mismatch, gap, extend):
    generator = np.random.default_rng(3)
    scores = {"match": match, "mismatch": mismatch, "gap": gap, "extend": extend, "mode": mode}
    for n, m in generator.integers(0, 70, (40, 2)):
        query, target = ("".join(generator.choice(list("ACG"), size)) for size in (n, m))
        found = mgrec.smith_waterman(query, target, output="alignment", **scores)
        end = found.score, found.query_end, found.target_end
        assert end == mgrec.smith_waterman(query, target, **scores)
        total = rescored(
            found, query, target, lambda a, b: match if a == b else mismatch, gap, extend
        )
        assert total == pytest.approx(found.score, abs=1e-9) if match % 1 else total == found.score
        assert ends_are_those_of(mode, found, query, target)


@each_mode
def test_real_proteins(largest_tile, mode):
    matrix = pytest.importorskip("Bio.Align.substitution_matrices").load("BLOSUM62")
    alpha, beta, myoglobin = read("globins").values()
    for query, target in ((alpha, beta), (myoglobin, alpha)):
        found = mgrec.smith_waterman(query, target, mode=mode, output="alignment", **BLOSUM)
        total = rescored(found, query, target, lambda a, b: matrix[a, b], -11, -1)
        assert (
            total == found.score == mgrec.smith_waterman(query, target, mode=mode, **BLOSUM).score
        )


@pytest.mark.extended
def test_a_long_gap_over_many_tiles(largest_tile):
    left, right = "ACGTTGCAAC" * 3, "GGATCCTTAG" * 3
    found = mgrec.smith_waterman(
        left + "T" * 150 + right, left + right, match=5, mismatch=-4, gap=-8, extend=0,
        output="alignment",
    )  # fmt: skip
    assert found.score == 5 * 60 - 8
    assert sum(int(n) for n in re.findall(r"(\d+)I", found.cigar)) == 150
    assert "D" not in found.cigar


def test_a_wrong_cigar_is_seen():
    found = mgrec.smith_waterman(
        "ACGTAC", "ACGAC", match=2, mismatch=-1, gap=-1, output="alignment"
    )
    assert found.cigar == "3=1I2="
    wrong = traced_as(found, "2=1I3=")
    with pytest.raises(AssertionError):
        rescored(wrong, "ACGTAC", "ACGAC", lambda a, b: 2 if a == b else -1, -1, -1)


def traced_as(found, cigar):
    return type(found)(**{**vars(found), "cigar": cigar})


def test_three_lines():
    found = mgrec.smith_waterman(
        "xxACGTACyy", "ACGAg", match=2, mismatch=-1, gap=-1, output="alignment"
    )
    assert found.lines == ("ACGTA", "||| |", "ACG-A")
    assert (found.query_begin, found.query_end) == (2, 6)
    assert str(found) == "query   2 ACGTA 6\n          ||| |\ntarget  0 ACG-A 3"
    assert "cigar='3=1I1='" in repr(found)


def test_lines_are_60_columns_long():
    text = "ACGT" * 20
    found = mgrec.smith_waterman(text, text, match=1, mismatch=-1, gap=-1, output="alignment")
    rows = str(found).splitlines()
    assert rows[0] == f"query    0 {text[:60]} 59"
    assert rows[4] == f"query   60 {text[60:]} 79"
    assert len(rows) == 7


def test_small_letters_are_equal_to_capitals_by_a_matrix_alone():
    assert mgrec.smith_waterman("WwAW", "wWAW", output="alignment", **BLOSUM).cigar == "4="
    by_letter = mgrec.smith_waterman(
        "WwAW", "wWAW", match=1, mismatch=-1, gap=-9, mode="global", output="alignment"
    )
    assert by_letter.cigar == "2X2="
    # Both letters count as the star, but they are two.
    assert mgrec.smith_waterman("WJW", "WUW", output="alignment", **BLOSUM).cigar == "1=1X1="


@given(st.lists(st.integers(0, 3), min_size=1), st.lists(st.integers(0, 3), min_size=1))
def test_codes_have_alignments_too(query, target):
    found = mgrec.smith_waterman(query, target, match=2, mismatch=-1, gap=-2, output="alignment")
    total = rescored(found, query, target, lambda a, b: 2 if a == b else -1, -2, -2)
    assert total == found.score


def test_a_dask_array_is_refused():
    x = da.from_array(np.zeros(9, np.uint8), chunks=3)
    with pytest.raises(NotImplementedError, match="needs both in memory: compute"):
        mgrec.smith_waterman(x, x, match=1, mismatch=-1, gap=-1, output="alignment")
