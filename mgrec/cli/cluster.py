"""Open a cluster by its name: one of this machine, or one that is running."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from dask import config
from distributed import Client, LocalCluster
from distributed.comm import connect
from distributed.security import Security

from . import signals
from .failure import BadInput
from .machine import gpus, require

HELP = (
    "Where to compute: local (the processors of this machine), cuda (its GPUs), auto (cuda if "
    "there are GPUs, or local), the address of a running scheduler (tcp://HOST:PORT or "
    "tls://HOST:PORT), or a scheduler file."
)
# Seconds in which a scheduler must answer.
PATIENCE = 10.0
# Dask (2026.7) gives up for good a worker that is not back 15 s after it was lost.
_PATIENT = {"distributed.deploy.lost-worker-timeout": "1 hour"}


@contextmanager
def open_cluster(name: str, workers: int = 1) -> Iterator[Client]:
    """Yield a client of the cluster (see HELP); one that is started here is closed at the end.

    Certificates for TLS are those of Dask's configuration (``distributed.comm.tls``). Where
    `workers` is more than 1, wait for that many workers of a cluster that is starting.
    """
    # Its log would bury the one line that says what went wrong.
    config.set({"distributed.logging.distributed": "critical"})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if name == "auto":
        name = "cuda" if importlib.util.find_spec("dask_cuda") and gpus() else "local"
    with ExitStack() as stack:
        if name in ("local", "cuda"):
            stack.enter_context(config.set(_PATIENT))
            with _signals_held_back():
                cluster = stack.enter_context(_start(name))
            yield stack.enter_context(Client(cluster, set_as_default=False))
            return
        client = stack.enter_context(_connect(name))
        if workers > 1:
            client.wait_for_workers(workers)
        if not client.nthreads():
            raise BadInput(f"the cluster at {name} has no workers: start one first")
        yield client


def _start(name: str) -> Any:
    options: Any = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    if name == "local":
        return LocalCluster(**options)
    found = gpus()
    if not found:
        raise BadInput("cluster cuda needs an NVIDIA GPU and its driver: nvidia-smi shows none")
    require("dask_cuda", found[0].extra, "cluster cuda")
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(**options)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Start a cluster without interruption, and keep ctrl-C and SIGHUP from its processes.

    A terminal sends these to all processes of a command, and every worker would die with a
    traceback. Processes inherit what is blocked. Signals that came meanwhile are raised at the end.
    """
    with signals.held_back():
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
            raise BadInput(f"--cluster {name} is no address, no file, and none of the names")
        try:
            address = str(json.loads(Path(name).read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(f"{name} is no scheduler file: it names no address") from None
    try:
        # A client that fails to start hangs for 20 s when it is deleted (Dask 2026.7).
        asyncio.run(_greet(address))
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # What is no scheduler may answer anything.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"the cluster at {name} cannot be reached: {reason}") from error


async def _greet(address: str) -> None:
    """Raise unless a scheduler answers at an address; a listener may stay silent for good."""
    options = Security().get_connection_args("client")
    async with asyncio.timeout(2 * PATIENCE):
        comm = await connect(address, timeout=PATIENCE, **options)
    await comm.close()


def describe(client: Client) -> tuple[int, int]:
    """Return the numbers of workers and of their threads."""
    threads = client.nthreads().values()
    return len(threads), sum(threads)
