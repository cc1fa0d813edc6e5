"""Shards of grids, one after the other as their messages come: the bits of one call."""

from __future__ import annotations

import pickle
from itertools import accumulate

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended

import mgrec
from mgrec.core.contract.kernels import Part
from mgrec.core.contract.recurrence import ChunkInputs
from mgrec.distributed.graph.aligned import align_problem, chunk_indices_of
from mgrec.distributed.plan.assignment import assign_tiles
from mgrec.distributed.plan.tiles import solve_tiles
from mgrec.grids.recurrence import Wavefront


class Exchange:
    """The messages to a shard among those of all, sent by copy."""

    def __init__(self, boxes, number):
        self.boxes, self.number = boxes, number

    def send(self, number, name, value):
        assert (number, name) not in self.boxes
        self.boxes[number, name] = pickle.loads(pickle.dumps(value))

    def take(self, name):
        return self.boxes[self.number, name]

    def has(self, name):
        return (self.number, name) in self.boxes


def solved(problem, holders_of):
    """The outcomes of shards whose tiles a function of all places assigns, and all messages."""
    own = align_problem(problem)
    chunk_indices = list(chunk_indices_of(own.chunks))
    shards = assign_tiles(own, dict(zip(chunk_indices, holders_of(chunk_indices), strict=True)))
    blocks = [block.compute(scheduler="sync") for block in own.blocks]
    boxes, outcomes, programs = {}, {}, {}
    for shard in shards.values():
        inputs = {at: inputs_of(own, blocks, at, starts) for at, starts in shard.chunks}
        exchange = Exchange(boxes, shard.number)
        programs[exchange] = solve_tiles(own.recurrence, shard, inputs, exchange)
    missing = dict.fromkeys(programs, ())
    while programs:
        ready = [exchange for exchange in programs if all(map(exchange.has, missing[exchange]))]
        assert ready, "shards wait for each other"
        for exchange in ready:
            try:
                needed = next(programs[exchange])
                while callable(needed):
                    needed = programs[exchange].send(needed())
                missing[exchange] = needed
            except StopIteration as end:
                outcomes[exchange.number] = end.value
                del programs[exchange]
    return own, outcomes, boxes


def inputs_of(own, blocks, at, starts):
    found = []
    for block, varying in zip(blocks, own.recurrence.varying, strict=True):
        offset = len(at) - block.ndim
        where = tuple(
            slice(starts[k], starts[k] + own.chunks[k][at[k]]) if varies else slice(None)
            for k, varies in enumerate(varying, offset)
        )
        found.append(block[where])
    return ChunkInputs(tuple(found), at, starts)


def joined(own, outcomes):
    """The whole result."""
    whole = np.empty(tuple(map(sum, own.chunks)), own.recurrence.result_dtype)
    starts = [[0, *accumulate(lengths)] for lengths in own.chunks]
    found = {}
    for results, _ in outcomes.values():
        found |= results
    assert set(found) == set(chunk_indices_of(own.chunks))
    for at, result in found.items():
        where = tuple(slice(s[k], s[k + 1]) for s, k in zip(starts, at, strict=True))
        whole[where] = result
    return whole


def scattered(shares, seed=0):
    return lambda chunk_indices: (
        np.random.default_rng(seed).integers(0, shares, len(chunk_indices)).tolist()
    )


