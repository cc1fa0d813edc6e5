"""`mgrec.dask.run` where NCCL connects the workers: communicators are kept, and end with an error.

Threads of this process stand in for GPUs, and an object in their memory for NCCL.
"""

import threading
import time
import types
from itertools import count
from uuid import uuid4

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

import mgrec
import mgrec.dask
from mgrec.distributed import run as run_module
from mgrec.distributed.groups.group import DEVICE_FRAME, Group

X = np.random.default_rng(5).random(300)


class Meeting:
    """Where the ranks of a communicator exchange arrays."""

    def __init__(self):
        self.changed, self.arrays = threading.Condition(), {}


class Communicator(Group):
    """A group as that of NCCL."""

    frame, is_asynchronous = DEVICE_FRAME, True
    started, meetings, lock = [], {}, threading.Lock()

    def __init__(self, unique_id, rank, size, timeout):
        self.rank, self.size, self.number, self.is_aborted = rank, size, 0, False
        with self.lock:
            self.meeting = self.meetings.setdefault(unique_id, Meeting())
            self.started.append(self)
        self.all_gather(np.zeros(1))

    def check(self, waited):
        pass

    def all_gather(self, array):
        self.number += 1
        start, meeting = time.monotonic(), self.meeting
        with meeting.changed:
            arrays = meeting.arrays.setdefault(self.number, {})
            arrays[self.rank] = np.array(array)
            meeting.changed.notify_all()
        while True:
            with meeting.changed:
                if meeting.changed.wait_for(lambda: len(arrays) == self.size, 0.1):
                    return np.stack([arrays[rank] for rank in range(self.size)])
            self.check(time.monotonic() - start)

    def exchange(self, to_left, to_right):
        raise NotImplementedError

    def abort(self):
        self.is_aborted = True


@pytest.fixture
def nccl(monkeypatch):
    """A module in place of that of NCCL; `devices` has the GPU of each new rank."""
    numbers = count()
    module = types.SimpleNamespace(
        INTERVAL=0.1, NCCLGroup=Communicator, unique_id=lambda: uuid4().hex,
        devices=lambda: next(numbers), same_device=lambda: lambda: None,
    )  # fmt: skip
    module.bus_id = lambda: f"gpu-{module.devices()}"
    monkeypatch.setitem(__import__("sys").modules, "mgrec.distributed.groups.nccl", module)
    monkeypatch.delitem(
        __import__("sys").modules, "mgrec.distributed.groups.dask_gpus", raising=False
    )
    monkeypatch.setattr(run_module._Divided, "has_gpus", True)
    monkeypatch.setattr(Communicator, "started", [])
    return module


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
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
