"""Clusters of two workers, and what tests ask of them."""

import importlib.util
import os
import time
from contextlib import contextmanager
from multiprocessing import forkserver, get_context
from pathlib import Path
from unittest import mock

import dask
from distributed import Client, LocalCluster

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


def wait_until(is_so, seconds=30):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"it was not so for {seconds} s"
        time.sleep(0.01)


def workers_of(client):
    """The workers of a cluster in this process."""
    return list(client.cluster.workers.values())
