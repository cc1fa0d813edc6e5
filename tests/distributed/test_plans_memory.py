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
from mgrec.distributed.plan import internals
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

    def store(worker, values):
        for value in values.values():
            owner = value
            while owner.base is not None:
                owner = owner.base
            token = Tracked()
            results.add(token)
            weakref.finalize(owner, lambda token=token: results.discard(token))
        most[0] = max(most[0], len(results) / CHUNKS)
        storing(worker, values)

    storing = plan_worker.store
    monkeypatch.setattr(plan_worker, "store", store)
    # However late the scheduler of a busy machine frees results.
    monkeypatch.setattr(internals, "FREEING", 240.0)
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
