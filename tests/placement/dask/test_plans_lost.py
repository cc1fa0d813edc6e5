"""Workers that are lost around a solve of a plan: it ends, and takes nothing else along."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait

import mgrec
from mgrec.placement.dask.plan import inbox
from mgrec.placement.dask.plan import office as dask_office
from mgrec.placement.dask.plan import plans as dask_plans
from mgrec.placement.dask.plan import post as dask_post
from mgrec.placement.dask.plan import shares as plan_shares
from mgrec.placement.dask.plan.lines import Lost

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

    def ask(post, *arguments):
        answers, errors = asking(post, *arguments)
        client.sync(lose, client, 0)
        if is_heard:
            wait_until(lambda: address in post.lost([address]))
        return answers, errors

    asking = dask_post.Post.ask
    monkeypatch.setattr(dask_post.Post, "ask", ask)
    if is_heard:
        for _ in range(2):  # raised by the call that loses it, and by every later call
            with pytest.raises(mgrec.dask.WorkerLostError, match=LOST):
                solve()
        assert repr(solve).endswith("2 workers, lost>")
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
    running = dask_plans._Solve(solve, solve._first, "solved")
    assert isinstance(client.sync(running._register, sizes)[gone], Lost)
    np.testing.assert_array_equal(kept.compute(), 2)
    assert client.cluster.scheduler.clients[client.id].wants_what >= {
        client.cluster.scheduler.tasks["solved-there", 0]
    }


def test_all_shares_are_waited_for_when_one_has_failed(client, t, monkeypatch):
    """The next solve would else take the answers of this one."""
    first, ended = t.chunks[0][0], []

    def finish(recurrence, waiting, *arguments):
        if waiting.pack.place == (3,):
            raise ZeroDivisionError("the last chunk")
        time.sleep(0.05)
        ended.append(waiting.pack.place)
        return finishing(recurrence, waiting, *arguments)

    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    finishing = plan_shares.finish_block
    monkeypatch.setattr(plan_shares, "finish_block", finish)
    with pytest.raises(ZeroDivisionError, match="the last chunk"):
        solve()
    assert {(0,), (1,)} <= set(ended)
    monkeypatch.setattr(plan_shares, "finish_block", finishing)
    np.testing.assert_array_equal(solve()[:2].compute(), [1, 1.5])
    assert first == 10


def test_who_waits_for_a_share_that_failed_is_told(client, t, monkeypatch):
    """Two threads: the solve would not end else."""

    def summarise(chunks, recurrence):
        if any(chunk.pack.place == (0,) for chunk in chunks):
            raise ZeroDivisionError("the first chunk")
        return summarising(chunks, recurrence)

    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    summarising = plan_shares.summarise_blocks
    monkeypatch.setattr(plan_shares, "summarise_blocks", summarise)
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="the first chunk"):
        solve()
    assert time.monotonic() - start < 0.9 * inbox.WATCH


def test_a_share_does_not_wait_for_summaries_that_nobody_asks_for(client, t, monkeypatch):
    monkeypatch.setattr(inbox, "WATCH", 0.05)
    own = Client(client.scheduler.address, set_as_default=False)
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(40, chunks=10), client=own)
    address = next(a for a, own in solve._assignments.items() if own.senders)
    messages = dict(solve._messages(solve._first))
    (worker,) = (w for w in workers_of(client) if w.address == address)
    office, ended = worker.plugins[dask_office.NAME], []
    answering = office.answer
    office.answer = lambda *arguments: ended.append(answering(*arguments)) or ended[-1]
    alone = {address: messages[address]}
    threading.Thread(target=solve._post.ask, args=(own, "solved", alone), daemon=True).start()
    time.sleep(0.2)
    assert not ended
    own.close()
    wait_until(lambda: ended)
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
    offices = [worker.plugins[dask_office.NAME] for worker in workers_of(client)]
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
    number = next(solve._post._numbers) - 1
    wait_until(
        lambda: all(office.inbox.has_ended((solve._post.client, number)) for office in offices)
    )
    wait_until(lambda: not any("solved" in str(key) for w in workers_of(client) for key in w.data))
    np.testing.assert_array_equal(solve()[:2].compute(), [1, 1.5])


def workers_of(client):
    return list(client.cluster.workers.values())


def wait_until(is_so):
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
