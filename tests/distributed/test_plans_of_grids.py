"""Plans and single solves of grids, whichever worker has a chunk: the bits of one call."""

from __future__ import annotations

from functools import cache
from itertools import count

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from clusters import two_workers
from distributed import wait
from internals import cut_tiles, record_sent

import mgrec
import mgrec.dask

NUMBERS = count()


@pytest.fixture(scope="module")
def client():
    with two_workers(n_workers=4, processes=False, protocol="tcp://") as client:
        yield client


def scattered(workers):
    return lambda chunk_indices: (
        np.random.default_rng(workers).integers(0, workers, len(chunk_indices)).tolist()
    )


def halves(axis):
    def workers_of(chunk_indices):
        last = max(chunk_index[axis] for chunk_index in chunk_indices)
        return [int(chunk_index[axis] > last // 2) for chunk_index in chunk_indices]

    return workers_of


PLACES = {
    "one": scattered(1),
    "two": scattered(2),
    "three": scattered(3),
    "four": scattered(4),
    "columns": halves(-1),
    "rows": halves(0),
}
each_place = pytest.mark.parametrize("place", with_extended(PLACES, *set(PLACES) - {"four"}))


def held(client, lazy, place):
    """The Dask array, whose chunks are in the memory of the workers of a place."""
    addresses, chunk_indices = sorted(client.nthreads()), list(np.ndindex(lazy.numblocks))
    workers = dict(zip(chunk_indices, PLACES[place](chunk_indices), strict=True))
    with dask.annotate(workers=lambda key: [addresses[workers[key[1:]]]]):
        moved = lazy.map_blocks(np.copy, name=f"held-{next(NUMBERS)}", meta=lazy._meta)
    moved = client.persist(moved, optimize_graph=False)
    wait(moved)
    return moved


@pytest.fixture(params=[False, True], ids=["chunks", "parts"])
def is_cut(request, monkeypatch):
    if request.param:
        cut_tiles(monkeypatch)
    return request.param


def assert_solves(recurrence, *operands, wanted, **options):
    """By a plan, twice."""
    with mgrec.plan(recurrence, *operands, **options) as solve:
        results = dask.compute(solve(), solve())
    for found in results:
        np.testing.assert_array_equal(found, wanted)
    return found


TABLES = {
    "float32": ((37, 53), "f4", ((10, 20, 7), (13, 13, 13, 14)), (-2, -1)),
    "integers": ((40, 40), "i2", ((40,), (20, 20)), (-2, -1)),
    "images": ((2, 20, 3, 18), "f8", ((1, 1), (8, 12), (3,), (9, 9)), (3, 1)),
    "empty chunks": ((12, 10), "f8", ((0, 5, 0, 7), (6, 0, 4)), (-2, -1)),
    "nothing": ((0, 10), "f8", ((0,), (5, 5)), (-2, -1)),
}


@each_place
@pytest.mark.parametrize("name", TABLES)
def test_a_table(client, name, place, is_cut):
    shape, dtype, chunks, axes = TABLES[name]
    x = (100 * np.random.default_rng(0).normal(size=shape)).astype(dtype)
    wanted = mgrec.summed_area_table(x, axes)
    given = held(client, da.from_array(x, chunks=chunks), place)
    assert_solves(mgrec.summed_area_table, given, wanted=wanted, axes=axes)


SCORES = {"linear": {"gap": -3}, "affine": {"gap": -5, "extend": -1.5}}


@each_place
@pytest.mark.parametrize("gaps", with_extended(SCORES, "linear"))
@pytest.mark.parametrize("mode", with_extended(["local", "global", "semi-global"], "global"))
@pytest.mark.parametrize("output", with_extended(["score", "matrix"], "matrix"))
def test_an_alignment(client, output, mode, gaps, place, is_cut):
    rng = np.random.default_rng(1)
    query, target = rng.integers(0, 4, 61), rng.integers(0, 4, 80)
    options = {"match": 2, "mismatch": -3, "mode": mode, "output": output, **SCORES[gaps]}
    wanted = mgrec.smith_waterman(query, target, **options)
    lazy = da.from_array(query, chunks=((20, 1, 40),)), da.from_array(target, chunks=32)
    given = [held(client, each, place) for each in lazy]
    found = assert_solves(mgrec.smith_waterman, *given, wanted=wanted, **options)
    assert output == "matrix" or list(map(type, found)) == list(map(type, wanted))


LOOPS = {
    "tiles": {"strategy": "tiles"},
    "max": {"operators": ("max", "+"), "floor": 0.0, "above": 1.0, "left": -1.0, "corner": 2.0},
}


@cache
def loop_by_graph(name, is_cut):
    """Return operands and options of a loop, and the result of its graph."""
    rng = np.random.default_rng(2)
    local, row = rng.normal(size=(30, 41)), rng.normal(size=41) / 4
    options = {"weights": (0.25, row, -0.5), **LOOPS[name]}
    lazy = da.from_array(local, chunks=(11, 20))
    return lazy, options, mgrec.wavefront(lazy, **options).compute(scheduler="sync")


@each_place
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop(client, name, place, is_cut):
    lazy, options, wanted = loop_by_graph(name, is_cut)
    assert_solves(mgrec.wavefront, held(client, lazy, place), wanted=wanted, **options)


def messages_of(solve):
    """The number of messages that the workers send each other in a solve."""
    with pytest.MonkeyPatch.context() as patch:
        sent = record_sent(patch)
        wait(solve())
    return len(sent)


def test_large_tiles_are_cut_unless_their_bits_depend_on_it(client):
    """The edges of each part are sent to the other worker."""
    x = held(client, da.ones((2048, 2048), chunks=(2048, 1024)), "columns")
    with mgrec.plan(mgrec.summed_area_table, x) as solve:
        assert messages_of(solve) == 2
    for strategy, messages in (("tiles", 2), ("compensation", 1), ("hybrid", 1)):
        options = {"weights": (0.5, 0.5, -0.25), "strategy": strategy}
        with mgrec.plan(mgrec.wavefront, x, **options) as solve:
            assert messages_of(solve) == messages


def test_edges_of_parts_are_sent_one_by_one(client, is_cut):
    x = held(client, da.ones((64, 32), chunks=(32, 16)), "columns")
    with mgrec.plan(mgrec.summed_area_table, x) as solve:
        assert messages_of(solve) == (8 if is_cut else 2)


def test_a_solve_of_one_grid(client):
    x = np.random.default_rng(0).normal(size=(60, 50))
    table = mgrec.dask.solve(mgrec.summed_area_table, held(client, da.from_array(x, chunks=(20, 25)), "rows"))
    np.testing.assert_array_equal(table.compute(), mgrec.summed_area_table(x))


def test_a_table_keeps_its_chunks_and_a_plan_takes_other_images(client):
    x, other = np.random.default_rng(0).normal(size=(2, 60, 50))
    with mgrec.plan(mgrec.summed_area_table, da.from_array(x, chunks=(20, 25))) as solve:
        table = solve(da.from_array(other, chunks=(20, 25)))
        assert table.chunks == ((20, 20, 20), (25, 25))
        np.testing.assert_array_equal(table.compute(), mgrec.summed_area_table(other))


def test_a_tile_that_fails_ends_the_solve(client):
    x = da.from_array(np.ones((40, 40)), chunks=20)
    wrong = x.map_blocks(lambda block: block.astype("f4"), dtype="f8")
    with pytest.raises(TypeError, match="chunks of the dtype that their array declares") as raised:
        mgrec.dask.solve(mgrec.summed_area_table, wrong)
    assert "in the phase determine of chunk" in raised.value.__notes__[0]
