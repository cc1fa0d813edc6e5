"""Clusters of two workers, and what tests ask of them."""

import importlib.util
import os
import random
import socket
import time
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, get_context
from pathlib import Path
from unittest import mock
from uuid import uuid4

import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster, wait
from distributed.core import Status

OPTIONS = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}


@contextmanager
def two_workers(**options):
    """Yield a client of two workers: processes, or threads with ``processes=False``."""
    settings = {
        # Or a worker that dies twice within 15 s may be taken for one that is gone for good.
        "distributed.deploy.lost-worker-timeout": "1 hour",
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    if options.get("processes", True):
        _start_forkserver()
    options = {"n_workers": 2} | OPTIONS | options
    with dask.config.set(settings), LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def _start_forkserver():
    """Workers are forks of a process that has imported all and started numba, which takes 2.5 s."""
    get_context("forkserver").set_forkserver_preload(["forked"])
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, folders))):
        forkserver.ensure_running()


def on_both(client, *arrays, is_strict=False):
    """Persist arrays: the first half of the chunks on one worker, the others on the other one.

    Dask would put them anywhere, on a busy machine all on one worker. A worker that is lost is
    replaced by any, unless `is_strict`.
    """
    addresses, placed = sorted(client.nthreads()), []
    for array in arrays:

        def workers_of_chunk(key, half=-(-array.numblocks[0] // 2)):
            return [addresses[key[1] // half]]

        with dask.annotate(workers=workers_of_chunk, allow_other_workers=not is_strict):
            name = f"placed-{uuid4().hex}"
            placed.append(array.map_blocks(np.copy, name=name, meta=array._meta))
    placed = tuple(client.persist(placed, optimize_graph=False))
    with client.as_current():
        wait(placed)
    return placed


def cluster_of_gpus():
    """Two workers: one a GPU with dask-cuda, or two that share a GPU."""
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    if importlib.util.find_spec("dask_cuda") and count > 1:
        from dask_cuda import LocalCUDACluster

        return LocalCUDACluster(n_workers=2, **OPTIONS)
    return LocalCluster(n_workers=2, **OPTIONS)


def on_gpu(block):
    import cupy

    return cupy.asarray(block)


def to_host(block):
    return block.get()


def wait_until(is_so, seconds=240):
    """Wait for what always comes, on a busy machine late."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"it was not so for {seconds} s"
        time.sleep(0.01)


def wait_until_started(client, workers):
    """Until all workers are there and their nannies know it, and no others.

    A worker that dies before its nanny has seen it start is not started again (Dask 2026.7).
    """

    def has_started():
        known = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.workers))
        nannies = list(client.cluster.workers.values())  # the cluster's own thread changes it
        return len(known) == len(nannies) == workers and all(is_up(n, known) for n in nannies)

    wait_until(has_started)


def is_up(nanny, known):
    """Its process lives, and both the nanny and the scheduler know."""
    process = nanny.process
    if process is None or process.status != Status.running or process.worker_address not in known:
        return False
    try:
        return psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def scaled(client, workers):
    """Change the number of workers; the next test finds the old number, and none that leaves."""
    before = len(client.cluster.workers)
    client.cluster.scale(workers)
    try:
        wait_until_started(client, workers)
        yield
    finally:
        client.cluster.scale(before)
        wait_until_started(client, before)


def free_port():
    """A port that no connection gets by chance: below those that the system chooses."""
    for port in random.Random(os.urandom(8)).sample(range(10_000, 30_000), 100):
        with socket.socket() as own, suppress(OSError):
            own.bind(("127.0.0.1", port))
            return port
    raise OSError("there is no free port")


def workers_of(client):
    """The workers of a cluster in this process."""
    return list(client.cluster.workers.values())
