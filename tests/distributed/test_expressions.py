"""Dask's expression arrays: lazy in, lazy out as expressions, what Dask optimizes around them.

Query planning is a choice of a process: the checks run this file, and the generic tests over Dask
arrays, once more with DASK_ARRAY__QUERY_PLANNING=True.
"""

import os
import pickle
import subprocess
import sys
from functools import partial

import dask
import dask.array as da
import foreign_cases
import numpy as np
import pytest
from clusters import two_workers
from distributed import wait
from foreign_cases import flat
from graphs import check_graph
from internals import phase_of

import mgrec
import mgrec.dask
from mgrec.signal import lfilter

ON = dask.config.get("array.query-planning") is True
planned = pytest.mark.skipif(not ON, reason="array.query-planning is off")

RNG = np.random.default_rng(3)
S, T = RNG.uniform(-0.9, 0.9, 60), RNG.standard_normal(60)
GRID = RNG.standard_normal((24, 30))
# In memory alone, or with other arguments below.
LEFT_OUT = {"filtfilt by Gustafsson", "lfilter", "smith_waterman"}
FUNCTIONS = {
    **{name: call for name, call in foreign_cases.CALLS.items() if name not in LEFT_OUT},
    "smith-waterman": (
        partial(mgrec.smith_waterman, match=3, mismatch=-3, gap=-2, output="matrix"),
        foreign_cases.CODES,
        foreign_cases.CODES[::-1].copy(),
    ),
    "smith-waterman, score": (
        partial(mgrec.smith_waterman, match=3, mismatch=-3, gap=-2),
        foreign_cases.CODES,
        foreign_cases.CODES[::-1].copy(),
    ),
    "linear, two-pass": (partial(mgrec.linear_recurrence, memory="two-pass"), S, T),
    "linear, a lazy state": (lambda t, w: mgrec.linear_recurrence(0.5, t, w), GRID, GRID[:, 0]),
    "weighted scan of integers": (
        lambda x: mgrec.weighted_scan(x, -2, operators=("max", "+"), axis=0),
        np.arange(24).reshape(4, 6),
    ),
    "lfilter": (partial(lfilter, [0.2, 0.3], [1.0, -0.9, 0.5]), T),
    "tridiagonal, sides": (
        partial(mgrec.solve_tridiagonal, rhs_axis=1, axis=0),
        S,
        3 + S,
        S,
        np.stack([T] * 3, 1),
    ),
    "banded": (partial(mgrec.solve_banded, (1, 1)), np.stack([S, 3 + S, S]), T),
    "blocks": (partial(mgrec.solve_block_tridiagonal, [[0.5]], [[3.0]]), S[:, None, None], T[:, None]),
    "tridiagonal, p-scheme": (partial(mgrec.solve_tridiagonal, method="p-scheme"), S, 3 + S, S, T),
    "factor, a side in memory": (lambda d: mgrec.factor_tridiagonal(0.5, d, 0.5).solve(T), 3 + S),
    "wavefront": (
        lambda x, above: mgrec.wavefront(x, weights=(0.5, x, 0.25), above=above, left=0.5),
        GRID,
        GRID[0],
    ),
}


def lazy(array):
    return da.from_array(array, chunks=tuple(max(1, n // 3) for n in array.shape))


@planned
@pytest.mark.parametrize(("function", "arrays"), [(f, a) for f, *a in FUNCTIONS.values()], ids=FUNCTIONS)
def test_every_public_function(function, arrays):
    wanted, results, again = (flat(function(*map(make, arrays))) for make in (np.asarray, lazy, lazy))
    for result, other, array in zip(results, again, map(np.asarray, wanted), strict=True):
        assert isinstance(result, da.Array)
        assert hasattr(result, "expr")
        assert result.name == other.name
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        check_graph(result)
        rtol = 1e-9 if array.dtype.itemsize == 8 else 1e-4
        for each in (result, pickle.loads(pickle.dumps(result))):
            np.testing.assert_allclose(each.compute(scheduler="sync"), array, rtol=rtol, atol=rtol)


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
    with two_workers() as client:
        yield client


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
