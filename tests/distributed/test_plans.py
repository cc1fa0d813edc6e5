"""Plans: the graph's bits without a graph, and what happens when something is lost."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from chunkings import with_extended
from clusters import on_both, two_workers, wait_until, wait_until_started
from distributed import Client, wait
from faults import die_in
from scipy import signal

import mgrec
import mgrec.dask
from mgrec.distributed.plan import internals
from mgrec.distributed.plan import worker as plan_worker
from mgrec.signal import lfilter, sosfilt

CHUNKS, CHUNK = 24, 10
STEPS = CHUNKS * CHUNK
B, A = [0.2, 0.3], [1.0, -0.9, 0.5]
SOS = [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1], [1.0, 0.5, 0.0, 1.0, -0.3, 0.2]]


@pytest.fixture(scope="module")
def client():
    # It drops replicas, which the tasks of graphs leave, from where a plan would find them.
    still = dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
    with still, two_workers(processes=False, protocol="tcp://", threads_per_worker=2) as client:
        yield client


@pytest.fixture
def values():
    rng = np.random.default_rng(11)
    return rng.uniform(-0.9, 0.9, STEPS), rng.standard_normal(STEPS)


@pytest.fixture
def arrays(client, values):
    return on_both(client, *(da.from_array(value, chunks=CHUNK) for value in values))


def square(i, x):
    return x * np.sin(0.001 * i)


CASES = {
    "constant": lambda run, s, t: run(mgrec.linear_recurrence, 0.5, t, initial=2.0),
    "arrays": lambda run, s, t: run(mgrec.linear_recurrence, s, t, reverse=True),
    "index": lambda run, s, t: run(mgrec.linear_recurrence, mgrec.Coefficient(square, s), t),
    "max-plus": lambda run, s, t: run(mgrec.scan, mgrec.maps.max_plus, s, t, initial=0.25),
    "rational": lambda run, s, t: run(mgrec.rational_recurrence, s, t, 0.5, 2.0, initial=0.25),
    "two states": lambda run, s, t: run(
        mgrec.scan, mgrec.maps.matrix2, s, 0.5, 0.25, 0.5, t, 0.0, initial=(1.0, 2.0), reverse=True
    ),
    "lfilter": lambda run, s, t: run(lfilter, B, A, t),
    "sosfilt with zi": lambda run, s, t: run(sosfilt, SOS, t, zi=np.ones((2, 2))),
}


def by_graph(recurrence, *operands, **options):
    return recurrence(*operands, **options)


@pytest.mark.parametrize("name", with_extended(CASES, "index", "rational", "two states", "lfilter"))
def test_plans_and_solves_have_the_bits_of_the_graph(arrays, name, monkeypatch):
    def gather(*arguments, **options):
        raise AssertionError("operands move")

    wanted = dask.compute(CASES[name](by_graph, *arrays))[0]
    monkeypatch.setattr(internals, "gather_from_workers", gather)
    with CASES[name](mgrec.plan, *arrays) as plan:
        results = [CASES[name](mgrec.dask.solve, *arrays), *(plan() for _ in range(3))]
    for result, found in zip(results, dask.compute(*results), strict=True):
        first = result[0] if isinstance(result, tuple) else result
        assert (first.chunks, first.dtype) == (arrays[1].chunks, arrays[1].dtype)
        assert len(first.dask) == CHUNKS
        for got, own in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(got, own)


def test_a_plan_takes_other_marks(client):
    x = da.ones(12, chunks=4)
    first, second = (np.arange(12) % k == 0 for k in (5, 6))
    with mgrec.plan(mgrec.linear_recurrence, 1.0, x, reset=first) as solve:
        np.testing.assert_array_equal(solve(), np.arange(12) % 5 + 1)
        np.testing.assert_array_equal(solve(1.0, x, reset=second), np.arange(12) % 6 + 1)
    with mgrec.plan(mgrec.linear_recurrence, 1.0, x, lengths=[5, 5, 2]) as solve:
        np.testing.assert_array_equal(solve(), np.arange(12) % 5 + 1)
        np.testing.assert_array_equal(solve(1.0, x, lengths=[6, 6]), np.arange(12) % 6 + 1)


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


FILTERS = {"lfilter": (lfilter, (B, A), (4, 2, 3)), "sosfilt": (sosfilt, (SOS,), (2, 4, 2, 3))}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.extended
def test_a_plan_of_a_filter_of_rows_takes_other_states(client, name):
    function, given, of_states = FILTERS[name]
    rng = np.random.default_rng(3)
    x, states = rng.normal(size=(4, 90, 3)), rng.normal(size=of_states)
    lazy, other = (da.from_array(each, chunks=(2, 20, 2)) for each in (x, x + 1))
    with mgrec.plan(function, *given, lazy, axis=1) as solve:
        y, (y_with, zf) = solve(), solve(zi=states)
        y_other, zf_other = solve(*given, other, zi=zf)
        assert (y.chunks, y_other.dtype, type(zf)) == (lazy.chunks, x.dtype, np.ndarray)
        wanted = (
            function(*given, lazy, 1),
            *function(*given, lazy, 1, states),
            *function(*given, other, 1, zf),
        )
        for one, two in zip((y, y_with, zf, y_other, zf_other), wanted, strict=True):
            np.testing.assert_array_equal(*dask.compute(one, two))


def test_a_signal_in_parts_goes_through_a_plan(client, values):
    parts = [da.from_array(part, chunks=CHUNK) for part in np.split(values[1], 2)]
    state, found = np.zeros(2), []
    with mgrec.plan(lfilter, B, A, parts[0], zi=state) as solve:
        for part in parts:
            y, state = solve(B, A, part, zi=state)
            found.append(y.compute())
    wanted, last = signal.lfilter(B, A, values[1], zi=np.zeros(2))
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


def test_calls_with_other_values_are_not_taken_for_the_first_one(arrays):
    s, t = arrays
    for first in (0.5, t):
        with mgrec.plan(mgrec.linear_recurrence, first, t) as plan:
            for given in (0.5, -0.0, 0.0, np.float64(0.25)) if first is not t else (t,):
                wanted = mgrec.linear_recurrence(given, s).compute()
                np.testing.assert_array_equal(plan(given, s).compute(), wanted)


def test_constants_of_a_function_are_persisted_once(client, arrays, values, monkeypatch):
    def twice(t):
        return mgrec.linear_recurrence(values[0], mgrec.linear_recurrence(0.5, t))

    with mgrec.plan(twice, arrays[1]) as plan:
        first = plan().compute()
        monkeypatch.delattr(Client, "persist")
        np.testing.assert_array_equal(plan().compute(), first)
    wait_until(lambda: _solved(client) == 0)


def test_operands_that_are_nowhere_are_an_error(client, arrays, monkeypatch):
    async def lost(worker, keys):
        raise RuntimeError("operands are gone")

    s, t = arrays
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        wanted = solve().compute()
        (other,) = on_both(client, t)
        with monkeypatch.context() as patch:
            patch.setattr(plan_worker, "blocks_of", lost)
            with pytest.raises(RuntimeError, match="operands are gone"):
                solve(s, other)
        np.testing.assert_array_equal(solve(s, other).compute(), wanted)


def test_operands_that_lie_elsewhere_are_fetched(client, arrays, values):
    s, t = arrays
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        for address in list(client.nthreads()):
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


def test_a_plan_holds_its_operands_from_when_it_is_built(client, arrays, monkeypatch):
    """Replicas of them may be dropped between then and the first solve."""
    kept = client.persist(arrays[1] + 1)
    wait(kept)
    wanted = mgrec.linear_recurrence(0.5, kept).compute()

    async def blocks(worker, keys):
        assert not {*map(str, keys)} & {*map(str, kept.__dask_keys__())}
        return await finding(worker, keys)

    with mgrec.plan(mgrec.linear_recurrence, 0.5, kept) as solve:
        finding = plan_worker.blocks_of
        monkeypatch.setattr(plan_worker, "blocks_of", blocks)
        np.testing.assert_array_equal(solve().compute(), wanted)


def test_carries_do_not_go_through_the_scheduler(client, arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        held = [solve()]
        wait(held)
        before = _settled(client, *arrays, *held)
        held += [solve() for _ in range(5)]
        wait(held)
        assert client.run_on_scheduler(_transitions) == before
        graph = mgrec.linear_recurrence(*arrays).persist()
        wait(graph)
        assert client.run_on_scheduler(_transitions) > before


def _settled(client, *arrays):
    """The count of transitions, once workers hold and compute nothing but these arrays."""
    gc.collect()
    wanted = {str(key) for array in arrays for key in array.__dask_keys__()}
    wait_until(lambda: client.run_on_scheduler(_held_keys) == wanted)
    return client.run_on_scheduler(_transitions)


def _held_keys(dask_scheduler):
    tasks = dask_scheduler.tasks.values()
    return {str(task.key) for task in tasks if task.state != "released"}


def _transitions(dask_scheduler):
    return dask_scheduler.transition_counter


def test_results_that_nobody_holds_are_freed(client, arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        w = solve()
        (w + 1).sum().compute()
        assert _solved(client) == CHUNKS
        del w
        wait_until(lambda: _solved(client) == 0)


def _solved(client):
    keys = client.run(lambda dask_worker: [str(key) for key in dask_worker.data])
    return sum("solved-" in key for own in keys.values() for key in own)


def test_what_a_chunk_raises_is_raised_and_the_plan_goes_on(client, arrays):
    def shortened(block, block_info=None):
        is_seventh = block_info is not None and block_info[0]["chunk-location"] == (7,)
        return block[1:] if is_seventh else block

    def fails(block):
        raise ZeroDivisionError("no such operand")

    s, t = arrays
    raised = {
        shortened: (ValueError, r"same sizes; chunk \(7,\) got \(10,\) and \(9,\)"),
        fails: (ZeroDivisionError, "no such operand"),
    }
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        wanted = solve().compute()
        for function, (error, message) in raised.items():
            wrong = t.map_blocks(function, meta=t._meta)
            with pytest.raises(error, match=message):
                solve(s, wrong)
            with pytest.raises(error, match=message):
                mgrec.dask.solve(mgrec.linear_recurrence, s, wrong)
            np.testing.assert_array_equal(solve().compute(), wanted)
        wait_until(lambda: _solved(client) == 0)


WRONG_CHUNKS = {
    "list": (list, TypeError, r"chunks that are arrays; chunk \(\d+,\) is a builtins.list"),
    "nothing": (lambda block: None, TypeError, "chunks that are arrays; .* is a builtins.NoneType"),
    "Series": (pd.Series, TypeError, "chunks that are arrays; .* is a pandas.*Series"),
    "scalar": (lambda block: block[0], TypeError, "chunks that are arrays; .* numpy.float64"),
    "rows": (lambda block: block[None], ValueError, r"declares, 1; .* has the shape \(1, 10\)"),
}


@pytest.mark.parametrize(("function", "error", "message"), WRONG_CHUNKS.values(), ids=WRONG_CHUNKS)
def test_chunks_must_be_arrays_of_as_many_axes_as_declared(client, arrays, function, error, message):
    s, t = arrays
    wrong = t.map_blocks(function, dtype=float, meta=t._meta)
    with pytest.raises(error, match=message):
        mgrec.linear_recurrence(s, wrong).compute()
    with pytest.raises(error, match=message):
        mgrec.dask.solve(mgrec.linear_recurrence, s, wrong)


def test_a_plan_takes_integers_of_numpy(arrays):
    in_flight = np.array(2)
    with mgrec.plan(mgrec.linear_recurrence, *arrays, in_flight=in_flight) as solve:
        results = [solve.submit() for _ in range(4)]
        results += solve.map([arrays] * 4, in_flight=np.array(3))
        wanted = solve().compute()
        assert in_flight == solve.in_flight == 2
    for w in results:
        np.testing.assert_array_equal(w.compute(), wanted)


@pytest.mark.parametrize("function", [mgrec.linear_recurrence, lambda *a: lfilter(B, A, a[1])])
def test_a_plan_in_a_task_is_an_error_that_says_what_to_do(arrays, function):
    with (
        mgrec.plan(function, *arrays) as solve,
        pytest.raises(TypeError, match=r"cannot be pickled: .* Pass its results"),
    ):
        cloudpickle.dumps(solve)


def test_other_shapes_are_refused(arrays):
    s, t = arrays
    with mgrec.plan(mgrec.linear_recurrence, s, t) as solve:
        with pytest.raises(ValueError, match=r"chunks of a plan's solve must be .* got \(\(24,"):
            solve(s.rechunk(24), t.rechunk(24))
        with pytest.raises(ValueError, match="dtype of a plan's solve must be float64"):
            solve(s.astype("f4"), t.astype("f4"), initial=np.float32(0))
        with pytest.raises(ValueError, match="reverse of a plan's solve must be False"):
            solve(reverse=True)


def test_a_closed_plan_says_so(arrays):
    with mgrec.plan(mgrec.linear_recurrence, *arrays) as solve:
        w = solve()
        shown = "<mgrec.plan of linear_recurrence: results of shape (240,) in 24 chunks of up to "
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


@pytest.mark.parametrize(
    "phase", with_extended(["launch_summaries", "launch_determination"], "launch_summaries")
)
def test_a_process_that_dies_ends_a_plan_and_costs_a_solve_time_alone(values, phase):
    with two_workers() as client:
        arrays = mgrec.dask.colocate(*(da.from_array(value, chunks=CHUNK) for value in values))
        wanted = mgrec.linear_recurrence(*arrays).compute()
        with mgrec.plan(mgrec.linear_recurrence, *arrays) as plan:
            np.testing.assert_array_equal(plan().compute(), wanted)
            victim = next(iter(client.nthreads()))
            client.run(die_in, phase, workers=[victim])
            for _ in range(2):
                with pytest.raises(mgrec.dask.WorkerLostError, match=f"{victim}.*Build a new plan"):
                    plan()
        wait_until_started(client, 2)
        wait(arrays)
        victims = []

        def is_set():
            # For a moment the scheduler may know the data, or connections, of the dead worker.
            with suppress(OSError, IndexError):
                victim = client.who_has(arrays[1])[arrays[1].name, 0][0]
                client.run(die_in, phase, workers=[victim])
                victims.append(victim)
            return bool(victims)

        wait_until(is_set)
        (victim,) = victims
        w = mgrec.dask.solve(mgrec.linear_recurrence, *arrays)
        np.testing.assert_array_equal(w.compute(), wanted)
        assert victim not in client.nthreads()
