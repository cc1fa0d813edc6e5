"""Workers that are lost around a solve of a plan: it ends, and takes nothing else along."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from clusters import free_port, on_both, two_workers, wait_until, workers_of
from distributed import Client, Worker, wait
from distributed.client import FutureCancelledError
from faults import HeldPhase, kept_by, no_results_left, sessions_of
from proxies import workers_behind_proxies

import mgrec
import mgrec.dask
from mgrec.distributed.plan import internals
from mgrec.distributed.plan import recurrences as dask_plans
from mgrec.distributed.plan import worker as plan_worker

# Timeouts that end, though a busy machine connects in half of one, and that no test waits for.
SHORT, LONG = 3.0, 600.0
LOST = "the plan lost its worker .*Build a new plan"
PHASES = pytest.mark.parametrize("phase", ["launch_summaries", "launch_determination"])


@pytest.fixture
def client():
    with two_workers(processes=False) as client:
        yield client


@pytest.fixture
def t(client):
    (t,) = on_both(client, da.ones(40, chunks=10))
    return t


async def lose(client, number):
    await client.cluster.workers[number].close()
    while len(client.cluster.scheduler.workers) > 1:
        await asyncio.sleep(0.01)


def assert_solves(plan, *operands):
    np.testing.assert_array_equal(plan(*operands)[:2].compute(), [1, 1.5])


def assert_is_lost(plan, match=LOST, **options):
    """A busy machine is quicker than LONG, the timeout of plans that notice a loss without it."""
    start = time.monotonic()
    with pytest.raises(mgrec.dask.WorkerLostError, match=match):
        plan(**options)
    assert time.monotonic() - start < LONG / 10


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_is_lost_when_chunks_are_assigned(client, t, monkeypatch, moment):
    """Its operands are computed again, and the plan is built on what is left."""
    lost = []

    def lose_once(moment_now):
        if moment_now == moment and not lost:
            lost.append(client.sync(lose, client, 0))

    def locate_and_lose(call, client):
        lose_once("before")
        return locating(call, client)

    def assign_and_lose(*arguments):
        shards = assigning(*arguments)
        lose_once("after")
        return shards

    locating, assigning = dask_plans.PlanCall.locate, dask_plans.assign
    monkeypatch.setattr(dask_plans.PlanCall, "locate", locate_and_lose)
    monkeypatch.setattr(dask_plans, "assign", assign_and_lose)
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t.map_blocks(np.copy), timeout=SHORT) as solve:
        assert_solves(solve)


def test_a_worker_is_lost_with_results_and_the_client_keeps_what_else_it_holds(client, t):
    kept = client.persist(da.ones(2, chunks=1) + 1)
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=LONG)
    assert len(solve._shards) == 2
    unused, used = solve(), solve()
    wait(used)
    client.sync(lose, client, 0)
    for _ in range(2):  # raised by the call that loses it, and by every later call
        assert_is_lost(solve)
    assert repr(solve).endswith("2 workers, lost>")
    with pytest.raises(mgrec.dask.WorkerLostError, match=LOST):
        unused.compute()
    with pytest.raises(FutureCancelledError):
        used.compute()
    np.testing.assert_array_equal(kept.compute(), 2)


def test_the_scheduler_does_not_drop_a_client_whose_worker_is_lost(client, t):
    kept = client.persist(da.ones(2, chunks=1) + 1)
    there, gone = (worker.address for worker in workers_of(client))
    results = {"solved-gone": (gone, 8), "solved-there": (there, 8)}
    client.sync(lose, client, 1)
    with pytest.raises(mgrec.dask.WorkerLostError, match=gone):
        client.sync(internals.register, client, results)
    np.testing.assert_array_equal(kept.compute(), 2)
    assert client.cluster.scheduler.clients[client.id].wants_what >= {
        client.cluster.scheduler.tasks["solved-there"]
    }


@PHASES
def test_an_error_of_a_chunk_surfaces_at_once_and_the_plan_goes_on(client, t, monkeypatch, phase):
    """The other shard waits for a summary that never comes: it gives the solve up."""
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=LONG)
    solve()
    held = HeldPhase(monkeypatch, phase, (0,))
    held.may_end.set()
    held.errors = [ZeroDivisionError("chunk (0,)") for _ in range(2)]
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError, match=r"chunk \(0,\)"):
        solve()
    first = solve.submit(0.5, t)
    second = solve.submit(0.5, first)
    for failed in (second, first):  # where the result is used, and what is built on it
        with pytest.raises(ZeroDivisionError, match=r"chunk \(0,\)"):
            failed.compute()
    assert time.monotonic() - start < LONG / 10
    assert_solves(solve)
    del first, second, failed
    gc.collect()
    wait_until(lambda: not any(session.solves for session in sessions_of(client)))


def test_an_interrupted_solve_leaves_nothing_on_the_workers(client, t, monkeypatch):
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    slow = HeldPhase(monkeypatch)
    main = threading.get_ident()
    # A shell's background jobs ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt = threading.Thread(
        target=lambda: slow.has_begun.wait() and signal.pthread_kill(main, signal.SIGINT)
    )
    interrupt.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve()
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    slow.may_end.set()
    assert_solves(solve)
    gc.collect()
    wait_until(lambda: no_results_left(client))


def test_a_client_that_is_closed_in_a_solve_says_so_and_leaves_nothing(client, t, monkeypatch):
    own = Client(client.scheduler.address, set_as_default=False)
    with mgrec.plan(mgrec.linear_recurrence, 0.5, da.ones(40, chunks=10), client=own) as solve:
        held = solve()
        slow, errors = HeldPhase(monkeypatch), []

        def call():
            try:
                solve()
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        slow.has_begun.wait()
        own.close()
        thread.join()
        slow.may_end.set()
    assert "closed" in str(errors[0])
    wait_until(lambda: no_results_left(client))
    wait_until(lambda: not sessions_of(client))
    del held


SLOW = pytest.mark.parametrize(
    ("phase", "chunk_index"), [("launch_determination", None), ("launch_summaries", (0,))]
)


@SLOW
def test_a_worker_that_computes_is_not_lost(client, t, monkeypatch, phase, chunk_index):
    """Of all workers, or of one while the other waits for its message."""
    slow = HeldPhase(monkeypatch, phase, chunk_index)
    threading.Timer(1.5 * SHORT, slow.may_end.set).start()
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=SHORT) as solve:
        assert_solves(solve)


def test_solves_wait_for_a_slow_one_of_another_plan(client, t, monkeypatch):
    slow = HeldPhase(monkeypatch, "launch_summaries", (0,))
    first = mgrec.plan(mgrec.linear_recurrence, 0.5, t)
    second = mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=SHORT, in_flight=1)
    results = [first.submit(), second.submit()]
    time.sleep(1.5 * SHORT)
    slow.may_end.set()
    for w in results:
        np.testing.assert_array_equal(w[:2].compute(), [1, 1.5])


def test_a_message_that_a_connection_loses_is_requested():
    with workers_behind_proxies() as (client, lose_next_messages):
        (t,) = on_both(client, da.ones(40, chunks=10))
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=LONG, in_flight=2) as solve:
            assert "2 workers" in repr(solve)
            assert_solves(solve)
            assert lose_next_messages()
            for w in [solve.submit() for _ in range(2)]:
                np.testing.assert_array_equal(w[:2].compute(), [1, 1.5])


def test_a_closed_plan_abandons_the_solves_whose_results_nothing_needs(client, t, monkeypatch):
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t, in_flight=5)
    solve()
    slow = HeldPhase(monkeypatch, "launch_summaries", (0,))
    needed = solve.submit(0.5, solve.submit(0.5, t))
    slow.has_begun.wait()
    for _ in range(3):
        solve.submit()
    solve.close()
    # The worker whose chunk waits cannot end any.
    wait_until(lambda: counts_of_solves(client) == [(2, 2), (5, 2)])
    requests = list(needed.solution.session.requests.values())
    wait_until(lambda: [request.done.done() for request in requests] == 2 * [False] + 3 * [True])
    slow.may_end.set()
    np.testing.assert_array_equal(needed[:2].compute(), [1, 2])
    assert slow.indices.count((0,)) == 2
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as other:
        assert_solves(other)


def counts_of_solves(client):
    """Return for each worker how many solves it knows, and how many of them have not failed."""
    known = [list(session.solves.values()) for session in sessions_of(client)]
    return sorted(
        (len(solves), sum(not solve._mailbox.has_failed(solve.number) for solve in solves))
        for solves in known
    )


@PHASES
def test_a_worker_whose_event_loop_hangs_is_silent(client, t, monkeypatch, phase):
    solve = mgrec.plan(mgrec.linear_recurrence, 0.5, t, timeout=SHORT)
    solve()
    victim = solve._session.streams[workers_of(client)[1].address]
    silent = threading.Event()

    def hang(self):
        if silent.is_set() or self.worker.address != victim.address:
            pong(self)

    pong = plan_worker.WorkerSession.pong
    monkeypatch.setattr(plan_worker.WorkerSession, "pong", hang)
    slow = HeldPhase(monkeypatch, phase)
    assert_is_lost(solve, victim.address)
    silent.set()
    slow.may_end.set()
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as solve:
        assert_solves(solve)


@pytest.fixture
def processes():
    with two_workers() as client:
        yield client


def test_a_stopped_worker_is_lost_within_the_timeout(processes):
    """Also where the request is larger than what the sockets' buffers take."""
    client = processes
    t = client.persist(da.ones((40, 100_000), chunks=(20, 50_000)))
    wait(t)
    initial = np.zeros(100_000)
    wanted = mgrec.linear_recurrence(0.5, t, axis=0)[:2, -1].compute()
    with mgrec.plan(mgrec.linear_recurrence, 0.5, t, axis=0, timeout=SHORT) as solve:
        solve(initial=initial)
        pids = client.run(os.getpid)
        victim = next(iter(solve._shards))
        os.kill(pids[victim], signal.SIGSTOP)
        try:
            assert_is_lost(solve, victim, initial=np.zeros((100_000,)))
            # Dask has not removed the worker, and only Dask does.
            with pytest.raises(mgrec.dask.WorkerLostError, match=f"{victim}.* not answered for"):
                mgrec.plan(mgrec.linear_recurrence, 0.5, t, axis=0, timeout=SHORT)
        finally:
            os.kill(pids[victim], signal.SIGCONT)
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t, axis=0) as rebuilt:
            assert victim in rebuilt._shards
            np.testing.assert_array_equal(rebuilt()[:2, -1].compute(), wanted)


