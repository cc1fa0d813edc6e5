"""A cluster whose scheduler, client and workers are ranks of one MPI job, with dask-mpi.

``pip install dask-mpi mpi4py``, then ``mpirun -np 6 python deploy/mpi.py``: rank 0 becomes the
scheduler, rank 1 goes on here, and the other four are workers. Where mpirun does not bind a GPU to
a rank, set CUDA_VISIBLE_DEVICES from the local rank first.
"""

import importlib.util

from dask_mpi import initialize
from distributed import Client, print
from job import solve


def main() -> None:
    has_gpus = importlib.util.find_spec("dask_cuda") is not None
    kind = "dask_cuda.CUDAWorker" if has_gpus else "distributed.Worker"
    initialize(worker_class=kind, dashboard_address=":0")
    with Client() as client:
        client.wait_for_workers(1)
        print(f"{solve(client, 16, 1 << 22):.3g} steps/s on {len(client.nthreads())} workers")


if __name__ == "__main__":
    main()
