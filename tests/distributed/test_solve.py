"""One solve without a graph: the graph's bits, also where workers are lost on the way."""

from __future__ import annotations

import os
import pickle
import time

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from distributed import Client, LocalCluster, wait

import mgrec
import mgrec.dask
from mgrec.distributed.plan import internals
from mgrec.distributed.plan import plans as dask_plans
from mgrec.distributed.plan import shards as plan_shards
from mgrec.distributed.tasks import phases, speculation
from mgrec.filters import recurrence as filter_recurrence
from mgrec.scans import recurrence as transfer_recurrence
from mgrec.signal import lfilter, sosfilt

CHUNKS, CHUNK = 40, 10
SOS = [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1], [1.0, 0.5, 0.0, 1.0, -0.3, 0.2]]
CASES = {
    "constant": lambda solve, s, t: solve(mgrec.linear_recurrence, 0.5, t, initial=2.0),
    "arrays": lambda solve, s, t: solve(mgrec.linear_recurrence, s, t, reverse=True),
    "max-plus": lambda solve, s, t: solve(mgrec.scan, mgrec.maps.max_plus, s, t, initial=0.25),
    "rational": lambda solve, s, t: solve(mgrec.rational_recurrence, s, t, 0.5, 2.0, initial=0.25),
    "two states": lambda solve, s, t: solve(
        mgrec.scan, mgrec.maps.matrix2, s, 0.5, 0.25, 0.5, t, 0.0, initial=(1.0, 2.0)
    ),
    "lfilter": lambda solve, s, t: solve(lfilter, [0.2, 0.3], [1.0, -0.9, 0.5], t),
    "sosfilt with zi": lambda solve, s, t: solve(sosfilt, SOS, t, zi=np.ones((2, 2))),
}


def by_graph(recurrence, *operands, **options):
    return recurrence(*operands, **options)


def two_workers():
    return Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")


@pytest.fixture(scope="module")
def client():
    # It drops replicas, which the tasks of graphs leave, from where a solve would find them.
    still = dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
    with still, two_workers() as own:
        yield own


@pytest.fixture(scope="module")
def values():
    rng = np.random.default_rng(5)
    return rng.uniform(-0.9, 0.9, CHUNKS * CHUNK), rng.standard_normal(CHUNKS * CHUNK)


@pytest.mark.parametrize("name", with_extended(CASES, "rational", "two states", "lfilter"))
def test_a_solve_has_the_bits_of_the_graph(client, values, name, monkeypatch):
    def gather(*arguments, **options):
        raise AssertionError("operands move")

    monkeypatch.setattr(internals, "gather_from_workers", gather)
    arrays = mgrec.dask.colocate(*(da.from_array(value, chunks=CHUNK) for value in values))
    # Not every case reads both: the first is still on its way to the second.
    wait(arrays)
    wanted = dask.compute(CASES[name](by_graph, *arrays))[0]
    solved = CASES[name](mgrec.dask.solve, *arrays)
    first = solved[0] if isinstance(solved, tuple) else solved
    assert (first.chunks, first.dtype) == (arrays[1].chunks, arrays[1].dtype)
    assert len(first.dask) == CHUNKS
    for got, own in zip(dask.compute(solved)[0], wanted, strict=True):
        np.testing.assert_array_equal(got, own)


