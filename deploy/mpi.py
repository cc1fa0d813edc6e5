"""A program of MPI without Dask: each rank solves its part of one long recurrence.

``pip install 'mgrec[mpi]'``, then ``mpirun -np 4 python deploy/mpi.py``. Ranks use the GPUs of
their machine, one after the other, if it has some. The program fails unless the last step of each
part is right.
"""

import time
from typing import Any

import click
import numpy as np
from mpi4py import MPI

import mgrec
import mgrec.collective


def arrays_of_rank(comm: MPI.Comm) -> Any:
    """CuPy on a GPU of this rank, or NumPy."""
    try:
        import cupy
    except ImportError:
        return np
    if not cupy.cuda.is_available():
        return np
    number = comm.Split_type(MPI.COMM_TYPE_SHARED).Get_rank()
    cupy.cuda.Device(number % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy


def solve(comm: MPI.Comm, size: int, count: int) -> float:
    """Steps a second of w_i = 0.5 w_(i-1) + 1 over `size` steps a rank, `count` times."""
    xp, group = arrays_of_rank(comm), mgrec.collective.from_mpi(comm)
    t = xp.ones(size, np.float32)
    w = mgrec.linear_recurrence(np.float32(0.5), t, group=group)  # compiles
    comm.Barrier()
    start = time.perf_counter()
    for _ in range(count):
        w = mgrec.linear_recurrence(np.float32(0.5), t, group=group)
    last = float(w[-1])
    seconds = comm.allreduce(time.perf_counter() - start, MPI.MAX)
    if last != 2.0:
        raise ValueError(f"the last step of rank {group.rank} must be 2.0; got {last}")
    return size * group.size * count / seconds


@click.command(help=__doc__)
@click.option("--size", default=1 << 24, help="Steps a rank.")
@click.option("--count", default=10, help="Solves that are timed.")
def main(size: int, count: int) -> None:
    speed = solve(MPI.COMM_WORLD, size, count)
    if MPI.COMM_WORLD.Get_rank() == 0:
        click.echo(f"{size} steps on each of {MPI.COMM_WORLD.Get_size()} ranks: {speed:.3g} steps/s")


if __name__ == "__main__":
    main()
