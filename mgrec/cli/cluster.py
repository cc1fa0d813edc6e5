"""Open a cluster by its name, and show progress bars while its workers compute."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from dask import config
from distributed import Client, Future, LocalCluster
from distributed.comm import connect
from distributed.security import Security
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..distributed import observability
from ..distributed.versions import check_workers
from ..engines.cpu.threads import processor_count
from . import signals
from .failure import BadInput
from .machine import gpus, require

HELP = (
    "Where to compute: threads (of this process), local (processes of this machine), cuda (its "
    "GPUs), auto (cuda if there are GPUs, or threads), the address of a running scheduler "
    "(tcp://HOST:PORT or tls://HOST:PORT), or a scheduler file."
)
# Seconds in which a scheduler must answer.
PATIENCE = 10.0
# Dask (2026.7) gives up a worker that does not return within 15 s.
_PATIENT = {"distributed.deploy.lost-worker-timeout": "1 hour"}


@contextmanager
def open_cluster(
    name: str, workers: int = 1, without_gpus: str = "threads", threads: int | None = None
) -> Iterator[Client]:
    """Yield a client of the cluster (see HELP); a cluster that is started here is closed after.

    Certificates for TLS are those of Dask's configuration (``distributed.comm.tls``). If `workers`
    is more than 1, wait for that number of workers of a running cluster. "auto" is `without_gpus`
    on a machine without GPUs: other processes cannot connect to "threads". `threads` is the number
    of threads of "threads", by default that of processors.
    """
    # Dask's log would hide the one line of a failure.
    config.set({"distributed.logging.distributed": "critical"})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if name == "auto":
        name = "cuda" if importlib.util.find_spec("dask_cuda") and gpus() else without_gpus
    with ExitStack() as stack:
        if name in ("threads", "local", "cuda"):
            stack.enter_context(config.set(_PATIENT))
            with signals_blocked():
                cluster = stack.enter_context(_start(name, threads))
            yield stack.enter_context(Client(cluster, set_as_default=False))
            return
        client = stack.enter_context(_connect(name))
        if workers > 1:
            client.wait_for_workers(workers)
        if not client.nthreads():
            raise BadInput(f"the cluster at {name} has no workers: start one first")
        try:
            client.sync(check_workers, client)
        except RuntimeError as error:
            raise BadInput(f"the cluster at {name} cannot be used: {error}") from error
        yield client


def _start(name: str, threads: int | None) -> Any:
    options: Any = {"dashboard_address": "localhost:0", "silence_logs": logging.CRITICAL}
    if name == "threads":
        # Starts in 0.03 s; each process of "local" imports mgrec and loads the kernels.
        return LocalCluster(
            n_workers=1,
            threads_per_worker=threads or processor_count(),
            processes=False,
            scheduler_kwargs={"dashboard": False},
            worker_dashboard_address="localhost:0",
            **options,
        )
    if name == "local":
        return LocalCluster(**options)
    devices = gpus()
    if not devices:
        raise BadInput("cluster cuda needs an NVIDIA GPU and its driver: nvidia-smi shows none")
    require("dask_cuda", devices[0].extra, "cluster cuda")
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(**options)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Start a cluster without interruption, and block ctrl-C and SIGHUP in its processes.

    A terminal sends these to all processes of a command, and each worker would print a traceback.
    Processes inherit the mask. Deferred signals are raised at the end.
    """
    with signals.deferred():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        # Its start would unblock ctrl-C in the thread that starts the workers (Python 3.11).
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP})
    signals.check()


def _connect(name: str) -> Client:
    address = name
    if "://" not in name:
        if not Path(name).is_file():
            raise BadInput(
                f"--cluster {name} is neither an address nor a file nor one of threads, local, cuda and auto"
            )
        try:
            address = str(json.loads(Path(name).read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(f"{name} is no scheduler file: it names no address") from None
    try:
        # A client that fails to start hangs for 20 s when it is deleted (Dask 2026.7).
        asyncio.run(_greet(address))
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # Another server may answer anything.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"the cluster at {name} cannot be reached: {reason}") from error


async def _greet(address: str) -> None:
    """Raise unless a scheduler answers at an address; another server may never answer."""
    options = Security().get_connection_args("client")
    async with asyncio.timeout(2 * PATIENCE):
        comm = await connect(address, timeout=PATIENCE, **options)
    await comm.close()


def describe(client: Client) -> tuple[int, int]:
    """Return the numbers of workers and of their threads."""
    threads = client.nthreads().values()
    return len(threads), sum(threads)


@contextmanager
def bars(console: Console | None = None) -> Iterator[Progress]:
    """Yield progress bars, on standard error by default; a file gets their last state only."""
    columns = (
        TextColumn("{task.description:<38}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.completed:.3g} {task.fields[unit]}", justify="right"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        yield progress


def follow(
    client: Client, futures: Sequence[Future], sizes: Sequence[int], progress: Progress, bar: TaskID
) -> None:
    """Advance a bar by the size of each finished chunk; raise the exception of a failed one."""
    with closing(observability.follow(client, futures, sizes)) as finished:
        for size in finished:
            progress.advance(bar, size)
            signals.check()