def test_a_worker_out_of_file_descriptors_ends_nobodys_wait(processes):
    client = processes
    t = client.persist(da.ones(40, chunks=10) + 0)
    wait(t)
    mgrec.linear_recurrence(0.5, t).compute()  # its code is loaded from files
    victim = next(iter(client.nthreads()))
    client.run(_take_all_descriptors, workers=[victim])
    try:
        with (
            Client(client.scheduler.address, set_as_default=False) as other,
            mgrec.plan(mgrec.linear_recurrence, 0.5, t, client=other, timeout=SHORT) as solve,
        ):
            np.testing.assert_array_equal(other.compute(solve()[:2]).result(), [1, 1.5])
    except mgrec.dask.WorkerLostError:
        pass


def _take_all_descriptors():
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), 4096))


def test_a_worker_returns_at_its_old_address():
    async def start(port):
        return await Worker(client.scheduler.address, port=port, nthreads=1)

    def solved(address):
        with dask.annotate(workers=[address]):
            x = client.persist(da.ones(40, chunks=10) + 0, optimize_graph=False)
        with mgrec.plan(mgrec.linear_recurrence, 0.5, x, timeout=5.0) as plan:
            assert list(plan._shards) == [address]
            return plan()[:2].compute()

    with two_workers(n_workers=0, processes=False, protocol="tcp") as client:
        port, addresses = free_port(), set()
        for _ in range(2):
            worker = client.sync(start, port)
            addresses.add(worker.address)
            np.testing.assert_array_equal(solved(worker.address), [1, 1.5])
            client.sync(worker.close)
        assert len(addresses) == 1


