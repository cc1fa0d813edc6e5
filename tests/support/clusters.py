"""Clusters of workers with GPUs."""

import importlib.util

from distributed import LocalCluster


def cluster_of_gpus():
    """Two workers: one a GPU with dask-cuda, or two that share a GPU."""
    import cupy

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    count = cupy.cuda.runtime.getDeviceCount()
    if importlib.util.find_spec("dask_cuda") and count > 1:
        from dask_cuda import LocalCUDACluster

        return LocalCUDACluster(n_workers=2, **options)
    return LocalCluster(n_workers=2, **options)
