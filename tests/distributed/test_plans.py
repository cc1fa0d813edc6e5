"""Plans: the graph's bits without a graph, and what happens when something is lost."""

from __future__ import annotations

import asyncio
import gc
import os
import time

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from distributed import Client, LocalCluster, wait
from scipy import signal

import mgrec
import mgrec.dask
from mgrec.distributed.plan import internals
from mgrec.signal import filtfilt, lfilter, sosfilt

STEPS, CHUNK = 120, 10


def cluster():
    return LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0")


@pytest.fixture(scope="module")
def client():
    with cluster() as own, Client(own) as client:
        yield client


@pytest.fixture
def values():
    rng = np.random.default_rng(11)
    return rng.uniform(-0.9, 0.9, STEPS), rng.standard_normal(STEPS)


@pytest.fixture
def arrays(client, values):
    return mgrec.dask.colocate(*(da.from_array(value, chunks=CHUNK) for value in values))


def square(i, x):
    return x * np.sin(0.001 * i)


CASES = {
    "constant": (mgrec.linear_recurrence, lambda s, t: (0.5, t), 2.0),
    "arrays": (mgrec.linear_recurrence, lambda s, t: (s, t), 2.0),
    "index": (mgrec.linear_recurrence, lambda s, t: (mgrec.Coefficient(square, s), t), 2.0),
    "max-plus": (mgrec.scan, lambda s, t: (mgrec.maps.max_plus, s, t), 0.25),
    "rational": (mgrec.rational_recurrence, lambda s, t: (s, t, 0.5, 2.0), 0.25),
    "several": (
        mgrec.scan,
        lambda s, t: (mgrec.maps.matrix2, s, 0.5, 0.25, 0.5, t, 0.0),
        (1.0, 2.0),
    ),
}


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.extended)])
@pytest.mark.parametrize("name", with_extended(CASES, "rational", "index", "several"))
def test_a_plan_has_the_bits_of_the_graph(arrays, name, reverse):
    recurrence, of, initial = CASES[name]
    options = {"initial": initial, "reverse": reverse}
    wanted = dask.compute(recurrence(*of(*arrays), **options))[0]
    with mgrec.plan(recurrence, *of(*arrays), **options) as solve:
        for _ in range(3):
            got = dask.compute(solve())[0]
            np.testing.assert_array_equal(got, wanted)


def test_a_plan_takes_other_marks(client):
    x = da.ones(12, chunks=4)
    first, second = (np.arange(12) % k == 0 for k in (5, 6))
    with mgrec.plan(mgrec.linear_recurrence, 1.0, x, reset=first) as solve:
        np.testing.assert_array_equal(solve(), np.arange(12) % 5 + 1)
        np.testing.assert_array_equal(solve(1.0, x, reset=second), np.arange(12) % 6 + 1)


def test_rows_of_chunks_and_their_states(client):
    rng = np.random.default_rng(1)
    t, s, start = rng.normal(size=(4, 90, 3)), rng.uniform(size=(90, 1)), rng.normal(size=(4, 3))
    lazy = da.from_array(t, chunks=(2, 20, 2)), da.from_array(s, chunks=(20, 1))
    wanted = mgrec.linear_recurrence(lazy[1], lazy[0], start, axis=1).compute()
    with mgrec.plan(mgrec.linear_recurrence, lazy[1], lazy[0], initial=start, axis=1) as solve:
        w = solve()
        assert (w.chunks, w.dtype) == (lazy[0].chunks, t.dtype)
        np.testing.assert_array_equal(w.compute(), wanted)
        other = solve(initial=2 * start).compute()
    np.testing.assert_allclose(other, mgrec.linear_recurrence(s, t, 2 * start, axis=1))


