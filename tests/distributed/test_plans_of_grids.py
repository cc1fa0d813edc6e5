"""Plans and single solves of grids on a cluster: the graph's bits."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec
import mgrec.dask

SCORES = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2}


def image(seed=0):
    x = np.random.default_rng(seed).normal(size=(60, 50))
    return da.from_array(x, chunks=(20, 25))


def letters(seed, size):
    x = np.random.default_rng(seed).integers(0, 4, size, dtype=np.uint8)
    return da.from_array(x, chunks=40)


CASES = {
    "table": (mgrec.summed_area_table, lambda: (image(),), {}),
    "table of axes": (mgrec.summed_area_table, lambda: (image(),), {"axes": (1, 0)}),
    "score": (mgrec.smith_waterman, lambda: (letters(0, 100), letters(1, 90)), SCORES),
    "matrix": (
        mgrec.smith_waterman,
        lambda: (letters(0, 100), letters(1, 90)),
        {**SCORES, "output": "matrix", "mode": "global"},
    ),
    "loop": (mgrec.wavefront, lambda: (image(),), {"weights": (0.5, 0.25, -0.5)}),
}


@pytest.mark.parametrize("name", with_extended(CASES, "score", "matrix", "loop"))
def test_a_solve_has_the_bits_of_the_graph(client, name):
    recurrence, operands, options = CASES[name]
    wanted = dask.compute(recurrence(*operands(), **options))[0]
    got = mgrec.dask.solve(recurrence, *operands(), **options)
    np.testing.assert_array_equal(dask.compute(got)[0], wanted)
    assert name != "score" or tuple(map(type, got)) == (int, int, int)
    with mgrec.plan(recurrence, *operands(), **options) as solve:
        for _ in range(3):
            np.testing.assert_array_equal(dask.compute(solve())[0], wanted)


def test_a_table_keeps_its_chunks_and_a_plan_takes_other_images(client):
    with mgrec.plan(mgrec.summed_area_table, image()) as solve:
        table = solve(image(1))
        assert table.chunks == image().chunks
        wanted = image(1).compute().cumsum(1).cumsum(0)
        np.testing.assert_array_equal(table.compute(), wanted)


def test_a_tile_that_fails_ends_the_solve(client):
    x = da.from_array(np.ones((40, 40)), chunks=20)
    wrong = x.map_blocks(lambda block: block.astype("f4"), dtype="f8")
    with pytest.raises(TypeError, match="chunks of the dtype that their array declares") as raised:
        mgrec.dask.solve(mgrec.summed_area_table, wrong)
    assert "in the phase determine of chunk" in raised.value.__notes__[0]
