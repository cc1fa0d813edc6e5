"""Grids whose rows are divided among the ranks of a group."""

import numpy as np
import pytest
from thread_group import moved, run_on_ranks, solve_on_ranks

import mgrec

BOUNDS = (0, 0, 40, 41, 41, 97)
ROWS, RANKS = BOUNDS[-1], len(BOUNDS) - 1


def on_ranks(function):
    return solve_on_ranks(RANKS, function)


def rows_of(array, rank):
    return array[slice(*BOUNDS[rank : rank + 2])]


@pytest.mark.parametrize("dtype", ["i2", "f8"])
def test_summed_area_tables(xp, dtype):
    x = (100 * np.random.default_rng(1).normal(size=(ROWS, 53))).astype(dtype)
    parts = on_ranks(lambda rank, group: mgrec.summed_area_table(moved(xp, rows_of(x, rank)), group=group))
    table = np.concatenate(parts)
    assert table.dtype == mgrec.summed_area_table(x).dtype
    np.testing.assert_allclose(table, x.cumsum(0).cumsum(1), rtol=1e-12, atol=1e-9)


def test_tables_of_a_batch():
    x = np.random.default_rng(2).normal(size=(2, ROWS, 53))
    parts = on_ranks(
        lambda rank, group: mgrec.summed_area_table(x[:, BOUNDS[rank] : BOUNDS[rank + 1]], group=group)
    )
    np.testing.assert_allclose(np.concatenate(parts, 1), x.cumsum(1).cumsum(2), atol=1e-9)


def test_wavefronts(xp):
    generator = np.random.default_rng(3)
    local, left = generator.normal(size=(ROWS, 53)), generator.normal(size=ROWS)
    weights, options = (0.3, 0.2, 0.4), {"operators": ("+", "*")}

    def call(rank, group):
        return mgrec.wavefront(
            moved(xp, rows_of(local, rank)),
            weights=weights,
            left=moved(xp, rows_of(left, rank)),
            group=group,
            **options,
        )

    expected = mgrec.wavefront(local, weights=weights, left=left, **options)
    np.testing.assert_allclose(np.concatenate(on_ranks(call)), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda group: mgrec.summed_area_table(np.ones((2, 3, 4)), (0, 1, 2), group=group),
            "axes must be two, rows and columns, with a group",
        ),
        (
            lambda group: mgrec.smith_waterman(
                "ACG", "AC", match=1, mismatch=-1, gap=-1, output="alignment", group=group
            ),
            "output must be 'score' or 'matrix' with a group; got 'alignment'",
        ),
        (
            lambda group: mgrec.smith_waterman(["ACG"], ["AC"], match=1, mismatch=-1, gap=-1, group=group),
            "query and target must be one sequence each with a group; got lists",
        ),
    ],
)
def test_what_groups_do_not_solve(function, message):
    for error in run_on_ranks(2, lambda rank, group: function(group)):
        with pytest.raises(NotImplementedError, match=message):
            raise error


@pytest.mark.parametrize("output", ["score", "matrix"])
@pytest.mark.parametrize("mode", ["local", "global"])
def test_alignments(xp, mode, output):
    generator = np.random.default_rng(4)
    query, target = ("".join(generator.choice([*"ACGT"], n)) for n in (ROWS, 61))
    scores = {"match": 3, "mismatch": -2, "gap": -2, "mode": mode, "output": output}

    def call(rank, group):
        part, other = (
            moved(xp, np.frombuffer(text.encode(), np.uint8)) for text in (rows_of(query, rank), target)
        )
        return mgrec.smith_waterman(part, other, group=group, **scores)

    expected = mgrec.smith_waterman(query, target, **scores)
    if output == "score":
        assert on_ranks(call) == [expected] * RANKS
    else:
        np.testing.assert_array_equal(np.concatenate(on_ranks(call)), expected)
