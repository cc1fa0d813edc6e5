"""Operands that a cluster holds, beside the same ones yet to be loaded."""

import dask.array as da
import numpy as np
import pytest
from distributed import wait
from graphs import check_graph

import mgrec
import mgrec.dask
from mgrec.distributed.graph import packed
from mgrec.signal import lfilter

X = np.linspace(-1, 1, 120)


def lazy(values):
    return da.from_array(values, chunks=10)


def test_tasks_over_held_chunks_are_not_taken_for_those_of_a_lazy_solve(client):
    # Persisting keeps the name of an array; groups over held chunks are larger.
    t = lazy(X)
    solves = [mgrec.linear_recurrence(0.5, array) for array in (t, t.persist())]
    lazily, held = ({key for key in solve.__dask_graph__() if "propagate" in str(key)} for solve in solves)
    assert lazily
    assert not lazily & held


def test_runs_of_chunks_that_lie_elsewhere_have_other_names(client, monkeypatch):
    # The scheduler keeps the first task of a name: it took runs of 1 for those of 16.
    t = da.from_array(X, chunks=6).persist()
    wait(list(t.dask.layers[t.name].values()))
    keys = list(t.dask.layers[t.name])

    def phases(chunk_indices):
        monkeypatch.setattr(packed, "_locate", lambda aligned: (chunk_indices, {"a": 1, "b": 1}))
        return set(mgrec.linear_recurrence(0.5, t).__dask_graph__()) - set(keys)

    one = phases(dict.fromkeys(keys, ("a",)))
    assert one == phases(dict.fromkeys(reversed(keys), ("a",)))
    assert not one & phases({key: ("ab"[n % 2],) for n, key in enumerate(keys)})
    assert not one & phases({})


@pytest.mark.parametrize("chunk", [10, 120])
def test_graphs_over_held_chunks_are_valid(client, chunk):
    t = da.from_array(X, chunks=chunk).persist()
    y, state = lfilter([1.0], [1.0, -0.5], t, zi=[0.5])
    for result in (mgrec.linear_recurrence(0.5, t, da.ones(())), y, state):
        check_graph(result)


@pytest.mark.parametrize("part", [slice(None), slice(7, None)])
def test_two_pass_reads_held_operands_where_they_are(client, part):
    s, t = lazy(X), lazy(X).persist()
    wanted = mgrec.linear_recurrence(X[part], X[part])
    got = mgrec.linear_recurrence(s[part], t[part], memory="two-pass").compute()
    np.testing.assert_allclose(got, wanted, rtol=1e-13)


@pytest.mark.parametrize("reverse", [False, True])
def test_stages_over_held_operands(client, reverse):
    t = lazy(X).persist()
    w = mgrec.linear_recurrence(0.5, t, reverse=reverse)
    got = mgrec.dask.persist_in_stages(w, chunks=5).compute()
    np.testing.assert_array_equal(got, w.compute())


@pytest.mark.parametrize("chunk", [7, 16, 120])
def test_colocate_operands_in_other_chunks(client, chunk):
    s, t = mgrec.dask.colocate(da.from_array(X, chunks=chunk), lazy(X))
    assert s.chunks == t.chunks
    got = mgrec.linear_recurrence(s, t).compute()
    np.testing.assert_allclose(got, mgrec.linear_recurrence(X, X), rtol=1e-13)
