"""Slurm jobs that are started and ended from Python, one GPU each, with dask-jobqueue.

``pip install dask-jobqueue``, then ``python deploy/jobqueue.py`` on a login node. For PBS, SGE or
LSF take the class of that name instead of ``SLURMCluster``.
"""

import click
from dask_jobqueue import SLURMCluster
from dask_jobqueue.core import JobQueueCluster
from distributed import Client
from job import solve


def jobs(kind: type[JobQueueCluster] = SLURMCluster, **options: object) -> JobQueueCluster:
    """A cluster without workers: ``scale(jobs=n)`` or ``adapt()`` starts them."""
    settings: dict[str, object] = {
        "cores": 1,
        "processes": 1,
        "memory": "64GiB",
        "walltime": "00:30:00",
        "worker_command": "dask cuda worker",
        "worker_extra_args": ["--dashboard-address", "localhost:0"],
        "job_extra_directives": ["--gpus-per-task=1"],
        "scheduler_options": {"dashboard_address": "localhost:0"},
    }
    return kind(**{**settings, **options})


@click.command(help=__doc__)
@click.option("--count", default=2, help="Jobs, and so GPUs.")
@click.option("--partition", help="Of Slurm.")
def main(count: int, partition: str | None) -> None:
    with jobs(queue=partition) as cluster, Client(cluster) as client:
        cluster.scale(jobs=count)
        client.wait_for_workers(count)
        click.echo(f"{solve(client, 16, 1 << 22):.3g} steps/s on {count} workers")


if __name__ == "__main__":
    main()
