"""One solve without a graph: see also test_plans.py."""

from __future__ import annotations

import gc
import pickle
import weakref

import dask
import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from clusters import two_workers, wait_until, workers_of
from distributed import wait

import mgrec
import mgrec.dask
import mgrec.hmm
from mgrec.distributed import solve as one_solve
from mgrec.distributed import speculation, tasks
from mgrec.distributed.plan import functions as dask_plans
from mgrec.filters import recurrence as filter_recurrence
from mgrec.scans import recurrence as transfer_recurrence
from mgrec.signal import ewm, lfilter


@pytest.mark.parametrize("initial", [0.0, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("reverse", [False, True])
def test_speculative_chunks_have_the_bits_of_the_graph(client, monkeypatch, initial, reverse):
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
    entries = tasks.propagate_group(problem.recurrence, run.summaries, problem.initial)
    given = problem.recurrence, chunks[1], entries, 1
    travelled = pickle.loads(pickle.dumps(run))
    assert not hasattr(travelled, "chunks")
    found = speculation.correct_persisted(*given, travelled, 1, t[1])
    np.testing.assert_array_equal(found, speculation.correct_persisted(*given, run, 1, t[1]))
    whole = mgrec.linear_recurrence(0.5, t.ravel())
    np.testing.assert_allclose(found, whole[20_000:], rtol=1e-12, atol=1e-13)


def test_a_solve_is_repeated_a_few_times_only(client, monkeypatch):
    plans = []

    def plan(*arguments):
        plans.append(arguments)
        raise mgrec.dask.WorkerLostError("the plan lost its worker")

    monkeypatch.setattr(dask_plans, "RecurrencePlan", plan)
    with pytest.raises(RuntimeError, match="lost its worker"):
        mgrec.dask.solve(mgrec.linear_recurrence, 0.5, da.ones(4))
    assert len(plans) == one_solve.ATTEMPTS


def test_nothing_is_left_but_the_results_and_operands_that_were_persisted():
    with two_workers(processes=False) as client:
        lazy = da.ones(40, chunks=10) + 0
        t = client.persist(lazy)
        wait(t)
        results = [mgrec.dask.solve(mgrec.linear_recurrence, 0.5, each) for each in (lazy, t)]
        keys = {str(key) for each in (t, *results) for key in each.dask}
        wait_until(lambda: {str(k) for worker in workers_of(client) for k in worker.data} == keys)
        for w in results:
            np.testing.assert_array_equal(w[:3].compute(), [1, 1.5, 1.75])


def memory_of(array):
    return array if array.base is None else memory_of(array.base)


def test_speculative_results_do_not_wait_for_the_collector_of_cycles(monkeypatch):
    """Memory of released results would grow from solve to solve, by gigabytes on a GPU."""
    monkeypatch.setattr(transfer_recurrence, "LARGE", 1)
    with two_workers(processes=False) as client:
        t = client.persist(da.from_array(np.random.default_rng(3).normal(size=40_000), chunks=20_000))
        wait(t)
        gc.collect()
        gc.disable()
        try:
            w = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t)
            wait(w)
            data = {key: block for worker in workers_of(client) for key, block in worker.data.items()}
            memory = [weakref.ref(memory_of(data.pop(key))) for key in w.__dask_keys__()]
            del data, w
            wait_until(lambda: all(each() is None for each in memory))
        finally:
            gc.enable()


ONE = np.ones((1, 1))
LEVEL = {
    "design": ONE,
    "obs_cov": ONE,
    "transition": ONE,
    "state_cov": 0.5 * ONE,
    "initial_state": np.zeros(1),
    "initial_state_cov": 10 * ONE,
}


def smooth(x, *, rate):
    forward = mgrec.linear_recurrence(rate, x)
    return 2 * mgrec.linear_recurrence(rate, forward + 1, reverse=True)


COMPOSED = {
    "own": (smooth, {"rate": 0.5}),
    "ewm": (ewm, {"span": 5.0}),
    "table over three axes": (lambda x: mgrec.summed_area_table(x.reshape(2, 4, 4), axes=(0, 1, 2)), {}),
    "scores of a hidden Markov model": (
        lambda x: mgrec.hmm.viterbi([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], x.reshape(16, 2)),
        {},
    ),
    "posteriors": (
        lambda x: mgrec.hmm.forward_backward([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], x.reshape(16, 2)),
        {},
    ),
    "filtered states": (lambda x: mgrec.statespace.kalman_filter(x[:, None], **LEVEL), {}),
    "smoothed states of rows": (
        lambda x: mgrec.statespace.kalman_smoother(x.reshape(2, 16)[..., None], **LEVEL),
        {},
    ),
}


@pytest.mark.parametrize(
    "name",
    with_extended(
        COMPOSED,
        "posteriors",
        "filtered states",
        "smoothed states of rows",
        "scores of a hidden Markov model",
    ),
)
def test_a_function_may_solve_several_recurrences(client, name):
    function, options = COMPOSED[name]
    arrays = [da.from_array(np.random.default_rng(k).random(32), chunks=8) for k in range(2)]
    with mgrec.plan(function, arrays[0], **options) as plan:
        solved = [plan(), *plan.map(arrays)]
        assert "mgrec.plan of" in repr(plan)
    with pytest.raises(RuntimeError, match="the plan is closed"):
        plan()
    solved.append(mgrec.dask.solve(function, arrays[1], **options))
    first, second = dask.compute(*(function(x, **options) for x in arrays))
    pairs = zip(dask.compute(*solved), (first, first, second, second), strict=True)
    for result, wanted in pairs:
        for one, other in zip(as_tuple(result), as_tuple(wanted), strict=True):
            np.testing.assert_array_equal(one, other)


def test_solves_of_filters_of_states_are_queued(client):
    """Their results are parts of those of a recurrence, and a sum over its chunks."""
    x = da.from_array(np.random.default_rng(0).random((32, 1)), chunks=(8, 1)).persist()
    wanted = mgrec.statespace.kalman_filter(x, **LEVEL)
    with mgrec.plan(mgrec.statespace.kalman_filter, x, **LEVEL) as plan:
        queued = [plan.submit() for _ in range(3)]
        for result in queued:
            assert result.filtered_state_cov.chunks == ((8, 8, 8, 8), (1,), (1,))
            assert [one.dtype for one in result] == [other.dtype for other in wanted]
        found = dask.compute(*queued)
    wanted = dask.compute(*wanted)
    for result in found:
        for one, other in zip(result, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_sum_of_a_plan_is_an_operand(client):
    """Workers have the results of its solve, but not the sum."""
    x = da.from_array(np.random.default_rng(0).random((1, 8, 1)), chunks=-1).persist()
    with mgrec.plan(mgrec.statespace.kalman_filter, x, **LEVEL) as plan:
        first, later = plan(), plan()
        operands = first.llf, first.filtered_state
        with mgrec.plan(mgrec.linear_recurrence, *operands, axis=1) as of_results:
            found = of_results(later.llf, later.filtered_state).compute()
        wanted = mgrec.linear_recurrence(*operands, axis=1).compute()
    np.testing.assert_array_equal(found, wanted)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def test_operands_of_another_kind_of_call_are_refused(client):
    x = da.ones((2, 4, 4), chunks=2)
    with (
        mgrec.plan(mgrec.summed_area_table, x, axes=(1, 2)) as plan,
        pytest.raises(ValueError, match="is several recurrences: build a plan with them"),
    ):
        plan(x, axes=(0, 1, 2))
