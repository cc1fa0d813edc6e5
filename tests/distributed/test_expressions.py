"""Dask's expression arrays: lazy in, lazy out as expressions, what Dask optimizes around them.

Query planning is a choice of a process: the checks run this file, and the generic tests over Dask
arrays, once more with DASK_ARRAY__QUERY_PLANNING=True.
"""

import os
import pickle
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, wait
from graphs import check_graph

import mgrec
import mgrec.dask
from mgrec.distributed.observability import phase_of
from mgrec.signal import ewm, filtfilt, lfilter, sosfilt, sosfiltfilt

ON = dask.config.get("array.query-planning") is True
planned = pytest.mark.skipif(not ON, reason="array.query-planning is off")

RNG = np.random.default_rng(3)
S, T = RNG.uniform(-0.9, 0.9, 60), RNG.standard_normal(60)
GRID = RNG.standard_normal((24, 30))
SOS = [[0.2, 0.1, 0.0, 1.0, -0.5, 0.1], [1.0, 0.5, 0.0, 1.0, -0.3, 0.2]]
GAPS = np.where(np.arange(60) % 7 == 3, np.nan, T)

FUNCTIONS = {
    "linear": lambda a: mgrec.linear_recurrence(a(S), a(T), initial=0.5),
    "linear, reverse": lambda a: mgrec.linear_recurrence(0.5, a(T), reverse=True),
    "linear, two-pass": lambda a: mgrec.linear_recurrence(a(S), a(T), memory="two-pass"),
    "linear, a lazy state": lambda a: mgrec.linear_recurrence(0.5, a(GRID), initial=a(GRID[:, 0])),
    "coefficient": lambda a: mgrec.linear_recurrence(
        mgrec.Coefficient(lambda i, s: s / (i + 1), a(S)), a(T)
    ),
    "rational": lambda a: mgrec.rational_recurrence(a(S), a(T), 0.5, 2.0, initial=0.25),
    "scan of two states": lambda a: mgrec.scan(
        mgrec.maps.matrix2, a(S), 0.5, 0.25, 0.5, a(T), 0.0, initial=(1.0, 2.0)
    ),
    "weighted scan": lambda a: mgrec.weighted_scan(a(T), a(S)),
    "weighted scan, max-plus": lambda a: mgrec.weighted_scan(
        a(T), a(S), operators=("max", "+"), inclusive=True
    ),
    "weighted scan of integers": lambda a: mgrec.weighted_scan(
        a(np.arange(24).reshape(4, 6)), -2, operators=("max", "+"), axis=0
    ),
    "lfilter": lambda a: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], a(T)),
    "lfilter, zi": lambda a: lfilter([0.2], [1.0, -0.9], a(GRID), axis=0, zi=a(GRID[:1])),
    "sosfilt": lambda a: sosfilt(SOS, a(T), zi=np.ones((2, 2))),
    "filtfilt": lambda a: filtfilt([0.2, 0.3], [1.0, -0.5], a(T)),
    "sosfiltfilt": lambda a: sosfiltfilt(SOS, a(T)),
    "ewm": lambda a: ewm(a(GAPS), alpha=0.25),
    "ewm, not adjusted": lambda a: ewm(a(GAPS), alpha=0.25, adjust=False),
    "tridiagonal": lambda a: mgrec.solve_tridiagonal(a(S), a(T), a(S), a(T + 1)),
    "tridiagonal, sides": lambda a: mgrec.solve_tridiagonal(
        a(S), a(3 + S), a(S), a(RNG_SIDES), rhs_axis=1, axis=0
    ),
    "tridiagonal, p-scheme": lambda a: mgrec.solve_tridiagonal(
        a(S), a(3 + S), a(S), a(T), method="p-scheme"
    ),
    "factor": lambda a: mgrec.factor_tridiagonal(a(S), a(3 + S), a(S)).solve(a(T)),
    "factor, a side in memory": lambda a: mgrec.factor_tridiagonal(0.5, a(3 + S), 0.5).solve(T),
    "summed-area table": lambda a: mgrec.summed_area_table(a(GRID)),
    "wavefront": lambda a: mgrec.wavefront(
        a(GRID), weights=(0.5, a(GRID), 0.25), above=a(GRID[0]), left=0.5, corner=1.0
    ),
    "sor": lambda a: mgrec.sor(a(GRID), omega=1.5, sweeps=3),
    "smith-waterman": lambda a: mgrec.smith_waterman(
        a(LETTERS), a(LETTERS[::-1].copy()), match=3, mismatch=-3, gap=-2, output="matrix"
    ),
}
RNG_SIDES = RNG.standard_normal((60, 3))
LETTERS = RNG.integers(0, 4, 40)


