"""A job for any of these clusters: one long recurrence, on its GPUs if it has some.

``python deploy/job.py --cluster NAME``, with a name that ``mgrec --cluster`` takes. It fails
unless the last step is right, so that it also tells whether a cluster works.
"""

import sys
import time

import click
import cloudpickle
import dask.array as da
import numpy as np
from cluster import open_cluster
from distributed import Client, wait

import mgrec
import mgrec.dask

# The workers have mgrec, but not this folder: what they run of it travels.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def solve(client: Client, chunks: int, size: int) -> float:
    """Steps a second of w_i = 0.5 w_(i-1) + 1, over chunks of `size` steps."""
    t = da.ones(chunks * size, chunks=size, dtype=np.float32)
    if all(client.run(has_gpu).values()):
        t = t.map_blocks(to_gpu)
    t = client.persist(t)
    wait(t)
    start = time.perf_counter()
    w = client.persist(mgrec.linear_recurrence(np.float32(0.5), t))
    mgrec.dask.progress(w, client=client)
    seconds = time.perf_counter() - start
    last = float(client.compute(w[-1]).result())
    if last != 2.0:
        raise ValueError(f"the last step must be 2.0; got {last}")
    return w.size / seconds


def has_gpu() -> bool:
    try:
        import cupy
    except ImportError:
        return False
    return bool(cupy.cuda.is_available())


def to_gpu(block: np.ndarray) -> np.ndarray:
    import cupy

    return cupy.asarray(block)


@click.command(help=__doc__)
@click.option("--cluster", default="auto")
@click.option("--chunks", default=16)
@click.option("--size", default=1 << 22, help="Steps a chunk.")
def main(cluster: str, chunks: int, size: int) -> None:
    with open_cluster(cluster) as client, client.as_current():
        speed = solve(client, chunks, size)
        click.echo(f"{chunks} chunks on {len(client.nthreads())} workers: {speed:.3g} steps/s")


if __name__ == "__main__":
    main()