def test_contact_addresses_with_host_names():
    with two_workers(n_workers=0, processes=False, protocol="tcp") as client:
        port = free_port()
        where = {"port": port, "host": "127.0.0.1", "contact_address": f"tcp://localhost:{port}"}

        async def named():
            return await Worker(client.scheduler.address, nthreads=1, **where)

        worker = client.sync(named)
        t = client.persist(da.ones(40, chunks=10))
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as solve:
            assert_solves(solve)
        client.sync(worker.close)


def test_a_client_that_cannot_connect_to_the_workers_says_so(client, t, monkeypatch):
    async def refuse(address, **options):
        if address != client.scheduler.address:
            raise OSError("no route to the worker")
        return await connect(address, **options)

    connect = client.rpc.connect
    monkeypatch.setattr(client.rpc, "connect", refuse)
    with pytest.raises(mgrec.dask.WorkerLostError, match=r"cannot connect to it, no route.*graphs"):
        mgrec.plan(mgrec.linear_recurrence, 0.5, t)


def test_many_clients_plans_and_threads_do_not_wait_for_each_other(client, t):
    wanted = mgrec.linear_recurrence(0.5, t).compute()
    others = [Client(client.scheduler.address, set_as_default=False) for _ in range(2)]
    failures = []

    def work(own):
        try:
            x = own.persist(da.ones(40, chunks=10) + 0)
            with mgrec.plan(mgrec.linear_recurrence, 0.5, x, client=own) as solve:
                for _ in range(5):
                    solve.submit(0.5, solve())
                np.testing.assert_array_equal(own.compute(solve()).result(), wanted)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in (client, *others) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for own in others:
        own.close()
    wait_until(lambda: len(sessions_of(client)) == 2)


@pytest.mark.parametrize("solves", [100, pytest.param(1000, marks=pytest.mark.extended)])
def test_solves_leave_nothing_behind(client, t, solves):
    def state():
        gc.collect()
        wait_until(lambda: no_results_left(client))
        kept = [kept_by(session) for session in sessions_of(client)]
        return {
            "threads": threading.active_count(),
            "files": len(os.listdir("/proc/self/fd")),
            "futures": len(client.futures),
            "tasks": client.sync(_count_tasks),
            "kept by sessions": sum(len(each) for own in kept for each in own),
            "requests": len(solve._session.requests),
        }

    with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as solve:
        solve_many(solve, t, 50)
        before = state()
        solve_many(solve, t, solves)
        # Dask opens a few connections more now and then, whatever the number of solves.
        most = {name: count + solves // 10 for name, count in before.items()}
        wait_until(lambda: all(count <= most[name] for name, count in state().items()))


def solve_many(solve, t, count):
    for k in range(count):
        w = solve(0.5, t) if k % 2 else solve.submit(0.5, t)
    wait(w)


async def _count_tasks():
    return len(asyncio.all_tasks())
