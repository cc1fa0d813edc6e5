"""Arrays of the package dask-array: lazy in, lazy out, and what it optimizes around them."""

import pickle
from functools import partial

import dask.array as da
import numpy as np
import pytest
from chunkings import with_extended
from clusters import two_workers
from distributed import wait

import mgrec
import mgrec.dask
from mgrec.signal import ewm, lfilter

dask_array = pytest.importorskip("dask_array")

RNG = np.random.default_rng(5)
S, T, GRID = RNG.uniform(-0.9, 0.9, 60), RNG.standard_normal(60), RNG.standard_normal((24, 30))
CALLS = {
    "linear": (mgrec.linear_recurrence, S, T),
    "linear, a scalar": (lambda t: mgrec.linear_recurrence(0.5, t), T),
    "scan": (lambda x: mgrec.scan(mgrec.maps.max_plus, x, 0.0, initial=0.0), T),
    "lfilter": (lambda x: lfilter([0.2, 0.3], [1.0, -0.9, 0.5], x), T),
    "ewm": (lambda x: ewm(x, span=5), T),
    "tridiagonal": (mgrec.solve_tridiagonal, S, 3 + S, S, T),
    "banded": (partial(mgrec.solve_banded, (1, 1)), np.stack([S, 3 + S, S]), T),
    "blocks": (partial(mgrec.solve_block_tridiagonal, [[0.5]], [[3.0]]), S[:, None, None], T[:, None]),
    "summed-area table": (mgrec.summed_area_table, GRID),
    "Gaussian": (lambda x: mgrec.ndimage.gaussian_filter(x, 2.0), GRID),
    "coefficient": (lambda s, t: mgrec.linear_recurrence(mgrec.Coefficient(lambda i, s: s, s), t), S, T),
}


def lazy(array):
    return dask_array.from_array(array, chunks=tuple(max(1, n // 3) for n in array.shape))


@pytest.mark.parametrize("name", with_extended(CALLS, "scan", "coefficient"))
def test_results_are_of_the_same_package(name):
    function, *arrays = CALLS[name]
    wanted = function(*arrays)
    result = function(*map(lazy, arrays))
    assert type(result) is dask_array.Array
    assert result.name == function(*map(lazy, arrays)).name
    np.testing.assert_allclose(result.compute(), wanted, rtol=1e-12, atol=1e-13)


def test_expressions_around_a_solve():
    x = lazy(T)
    w = mgrec.linear_recurrence(0.5, x + 1)
    wanted = mgrec.linear_recurrence(0.5, T + 1)
    np.testing.assert_allclose((2 * w)[7:31].compute(), 2 * wanted[7:31], rtol=1e-12)
    np.testing.assert_allclose((w + x).sum().compute(), (wanted + T).sum(), rtol=1e-12)
    twice = mgrec.linear_recurrence(w, x)
    np.testing.assert_allclose(twice.compute(), mgrec.linear_recurrence(wanted, T), rtol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(w)).compute(), w.compute())


def test_several_results_and_other_packages():
    y, state = lfilter([0.5], [1.0, -0.5], lazy(T), zi=np.zeros(1))
    assert {type(y), type(state)} == {dask_array.Array}
    t = da.from_array(T, chunks=20)
    assert type(mgrec.linear_recurrence(lazy(S), t)) is dask_array.Array
    assert type(mgrec.linear_recurrence(0.5, t)) is da.Array


def test_persisted_arrays_and_plans():
    wanted = mgrec.linear_recurrence(0.5, T)
    with two_workers():
        t = lazy(T).persist()
        wait(t)
        w = mgrec.linear_recurrence(0.5, t).persist()
        assert type(w) is dask_array.Array
        mgrec.dask.progress(w)
        np.testing.assert_allclose(w.compute(), wanted, rtol=1e-12)
        with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as solve:
            np.testing.assert_allclose(solve(0.5, t).compute(), wanted, rtol=1e-12)
        result = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t)
        np.testing.assert_allclose(result.compute(), wanted, rtol=1e-12)
