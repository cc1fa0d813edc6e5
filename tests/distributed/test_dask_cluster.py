"""A cluster's own records: where phases ran, what moved, what was held."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from clusters import two_workers, wait_until
from dask.utils import key_split
from distributed import Client, stealing, wait

import mgrec
import mgrec.dask
from mgrec.signal import lfilter, sosfilt

zarr = pytest.importorskip("zarr")

STEPS, CHUNKS = 6_000_000, 24


@pytest.fixture(scope="module")
def client():
    with two_workers(processes=False, protocol="tcp://", memory_limit=0) as client:
        mgrec.dask.pin_operands(client)
        yield client


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """s and t in chunked stores on disk, and their values."""
    tmp_path, rng = tmp_path_factory.mktemp("stores"), np.random.default_rng(7)
    values = rng.uniform(-1, 1, STEPS), rng.standard_normal(STEPS)
    arrays = []
    for name, value in zip("st", values, strict=True):
        store = zarr.create_array(
            tmp_path / f"{name}.zarr", shape=value.shape, chunks=(STEPS // CHUNKS,), dtype="f8"
        )
        store[:] = value
        arrays.append(da.from_zarr(tmp_path / f"{name}.zarr"))
    return arrays, values


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def phases_of(array: da.Array) -> Counter[str]:
    (optimized,) = dask.optimize(array)
    return Counter(key[0].rsplit("-", 1)[0] for key in dict(optimized.__dask_graph__()))


def moved(client: Client) -> dict[str, int]:
    """Bytes that workers took from each other, by the prefix of the key."""
    logs = client.run(lambda dask_worker: list(dask_worker.transfer_incoming_log))
    bytes_of: Counter[str] = Counter()
    for log in logs.values():
        for transfer in log:
            for key, size in transfer["keys"].items():
                bytes_of[str(key[0] if isinstance(key, tuple) else key).split("-")[0]] += size
    return bytes_of


def forget_transfers(client: Client) -> None:
    client.run(lambda dask_worker: dask_worker.transfer_incoming_log.clear())


def test_three_tasks_a_chunk_with_the_loads(stores):
    (s, t), _ = stores
    found = phases_of(mgrec.linear_recurrence(s, t))
    assert found["pack"] == found["determine"] == CHUNKS
    assert found["precompute"] == CHUNKS - 1
    assert found["propagate"] == -(-CHUNKS // 16)  # 16 chunks of 4 MB are 64 MiB
    # What else there is: the two stores themselves, once.
    assert sum(found.values()) <= 3 * CHUNKS - 1 + 2 + 2


def test_two_passes_share_no_pack(stores):
    (s, t), _ = stores
    graph = dict(dask.optimize(mgrec.linear_recurrence(s, t, memory="two-pass"))[0].dask)
    holders = Counter()
    for task in graph.values():
        holders.update(d for d in task.dependencies if "pack" in str(d))
    assert not [key for key, count in holders.items() if count > 1]


def test_operands_loaded_by_one_root_task_do_not_move(client, stores):
    (s, t), values = stores
    forget_transfers(client)
    w = mgrec.linear_recurrence(s, t, 1.0).persist()
    wait(w)
    transfers = moved(client)
    assert transfers.get("pack", 0) == 0
    # Summaries and entries are a few hundred bytes a chunk.
    assert sum(transfers.values()) < 2000 * CHUNKS
    np.testing.assert_allclose(w.compute(), mgrec.linear_recurrence(*values, 1.0), rtol=1e-12, atol=1e-12)


@pytest.mark.extended
def test_a_lost_worker_frees_what_was_pinned_to_it(stores):
    (s, t), values = stores
    with two_workers() as client:
        mgrec.dask.pin_operands(client)
        w = mgrec.linear_recurrence(s, t).persist()
        wait_until(lambda: sum(map(bool, client.who_has(w).values())) >= 3)
        client.run_on_scheduler(_lose_a_worker)
        result = w.compute()
    np.testing.assert_allclose(result, mgrec.linear_recurrence(*values), rtol=1e-12, atol=1e-12)


async def _lose_a_worker(dask_scheduler):
    await dask_scheduler.remove_worker(next(iter(dask_scheduler.workers)), stimulus_id="test", close=True)


def test_operands_that_must_move_are_seen(client, stores):
    """The record can fail the test above: a sum of chunks of two workers moves one of each."""
    operands, _ = stores
    x, y = (
        client.persist(operand, workers=[address])
        for operand, address in zip(operands, sorted(client.nthreads()), strict=True)
    )
    wait([x, y])
    forget_transfers(client)
    wait((x + y).persist())
    assert sum(moved(client).values()) > STEPS


def workers_of(client: Client, array: da.Array) -> dict[Any, str]:
    return {key: who[0] for key, who in client.who_has(array).items() if who}


def test_a_chunk_whose_operands_lie_apart_moves_one_of_them_once(client, stores):
    (s, t), _ = stores
    x, y = client.persist(s), client.persist(t)
    wait([x, y])
    apart = sum(workers_of(client, x)[(x.name, k)] != workers_of(client, y)[(y.name, k)] for k in range(24))
    # Dask's memory manager may drop the copy that was fetched to precompute before it is wanted
    # to determine.
    client.amm.stop()
    try:
        forget_transfers(client)
        wait(mgrec.linear_recurrence(x, y).persist())
    finally:
        client.amm.start()
    chunk = 8 * STEPS // CHUNKS
    assert sum(moved(client).values()) <= (apart + 0.1 * CHUNKS) * chunk


def test_colocated_operands_do_not_move(client, stores):
    (s, t), _ = stores
    # Chunks of their own: of those of other tests both workers may have a copy.
    x, y = mgrec.dask.colocate(client.persist(s * 1), client.persist(t * 1), client=client)
    wait([x, y])
    assert key_split(x.name) in stealing.fast_tasks
    there = {key[1:]: worker for key, worker in workers_of(client, y).items()}
    assert {key[1:]: worker for key, worker in workers_of(client, x).items()} == there
    assert len(set(there.values())) == 2
    forget_transfers(client)
    w = mgrec.linear_recurrence(x, y).persist()
    wait(w)
    assert sum(moved(client).values()) < 2000 * CHUNKS


HELD = {
    "constant": lambda s, t, **about: mgrec.linear_recurrence(0.5, t, 2.0, **about),
    "arrays": lambda s, t, **about: mgrec.linear_recurrence(s, t, 2.0, **about),
    "initial": lambda s, t, **about: mgrec.linear_recurrence(s, t, t.sum(), **about),
    "several": lambda s, t, **about: mgrec.scan(
        mgrec.maps.matrix2, s, 0.5, 0.25, 0.5, t, 0.0, initial=(1.0, 2.0), **about
    ),
    "index": lambda s, t, **about: mgrec.linear_recurrence(
        mgrec.Coefficient(lambda i, x: x * np.sin(0.001 * i), s), t, **about
    ),
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("chunks", [2, 40])
@pytest.mark.extended
def test_held_operands_need_no_pack(client, rng, name, reverse, chunks):
    values = rng.uniform(-0.9, 0.9, 400), rng.standard_normal(400)
    arrays = [da.from_array(value, chunks=400 // chunks) for value in values]
    s, t = mgrec.dask.colocate(*(client.persist(array) for array in arrays), client=client)
    wait([s, t])
    held, lazy = (HELD[name](*given, reverse=reverse) for given in ((s, t), arrays))
    assert "pack" not in phases_of(held[0] if name == "several" else held)
    for got, wanted in zip(dask.compute(held)[0], dask.compute(lazy)[0], strict=True):
        np.testing.assert_array_equal(got, wanted)


FILTERS = {
    "no states": lambda x: (lfilter([0.2, 0.3], [1.0, -0.9, 0.5], x),),
    "states": lambda x: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], x, zi=[1.0, 2.0]),
    "lazy states": lambda x: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], x, zi=x[:2]),
    "sections": lambda x: sosfilt([[1, 0.5, 0, 1, -0.5, 0.2]] * 2, x, zi=np.ones((2, 2))),
}


@pytest.mark.parametrize("chunks", with_extended([2, 40], 2))
@pytest.mark.parametrize("name", with_extended(FILTERS, "sections", "lazy states"))
def test_held_signals_need_no_pack(client, rng, name, chunks):
    lazy = da.from_array(rng.standard_normal(400), chunks=400 // chunks)
    x = client.persist(lazy)
    wait(x)
    held = FILTERS[name](x)
    found = phases_of(held[0])
    assert "pack" not in found
    assert chunks == 2 or found["precompute"] <= chunks / 4
    assert held[0].chunks == lazy.chunks
    computed = dask.compute(*held, *FILTERS[name](lazy))
    for got, wanted in zip(computed[: len(held)], computed[len(held) :], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_held_chunks_take_little_more_than_a_task(client, rng):
    t = client.persist(da.from_array(rng.standard_normal(4000), chunks=10))
    wait(t)
    found = phases_of(mgrec.linear_recurrence(0.5, t))
    assert found["determine"] == 400
    assert found["precompute"] + found["propagate"] <= 400 / 5


def test_held_rows_of_chunks(client, rng):
    values = rng.standard_normal((4, 90, 3))
    t = client.persist(da.from_array(values, chunks=(2, 5, 3)))
    s = client.persist(da.from_array(values[:1, :, :1] / 4, chunks=(1, 5, 1)))
    wait([s, t])
    w = mgrec.linear_recurrence(s, t, values[:, 0], axis=1)
    wanted = mgrec.linear_recurrence(values[:1, :, :1] / 4, values, values[:, 0], axis=1)
    assert "pack" not in phases_of(w)
    np.testing.assert_allclose(w.compute(), wanted, rtol=1e-12, atol=1e-12)


def test_operands_on_their_way_are_held_too(client):
    t = client.persist(da.ones(120, chunks=3).map_blocks(_slowly, dtype=float))
    w = mgrec.linear_recurrence(0.5, t)
    assert "pack" not in phases_of(w)
    assert float(w[-1].compute()) == 2.0


def _slowly(block):
    time.sleep(0.01)
    return block


STAGED = {
    "forward": lambda t: mgrec.linear_recurrence(0.5, t),
    "reverse": lambda t: mgrec.linear_recurrence(0.5, t, reverse=True),
    "filter": lambda t: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], t),
}


@pytest.mark.parametrize("name", with_extended(STAGED, "reverse"))
def test_persist_in_stages(client, rng, name):
    t = rng.standard_normal(120)
    array = da.from_array(t, chunks=2)
    staged = mgrec.dask.persist_in_stages(STAGED[name](array), chunks=40, client=client)
    assert staged.chunks == array.chunks
    np.testing.assert_allclose(staged.compute(), STAGED[name](t), atol=1e-14)


def test_many_chunks_are_advised_against():
    t = da.ones(3000, chunks=1)
    with pytest.warns(UserWarning, match="3000 chunks.*rechunk.*persist_in_stages") as told:
        mgrec.linear_recurrence(0.5, t)
        lfilter([1.0], [1.0, -0.5], t)
    assert [warning.filename for warning in told] == [__file__] * 2


def test_a_group_is_enough_to_finish_its_chunks():
    """Streaming: the first chunk's result needs no load beyond its group of 32."""
    w = mgrec.linear_recurrence(da.zeros(128, chunks=1) + 0.5, da.ones(128, chunks=1))
    graph = dict(dask.optimize(w.blocks[0])[0].__dask_graph__())
    inputs_of_chunks = {key[1] for key in graph if str(key[0]).startswith("pack")}
    precomputed = {key[1] for key in graph if str(key[0]).startswith("precompute")}
    assert inputs_of_chunks | precomputed == set(range(32))


@pytest.mark.extended
def test_memory_stays_bounded_while_streaming(stores, tmp_path):
    """A worker of 768 MiB takes 960 MB of operands, and spills nothing."""
    steps, size = 60_000_000, 1_000_000
    s = da.full(steps, 0.5, chunks=size)
    t = da.map_blocks(_terms, da.arange(steps // size, chunks=1), size, chunks=(size,), dtype=float)
    layout = {"shape": (steps,), "chunks": (size,), "dtype": "f8", "compressors": None}
    target = zarr.create_array(tmp_path / "w.zarr", **layout)
    with two_workers(n_workers=1, memory_limit="768MiB") as client:
        future = client.compute(da.store(mgrec.linear_recurrence(s, t), target, lock=False, compute=False))
        spilled = 0
        while not future.done():
            time.sleep(0.2)
            held = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
            spilled = max(spilled, *held.values())
        future.result()
    assert spilled == 0
    assert target[-1] == pytest.approx(2.0)


def _terms(block: np.ndarray, size: int) -> np.ndarray:
    return np.ones(size)
