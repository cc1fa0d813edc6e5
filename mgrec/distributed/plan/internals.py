"""The parts of Dask that plans use and that its documentation does not promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import dask.array.core as da
from distributed import Client, Future, Worker
from distributed.utils_comm import gather_from_workers
from distributed.worker_state_machine import FreeKeysEvent

# Seconds that a worker waits for the scheduler to free results, and bytes from which on it does.
FREEING, LARGE = 0.5, 1 << 24


async def register(client: Client, results: Mapping[Any, tuple[str, int]]) -> list[str]:
    """Register results with the scheduler by workers and bytes; return the workers it has lost.

    By a call, not on the client's stream: if results of a lost worker arrive on the stream, the
    scheduler (Dask 2026.7) drops the client, and all futures of the client are gone.
    """
    remaining, lost = dict(results), list[str]()
    while remaining:
        try:
            await client.scheduler.update_data(
                who_has={key: [address] for key, (address, _) in remaining.items()},
                nbytes={key: size for key, (_, size) in remaining.items()},
                client=client.id,
            )
        except KeyError as error:
            lost.append(error.args[0])
            remaining = {key: at for key, at in remaining.items() if at[0] != lost[-1]}
        else:
            break
    for key in remaining:
        # The scheduler's message that the key is in memory may come later.
        if key in client.futures and client.futures[key].status == "pending":
            client.futures[key].finish()
    return lost


def array_without_graph(
    cls: type[da.Array], name: str, chunks: Sequence[Sequence[Any]], meta: Any
) -> Any:
    """Return a Dask array without its graph; it takes a tenth of the time of a complete one."""
    array = object.__new__(cls)
    array._name, array._chunks, array._meta = name, chunks, meta
    return array


def fail(futures: Iterable[Future], error: BaseException) -> None:
    """Make futures that the scheduler does not know raise an error."""
    for future in futures:
        future._state.set_error(error, None)


def memory_limit_of(worker: Worker) -> int | None:
    """Return the bytes of memory that a worker may use, if that has a limit."""
    limit: int | None = worker.memory_manager.memory_limit
    return limit


def store(worker: Worker, results: dict[Any, Any]) -> None:
    """Put results into a worker's memory, where Dask spills them if it must.

    The worker's state does not include them: each key in there costs two messages to the scheduler.
    """
    for key, result in results.items():
        worker.data[key] = result


def publish(worker: Worker, keys: Iterable[Any]) -> None:
    """Add results to a worker's state, before the scheduler knows them."""
    for key in keys:  # One by one: they may be on disk, and not fit into memory together.
        worker.update_data({key: worker.data[key]})


def free(worker: Worker, keys: Sequence[Any]) -> None:
    """Free results that no task needs, whether the worker's state includes them or not."""
    known = [key for key in keys if key in worker.state.tasks]
    if known:
        stimulus = f"mgrec-free-{time.time()}"
        worker.handle_stimulus(FreeKeysEvent(keys=known, stimulus_id=stimulus))
    for key in keys:
        with suppress(KeyError):
            del worker.data[key]


async def wait_until_freed(worker: Worker, keys: Iterable[Any]) -> None:
    """Wait a moment for the scheduler to free results that tasks may still need."""
    tasks, deadline = worker.state.tasks, time.monotonic() + FREEING
    remaining = [tasks[key] for key in keys if key in tasks]
    if sum(task.nbytes or 0 for task in remaining) < LARGE:
        return
    while any(task.key in worker.data for task in remaining) and time.monotonic() < deadline:
        await asyncio.sleep(0.002)


async def blocks_of(worker: Worker, keys: Iterable[Any]) -> dict[Any, Any]:
    """Return blocks from a worker's memory by their keys; fetch those of other workers."""
    # Read before the first await: replicas may be dropped meanwhile.
    blocks, missing = dict[Any, Any](), list[Any]()
    for key in keys:
        if key in worker.data:
            blocks[key] = worker.data[key]
        else:
            missing.append(key)
    if missing:
        where = await worker.scheduler.who_has(keys=missing)
        fetched, lost, *_ = await gather_from_workers(where, rpc=worker.rpc)
        if lost or len(fetched) < len(missing):
            raise RuntimeError(f"operands of a plan must be in memory; {missing[0]} is not")
        blocks |= fetched
    return blocks
