"""Results of plans without a reference are freed before the next ones are allocated."""

from __future__ import annotations

import gc
import weakref
from collections import deque

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import two_workers, wait_until, workers_of
from distributed import wait

import mgrec
import mgrec.dask
from mgrec.distributed.plan import worker as plan_worker

CHUNK, CHUNKS = 1 << 17, 4
SIZE = CHUNK * 8 * CHUNKS
# Room for two operands and two results, not for a third one. Only what Dask manages counts.
MEMORY = {
    "distributed.worker.memory.target": 0.6,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
}
LIMIT = int(4.5 * SIZE / 0.6)


def tenfold(s, t):
    return 10 * mgrec.linear_recurrence(s, t)


@pytest.fixture(scope="module")
def client():
    cluster = two_workers(n_workers=1, processes=False, memory_limit=LIMIT)
    with dask.config.set(MEMORY), cluster as client:
        yield client


@pytest.fixture
def arrays(client):
    rng = np.random.default_rng(0)
    arrays = [da.from_array(rng.uniform(-0.5, 0.5, CHUNK * CHUNKS), chunks=CHUNK) for _ in "st"]
    arrays = client.persist([array + 0 for array in arrays])
    wait(arrays)
    return arrays


@pytest.fixture
def alive(client, monkeypatch):
    """The most results in memory when one is stored, in units of one array."""
    results, most = weakref.WeakSet(), [0.0]

    class Tracked:
        pass

    def store(session, solve, values):
        for value in values.values():
            owner = value
            while owner.base is not None:
                owner = owner.base
            token = Tracked()
            results.add(token)
            weakref.finalize(owner, lambda token=token: results.discard(token))
        most[0] = max(most[0], len(results) / CHUNKS)
        storing(session, solve, values)

    storing = plan_worker.WorkerSession._store
    monkeypatch.setattr(plan_worker.WorkerSession, "_store", store)
    # However late the scheduler of a busy machine frees results.
    monkeypatch.setattr(plan_worker, "FREEING", 240.0)
    return most


def last(plan, s, t):
    for _ in range(20):
        w = plan(s, t)
    return w


def last_step(solve, s, t):
    w = t
    for _ in range(20):
        w = solve(s, w)
    return w


def last_with_use(plan, s, t):
    """Tasks use every result: Dask frees it, and workers wait for that."""
    for _ in range(20):
        w = plan(s, t)
        w.sum().compute()
    return w


LOOPS = {
    "calls": last,
    "steps of time": last_step,
    "submit": lambda plan, s, t: last_step(plan.submit, s, t),
    "map": lambda plan, s, t: deque(plan.map([(s, t)] * 20, in_flight=1), maxlen=1).pop(),
    "calls whose results are used": last_with_use,
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_neither_spills_nor_runs_out_of_memory(client, arrays, alive, loop):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as plan:
        w = loop(plan, *arrays)
        assert np.isfinite(float(w.sum().compute()))
    (worker,) = workers_of(client)
    assert len(worker.data.slow) == 0  # spilled
    # The one before, which the client refers to or which is an operand, and the next one.
    assert alive[0] <= 2
    del w
    gc.collect()
    wait_until(lambda: not any("solved" in str(key) for key in worker.data))


def test_solves_in_progress_have_as_many_results_as_are_in_flight(client, arrays, alive):
    with mgrec.plan(mgrec.linear_recurrence, 0.5, arrays[1]) as plan:
        deque(plan.map([(0.5, arrays[1])] * 10, in_flight=2), maxlen=0)
    assert alive[0] <= 3  # two, and that to which the program refers


@pytest.mark.parametrize("function", [mgrec.linear_recurrence, tenfold])
def test_a_closed_plan_keeps_no_operands(client, function):
    """Nor does the client, as long as the program refers to the plan."""
    gc.collect()  # what tests before have left in cycles
    t = da.ones(CHUNK, chunks=CHUNK // 4) + 0
    plan = mgrec.plan(function, 0.5, t, client=client)
    w = plan()
    del t
    plan.close()
    (worker,) = workers_of(client)
    wait_until(lambda: {key[0] for key in worker.data} == {w.name})
    assert repr(plan)
    with pytest.raises(RuntimeError, match="closed"):
        plan()


def test_operands_and_results_that_do_not_fit_are_refused(client):
    t = da.ones(4 * CHUNK * CHUNKS, chunks=CHUNK)
    for call in (mgrec.plan, mgrec.dask.solve):
        with pytest.raises(MemoryError, match=r"needs 16.00 MiB for operands .* 30.00 MiB\. Use"):
            call(mgrec.linear_recurrence, 0.5, t)


def test_the_error_of_a_worker_that_stops_says_what_it_stored():
    t = da.ones(2 * CHUNK, chunks=CHUNK)
    with two_workers(processes=False, memory_limit=4 * CHUNK * 8) as own:
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as plan:
            kept = plan()
            own.sync(workers_of(own)[0].close)
            with pytest.raises(
                mgrec.dask.WorkerLostError, match=r"plans keep 2.00 MiB of operands and results .* 4.00 MiB"
            ):
                plan()
        del kept


class Memory(dict):
    """The data of a worker, which has no room for results that return to memory."""

    is_full = False

    def __getitem__(self, key):
        if Memory.is_full and "solved-" in str(key):
            raise MemoryError("no room")
        return super().__getitem__(key)


def test_results_that_do_not_fit_into_memory_are_no_lost_worker():
    with (
        two_workers(n_workers=1, processes=False, data=Memory),
        mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(40, chunks=10)) as plan,
    ):
        w = plan()
        Memory.is_full = True
        try:
            with pytest.raises(MemoryError, match="no room") as raised:
                w.compute()
        finally:
            Memory.is_full = False
        (note,) = raised.value.__notes__
        assert "plans keep 640 B of operands and results there" in note
        np.testing.assert_array_equal(plan()[:2].compute(), [1, 1.5])
