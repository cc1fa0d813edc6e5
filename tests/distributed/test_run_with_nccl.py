"""`mgrec.dask.run` where NCCL connects the workers: communicators are kept, and end with an error.

Threads of this process stand in for GPUs, and an object in their memory for NCCL.
"""

import time

import dask.array as da
import numpy as np
import pytest
from communicators import Communicator, replace_nccl
from distributed import Client, LocalCluster, wait

import mgrec
import mgrec.dask
from mgrec.distributed import run as run_module

X = np.random.default_rng(5).random(300)


@pytest.fixture
def nccl(monkeypatch):
    monkeypatch.setattr(run_module._Divided, "has_gpus", True)
    return replace_nccl(monkeypatch)


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def placed(client):
    """An array with a chunk on each worker."""
    parts = zip((X[:200], X[200:]), client.nthreads(), strict=True)
    futures = [client.scatter(part, workers=[worker], hash=False) for part, worker in parts]
    blocks = [
        da.from_delayed(future, part.shape, meta=part[:0])
        for future, part in zip(futures, (X[:200], X[200:]), strict=True)
    ]
    array = client.persist(da.concatenate(blocks))
    wait(array)
    return array


def solved(x, group, fails=()):
    assert type(group.gpus) is Communicator
    if group.rank in fails:
        raise ZeroDivisionError("a rank fails")
    return mgrec.linear_recurrence(0.5, x, group=group)


def test_a_communicator_is_used_again_and_ends_with_an_error(client, placed, nccl):
    expected = mgrec.linear_recurrence(0.5, X)
    for _ in range(3):
        result = mgrec.dask.run(solved, placed, client=client)
        np.testing.assert_allclose(result.compute(), expected)
    assert [communicator.rank for communicator in Communicator.started] in ([0, 1], [1, 0])

    with pytest.raises(ZeroDivisionError):
        mgrec.dask.run(solved, placed, client=client, fails=(1,))
    deadline = time.monotonic() + 30  # The other rank may still run.
    while not all(communicator.is_aborted for communicator in Communicator.started):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    result = mgrec.dask.run(solved, placed, client=client)
    np.testing.assert_allclose(result.compute(), expected)
    assert len(Communicator.started) == 4


def test_a_rank_that_returns_early_does_not_keep_others_waiting(client, placed, nccl):
    def leaves(x, group):
        return x if group.rank else mgrec.linear_recurrence(0.5, x, group=group)

    with pytest.raises(RuntimeError, match="same functions in the same order"):
        mgrec.dask.run(leaves, placed, client=client)


def test_ranks_on_one_gpu_use_no_nccl(client, placed, nccl):
    nccl.devices = lambda: 0

    def without(x, group):
        assert not hasattr(group, "gpus")
        return mgrec.linear_recurrence(0.5, x, group=group)

    result = mgrec.dask.run(without, placed, client=client)
    np.testing.assert_allclose(result.compute(), mgrec.linear_recurrence(0.5, X))
    assert not Communicator.started