def halves(axis):
    def holders_of(chunk_indices):
        last = max(chunk_index[axis] for chunk_index in chunk_indices)
        return [int(chunk_index[axis] > last // 2) for chunk_index in chunk_indices]

    return holders_of


DEALS = {
    "one": scattered(1), "two": scattered(2, 1), "three": scattered(3, 2), "four": scattered(4, 3),
    "columns": halves(-1), "rows": halves(-2),
}  # fmt: skip


@pytest.fixture(params=[False, True], ids=["chunks", "parts"])
def is_cut(request, monkeypatch):
    """Tiles are cut into small parts where this is so, as they are when they are large."""
    if request.param:
        monkeypatch.setattr(Wavefront, "part", lambda self, backend, shape, axis: Part(2, 4))
    return request.param


TABLES = {
    "float32": ((37, 53), "f4", ((10, 20, 7), (13, 13, 13, 14)), (-2, -1)),
    "integers": ((40, 40), "i2", ((40,), (20, 20)), (-2, -1)),
    "images": ((2, 20, 3, 18), "f8", ((1, 1), (8, 12), (3,), (9, 9)), (3, 1)),
    "empty chunks": ((12, 10), "f8", ((0, 5, 0, 7), (6, 0, 4)), (-2, -1)),
    "nothing": ((0, 10), "f8", ((0,), (5, 5)), (-2, -1)),
}


@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table(name, deal, is_cut):
    shape, dtype, chunks, axes = TABLES[name]
    x = (100 * np.random.default_rng(0).normal(size=shape)).astype(dtype)
    problem = mgrec.summed_area_table.build(da.from_array(x, chunks=chunks), axes)
    own, outcomes, _ = solved(problem, DEALS[deal])
    np.testing.assert_array_equal(joined(own, outcomes), mgrec.summed_area_table(x, axes))


SCORES = {"linear": {"gap": -3}, "affine": {"gap": -5, "extend": -1.5}}


@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("gaps", with_extended(SCORES, "linear"))
@pytest.mark.parametrize("mode", with_extended(["local", "global", "semi-global"], "global"))
@pytest.mark.parametrize("output", with_extended(["score", "matrix"], "matrix"))
def test_an_alignment(output, mode, gaps, deal, is_cut):
    rng = np.random.default_rng(1)
    query, target = rng.integers(0, 4, 61), rng.integers(0, 4, 80)
    options = {"match": 2, "mismatch": -3, "mode": mode, "output": output, **SCORES[gaps]}
    problem = mgrec.smith_waterman.build(
        da.from_array(query, chunks=((20, 1, 40),)), da.from_array(target, chunks=32), **options
    )
    own, outcomes, _ = solved(problem, DEALS[deal])
    wanted = mgrec.smith_waterman(query, target, **options)
    if output == "matrix":
        np.testing.assert_array_equal(joined(own, outcomes), wanted)
        assert all(exit is None for _, exit in outcomes.values())
    else:
        (exit,) = [exit for _, exit in outcomes.values() if exit is not None]
        assert problem.to_return_value((), exit) == wanted


LOOPS = {
    "tiles": {"strategy": "tiles"},
    "max": {"operators": ("max", "+"), "floor": 0.0, "above": 1.0, "left": -1.0, "corner": 2.0},
}


@pytest.mark.parametrize("deal", DEALS)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop(name, deal, is_cut):
    rng = np.random.default_rng(2)
    local, row = rng.normal(size=(30, 41)), rng.normal(size=41) / 4
    chunks = (11, 20)
    options = {"weights": (0.25, row, -0.5), **LOOPS[name]}
    lazy = da.from_array(local, chunks=chunks)
    problem = mgrec.wavefront.build(lazy, **options)
    own, outcomes, _ = solved(problem, DEALS[deal])
    wanted = mgrec.wavefront(lazy, **options).compute(scheduler="sync")
    np.testing.assert_array_equal(joined(own, outcomes), wanted)


def test_a_loop_whose_bits_depend_on_the_cut_is_not_cut_further():
    lazy = da.ones((8000, 4000), chunks=(4000, 2000))
    for strategy, is_cut_further in (("tiles", True), ("compensation", False), ("hybrid", False)):
        problem = mgrec.wavefront.build(lazy, weights=(0.5, 0.5, -0.25), strategy=strategy)
        shard = assign_tiles(align_problem(problem), {at: at[1] for at in np.ndindex(2, 2)})[0]
        assert (max(map(len, shard.parts[0])) > 1) == is_cut_further
        assert max(map(len, shard.parts[1])) == 1


def test_a_large_table_is_cut_where_its_edges_go_elsewhere():
    x = np.random.default_rng(3).normal(size=(2048, 2048)).astype("f4")
    lazy = da.from_array(x, chunks=(2048, 1024))
    own, outcomes, boxes = solved(mgrec.summed_area_table.build(lazy), halves(-1))
    np.testing.assert_array_equal(joined(own, outcomes), mgrec.summed_area_table(x))
    assert len(boxes) == 2


def test_parts_are_handed_on_one_by_one(is_cut):
    x = da.ones((64, 32), chunks=(32, 16))
    problem = mgrec.summed_area_table.build(x)
    own, outcomes, boxes = solved(problem, halves(-1))
    np.testing.assert_array_equal(
        joined(own, outcomes), np.outer(np.arange(64) + 1, np.arange(32) + 1)
    )
    assert len(boxes) == (8 if is_cut else 2)
