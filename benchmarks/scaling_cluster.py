"""The cluster that a scaling study runs on: operands on chosen workers, clocks, what moved."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.task_spec import Task, TaskRef
from distributed import Client, LocalCluster, wait
from record import nothing

from mgrec.placement.dask import capture
from mgrec.placement.dask_held import Blocks
from mgrec.placement.dask_operands import recipe_of, reference_chunks

NUMBERS = itertools.count()


def open_cluster(kind: str, workers: int | None) -> Any:
    """A cluster of `workers` processes, of one thread, or of one GPU each."""
    if kind == "local":
        return LocalCluster(n_workers=workers or 2, threads_per_worker=1, dashboard_address=None)
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(n_workers=workers, protocol="tcp", dashboard_address=None)


def fill(kind: str, place: Any, shape: tuple[int, ...], low: float, high: float) -> Any:
    """Random numbers of a chunk, in the memory of its worker."""
    if kind == "local":
        values = np.random.default_rng(place).random(shape, np.float32)
    else:
        import cupy

        values = cupy.random.default_rng(sum(place) + 1).random(shape, cupy.float32)
    values *= high - low
    values += low
    return values


def operand(
    client: Client, kind: str, chunks: Sequence[tuple[int, ...]], addresses: Sequence[str],
    low: float, high: float,
) -> da.Array:  # fmt: skip
    """An array whose chunks along the last axis lie on the workers in turn, in runs."""
    name, count = f"operand-{next(NUMBERS)}", len(chunks[-1])
    meta = (
        fill(kind, (0,), (0,) * len(chunks), low, high)
        if kind == "local"
        else _cupy_empty(len(chunks))
    )
    keys, futures = {}, []
    for place in itertools.product(*(range(len(lengths)) for lengths in chunks)):
        shape = tuple(lengths[k] for lengths, k in zip(chunks, place, strict=True))
        address = addresses[place[-1] * len(addresses) // count]
        future = client.submit(
            fill, kind, place, shape, low, high, key=(name, *place), workers=[address]
        )
        keys[(name, *place)] = future
        futures.append(future)
    wait(futures)
    return da.Array(keys, name, tuple(chunks), meta=meta)


def _cupy_empty(ndim: int) -> Any:
    import cupy

    return cupy.empty((0,) * ndim, cupy.float32)


def synchronise(kind: str) -> None:
    if kind != "local":
        import cupy

        cupy.cuda.Device().synchronize()


def sequential(client: Client, kind: str) -> Callable[[], None]:
    """Wait until the devices of all workers are idle."""
    return lambda: client.run(synchronise, kind)


def times(
    client: Client, kind: str, call: Callable[[], Any], repetitions: int = 3
) -> tuple[float, ...]:
    """Seconds of calls, each until its results are there and the devices idle.

    What asking the devices takes, on an idle cluster, is subtracted.
    """
    idle, asked = sequential(client, kind), []
    for _ in range(5):
        start = time.perf_counter()
        idle()
        asked.append(time.perf_counter() - start)
    asking = float(np.median(asked)) if kind != "local" else 0.0
    seconds = []
    for _ in range(repetitions + 1):
        settle(client)
        start = time.perf_counter()
        result = call()
        if result is not None:
            wait(result)
        if kind != "local":
            idle()
        seconds.append(time.perf_counter() - start - asking)
        del result
    return tuple(seconds[1:])


def settle(client: Client) -> None:
    """Wait until the cluster has forgotten what ran before."""
    deadline = time.monotonic() + 5
    while client.run_on_scheduler(_busy) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.02)


def _busy(dask_scheduler: Any) -> int:
    names = (str(key) for key in dask_scheduler.tasks)
    return sum(not any(own in name for own in ("operand-", "plan-", "solved-")) for name in names)


def empty_chain(client: Client, length: int = 3) -> Callable[[], Any]:
    """A chain of tasks that do nothing: what no graph of three phases is faster than."""

    def call() -> Any:
        name, graph = f"chain-{next(NUMBERS)}", {}
        for k in range(length):
            before = [TaskRef((name, k - 1))] if k else []
            graph[(name, k)] = Task((name, k), nothing, *before)
        return client.get(graph, [(name, length - 1)], sync=False)

    return call


def transfers(client: Client, block: int) -> tuple[int, int]:
    """Bytes that workers took from each other since last asked, and how many were operands'.

    What has half of the bytes of a block, or more, is one: entries of a group of chunks have a
    few a chunk and row.
    """
    logs = client.run(_incoming)
    sizes = [size for log in logs.values() for size in log]
    return sum(sizes), sum(size for size in sizes if size >= block / 2)


def _incoming(dask_worker: Any) -> list[int]:
    log = dask_worker.transfer_incoming_log
    found = [size for each in log for key, size in each["keys"].items()]
    log.clear()
    return found


def copy_bandwidth(client: Client, kind: str, size: int, addresses: Sequence[str]) -> float:
    """Bytes read and written a second by a copy, of all these workers together."""
    return float(sum(client.run(_copy, kind, size, workers=list(addresses)).values()))


def _copy(kind: str, size: int) -> float:
    if kind == "local":
        source = np.ones(size, np.float32)
        target, copy = np.empty_like(source), np.copyto
    else:
        import cupy

        source = cupy.ones(size, cupy.float32)
        target, copy = cupy.empty_like(source), cupy.copyto
    seconds = []
    for _ in range(8):
        synchronise(kind)
        start = time.perf_counter()
        copy(target, source)
        synchronise(kind)
        seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / float(np.median(seconds[1:]))


def kernels(client: Client, kind: str, solve: Callable[[], Any]) -> float | None:
    """Seconds of the phases alone, on the busiest worker; None where a plan takes no such call."""
    try:
        problem, method = capture(solve)
    except TypeError:
        return None
    chunks = reference_chunks(problem)
    recipe, blocks = recipe_of(problem, chunks, method)
    cut, where = Blocks(blocks, chunks), client.who_has()
    last = len(chunks[problem.axis]) - 1
    calls: dict[str, list[Any]] = {}
    for place in itertools.product(*(range(len(lengths)) for lengths in chunks)):
        keys = cut.keys(place)
        is_asked = place[problem.axis] != last
        calls.setdefault(where[keys[-1]][0], []).append((cut.at(place), keys, is_asked))
    states = len(problem.initial)
    found = [
        client.run(_phases, kind, recipe, own, states, workers=[address])[address]
        for address, own in calls.items()
    ]
    return max(found)


def _phases(kind: str, recipe: Any, calls: Any, states: int, dask_worker: Any) -> float:
    from mgrec.placement.blocks import (
        Pack,
        determine_block,
        precompute_block,
        propagate_group,
    )

    packs = [
        (Pack(tuple(dask_worker.data[key] for key in keys), *at), is_asked)
        for at, keys, is_asked in calls
    ]
    zeros = [np.zeros((), recipe.problem.dtype)] * states
    entries = propagate_group(recipe, [], zeros)
    seconds = []
    for _ in range(4):
        synchronise(kind)
        start = time.perf_counter()
        for pack, is_asked in packs:
            if is_asked:
                precompute_block(pack, recipe)
            determine_block(recipe, pack, entries, 0)
        synchronise(kind)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))
