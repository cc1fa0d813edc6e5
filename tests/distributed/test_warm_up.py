"""Warming up: kernels are there before the first solve, also on workers that join later."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import mgrec
import mgrec.dask
from mgrec.distributed.cluster import warm_up
from mgrec.signal import lfilter


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


def compiled(client):
    """Specialisations that numba holds in each worker."""
    return list(client.run(_count).values())


def _count():
    import gc

    from numba.core.dispatcher import Dispatcher

    return sum(len(each.signatures) for each in gc.get_objects() if type(each) is Dispatcher) + sum(
        len(each.overloads) for each in gc.get_objects() if isinstance(each, Dispatcher)
    )


def test_a_solve_compiles_nothing_after_it_and_late_workers_warm_up_too(cluster, client):
    s, t = da.full((3, 500), 0.25, chunks=(1, 100)), da.ones((3, 500), chunks=(1, 100))
    cold = compiled(client)
    mgrec.dask.warm_up(mgrec.linear_recurrence, s, t, 1.0, client=client)
    warm = compiled(client)
    mgrec.linear_recurrence(s, t, 1.0).compute()
    assert cold < warm == compiled(client)
    cluster.scale(2)
    client.wait_for_workers(2)
    warm = compiled(client)
    assert min(warm) > cold[0]
    for address in client.nthreads():
        mgrec.linear_recurrence(s, t, 1.0).compute(workers=[address])
    assert compiled(client) == warm
    cluster.scale(1)


def test_every_kind_of_chunk_is_solved(monkeypatch):
    kinds = []
    monkeypatch.setattr(Client, "register_plugin", lambda _, plugin: kinds.append(plugin))
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        t = da.ones((5, 10, 3), chunks=((5, 0), (4, 4, 2), (3,)))
        s = da.ones((10, 1), chunks=((4, 4, 2), 1), dtype=np.float32)
        mgrec.dask.warm_up(mgrec.linear_recurrence, s, t, axis=1, client=client)
        mgrec.dask.warm_up(lfilter, [0.2, 0.3], [1.0, -0.9, 0.5], t, axis=1, client=client)
    linear, of_filter = kinds
    assert linear.shapes == (((4, 1), (5, 4, 3)), ((2, 1), (5, 2, 3)))
    assert of_filter.shapes == (((5, 4, 3),), ((5, 2, 3),))
    phases = []
    monkeypatch.setattr(warm_up, "determine_block", lambda *given: phases.append(given))
    for plugin in kinds:
        plugin.run()
    assert len(phases) == 4


def test_long_chunks_are_not_filled_on_a_cpu():
    for shape, wanted in (((10**12,), 1 << 19), ((512, 10**9), 4096), ((64, 10**9), 1 << 13)):
        most = warm_up.longest(shape, len(shape) - 1)
        filled = warm_up._filled(np.empty(0), shape, 0.5, most)
        assert filled.shape == (*shape[:-1], wanted)


def test_what_is_not_taken(client):
    with pytest.raises(TypeError, match=r"function that solves one recurrence.*got add"):
        mgrec.dask.warm_up(np.add, da.ones(3), 1.0, client=client)
    t = da.ones(4)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, t[t > 0], client=client)
