"""The parts of Dask that plans and groups use and that its documentation does not promise."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import dask.array.core as da
from distributed import Client, Future, Worker
from distributed.utils_comm import gather_from_workers
from distributed.worker_state_machine import FreeKeysEvent

from ..comms import WorkerLostError


async def register(client: Client, results: Mapping[Any, tuple[str, int]]) -> None:
    """Register results with the scheduler by workers and bytes; raise if it has lost a worker.

    By a call, not on the client's stream: if results of a lost worker arrive on the stream, the
    scheduler (Dask 2026.7) drops the client, and all futures of the client are gone.
    """
    remaining, lost = dict(results), ""
    while remaining:
        where = {key: [address] for key, (address, _) in remaining.items()}
        nbytes = {key: size for key, (_, size) in remaining.items()}
        try:
            await client.scheduler.update_data(who_has=where, nbytes=nbytes, client=client.id)
            break
        except KeyError as error:
            lost = error.args[0]
            remaining = {key: at for key, at in remaining.items() if at[0] != lost}
    for key in remaining:
        # The scheduler's message that the key is in memory may come later.
        if key in client.futures and client.futures[key].status == "pending":
            client.futures[key].finish()
    if lost:
        raise WorkerLostError.of(lost, "the scheduler has removed it")


def array_without_graph(cls: type[da.Array], name: str, chunks: Any, meta: Any) -> Any:
    """Return a Dask array without its graph; it takes a tenth of the time of a complete one."""
    array = object.__new__(cls)
    array._name, array._chunks, array._meta = name, chunks, meta
    return array


def fail(futures: Iterable[Future], error: BaseException) -> None:
    """Make futures that the scheduler does not know raise an error."""
    for future in futures:
        future._state.set_error(error, None)


def free(worker: Worker, keys: Sequence[Any]) -> None:
    """Free results that no task needs, whether the worker's state includes them or not."""
    known = [key for key in keys if key in worker.state.tasks]
    if known:
        worker.handle_stimulus(FreeKeysEvent(keys=known, stimulus_id=f"mgrec-free-{time.time()}"))
    for key in keys:
        with suppress(KeyError):
            del worker.data[key]


async def blocks_of(worker: Worker, keys: Iterable[Any]) -> dict[Any, Any]:
    """Return blocks from a worker's memory by their keys; fetch those of other workers."""
    # Read before the first await: replicas may be dropped meanwhile.
    keys = list(keys)
    blocks = {key: worker.data[key] for key in keys if key in worker.data}
    if missing := [key for key in keys if key not in blocks]:
        where = await worker.scheduler.who_has(keys=missing)
        fetched, lost, *_ = await gather_from_workers(where, rpc=worker.rpc)
        if lost or len(fetched) < len(missing):
            raise RuntimeError(f"operands of a plan must be in memory; {missing[0]} is not")
        blocks |= fetched
    return blocks
