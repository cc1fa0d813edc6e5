"""Workers that are lost around a solve of a plan: it ends, and takes nothing else along."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait

import mgrec
from mgrec.placement.dask.plan import plans as dask_plans
from mgrec.placement.dask.plan import shares as plan_shares
from mgrec.placement.dask.plan.messages import Lost

LOST = "the plan lost its worker .*Build the plan anew"


@pytest.fixture
def client():
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as own:
        yield own


@pytest.fixture
def t(client):
    t = da.ones(40, chunks=10).persist()
    wait(list(t.dask.layers[t.name].values()))
    return t


async def lose(client, number):
    await client.cluster.workers[number].close()
    while len(client.cluster.scheduler.workers) > 1:
        await asyncio.sleep(0.01)


def test_a_worker_is_lost_before_chunks_are_dealt(client, t, monkeypatch):
    def dealt(*arguments):
        client.sync(lose, client, 0)
        return deal(*arguments)

    def slowly(block):
        time.sleep(0.1)
        return block

    deal = dask_plans.deal
    monkeypatch.setattr(dask_plans, "deal", dealt)
    slow = t.map_blocks(slowly, meta=t._meta)
    with mgrec.plan(mgrec.linear_recurrence, 0.5, slow) as solve:
        np.testing.assert_array_equal(solve()[:2].compute(), [1, 1.5])


@pytest.mark.extended
def test_a_worker_is_lost_when_chunks_are_dealt(client, t, monkeypatch):
    def dealt(*arguments):
        parts = deal(*arguments)
        client.sync(lose, client, 0)
        return parts

    deal = dask_plans.deal
    monkeypatch.setattr(dask_plans, "deal", dealt)
    with pytest.raises(RuntimeError, match=LOST):
        mgrec.plan(mgrec.linear_recurrence, 0.5, t)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_worker_is_lost_when_it_has_answered(client, t, monkeypatch, is_heard):
    """The client keeps what else it holds."""
    kept = client.persist(da.ones(2, chunks=1) + 1)
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    address = client.cluster.workers[0].address

    async def watch(plan, *arguments):
        errors = await watching(plan, *arguments)
        if not errors:
            await lose(client, 0)
        while is_heard and plan._actors[address].status == "finished":
            await asyncio.sleep(0.01)
        return errors

    watching = dask_plans.Plan._watch
    monkeypatch.setattr(dask_plans.Plan, "_watch", watch)
    if is_heard:
        with pytest.raises(RuntimeError, match=LOST):
            solve()
    else:
        with pytest.raises((RuntimeError, asyncio.CancelledError)):
            solve().compute()
    np.testing.assert_array_equal(kept.compute(), 2)


def test_the_scheduler_does_not_drop_a_client_whose_worker_is_lost(client, t):
    kept = client.persist(da.ones(2, chunks=1) + 1)
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    there, gone = (worker.address for worker in workers_of(client))
    sizes = {gone: {("solved-gone", 0): 8}, there: {("solved-there", 0): 8}}
    client.sync(lose, client, 1)
    assert isinstance(client.sync(solve._register, sizes)[gone], Lost)
    np.testing.assert_array_equal(kept.compute(), 2)
    assert client.cluster.scheduler.clients[client.id].wants_what >= {
        client.cluster.scheduler.tasks["solved-there", 0]
    }


def test_all_shares_are_waited_for_when_one_has_failed():
    async def ends(seconds, error=None):
        await asyncio.sleep(seconds)
        if error is not None:
            raise error

    async def watched():
        errors = ZeroDivisionError(), ValueError()
        given = {"a": (0, errors[0]), "b": (0.02, errors[1]), "c": (0.06,)}
        calls = {name: asyncio.ensure_future(ends(*each)) for name, each in given.items()}
        plan = SimpleNamespace(_is_there=lambda address: True)
        first = await dask_plans.Plan._watch(plan, calls, asyncio.FIRST_EXCEPTION)
        assert first == {"a": errors[0]}
        both = await dask_plans.Plan._watch(plan, calls, asyncio.ALL_COMPLETED)
        assert both == {"a": errors[0], "b": errors[1]}
        assert calls["c"].done()

    asyncio.run(watched())


def test_a_share_does_not_wait_for_summaries_that_nobody_asks_for(client, t, monkeypatch):
    monkeypatch.setattr(plan_shares, "WATCH", 0.05)
    own = Client(client.scheduler.address, set_as_default=False)
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(40, chunks=10), client=own)
    requests = dict(solve._requests(solve._first, 1, ("solved",)))
    address = next(a for a, own in solve._assignments.items() if own.senders)
    (worker,) = (w for w in workers_of(client) if w.address == address)
    (share,) = worker.state.actors.values()
    own.loop.add_callback(solve._call, address, "solve", requests[address])
    wait_until(lambda: share.exchanges)
    own.close()
    del solve
    gc.collect()
    wait_until(lambda: not share.exchanges and not share.waiting)
    assert not any("solved" in str(key) for key in worker.data)


def test_an_interrupted_solve_leaves_nothing_on_the_workers(client, t, monkeypatch):
    def slow(*arguments):
        has_begun.set()
        may_end.wait(10)
        return determine(*arguments)

    determine, has_begun, may_end = (
        plan_shares.finish_block,
        threading.Event(),
        threading.Event(),
    )
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    shares = [each for w in workers_of(client) for each in w.state.actors.values()]
    monkeypatch.setattr(plan_shares, "finish_block", slow)
    main = threading.get_ident()
    # A shell's background jobs ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = threading.Thread(
        target=lambda: has_begun.wait() and signal.pthread_kill(main, signal.SIGINT)
    )
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve()
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    time.sleep(0.1)
    may_end.set()
    wait_until(lambda: all(share.done == 1 for share in shares))
    wait_until(lambda: not any("solved" in str(key) for w in workers_of(client) for key in w.data))
    np.testing.assert_array_equal(solve()[:2].compute(), [1, 1.5])


def workers_of(client):
    return list(client.cluster.workers.values())


def wait_until(is_so):
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
