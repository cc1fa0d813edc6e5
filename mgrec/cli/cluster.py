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
from dask.utils import parse_timedelta
from distributed import Client, LocalCluster
from distributed.comm import connect
from distributed.security import Security
from distributed.utils import LoopRunner, sync

from . import hints, signals
from .devices import gpus
from .failure import BadInput

HELP = (
    "Where to compute: local (the processors of this machine), cuda (its GPUs), auto (cuda if "
    "there are GPUs, or local), the address of a running scheduler (tcp://HOST:PORT or "
    "tls://HOST:PORT), or a scheduler file."
)
_PATIENCE = "10s"


def default_cluster() -> str:
    """cuda where this machine has GPUs and dask-cuda, local elsewhere."""
    return "cuda" if importlib.util.find_spec("dask_cuda") and gpus() else "local"


# Dask (2026.7) gives up for good a worker that is not back 15 s after it was lost.
PATIENT = {"distributed.deploy.lost-worker-timeout": "1 hour"}


@contextmanager
def open_cluster(name: str, workers: int = 1) -> Iterator[Client]:
    """A client of the cluster (see HELP); one that is started here is closed at the end.

    Certificates for TLS are those of Dask's configuration (``distributed.comm.tls``). Where
    `workers` is more than 1, wait for that many workers of a cluster that is starting.
    """
    _quieten()
    name = default_cluster() if name == "auto" else name
    with ExitStack() as stack:
        if name in ("local", "cuda"):
            stack.enter_context(config.set(PATIENT))
            with _signals_held_back():
                cluster = stack.enter_context(_local() if name == "local" else _cuda())
            yield stack.enter_context(Client(cluster, set_as_default=False))
        else:
            client = stack.enter_context(_connected(name))
            if workers > 1:
                client.wait_for_workers(workers)
            if not client.nthreads():
                raise BadInput(f"the cluster at {name} has no workers: start one first")
            yield client


def _quieten() -> None:
    """Silence distributed's log: it would bury the one line that says what went wrong."""
    config.set({"distributed.logging.distributed": "critical"})
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def _local() -> LocalCluster:
    return LocalCluster(dashboard_address=":0", silence_logs=logging.CRITICAL)


def _cuda() -> Any:
    if not gpus():
        raise BadInput("cluster cuda needs an NVIDIA GPU and its driver: nvidia-smi shows none")
    if importlib.util.find_spec("dask_cuda") is None:
        extra = gpus()[0].extra
        raise BadInput(f"cluster cuda needs dask-cuda: {hints.install(extra)}")
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(dashboard_address=":0", silence_logs=logging.CRITICAL)


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


def _connected(name: str) -> Client:
    if "://" in name:
        return _reached(name, name)
    if not Path(name).is_file():
        raise BadInput(
            f"cluster must be auto, local, cuda, tcp://HOST:PORT, tls://HOST:PORT or an existing "
            f"scheduler file; got {name}"
        )
    try:
        address = json.loads(Path(name).read_text())["address"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{name} is no scheduler file: it names no address") from None
    return _reached(name, address)


def _reached(name: str, address: str) -> Client:
    runner = LoopRunner()
    runner.start()
    try:
        # A client that fails to start hangs for 20 s when it is deleted (Dask 2026.7).
        sync(runner.loop, _greet, address)
        return Client(address, timeout=_PATIENCE, set_as_default=False)
    except Exception as error:  # What is no scheduler may answer anything.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"the cluster at {name} cannot be reached: {reason}") from error
    finally:
        runner.stop()


async def _greet(address: str) -> None:
    """Raise unless a scheduler answers at an address."""
    options = Security().get_connection_args("client")
    connecting = connect(address, timeout=_PATIENCE, **options)
    # Without a timeout a listener that never answers would block for good.
    try:
        comm = await asyncio.wait_for(connecting, parse_timedelta(_PATIENCE) + 1)
    except TimeoutError:
        raise TimeoutError("who listens there does not answer as a scheduler does") from None
    await comm.close()


def describe(client: Client) -> tuple[int, int]:
    """The numbers of workers and of their threads."""
    threads = client.nthreads().values()
    return len(threads), sum(threads)