def lazy(array):
    return da.from_array(array, chunks=tuple(max(1, n // 3) for n in array.shape))


def arrays(results):
    return results if isinstance(results, tuple) else (results,)


@planned
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function(name):
    wanted = arrays(FUNCTIONS[name](lambda array: array))
    results = arrays(FUNCTIONS[name](lazy))
    again = arrays(FUNCTIONS[name](lazy))
    for result, other, array in zip(results, again, wanted, strict=True):
        assert isinstance(result, da.Array)
        assert hasattr(result, "expr")
        assert result.name == other.name
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        check_graph(result)
        for each in (result, pickle.loads(pickle.dumps(result))):
            np.testing.assert_allclose(each.compute(scheduler="sync"), array, rtol=1e-9, atol=1e-9)


@planned
def test_tasks_have_names_of_the_expressions_below():
    # A rechunk has another name when it is lowered, and so must what reads it.
    given = (da.from_array(np.stack([T, T]), chunks=(1, 20)) + 1).rechunk((2, 15))
    result = mgrec.linear_recurrence(0.5, given)
    keys = {key for key in result.dask if phase_of(key)}
    assert {phase_of(key) for key in keys} >= {"precompute", "propagate", "determine"}
    assert result.name not in {key[0] for key in keys}
    assert keys == {key for key in result.optimize().dask if phase_of(key)}
    check_graph(result)
    wanted = mgrec.linear_recurrence(0.5, np.stack([T, T]) + 1)
    np.testing.assert_allclose(result[:, 10:].compute(scheduler="sync"), wanted[:, 10:])


@planned
@pytest.mark.parametrize(("memory", "loads"), [("stream", 3), ("two-pass", 6)])
def test_what_others_read_is_loaded_once(memory, loads):
    seen = []

    def load(block):
        seen.append(len(block))
        return block

    t = lazy(T).map_blocks(load, dtype=float, meta=np.empty(0))
    w = mgrec.linear_recurrence(0.5, t, memory=memory)
    got = (w - t).compute(scheduler="sync")
    np.testing.assert_allclose(got, mgrec.linear_recurrence(0.5, T) - T)
    assert len(seen) == loads


@planned
def test_names_are_those_of_every_process():
    ask = (
        "import dask.array as da, numpy as np, mgrec; "
        "print(mgrec.linear_recurrence(0.5, da.from_array(np.arange(9.0), chunks=3)).name)"
    )
    run = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    own = mgrec.linear_recurrence(0.5, da.from_array(np.arange(9.0), chunks=3))
    assert run.stdout.strip() == own.name


@pytest.fixture(scope="module")
def client():
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0") as own:
        yield own


@planned
def test_on_a_cluster(client):
    s, t = mgrec.dask.colocate(lazy(S), lazy(T), client=client)
    wanted = mgrec.linear_recurrence(S, T)
    w = mgrec.linear_recurrence(s, t)
    assert {phase_of(key) for key in w.dask} >= {"precompute", "propagate", "determine"}
    assert not any(str(key[0]).startswith("pack") for key in w.dask)
    solved = mgrec.dask.solve(mgrec.linear_recurrence, s, t, client=client)
    staged = mgrec.dask.persist_in_stages(w, chunks=2, client=client)
    mgrec.dask.warm_up(mgrec.linear_recurrence, s, t, client=client)
    held = w.persist()
    wait(held)
    mgrec.dask.progress(held, client=client)
    for result in (w, held, solved, staged):
        assert hasattr(result, "expr")
        np.testing.assert_allclose(result.compute(), wanted)
    twice = mgrec.linear_recurrence(0.5, held)
    np.testing.assert_allclose(twice.compute(), mgrec.linear_recurrence(0.5, wanted))
    with mgrec.plan(mgrec.linear_recurrence, s, t, client=client) as plan:
        np.testing.assert_allclose(plan(s, t + 1).compute(), mgrec.linear_recurrence(S, T + 1))


@pytest.mark.extended
@pytest.mark.skipif(ON, reason="this is that process")
def test_with_query_planning_on():
    environment = os.environ | {"DASK_ARRAY__QUERY_PLANNING": "True"}
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not extended"]
    command = [sys.executable, "-m", "pytest", *options]
    files = [__file__, "tests/test_every_recurrence.py::test_any_chunks"]
    run = subprocess.run([*command, *files], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-5000:]
    assert "skipped" not in run.stdout.splitlines()[-1]
