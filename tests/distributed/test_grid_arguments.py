"""Which grids plans take."""

from __future__ import annotations

import dask.array as da
import pytest

import mgrec
from mgrec.distributed.cluster.arguments import problem_of

SQUARE, LETTERS = da.ones((6, 6), chunks=3), da.ones(6, chunks=3, dtype="u1")
SCORES = {"match": 2, "mismatch": -3, "gap": -5}
TAKEN = {
    "table": (mgrec.summed_area_table, (SQUARE,), {"axes": (1, 0)}),
    "score": (mgrec.smith_waterman, (LETTERS, LETTERS), SCORES),
    "matrix": (mgrec.smith_waterman, (LETTERS, LETTERS), {**SCORES, "output": "matrix"}),
    "loop": (mgrec.wavefront, (SQUARE,), {"weights": (0.5, 0.5, -0.25)}),
    "scan": (mgrec.linear_recurrence, (0.5, SQUARE), {}),
}
REFUSED = {
    "alignment": (
        (mgrec.smith_waterman, (LETTERS, LETTERS), {**SCORES, "output": "alignment"}),
        "output of smith_waterman must be 'score' or 'matrix' here; got 'alignment', .* call",
    ),
    "sweeps": ((mgrec.sor, (SQUARE,), {}), "got sor, which sweeps it several times: call sor"),
    "three axes": (
        (mgrec.summed_area_table, (da.ones((2, 2, 2), chunks=1),), {"axes": (0, 1, 2)}),
        "one recurrence here; got summed_area_table over more than two axes",
    ),
    "another function": ((len, (SQUARE,), {}), "or over a grid once, .*; got len"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(name):
    recurrence, operands, options = TAKEN[name]
    assert problem_of(recurrence, operands, options, may_be_grid=True).shape == (6, 6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(TypeError, match=message):
        problem_of(*call, may_be_grid=True)


@pytest.mark.parametrize("name", ["table", "score", "loop"])
def test_what_is_along_an_axis_alone_takes_no_grid(name):
    with pytest.raises(TypeError, match=r"one recurrence along an axis, .* or lfilter; got"):
        problem_of(*TAKEN[name])
