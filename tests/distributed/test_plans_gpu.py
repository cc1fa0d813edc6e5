"""Plans and single solves over chunks of GPUs: the graph's bits, and no operand moves.

One worker a GPU with dask-cuda; where it is not installed, or there is one GPU, two workers that
share a GPU.
"""

from threading import Timer
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import cluster_of_gpus, on_gpu, to_host, wait_until_started
from distributed import Client, wait
from faults import die, die_in

import mgrec
import mgrec.dask
from mgrec.distributed.programs.bands import BandShard
from mgrec.signal import lfilter, sosfilt, sosfiltfilt

pytestmark = pytest.mark.gpu

CHUNKS, CHUNK = 20, 3000
SOS = [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1], [1.0, 0.5, 0.0, 1.0, -0.3, 0.2]]


def smooth(s, t):
    forward = mgrec.linear_recurrence(s, t)
    return 2 * mgrec.linear_recurrence(0.5, forward + 1, reverse=True)


CASES = {
    "constant": (mgrec.linear_recurrence, lambda s, t: (0.5, t), {"initial": 2.0}),
    "arrays": (mgrec.linear_recurrence, lambda s, t: (s, t), {"reverse": True}),
    "max-plus": (mgrec.scan, lambda s, t: (mgrec.maps.max_plus, s, t), {"initial": 0.25}),
    "rational": (mgrec.rational_recurrence, lambda s, t: (s, t, 0.5, 2.0), {"initial": 0.25}),
    "lfilter": (lfilter, lambda s, t: ([0.2, 0.3], [1.0, -0.9, 0.5], t), {}),
    "sosfilt with zi": (sosfilt, lambda s, t: (SOS, t), {"zi": np.ones((2, 2))}),
    "two recurrences": (smooth, lambda s, t: (s, t), {}),
}


@pytest.fixture(scope="module")
def client_of_all():
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    with patient, cluster_of_gpus() as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        mgrec.dask.pin_operands(client)
        yield client


@pytest.fixture
def client(client_of_all):
    """A client of two workers, once one that died in another test has started again."""
    wait_until_started(client_of_all, 2)
    return client_of_all


@pytest.fixture
def arrays(client):
    import cupy

    rng = np.random.default_rng(8)
    values = rng.uniform(-0.9, 0.9, CHUNKS * CHUNK), rng.standard_normal(CHUNKS * CHUNK)
    placed = mgrec.dask.colocate(
        *(da.from_array(value, chunks=CHUNK).map_blocks(on_gpu, meta=cupy.empty(0)) for value in values)
    )
    # Not every case reads both: the first is still on its way to the second.
    wait(placed)
    return placed


def fetched(solved):
    """The arrays of a result, which must be on GPUs but for states, on the host."""
    if isinstance(solved, tuple):
        return [array for each in solved for array in fetched(each)]
    if isinstance(solved, da.Array):
        return [solved.map_blocks(to_host, meta=np.empty(0)).compute()]
    return [solved]


@pytest.mark.parametrize("name", CASES)
def test_without_a_graph_the_bits_are_the_graphs(client, arrays, name):
    recurrence, of, options = CASES[name]
    wanted = fetched(recurrence(*of(*arrays), **options))
    client.run(lambda dask_worker: dask_worker.transfer_outgoing_log.clear())
    with mgrec.plan(recurrence, *of(*arrays), **options) as plan:
        solves = [plan(), plan(*of(*arrays)), mgrec.dask.solve(recurrence, *of(*arrays), **options)]
    logs = client.run(lambda dask_worker: list(dask_worker.transfer_outgoing_log))
    assert not {str(key) for log in logs.values() for sent in log for key in sent["keys"]}
    for solved in solves:
        for own, graphs in zip(fetched(solved), wanted, strict=True):
            np.testing.assert_array_equal(own, graphs)


def test_results_are_operands_of_the_next_solve(arrays):
    s, t = arrays
    wanted = fetched(mgrec.linear_recurrence(s, mgrec.linear_recurrence(s, t)))
    with mgrec.plan(mgrec.linear_recurrence, s, t) as plan:
        np.testing.assert_array_equal(fetched(plan(s, plan())), wanted)


