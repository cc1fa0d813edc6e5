"""Warming up: kernels are there before the first solve, also on workers that join later."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from clusters import scaled, two_workers
from distributed import Client

import mgrec
import mgrec.dask
from mgrec.distributed import warm_up
from mgrec.signal import lfilter, sosfiltfilt


@pytest.fixture(scope="module")
def client():
    with two_workers(n_workers=1) as client:
        yield client


def compiled(client):
    """Specialisations that numba holds in each worker."""
    return list(client.run(_count).values())


def _count():
    import gc

    from numba.core.dispatcher import Dispatcher

    # Not isinstance: it follows weak references, some of them to nothing.
    found = (each for each in gc.get_objects() if issubclass(type(each), Dispatcher))
    return sum(len(dispatcher.overloads) for dispatcher in found)


def test_a_solve_compiles_nothing_after_it_and_late_workers_warm_up_too(client):
    s, t = da.full((3, 500), 0.25, chunks=(1, 100)), da.ones((3, 500), chunks=(1, 100))
    cold = compiled(client)
    mgrec.dask.warm_up(mgrec.linear_recurrence, s, t, 1.0, client=client)
    warm = compiled(client)
    mgrec.linear_recurrence(s, t, 1.0).compute()
    assert cold < warm == compiled(client)
    with scaled(client, 2):
        warm = compiled(client)
        for address in client.nthreads():
            mgrec.linear_recurrence(s, t, 1.0).compute(workers=[address])
        assert compiled(client) == warm


def test_filters_with_samples_of_neighbours_compile_nothing_after_it(client):
    x = da.ones((4000, 3), chunks=(400, 2), dtype=np.int16)
    sos = np.array([[0.2, 0.3, 0.1, 1.0, -0.9, 0.5]])
    cold = compiled(client)
    mgrec.dask.warm_up(sosfiltfilt, sos, x, axis=0, client=client)
    warm = compiled(client)
    sosfiltfilt(sos, x, axis=0).compute()
    assert cold < warm == compiled(client)
    mgrec.dask.warm_up(sosfiltfilt, sos, x[:0], axis=1, padlen=0, client=client)


@pytest.mark.gpu
def test_groups_of_chunks_on_a_gpu_warm_up(client):
    cupy = pytest.importorskip("cupy")
    x = da.ones((4000, 3), chunks=(300, 2), dtype=np.int16).map_blocks(cupy.asarray)
    sos = np.array([[0.2, 0.3, 0.1, 1.0, -0.9, 0.5]])
    mgrec.dask.warm_up(sosfiltfilt, sos, x, axis=0, client=client)
    found = client.compute(sosfiltfilt(sos, x, axis=0)).result()
    np.testing.assert_allclose(found.get(), sosfiltfilt(sos, np.ones((4000, 3), np.int16), axis=0))


def test_every_kind_of_chunk_is_solved(client, monkeypatch):
    kinds = []
    monkeypatch.setattr(Client, "register_plugin", lambda _, plugin: kinds.append(plugin))
    t = da.ones((5, 10, 3), chunks=((5, 0), (4, 4, 2), (3,)))
    s = da.ones((10, 1), chunks=((4, 4, 2), 1), dtype=np.float32)
    mgrec.dask.warm_up(mgrec.linear_recurrence, s, t, axis=1, client=client)
    mgrec.dask.warm_up(lfilter, [0.2, 0.3], [1.0, -0.9, 0.5], t, axis=1, client=client)
    linear, of_filter = kinds
    b = da.ones((2, 8), chunks=(1, 8))
    mgrec.dask.warm_up(mgrec.solve_tridiagonal, b, b, b, b, periodic=True, client=client)
    assert linear.shapes == (((4, 1), (5, 4, 3)), ((2, 1), (5, 2, 3)))
    assert of_filter.shapes == (((5, 4, 3),), ((5, 2, 3),))
    phases = []
    monkeypatch.setattr(warm_up, "determine_block", lambda *given: phases.append(given))
    for plugin in kinds:
        plugin.run()
    assert len(phases) == 5


def test_long_chunks_are_not_filled_on_a_cpu():
    for shape, wanted in (((10**12,), 1 << 19), ((512, 10**9), 4096), ((64, 10**9), 1 << 13)):
        most = warm_up.longest(shape, len(shape) - 1)
        filled = warm_up._filled(np.empty(0), shape, 0.5, most)
        assert filled.shape == (*shape[:-1], wanted)
