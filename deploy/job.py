"""A job for any of these clusters: one long recurrence, on its GPUs if it has some.

``python deploy/job.py --cluster NAME``, with a name that ``mgrec --cluster`` takes. It fails
unless the last step is right, so that it also tells whether a cluster works.
"""

import subprocess
import sys
import time
from pathlib import Path

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


def solve_files(client: Client, folder: Path, size: int) -> None:
    """The same from a file to a file of a folder that all workers see.

    The command prints its speed: the time here would be that of starting Python, too.
    """
    source, target = folder / "mgrec-job-t.npy", folder / "mgrec-job-w.npy"
    np.save(source, np.ones(size, np.float32))
    address = client.scheduler.address
    options = ["--overwrite", "--chunk", str(max(1, size // 4)), "--cluster", address]
    command = ["-m", "mgrec", "linear", "0.5", str(source), "-o", str(target), *options]
    subprocess.run([sys.executable, *command], check=True)
    last = float(np.load(target, mmap_mode="r")[-1])
    source.unlink()
    target.unlink()
    if last != 2.0:
        raise ValueError(f"the last step in {target} must be 2.0; got {last}")


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
@click.option("--workers", default=1, help="Wait until so many are there.")
@click.option("--folder", type=Path, help="Solve from file to file there, too.")
def main(cluster: str, chunks: int, size: int, workers: int, folder: Path | None) -> None:
    with open_cluster(cluster, workers) as client, client.as_current():
        speed = solve(client, chunks, size)
        click.echo(f"{chunks} chunks on {len(client.nthreads())} workers: {speed:.3g} steps/s")
        if folder is not None:
            solve_files(client, folder, size)
            click.echo(f"from file to file in {folder}: the last step is right")


if __name__ == "__main__":
    main()