def test_a_worker_that_dies_in_a_solve_costs_time_alone(client, arrays):
    wanted = fetched(mgrec.linear_recurrence(*arrays))
    victim = next(iter(client.nthreads()))
    client.run(die_in, "launch_determination", workers=[victim])
    w = mgrec.dask.solve(mgrec.linear_recurrence, *arrays)
    np.testing.assert_array_equal(fetched(w), wanted)
    assert victim not in client.nthreads()


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_workers_filter_the_chunks_of_a_recording_together(client, columns, dtype):
    import cupy

    rng, addresses, name = np.random.default_rng(columns), sorted(client.nthreads()), uuid4().hex
    x = rng.integers(-500, 500, (CHUNKS * CHUNK, columns), np.int16)
    parts = np.split(x, CHUNKS)
    futures = {
        (name, k, 0): client.submit(on_gpu, part, key=(name, k, 0), workers=addresses[2 * k // CHUNKS])
        for k, part in enumerate(parts)
    }
    wait(list(futures.values()))
    chunks = (CHUNK,) * CHUNKS, (columns,)
    lazy = da.Array(futures, name, chunks, meta=cupy.empty((0, 0), np.int16))
    wanted = sosfiltfilt(SOS, x, axis=0)
    with mgrec.plan(sosfiltfilt, SOS, lazy, axis=0, dtype=dtype) as plan:
        results = [plan(), *plan.map((() for _ in range(5)), in_flight=3)]
        (shards,) = [plan._shards.values() for plan in plan._plans]
    for shard in shards:
        inner, outer = sorted(shard.groups, key=lambda group: -len(group.chunks))
        assert (len(inner.chunks), len(outer.chunks)) == (CHUNKS // 2 - 1, 1)
    tolerance = abs(wanted).max() * (1e-6 if dtype == "f4" else 1e-12)
    for result in results:
        assert result.dtype == dtype
        np.testing.assert_allclose(*fetched(result), wanted, rtol=0, atol=tolerance)


GRIDS = {
    "table": (mgrec.summed_area_table, {"dtype": "f4"}),
    "table of integers": (mgrec.summed_area_table, {"dtype": "i8"}),
    "loop": (mgrec.wavefront, {"weights": (0.5, 0.25, -0.5)}),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_plan_of_a_grid_has_the_bits_of_the_graph(client, name):
    import cupy

    recurrence, options = GRIDS[name]
    kind = "i4" if name == "table of integers" else "f4"
    values = (np.random.default_rng(9).normal(size=(2048, 1024)) * 100).astype(kind)
    x = da.from_array(values, chunks=(512, 512))
    x = x.map_blocks(on_gpu, meta=cupy.empty((0, 0), kind)).persist()
    wanted = fetched(recurrence(x, **options))
    with mgrec.plan(recurrence, x, **options) as plan:
        solves = [plan(), plan(), mgrec.dask.solve(recurrence, x, **options)]
    for solved in solves:
        np.testing.assert_array_equal(fetched(solved), wanted)


@pytest.mark.parametrize("mode", ["local", "global"])
def test_a_plan_of_an_alignment_has_the_score_of_one_call(client, mode):
    import cupy

    scores = {"match": 2, "mismatch": -3, "gap": -5, "extend": -2, "mode": mode}
    pair = np.random.default_rng(10).integers(0, 4, (2, 9000), dtype=np.uint8)
    lazy = [
        da.from_array(each, chunks=3000).map_blocks(on_gpu, meta=cupy.empty(0, np.uint8)) for each in pair
    ]
    wanted = tuple(mgrec.smith_waterman(*pair, **scores))
    assert tuple(mgrec.dask.solve(mgrec.smith_waterman, *lazy, **scores)) == wanted
    with mgrec.plan(mgrec.smith_waterman, *lazy, **scores) as plan:
        assert tuple(plan()) == tuple(plan()) == wanted


def letters(seed, size):
    return np.random.default_rng(seed).integers(0, 4, size, dtype=np.uint8)


def lazy(client, values):
    """The values in four chunks, two on each worker."""
    import cupy

    parts, addresses, name = np.array_split(values, 4), sorted(client.nthreads()), uuid4().hex
    futures = {}
    for k, part in enumerate(parts):
        key, where = (name, k), addresses[k // 2]
        futures[key] = client.submit(on_gpu, part, key=key, workers=where, allow_other_workers=True)
        # One at a time: an idle worker steals a task that waits for another.
        wait(futures[key])
    where = client.who_has(list(futures.values()))
    assert [where[key] for key in futures] == [(addresses[k // 2],) for k in range(4)]
    return da.Array(futures, name, (tuple(map(len, parts)),), meta=cupy.empty(0, np.uint8))


def are_shared(plan):
    import cupy

    is_shared = all(isinstance(shard, BandShard) for shard in plan._shards.values())
    # Two workers of one GPU would wait for each other.
    assert is_shared == (cupy.cuda.runtime.getDeviceCount() > 1)
    return is_shared


@pytest.mark.parametrize("mode", ["local", "global", "semi-global"])
@pytest.mark.parametrize("gap", [{"gap": -5, "extend": -2}, {"gap": -2}])
def test_gpus_share_a_large_alignment(client, mode, gap):
    scores = {"match": 2, "mismatch": -3, "mode": mode, **gap}
    query, target = letters(1, 70_001), letters(2, 90_000)
    target[20_000:60_000] = query[25_000:65_000]
    lazy_query, lazy_target = lazy(client, query), lazy(client, target)
    wanted = tuple(mgrec.smith_waterman(on_gpu(query), on_gpu(target), **scores))
    with mgrec.plan(mgrec.smith_waterman, lazy_query, lazy_target, **scores) as plan:
        are_shared(plan)
        assert [tuple(plan()) for _ in range(3)] == [wanted] * 3
        assert [tuple(w) for w in plan.map([(lazy_query, lazy_target)] * 4)] == [wanted] * 4
        first, second = (plan(lazy(client, letters(3, 70_001)), lazy_target), plan(lazy_query, lazy_target))
        assert tuple(second) == wanted != tuple(first)


@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_that_dies_in_a_shared_alignment_leaves_the_other_gpu_free(client, number):
    import cupy

    query, target = lazy(client, letters(1, 400_000)), lazy(client, letters(2, 400_000))
    with mgrec.plan(mgrec.smith_waterman, query, target, match=2, mismatch=-3, gap=-2, timeout=2.0) as plan:
        if not are_shared(plan):
            pytest.skip("needs two GPUs")
        wanted = plan()
        victim, other = sorted(plan._shards, key=lambda own: plan._shards[own].number != number)
        client.run(lambda: Timer(0.05, die).start(), workers=[victim])
        with pytest.raises(mgrec.dask.WorkerLostError):
            for _ in range(20):
                plan()
        on_other = client.submit(lambda: int(cupy.arange(10).sum()), workers=[other], pure=False)
        assert on_other.result() == 45
    wait_until_started(client, 2)
    assert mgrec.dask.solve(mgrec.smith_waterman, query, target, match=2, mismatch=-3, gap=-2) == wanted
