"""Start a cluster and keep it, or wait until one has its workers.

From Python, ``open_cluster`` returns a client of any cluster by its name, as the command ``mgrec``
does for ``--cluster``. Without GPUs ``auto`` is ``local``, to which other processes can connect.
"""

import contextlib
import functools
import signal
from pathlib import Path

import click

from mgrec.cli import cluster

__all__ = ["open_cluster"]

open_cluster = functools.partial(cluster.open_cluster, without_gpus="local")


@click.command(help=__doc__)
@click.argument("name", default="auto")
@click.option("--scheduler-file", type=Path, help="Keep the cluster, and write where it is.")
@click.option("--workers", default=1, help="Wait until so many are there.")
def main(name: str, scheduler_file: Path | None, workers: int) -> None:
    with open_cluster(name, workers) as client:
        count, threads = cluster.describe(client)
        click.echo(f"{client.scheduler.address}: {count} workers, {threads} threads")
        if scheduler_file is not None:
            client.write_scheduler_file(str(scheduler_file))
            _wait_for_a_signal()
            scheduler_file.unlink(missing_ok=True)


def _wait_for_a_signal() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    main()