@pytest.mark.parametrize("initial", [0.0, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("reverse", [False, True])
def test_speculative_chunks_are_corrected_before_their_carry_ins_are_known(
    client, monkeypatch, initial, reverse
):
    predicted = []

    def compare(*carry_ins):
        predicted.append(comparing(*carry_ins))
        return predicted[-1]

    comparing = plan_shards._have_same_bits
    monkeypatch.setattr(plan_shards, "_have_same_bits", compare)
    monkeypatch.setattr(transfer_recurrence, "LARGE", 1)
    t = da.from_array(np.random.default_rng(2).normal(size=160_000), chunks=20_000)
    addresses = sorted(client.nthreads())
    with dask.annotate(workers=lambda key: [addresses[key[-1] // 4]]):
        halves = t.map_blocks(np.copy, name=f"halves-{reverse}-{initial}", meta=t._meta)
    t = client.persist(halves, optimize_graph=False)
    wait(t)
    given = mgrec.linear_recurrence, 0.5, t
    options = {"initial": initial, "reverse": reverse}
    wanted = given[0](*given[1:], **options).compute()
    np.testing.assert_array_equal(mgrec.dask.solve(*given, **options).compute(), wanted)
    # But for the first of each shard, whose carry-in comes from elsewhere, or is no number.
    assert sum(predicted) >= 5 if np.isfinite(initial) else sum(predicted) < 2
    whole = mgrec.linear_recurrence(0.5, t.compute(), **options)
    np.testing.assert_allclose(wanted, whole, rtol=1e-12, atol=1e-13)


def test_speculative_chunks_of_a_filter_have_the_bits_of_the_graph(client, monkeypatch):
    monkeypatch.setattr(filter_recurrence, "LARGE", 1)
    x = np.random.default_rng(4).normal(size=80_000)
    x[30_000:50_000] = 0
    t = client.persist(da.from_array(x, chunks=10_000))
    wait(t)
    given = lfilter, [0.2, 0.3], [1.0, -0.9, 0.5], t
    wanted = given[0](*given[1:]).compute()
    np.testing.assert_array_equal(mgrec.dask.solve(*given).compute(), wanted)


def test_speculation_is_repeated_on_another_worker(monkeypatch):
    monkeypatch.setattr(transfer_recurrence, "LARGE", 1)
    t = np.random.default_rng(3).normal(size=(2, 20_000))
    problem = mgrec.linear_recurrence.build(0.5, da.from_array(t.ravel(), chunks=20_000))
    chunks = tuple(((k,), (20_000 * k,)) for k in range(2))
    run = speculation.speculate_persisted(problem.recurrence, chunks, list(t))
    assert all(chunk.speculation for chunk in run.chunks)
    entries = phases.propagate_group(problem.recurrence, run.summaries, problem.initial)
    given = problem.recurrence, chunks[1], entries, 1
    travelled = pickle.loads(pickle.dumps(run))
    assert not hasattr(travelled, "chunks")
    found = speculation.correct_persisted(*given, travelled, 1, t[1])
    np.testing.assert_array_equal(found, speculation.correct_persisted(*given, run, 1, t[1]))
    whole = mgrec.linear_recurrence(0.5, t.ravel())
    np.testing.assert_allclose(found, whole[20_000:], rtol=1e-12, atol=1e-13)


def test_operands_that_are_not_persisted_are(client):
    lazy = da.ones(40, chunks=10) + 0
    w = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, lazy, client=client)
    np.testing.assert_array_equal(w[:3].compute(), [1, 1.5, 1.75])


@pytest.fixture
def lonely():
    """A cluster of two workers, for a test that takes one away or asks for all there is."""
    with two_workers() as own:
        yield own


@pytest.mark.extended
def test_a_worker_that_is_lost_is_done_without(lonely, monkeypatch):
    t = lonely.persist(da.ones(40, chunks=10) + 0)
    wait(t)
    assigned = []

    def assign(*arguments):
        assigned.append(assigning(*arguments))
        if len(assigned) == 1:
            lonely.sync(lonely.cluster.workers[0].close)
        return assigned[-1]

    assigning = dask_plans.assign
    monkeypatch.setattr(dask_plans, "assign", assign)
    w = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t)
    assert list(map(len, assigned)) == [2, 1]
    np.testing.assert_array_equal(w[:3].compute(), [1, 1.5, 1.75])


def test_a_solve_is_repeated_a_few_times_only(client, monkeypatch):
    plans = []

    def plan(*arguments):
        plans.append(arguments)
        raise mgrec.dask.WorkerLostError("the plan lost its worker")

    monkeypatch.setattr(dask_plans, "Plan", plan)
    with pytest.raises(RuntimeError, match="lost its worker"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, da.ones(4))
    assert len(plans) == dask_plans.ATTEMPTS


def test_what_a_chunk_raises_is_raised_once(client):
    def fails(block):
        raise ZeroDivisionError("the operand")

    bad = da.ones(40, chunks=10).map_blocks(fails, meta=np.empty(0))
    with pytest.raises(ZeroDivisionError, match="the operand"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, bad)


@pytest.mark.parametrize(
    "phase",
    [pytest.param("summarise_blocks", marks=pytest.mark.extended), "correct_block"],
)
def test_a_worker_that_dies_in_a_phase_costs_time_alone(values, phase):
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    own = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with patient, own, Client(own) as client:
        arrays = mgrec.dask.colocate(*(da.from_array(value, chunks=CHUNK) for value in values))
        wanted = mgrec.linear_recurrence(*arrays).compute()
        victim = next(iter(client.nthreads()))
        client.run(_die_in, phase, workers=[victim])
        w = mgrec.dask.solve(mgrec.linear_recurrence, *arrays)
        np.testing.assert_array_equal(w.compute(), wanted)
        assert victim not in client.nthreads()


def _die_in(phase):
    from mgrec.distributed.plan import shards

    setattr(shards, phase, lambda *_: os._exit(1))


def test_nothing_is_left_but_the_results(lonely):
    t = lonely.persist(da.ones(40, chunks=10) + 0)
    wait(t)
    w = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t)
    keys = {str(key) for each in (t, w) for key in each.dask}

    def left():
        workers = lonely.cluster.workers.values()
        return {str(key) for worker in workers for key in worker.data}

    deadline = time.monotonic() + 10
    while left() != keys:
        assert time.monotonic() < deadline, left()
        time.sleep(0.01)
    np.testing.assert_array_equal(w[:2].compute(), [1, 1.5])
