"""Functions that run as one program on each worker, with its chunks and a group."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest
from clusters import cluster_of_gpus, on_gpu, to_host, two_workers, wait_until, wait_until_started, workers_of
from distributed import Client, LocalCluster, wait

import mgrec
import mgrec.dask
from mgrec.distributed import run as run_module
from mgrec.distributed.groups import mailbox as groups

CHUNKS = (70, 0, 130, 100)
STEPS = sum(CHUNKS)


@pytest.fixture
def signals(client):
    return halves(client, np.random.default_rng(1).uniform(-0.9, 0.9, (2, STEPS)))


def halves(client, arrays, chunks=CHUNKS):
    """Arrays whose first half of chunks is on one worker, and the second on the other."""
    addresses = sorted(client.nthreads())
    placed = []
    for array in arrays:
        blocks = np.split(array, np.cumsum(chunks)[:-1])
        places = [addresses[2 * k // len(chunks)] for k in range(len(chunks))]
        futures = [
            client.scatter(block, workers=[to], hash=False) for block, to in zip(blocks, places, strict=True)
        ]
        blocks = [
            da.from_delayed(future, (n, *array.shape[1:]), meta=array[:0])
            for future, n in zip(futures, chunks, strict=True)
        ]
        placed.append(client.persist(da.concatenate(blocks)))
    wait(placed)
    return placed


def plugins(client):
    """The plugins of the workers, in the order of the ranks of `halves`."""
    client.run(groups.install)
    workers = sorted(workers_of(client), key=lambda worker: worker.address)
    return [worker.plugins[groups.NAME] for worker in workers]


def test_a_time_loop_of_each_rank(client, signals):
    def steps(s, u, scale, group, count):
        for _ in range(count):
            u = scale[0] * mgrec.linear_recurrence(s, u, group=group)
        return u, group.rank, {"size": group.size}, u.sum()

    s, u = signals
    scale = da.from_array(np.array([0.5]))  # reaches both ranks whole
    result, *others = mgrec.dask.run(steps, s, u, scale, count=3)
    assert result.chunks == ((200, 100),) or result.chunks == ((70, 230),)
    assert others[:2] == [[0, 1], [{"size": 2}] * 2]
    s, u = s.compute(), u.compute()
    for _ in range(3):
        u = 0.5 * mgrec.linear_recurrence(s, u)
    np.testing.assert_allclose(result.compute(), u, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sum(others[2]), u.sum())
    # It is a Dask array as any other, and an operand of the next call.
    again = mgrec.dask.run(lambda u, group: u + group.rank, result + 0)
    assert again.dtype == u.dtype
    assert set(np.round(again.compute() - u)) == {0, 1}


@pytest.mark.parametrize("reverse", [False, True])
def test_results_have_the_bits_of_the_graph(client, signals, reverse):
    def solve(s, t, **options):
        return mgrec.scan(mgrec.maps.max_plus, s, t, initial=0.25, reverse=reverse, **options)

    s, t = halves(client, [x.compute() for x in signals], (200, 100))
    found = mgrec.dask.run(solve, s, t)
    expected = solve(s, t)
    assert found.chunks == expected.chunks
    np.testing.assert_array_equal(found.compute(), expected.compute())


def exchanged(x, group, numbers=3):
    """What the neighbours and all ranks have, several times."""
    received = []
    for number in range(numbers):
        left, right = group.exchange(x[:1] + number, x[-1:] + number)
        received.append([None if y is None else y.tolist() for y in (left, right)])
    return received, group.all_gather(np.full((2, 3), group.rank)).tolist()


@pytest.mark.parametrize("is_lost", [False, True])
def test_exchanges_and_lost_messages(client, signals, monkeypatch, is_lost):
    """A message that is lost is asked for."""
    _, x = signals
    if is_lost:
        monkeypatch.setattr(groups, "PATIENCE", 0.01)
        for plugin in plugins(client):
            monkeypatch.setitem(plugin.worker.handlers, "mgrec_group_put", lambda messages: None)
    received, gathered = mgrec.dask.run(exchanged, x)
    values = x.compute()
    left, right = ([[None, [values[70] + k]] for k in range(3)], [[[values[69] + k], None] for k in range(3)])
    assert received == [left, right]
    assert gathered == [np.repeat([0, 1], 6).reshape(2, 2, 3).tolist()] * 2


def test_lost_messages_within_a_process(monkeypatch):
    """Dask hands them over as they are."""
    monkeypatch.setattr(groups, "PATIENCE", 0.01)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        (x,) = halves(client, [np.arange(4.0)], (2, 2))
        client.run(groups.install)
        for worker in cluster.workers.values():
            monkeypatch.setitem(worker.handlers, "mgrec_group_put", lambda messages: None)
        received, _ = mgrec.dask.run(exchanged, x, numbers=1)
    assert received == [[[None, [2.0]]], [[[1.0], None]]]


def gathered(x, group):
    return group.all_gather_bytes(b"%d" % group.rank)


def test_many_runs_leave_nothing(client, signals):
    for _ in range(groups.REMEMBERED):
        assert mgrec.dask.run(gathered, signals[1]) == [[b"0", b"1"]] * 2
    mgrec.dask.run(lambda x, group: 2 * x, signals[1])
    for plugin in plugins(client):
        assert len(plugin.groups) <= groups.REMEMBERED + 1
        wait_until(lambda plugin=plugin: no_results_of(plugin, "gathered", "<lambda>"))


def no_results_of(plugin, *functions):
    return not any(name in str(key) for name in functions for key in plugin.worker.data)


BARRIER, HAS_BEGUN, HAS_GIVEN_UP = threading.Barrier(4), threading.Event(), threading.Event()


def meet(x, group):
    BARRIER.wait(240)
    return mgrec.linear_recurrence(0.5, x, group=group)


def test_two_programs_at_once(client, signals):
    """Each waits for the other: no rank waits for a thread of its worker."""
    x = signals[1]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(mgrec.dask.run, meet, x, client=client) for _ in range(2)]
    for result in runs:
        expected = mgrec.linear_recurrence(0.5, x.compute())
        np.testing.assert_allclose(result.result().compute(), expected)


def fails(x, group):
    if group.rank == 1:
        raise KeyError("of rank 1")
    return mgrec.linear_recurrence(0.5, x, group=group)


def returns_early(x, group):
    return x if group.rank else mgrec.linear_recurrence(0.5, x, group=group)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (fails, KeyError, "of rank 1"),
        (returns_early, RuntimeError, "the same order.*its function has returned"),
        (lambda x, group: (x,) * (1 + group.rank), ValueError, "as many values on all ranks"),
        (lambda x, group: x.astype("f4") if group.rank else x, ValueError, "float64.*float32"),
        (lambda x, group: x if group.rank else 1, ValueError, "value 0 .*int, rank 1 .*float64"),
        (lambda x: x, TypeError, "group"),
    ],
)
def test_errors_of_one_rank_are_raised(client, signals, function, error, message):
    with pytest.raises(error, match=message):
        mgrec.dask.run(function, signals[1])
    for plugin in plugins(client):
        wait_until(lambda plugin=plugin: all(g.has_ended for g in plugin.groups.values()))
        wait_until(lambda plugin=plugin: no_results_of(plugin, function.__name__))


def begins(x, group):
    """Rank 0 waits for a message; rank 1 computes until the client has given up."""
    if group.rank == 1:
        HAS_BEGUN.set()
        assert HAS_GIVEN_UP.wait(240)
    group.all_gather_bytes(b"")


def test_a_client_that_is_interrupted_ends_all_ranks(client, signals, monkeypatch):
    def interrupt(*_):
        assert HAS_BEGUN.wait(240)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "gather", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mgrec.dask.run(begins, signals[1], client=client)
    HAS_GIVEN_UP.set()
    for plugin in plugins(client):
        wait_until(lambda plugin=plugin: all(g.has_ended for g in plugin.groups.values()))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.sum, 1.0), TypeError, "needs a Dask array"),
        ((1, da.ones(3)), TypeError, "function must be callable; got 1"),
        ((np.sum, da.ones((4, 4), chunks=2)), ValueError, r"the axes \[0, 1\]"),
        ((np.sum, da.ones(4, chunks=2), da.ones(4, chunks=1)), ValueError, "the same chunks"),
    ],
)
def test_invalid_arguments(client, arguments, error, message):
    with pytest.raises(error, match=message):
        mgrec.dask.run(*arguments)


def test_a_message_arrives_before_the_answer_that_its_sender_has_not_started(client, signals, monkeypatch):
    (first, second), is_asked = plugins(client), threading.Event()
    start = run_module.start_group

    def start_late(plugin, *arguments):
        assert plugin is first or is_asked.wait(60)
        return start(plugin, *arguments)

    async def answer_late(name, receiver, tag):
        answer = second.get(name, receiver, tag)
        if not is_asked.is_set():
            assert answer == ["unknown", None]
            is_asked.set()
            while not first.groups[name].has(1, tuple(tag)):
                await asyncio.sleep(0.001)
        return answer

    monkeypatch.setattr(run_module, "start_group", start_late)
    monkeypatch.setitem(second.worker.handlers, "mgrec_group_get", answer_late)
    received, gathered = mgrec.dask.run(exchanged, signals[1])
    assert is_asked.is_set()
    assert len(received) == len(gathered) == 2


def test_chunks_that_are_no_neighbours_move(client):
    x = np.arange(8.0)
    addresses = sorted(client.nthreads())
    futures = [client.scatter(x[k : k + 1], workers=[addresses[k % 2]], hash=False) for k in range(8)]
    blocks = [da.from_delayed(future, (1,), meta=x[:0]) for future in futures]
    parts = mgrec.dask.run(lambda x, group: [x.tolist()], client.persist(da.concatenate(blocks)))
    assert parts == [[x[:4].tolist()], [x[4:].tolist()]]


def steps_of(x, group, count, what, pid):
    for number in range(count):
        if number == 1 and os.getpid() == pid:
            os.kill(pid, what)
        x = mgrec.linear_recurrence(0.5, x, group=group)
    return x


def test_a_worker_stops_and_one_dies():
    with two_workers() as client:
        x = np.random.default_rng(3).random(STEPS)
        mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, da.ones(3))
        for what in (signal.SIGSTOP, signal.SIGKILL):
            (placed,) = halves(client, [x], (200, 100))
            pids = sorted(client.run(os.getpid).items())
            pid = pids[1][1]
            with pytest.raises(mgrec.dask.WorkerLostError, match=f"rank 1.*{pids[1][0]}"):
                mgrec.dask.run(steps_of, placed, count=3, what=what, pid=pid, timeout=2)
            if what == signal.SIGSTOP:
                os.kill(pid, signal.SIGCONT)
            wait_until_started(client, 2)
        (placed,) = halves(client, [x], (200, 100))
        result = mgrec.dask.run(steps_of, placed, count=1, what=0, pid=0, timeout=60)
        np.testing.assert_allclose(result.compute(), mgrec.linear_recurrence(0.5, x))


@pytest.mark.gpu
def test_chunks_on_gpus():
    x = np.random.default_rng(4).random(STEPS)
    with cluster_of_gpus() as cluster, Client(cluster) as client:
        (placed,) = halves(client, [x], (200, 100))
        placed = placed.map_blocks(on_gpu).persist()
        result = mgrec.dask.run(steps_of, placed, count=1, what=0, pid=0, timeout=60)
        assert type(result._meta).__module__.startswith("cupy")
        expected = mgrec.linear_recurrence(0.5, x)
        np.testing.assert_allclose(result.compute().get(), expected, rtol=1e-12)


def repeat(x, group, count):
    for _ in range(count):
        result = mgrec.linear_recurrence(0.5, x, group=group)
    return result


@pytest.mark.gpu
def test_programs_on_gpus_at_once():
    """Their exchanges are in another order on each GPU, and none waits for another program's."""
    x = np.random.default_rng(4).random(1 << 20)
    expected = mgrec.linear_recurrence(0.5, x)

    def check(array):
        np.testing.assert_allclose(array.map_blocks(to_host).compute(), expected, rtol=1e-12)

    def run_program(number):
        for _ in range(4):
            check(mgrec.dask.run(repeat, placed, client=client, count=100))

    def run_plan(number):
        with mgrec.plan(mgrec.linear_recurrence, 0.5, placed, client=client) as plan:
            check([*plan.map([()] * 100)][-1])

    with cluster_of_gpus() as cluster, Client(cluster) as client, ThreadPoolExecutor(4) as pool:
        (placed,) = halves(client, [x], (1 << 19, 1 << 19))
        placed = placed.map_blocks(on_gpu).persist()
        wait(placed)
        for done in [pool.submit(f, k) for k in range(2) for f in (run_program, run_plan)]:
            done.result()