SOS = [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1], [1.0, 0.5, 0.0, 1.0, -0.3, 0.2]]
FILTERS = {
    "lfilter": (lfilter, ([0.2, 0.3], [1.0, -0.9, 0.5]), (4, 2, 3)),
    "sosfilt": (sosfilt, (SOS,), (2, 4, 2, 3)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.extended
def test_a_plan_of_a_filter_has_the_bits_of_the_graph(client, name):
    function, given, of_states = FILTERS[name]
    rng = np.random.default_rng(3)
    x, states = rng.normal(size=(4, 90, 3)), rng.normal(size=of_states)
    lazy, other = (da.from_array(each, chunks=(2, 20, 2)) for each in (x, x + 1))
    with mgrec.plan(function, *given, lazy, axis=1) as solve:
        y = solve()
        y_with, zf = solve(zi=states)
        y_other, zf_other = solve(*given, other, zi=zf)
        wanted = dask.compute(
            function(*given, lazy, 1), function(*given, lazy, 1, states),
            function(*given, other, 1, zf),
        )  # fmt: skip
        assert (y.chunks, y_other.dtype, type(zf)) == (lazy.chunks, x.dtype, np.ndarray)
        got = dask.compute(y, (y_with, zf), (y_other, zf_other))
    for one, two in zip(_flat(got), _flat(wanted), strict=True):
        np.testing.assert_array_equal(one, two)


def _flat(results):
    return [results[0], *results[1], *results[2]]


def test_a_signal_in_parts_goes_through_a_plan(client, values):
    parts = [da.from_array(part, chunks=CHUNK) for part in np.split(values[1], 2)]
    b, a = FILTERS["lfilter"][1]
    state, found = np.zeros(2), []
    with mgrec.plan(lfilter, b, a, parts[0], zi=state) as solve:
        for part in parts:
            y, state = solve(b, a, part, zi=state)
            found.append(y.compute())
    wanted, last = signal.lfilter(b, a, values[1], zi=np.zeros(2))
    np.testing.assert_allclose(np.concatenate(found), wanted, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state, last, rtol=1e-12, atol=1e-13)


def test_steps_of_time_with_new_operands(arrays, values):
    s, t = arrays
    w, wanted = t, values[1]
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        for step in range(4):
            w = solve(s, w, initial=float(step))
            wanted = mgrec.linear_recurrence(values[0], wanted, float(step))
        again = solve()
    np.testing.assert_allclose(w.compute(), wanted, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(again.compute(), mgrec.linear_recurrence(s, t).compute())


def test_operands_that_lie_elsewhere_are_fetched(client, arrays, values):
    s, t = arrays
    addresses = list(client.nthreads())
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        for address in addresses:
            with dask.annotate(workers=[address]):
                moved = client.persist(t + 1.0, optimize_graph=False)
            wait(moved)
            got = solve(s, moved).compute()
            wanted = mgrec.linear_recurrence(values[0], values[1] + 1.0)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_a_replica_that_is_dropped_while_others_are_fetched(monkeypatch):
    data = {"replica": 1.0}

    class Worker:
        rpc = None

        def __init__(self):
            self.data, self.scheduler = data, self

        async def who_has(self, keys):
            data.clear()  # as the memory manager does, every two seconds
            return {key: ["elsewhere"] for key in keys}

    async def gather(where, rpc):
        return dict.fromkeys(where, 2.0), [], [], []

    monkeypatch.setattr(internals, "gather_from_workers", gather)
    found = asyncio.run(internals.blocks_of(Worker(), ["replica", "other"]))
    assert found == {"replica": 1.0, "other": 2.0}


def test_a_plan_holds_its_operands_from_when_it_is_built(client, arrays):
    """Replicas of them may be dropped between then and the first solve."""
    kept = client.persist(arrays[1] + 1)
    wait(kept)
    wanted = mgrec.linear_recurrence(0.5, kept).compute()
    with mgrec.plan(mgrec.linear_recurrence, 0.5, kept) as solve:
        keys = [str(key) for key in kept.__dask_keys__()]
        client.run(_hide, keys)
        try:
            np.testing.assert_array_equal(solve().compute(), wanted)
        finally:
            client.run(_hide, [])


def _hide(keys):
    """Make shards believe that neither their worker nor another one has these."""
    from mgrec.distributed.plan import worker as plan_worker

    if keys:
        plan_worker.hidden = plan_worker.blocks_of

        async def blocks(worker, wanted):
            assert not set(map(str, wanted)) & set(keys)
            return await plan_worker.hidden(worker, wanted)

        plan_worker.blocks_of = blocks
    else:
        plan_worker.blocks_of = plan_worker.hidden


def test_carries_do_not_go_through_the_scheduler(client, arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        held = [solve()]
        wait(held)
        before = _settled(client)
        held += [solve() for _ in range(5)]
        wait(held)
        assert client.run_on_scheduler(_transitions) == before
        graph = mgrec.linear_recurrence(*arrays).persist()
        wait(graph)
        assert client.run_on_scheduler(_transitions) > before


def _settled(client):
    """The count of transitions, once what tests before this one held is forgotten."""
    gc.collect()
    found = -1
    while found != (found := client.run_on_scheduler(_transitions)):
        time.sleep(0.3)
    return found


def _transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def test_results_that_nobody_holds_are_freed(client, arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        w = solve()
        (w + 1).sum().compute()
        assert _solved(client) == STEPS // CHUNK
        del w
        assert _all_freed(client)


def _all_freed(client):
    deadline = time.monotonic() + 10
    while _solved(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    return _solved(client) == 0


def _solved(client):
    keys = client.run(lambda dask_worker: [str(key) for key in dask_worker.data])
    return sum("solved-" in key for own in keys.values() for key in own)


def test_a_chunk_that_raises_is_named_and_the_plan_goes_on(client, arrays):
    s, t = arrays
    wrong = t.map_blocks(_shortened, dtype=float)
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        wanted = solve().compute()
        with pytest.raises(ValueError, match=r"same sizes; chunk \(7,\) got \(10,\) and \(9,\)"):
            solve(s, wrong)
        np.testing.assert_array_equal(solve().compute(), wanted)
        assert _all_freed(client)


def test_what_an_operand_raised_is_raised_by_the_plan(arrays):
    def failing(block):
        raise ZeroDivisionError("no such operand")

    s, t = arrays
    failed = t.map_blocks(failing, meta=t._meta)
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        with pytest.raises(ZeroDivisionError, match="no such operand"):
            solve(s, failed)
        solve().compute()


def _shortened(block, block_info=None):
    is_seventh = block_info is not None and block_info[0]["chunk-location"] == (7,)
    return block[1:] if is_seventh else block


def test_other_shapes_are_refused(arrays):
    s, t = arrays
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        with pytest.raises(ValueError, match=r"chunks of a plan's solve must be .* got \(\(24,"):
            solve(s.rechunk(24), t.rechunk(24))
        with pytest.raises(ValueError, match="dtype of a plan's solve must be float64"):
            solve(s.astype("f4"), t.astype("f4"), initial=np.float32(0))
        with pytest.raises(ValueError, match="reverse of a plan's solve must be False"):
            solve(reverse=True)


def test_what_a_plan_does_not_take(arrays):
    _, t = arrays
    with pytest.raises(TypeError, match="needs a Dask array among its operands"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, np.ones(3))
    with pytest.raises(TypeError, match="initial of a plan must be in host memory"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, t, initial=t.sum())
    with pytest.raises(
        TypeError,
        match=r"function that solves one recurrence.*got filtfilt",
    ):
        mgrec.plan(filtfilt, [1.0], [1.0, -0.5], t)
    with pytest.raises(TypeError, match="and so must zi; got a Dask array"):
        mgrec.plan(lfilter, [1.0], [1.0, -0.5], t, zi=t[:1])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, t[t > 0])


def test_a_closed_plan_says_so(arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        w = solve()
        shown = "<mgrec.plan of linear_recurrence: results of shape (120,) in 12 chunks of up to "
        assert repr(solve) == f"{shown}(10,), 2 workers, open>"
    with pytest.raises(RuntimeError, match="the plan is closed"):
        solve()
    assert repr(solve).endswith("2 workers, closed>")
    assert np.isfinite(w.compute()).all()
    solve.close()


def test_a_plan_whose_client_is_closed_says_so(client):
    with Client(client.scheduler.address, set_as_default=False) as own:
        solve = mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(20, chunks=10), client=own)
    with pytest.raises(RuntimeError, match="the client of the plan is closed"):
        solve()
    solve.close()


@pytest.mark.parametrize("moment", [pytest.param("between", marks=pytest.mark.extended), "during"])
@pytest.mark.extended
def test_a_lost_worker_raises_and_a_new_plan_can_be_built(values, moment):
    # Or a worker whose restart takes more than 15 s is given up for good (Dask 2026.7).
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    with patient, cluster() as own, Client(own) as client:
        s, t = (client.persist(da.from_array(value, chunks=CHUNK)) for value in values)
        wait([s, t])
        solve = mgrec.plan(mgrec.linear_recurrence, s, t, client=client)
        first = solve().compute()
        victim = next(iter(client.nthreads()))
        if moment == "during":
            client.run(_die_at_the_next_summary, workers=[victim])
        else:
            client.run(_die, workers=[victim], on_error="ignore")
        for _ in range(2):
            with pytest.raises(mgrec.dask.WorkerLostError, match=f"{victim}.*Build a new plan"):
                solve()
        solve.close()
        client.wait_for_workers(2, timeout=60)
        with mgrec.plan(mgrec.linear_recurrence, s, t, client=client) as solve:
            np.testing.assert_array_equal(solve().compute(), first)


def _die():
    os._exit(1)


def _die_at_the_next_summary():
    from mgrec.distributed.plan import shards

    shards.summarise_blocks = shards.correct_block = lambda *_: os._exit(1)
