"""Plans whose workers exchange messages between their GPUs, without a message of the host.

Threads of this process are the workers, which share a GPU, and their memory stands in for NCCL.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask.array as da
import numpy as np
import pytest
from clusters import on_both, on_gpu, to_host, wait_until
from communicators import Communicator, replace_nccl
from distributed import Client, LocalCluster

import mgrec
import mgrec.dask
from mgrec.core.contract.kernels import CacheMiss
from mgrec.distributed import run as run_module
from mgrec.distributed.plan import gpus, program
from mgrec.filters import recurrence as filters
from mgrec.signal import lfilter

pytestmark = [pytest.mark.gpu, pytest.mark.emulated]
CHUNK, RNG = 2100, np.random.default_rng(3)


@pytest.fixture
def nccl(monkeypatch):
    return replace_nccl(monkeypatch)


@pytest.fixture
def client(nccl):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False}
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def solved(monkeypatch):
    """The outcomes of exchanges on the device: whether they sufficed."""
    from mgrec.distributed.groups import device

    outcomes, start = [], device.start_shards

    def watched(function, is_launch, *arguments, **options):
        try:
            result = function(*arguments, **options)
        except Exception as error:
            outcomes.append(type(error))
            raise
        if is_launch:
            return partial(watched, result, False)
        outcomes.append("solved")
        return result

    monkeypatch.setattr(device, "start_shards", partial(watched, start, True))
    return outcomes


def placed(client, values, chunks):
    """An array on GPUs: the first half of the chunks on one worker, the others on the other one."""
    lengths = (tuple(chunks), *((n,) for n in values.shape[1:]))
    lazy = da.from_array(on_gpu(values), chunks=lengths, asarray=False)
    (array,) = on_both(client, lazy, is_strict=True)
    return array


def on_host(array):
    return array.map_blocks(to_host, meta=np.empty((0,) * array.ndim)).compute()


def uniform(low, high, *shape, dtype="f8"):
    return RNG.uniform(low, high, shape).astype(dtype)


N = 4 * CHUNK
LINEAR, DOMINANT = mgrec.linear_recurrence, mgrec.solve_tridiagonal
SMALL, LARGE = uniform(-1, 1, N), uniform(2.5, 3.5, N)
FILTER = np.array([0.2, 0.3], "f4"), np.array([1.0, -0.2, 0.01], "f4")
CASES = {
    "arrays": (LINEAR, [uniform(-1, 1, N), uniform(-1, 1, N)], {"initial": 2.0}),
    "float32, reverse": (LINEAR, [uniform(-1, 1, N, dtype="f4")] * 2, {"reverse": True}),
    "constant": (LINEAR, [0.9, uniform(-1, 1, N)], {}),
    "columns": (LINEAR, [uniform(-1, 1, N, 3)] * 2, {"axis": 0, "initial": np.arange(3.0)}),
    "filter": (lfilter, [*FILTER, uniform(-1, 1, N, dtype="f4")], {}),
    "tridiagonal": (DOMINANT, [SMALL, LARGE, SMALL, SMALL], {}),
}


def operands_of(client, operands, chunks):
    return [x if np.ndim(x) == 0 or len(x) < N else placed(client, x, chunks) for x in operands]


@pytest.mark.parametrize(("case", "count"), [("arrays", 2), *((case, 4) for case in CASES)])
def test_results_have_the_bits_of_the_graph(client, solved, monkeypatch, case, count):
    function, operands, options = CASES[case]
    monkeypatch.setattr(filters, "LARGE_ON_GPU", 1 << 12)
    operands, others = (operands_of(client, operands, [N // count] * count) for _ in range(2))
    wanted = on_host(function(*others, **options))  # workers may have got chunks of each other
    with mgrec.plan(function, *operands, client=client, **options) as plan:
        results = [plan(), plan(*operands), plan.submit(), *plan.map([()] * 3)]
        for result in results:
            np.testing.assert_array_equal(on_host(result), wanted)
    assert solved == ["solved"] * 12


def test_a_result_is_an_operand_of_the_next_solve(client, solved):
    u = uniform(-1, 1, N)
    wanted = u
    for _ in range(5):
        wanted = LINEAR(0.5, wanted)
    with mgrec.plan(LINEAR, 0.5, placed(client, u, [CHUNK] * 4), client=client) as step:
        result = step.submit()
        for _ in range(4):
            result = step.submit(0.5, result)
        np.testing.assert_allclose(on_host(result), wanted, rtol=1e-10)
    assert solved == ["solved"] * 10


def test_messages_that_do_not_suffice(client, solved):
    """The host solves, and after some times without a try."""
    s, t = uniform(-1, 1, N), uniform(-1, 1, N)
    t[: 2 * CHUNK], s[CHUNK], s[CHUNK + 1] = 0.0, 1e300, 1e300  # no state overflows
    wanted = on_host(LINEAR(*operands_of(client, [s, t], [CHUNK] * 4)))
    assert np.isfinite(wanted).all()
    s, t = operands_of(client, [s, t], [CHUNK] * 4)
    with mgrec.plan(LINEAR, s, t, client=client) as plan:
        for _ in range(8):
            np.testing.assert_array_equal(on_host(plan()), wanted)
    assert solved == [CacheMiss] * 12


def test_the_next_solve_is_launched_while_the_host_solves(client, solved, monkeypatch):
    """Another rank may have launched it, and its GPU then waits for this one."""
    launches, waiting, (s, t) = [], [], uniform(-1, 1, 2, N)
    t[: 2 * CHUNK], s[CHUNK], s[CHUNK + 1] = 0.0, 1e300, 1e300  # no state overflows
    solve_shard = program.solve_shard

    def waits(*arguments):
        waiting.append(1)
        wait_until(lambda: len(launches) == 6)
        return solve_shard(*arguments)

    s, t = operands_of(client, [s, t], [CHUNK] * 4)
    with mgrec.plan(LINEAR, s, t, client=client) as plan:
        wanted = on_host(plan())
        monkeypatch.setattr(program, "solve_shard", waits)
        launch = gpus.GPUThread._launch
        monkeypatch.setattr(
            gpus.GPUThread, "_launch", lambda *given: launches.append(given[1]) or launch(*given)
        )
        first = plan.submit()
        wait_until(lambda: len(waiting) == 2)
        for result in [first, plan.submit(), plan.submit()]:
            np.testing.assert_array_equal(on_host(result), wanted)
    assert CacheMiss in solved


def test_the_thread_that_launches_exchanges_waits_for_no_messages(client, solved, monkeypatch):
    """Another rank may have launched the next exchange, and wait there for this one, for ever."""
    s, t = uniform(-1, 1, 2, N)
    t[: 2 * CHUNK], s[CHUNK], s[CHUNK + 1] = 0.0, 1e300, 1e300  # no state overflows
    s, t = operands_of(client, [s, t], [CHUNK] * 4)
    completes = gpus.GPUThread._complete_unless_followed

    def completes_on_one(thread, launches):
        if thread._last is not None and thread._last.plan.mailbox.rank == 1:
            completes(thread, launches)

    with mgrec.plan(LINEAR, s, t, client=client) as plan:
        wanted = on_host(plan())
        with monkeypatch.context() as patch:
            patch.setattr(program.Solve, "is_left_to_host", lambda solve: False)
            patch.setattr(gpus.GPUThread, "_complete_unless_followed", completes_on_one)
            first = plan.submit()
            wait_until(lambda: solved[-1:] == [CacheMiss] and len(solved) == 3)
            second = plan.submit()
            for result in (first, second):
                with pytest.raises(RuntimeError, match="must not wait for other workers on the thread"):
                    on_host(result)
        np.testing.assert_array_equal(on_host(plan()), wanted)


def test_workers_with_other_numbers_of_chunks_exchange_none(client, solved):
    t = uniform(-1, 1, N)
    with mgrec.plan(LINEAR, 0.5, placed(client, t, [CHUNK] * 2 + [2 * CHUNK]), client=client) as plan:
        np.testing.assert_allclose(on_host(plan()), LINEAR(0.5, t), rtol=1e-10)
    assert not solved and not Communicator.started


@pytest.mark.parametrize(("results", "in_flight"), [(3, 2), (7, 3), (100, 4)])
def test_solves_in_flight_fit_the_memory_of_gpus(client, monkeypatch, results, in_flight):
    from mgrec.distributed.plan import recurrences

    free = results * N * 4  # bytes of the results of a solve on each worker
    monkeypatch.setattr(recurrences, "LARGE", N * 4)
    monkeypatch.setattr(recurrences, "free_memory", lambda: free)
    t = uniform(-1, 1, N)
    with mgrec.plan(LINEAR, 0.5, placed(client, t, [CHUNK] * 4), client=client) as plan:
        assert plan.in_flight == in_flight


@pytest.mark.parametrize("replicas", [(1, 2), range(4)])
def test_replicas_leave_workers_as_many_neighbouring_chunks(client, solved, replicas):
    t = uniform(-1, 1, N)
    array = placed(client, t, [CHUNK] * 4)
    futures = array.dask.layers[array.name]
    client.replicate([futures[array.name, k] for k in replicas])
    with mgrec.plan(LINEAR, 0.5, array, client=client) as plan:
        np.testing.assert_allclose(on_host(plan()), LINEAR(0.5, t), rtol=1e-10)
    assert solved == ["solved"] * 2


def test_workers_that_share_a_gpu_exchange_none(client, nccl, solved):
    nccl.devices = lambda: 0
    t = uniform(-1, 1, N)
    with mgrec.plan(LINEAR, 0.5, placed(client, t, [CHUNK] * 4), client=client) as plan:
        for result in [plan(), *plan.map([()] * 5)]:
            np.testing.assert_allclose(on_host(result), LINEAR(0.5, t), rtol=1e-10)
    assert not solved and not Communicator.started


def test_an_error_of_one_worker_is_raised_by_the_client(client, solved):
    """The solve has failed, not the plan."""
    t = uniform(-1, 1, N)
    t[-1] = 7.0
    good = placed(client, t, [CHUNK] * 4)

    def narrow(block):
        return block.astype("f4") if block[-1] == 7.0 else block

    bad = client.persist(good.map_blocks(narrow, meta=good._meta))
    with mgrec.plan(LINEAR, 0.5, good, client=client) as plan:
        wanted = on_host(plan())
        with pytest.raises(TypeError, match=r"chunk \(3,\) is float32"):
            plan(0.5, bad)
        np.testing.assert_array_equal(on_host(plan()), wanted)
    assert solved.count("solved") == 4 and {TypeError, CacheMiss} < {*solved}


def test_plans_of_several_threads_share_a_communicator(client, solved):
    def run(seed):
        t = np.random.default_rng(seed).random(N)
        with mgrec.plan(LINEAR, 0.5, placed(client, t, [CHUNK] * 4), client=client) as plan:
            for result in plan.map([()] * 5):
                np.testing.assert_allclose(on_host(result), LINEAR(0.5, t), rtol=1e-10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    assert solved == ["solved"] * 20 and len(Communicator.started) == 2


STARTED, ENDS = threading.Event(), threading.Event()


def exchanges_on_gpus(x, group, waits=False):
    mgrec.linear_recurrence(0.5, x, group=group)
    if waits:
        STARTED.set()
        assert ENDS.wait(60)
    return hasattr(group, "gpus")


def test_gpus_exchange_messages_for_one_program_or_client_at_a_time(client, solved, monkeypatch):
    monkeypatch.setattr(run_module._Divided, "has_gpus", True)
    monkeypatch.setattr(gpus, "UNTIL_NEXT_TRY", 3)
    t = uniform(-1, 1, N)
    array, (wanted, run) = placed(client, t, [CHUNK] * 4), (LINEAR(0.5, t), mgrec.dask.run)

    def counted(call):
        before = len(solved)
        result = call()
        return result if isinstance(result, list) else on_host(result), len(solved) - before

    with mgrec.plan(LINEAR, 0.5, array, client=client) as plan, ThreadPoolExecutor(1) as pool:
        assert counted(plan)[1] == 2
        STARTED.clear(), ENDS.clear()
        program = pool.submit(run, exchanges_on_gpus, array, client=client, waits=True)
        try:
            assert STARTED.wait(60)
            assert run(exchanges_on_gpus, array, client=client) == [False, False]
            for _ in range(2):
                result, exchanges = counted(plan)
                np.testing.assert_allclose(result, wanted, rtol=1e-10)
                assert not exchanges
        finally:
            ENDS.set()
        assert program.result(60) == [True, True]
        assert run(exchanges_on_gpus, array, client=client) == [True, True]
        assert counted(plan)[1] == 2
        with Client(client.scheduler.address) as other:
            (copy,) = on_both(other, da.from_array(on_gpu(t), chunks=CHUNK, asarray=False), is_strict=True)
            with mgrec.plan(LINEAR, 0.5, copy, client=other) as second:
                assert counted(second)[1] == 0
                assert counted(plan)[1] == 2
                assert run(exchanges_on_gpus, array, client=client) == [True, True]
                assert [counted(second)[1] for _ in range(4)] == [0, 0, 0, 2]  # the next try
    assert len(Communicator.started) == 2


def test_a_program_on_some_of_a_plans_workers(nccl, monkeypatch):
    monkeypatch.setattr(run_module._Divided, "has_gpus", True)
    options = {"n_workers": 3, "threads_per_worker": 1, "processes": False}
    t = uniform(-1, 1, N)
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        blocks = [
            client.scatter(on_gpu(block), workers=[worker], hash=False)
            for block, worker in zip(np.split(t, 4)[:3], client.nthreads(), strict=True)
        ]
        blocks = [da.from_delayed(block, (CHUNK,), meta=on_gpu(t[:0])) for block in blocks]
        array = client.persist(da.concatenate(blocks))
        with mgrec.plan(LINEAR, 0.5, array, client=client) as plan:
            for _ in range(3):
                np.testing.assert_allclose(on_host(plan()), LINEAR(0.5, t)[: 3 * CHUNK], rtol=1e-10)
                assert mgrec.dask.run(exchanges_on_gpus, array[CHUNK:], client=client) == [True, True]


def test_a_large_solve_does_not_keep_the_next_one_waiting(client, monkeypatch):
    """The first one runs on the GPU until both workers have launched the second one."""
    from mgrec.distributed.groups import device

    steps, start = {0: [], 1: []}, device.start_shards

    class Event:
        done = property(lambda self: all(len(of_rank) > 1 for of_rank in steps.values()))

        def record(self):
            pass

    def watched(group, *arguments):
        complete = start(group, *arguments)
        steps[group.rank].append("launched")

        def wait():
            steps[group.rank].append("awaited")
            return complete()

        return wait

    monkeypatch.setattr(device, "start_shards", watched)
    monkeypatch.setattr(gpus, "LARGE", 1)
    monkeypatch.setattr(gpus, "LONGEST", 40.0)
    monkeypatch.setattr(Communicator, "new_event", lambda self: Event())
    t = uniform(-1, 1, N)
    with mgrec.plan(LINEAR, 0.5, placed(client, t, [CHUNK] * 4), client=client) as plan:
        first = plan.submit()
        wait_until(lambda: all(steps.values()))
        for result in (first, plan.submit()):
            np.testing.assert_allclose(on_host(result), LINEAR(0.5, t), rtol=1e-10)
    assert all(of_rank == ["launched"] * 2 + ["awaited"] * 2 for of_rank in steps.values())
