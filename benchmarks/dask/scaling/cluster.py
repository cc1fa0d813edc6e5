"""The cluster of a scaling study: operands on chosen workers, clocks, bytes that moved."""

from __future__ import annotations

import asyncio
import gc
import itertools
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.task_spec import Task, TaskRef
from dask.utils import key_split
from distributed import Client, LocalCluster, wait
from distributed.protocol.pickle import dumps

import mgrec
import mgrec.dask
from mgrec.distributed.plan import program
from mgrec.distributed.plan.calls import solution_of

from ...harness.clock import Call, Times
from ...harness.command import Options
from ...harness.study import Study
from ..tasks import nothing

NUMBERS = itertools.count()
WAYS = ("graph", "solve", "plan")
"""A persisted graph, `mgrec.dask.solve`, and a solve of a built plan."""


def open_cluster(kind: str, workers: int | None) -> Any:
    """A cluster of `workers` processes, of one thread, or of one GPU each."""
    if kind == "local":
        return LocalCluster(n_workers=workers or 2, threads_per_worker=1, dashboard_address=None)
    from dask_cuda import LocalCUDACluster

    return LocalCUDACluster(n_workers=workers, protocol="tcp", dashboard_address=None)


OPTIONS: Options = {
    "--cluster": {"choices": ("local", "cuda"), "default": "local"},
    "--workers": {"type": int, "help": "all GPUs, or two processes, where not given"},
}


@contextmanager
def connect(
    study: Study, arguments: Namespace, size: int, *, is_pinned: bool = True
) -> Iterator[tuple[Client, list[str]]]:
    """Open the cluster of a study; its bandwidth is that of copies of `size` numbers a worker."""
    kind = arguments.cluster
    with open_cluster(kind, arguments.workers) as cluster, Client(cluster) as client:
        if is_pinned:
            mgrec.dask.pin_operands(client)
        addresses = sorted(client.nthreads())
        study.memory = f"{len(addresses)} workers"
        study.bandwidth = copy_bandwidth(client, kind, min(size, 1 << 28), addresses)
        yield client, addresses


def library(kind: str) -> Any:
    """NumPy, or CuPy for a cluster of GPUs."""
    return np if kind == "local" else import_module("cupy")


def fill(kind: str, place: Any, shape: tuple[int, ...], low: float, high: float, dtype: str = "f4") -> Any:
    """Random numbers of a chunk, in the memory of its worker."""
    drawn = np.float64 if dtype == "f8" else np.float32
    values = library(kind).random.default_rng(list(place)).random(shape, drawn)
    values *= high - low
    values += low
    return values.astype(dtype, copy=False)


def operand(
    client: Client,
    kind: str,
    chunks: Sequence[tuple[int, ...]],
    addresses: Sequence[str],
    low: float,
    high: float,
    seed: int = 0,
    tail: tuple[int, ...] = (),
    dtype: str = "f4",
) -> da.Array:
    """An array whose chunks along an axis lie on the workers in turn, in runs.

    That axis is the last one before those of `tail`, which are in one chunk.
    """
    name, count = f"operand-{next(NUMBERS)}", len(chunks[-1])
    of_tail, ndim = (0,) * len(tail), len(chunks) + len(tail)
    meta = library(kind).empty((0,) * ndim, dtype)
    keys, futures = {}, []
    for place in itertools.product(*(range(len(lengths)) for lengths in chunks)):
        shape = tuple(lengths[k] for lengths, k in zip(chunks, place, strict=True)) + tail
        address = addresses[place[-1] * len(addresses) // count]
        key = (name, *place, *of_tail)
        future = client.submit(
            fill, kind, (seed, *place), shape, low, high, dtype, key=key, workers=[address]
        )
        keys[key] = future
        futures.append(future)
    wait(futures)
    return da.Array(keys, name, (*chunks, *((length,) for length in tail)), meta=meta)


def to_host(array: Any) -> np.ndarray:
    return np.asarray(array.get() if hasattr(array, "get") else array)


def like(x: Any, array: Any) -> Any:
    """A small array of float64 in the kind of memory of an array, or of a Dask array's chunks."""
    block = x._meta if isinstance(x, da.Array) else x
    if isinstance(block, np.ndarray):
        return np.asarray(array, float)
    import cupy

    return cupy.asarray(array, float)


def first_chunks(array: da.Array, count: int) -> da.Array:
    """The first chunks along the last axis, in place."""
    chunks = (*array.chunks[:-1], array.chunks[-1][:count])
    held = array.dask.layers[array.name].items()
    keys = {key: future for key, future in held if key[-1] < count}
    return da.Array(keys, array.name, chunks, meta=array._meta)


class Operands:
    """The last operands, cached: filling 2^32 steps takes seconds."""

    def __init__(self, client: Client, kind: str, addresses: Sequence[str]) -> None:
        self.client, self.kind, self.addresses = client, kind, addresses
        self.about: Any = None
        self.held: tuple[da.Array, ...] = ()

    def get(self, rows: int, chunk: int, chunks: int, workers: int) -> tuple[da.Array, ...]:
        """Two operands in a number of chunks on the first workers."""
        each, rest = divmod(chunks, workers)
        # Every worker has as many chunks: those of fewer workers are the first ones.
        about = (rows, chunk, each) if not rest else (rows, chunk, chunks, workers)
        if about != self.about:
            self.drop()
            own = self.addresses if not rest else self.addresses[:workers]
            cut: Any = ((chunk // rows,) * (each * len(own) if not rest else chunks),)
            cut = cut if rows == 1 else ((rows,), *cut)
            self.held = tuple(
                operand(self.client, self.kind, cut, own, low, -low, seed)
                for seed, low in enumerate((-0.5, -1.0))
            )
            self.about = about
        return tuple(first_chunks(array, chunks) for array in self.held)

    def drop(self) -> None:
        """Release them, and the memory of the workers' pools."""
        names = [array.name for array in self.held]
        self.about, self.held = None, ()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if not any(self.client.run(_holds, names).values()):
                break
            time.sleep(0.02)
        self.client.run(free, self.kind)


def _holds(names: Sequence[str], dask_worker: Any) -> bool:
    return any(key[0] in names for key in dask_worker.data if isinstance(key, tuple))


def free(kind: str) -> None:
    """Free unused memory, and the pool of a GPU."""
    gc.collect()
    if kind != "local":
        library(kind).get_default_memory_pool().free_all_blocks()


def synchronise(kind: str) -> None:
    if kind != "local":
        library(kind).cuda.Device().synchronize()


def times_here(kind: str, call: Call, repetitions: int) -> Times:
    """Times of calls on one worker, after a first one, until its GPU is done."""
    seconds = []
    for _ in range(repetitions + 1):
        synchronise(kind)
        start = time.perf_counter()
        result = call()
        synchronise(kind)
        seconds.append(time.perf_counter() - start)
        del result
    return Times(tuple(seconds[1:]))


class Stamps:
    """A plugin of a worker: when its GPU was done with the last result of a task or of a plan."""

    def __init__(self) -> None:
        self.last, self.is_on = 0.0, True

    def transition(self, key: Any, start: str, finish: str, **more: Any) -> None:
        if finish == "memory" and not str(key).startswith(f"('{SOLVED}"):
            self.put()

    def put(self) -> None:
        """Let the GPU tell when it is done with what it was given so far."""
        import cupy

        if self.is_on:
            cupy.cuda.get_current_stream().launch_host_func(self.stamp, None)

    def stamp(self, _: Any) -> None:
        self.last = time.perf_counter()


STAMPS, SOLVED = "stamps", "solved-"
"""The name of the plugin, and how the names of plans' results begin."""


def _watch(is_on: bool, dask_worker: Any) -> None:
    if STAMPS not in dask_worker.plugins:
        stamps = dask_worker.plugins[STAMPS] = Stamps()
        solving = program.solve_shard

        def solve_shard(*given: Any) -> Any:
            found = solving(*given)
            stamps.put()
            return found

        program.solve_shard = solve_shard
    dask_worker.plugins[STAMPS].is_on = is_on


def _last_stamp(dask_worker: Any) -> float:
    """Wait for the GPU; when it was done."""
    synchronise("cuda")
    return float(dask_worker.plugins[STAMPS].last)


def times(client: Client, kind: str, call: Call, repetitions: int = 3, count: int = 1) -> Times:
    """Times of calls, each until it returned, its results are there and the devices are done.

    Devices tell themselves when they are done, by the clock that all processes of a machine have.
    Where a call is of `count` solves, they are asked once at its end: a millisecond more.
    """
    is_one = count == 1
    if kind != "local":
        client.run(_watch, is_one)
    seconds, held = [], client.run_on_scheduler(_names)
    for _ in range(repetitions + 1):
        settle(client, held)
        start = time.perf_counter()
        result = call()
        # Results of a plan are there when it returns; to wait for them would tell the scheduler.
        first = result[0] if isinstance(result, tuple) else result
        if first is not None and solution_of(first) is None:
            wait(result)
        end = time.perf_counter()
        if kind != "local":
            stamps = client.run(_last_stamp).values()
            end = max(end, *stamps) if is_one else time.perf_counter()
        seconds.append((end - start) / count)
        del result, first
    return Times(tuple(seconds[1:]))


def empty_calls(client: Client, addresses: Sequence[str]) -> float:
    """Return the seconds in which all workers answer one message that asks for nothing.

    As a solve alone, each message follows a pause, after which processes take longer to answer.
    """
    message, nothing_given = dumps(int), dumps(())

    async def ask() -> None:
        options = {"args": nothing_given, "kwargs": dumps({}), "wait": True}
        await asyncio.gather(*(client.rpc(address).run(function=message, **options) for address in addresses))

    seconds, held = [], client.run_on_scheduler(_names)
    for _ in range(21):
        settle(client, held)
        start = time.perf_counter()
        client.sync(ask)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def settle(client: Client, held: Collection[str] = ()) -> None:
    """Wait until the cluster has forgotten all earlier tasks without a future."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not client.run_on_scheduler(_names) <= set(held):
        time.sleep(0.01)
    time.sleep(0.02)


def _names(dask_scheduler: Any) -> set[str]:
    return {str(key) for key in dask_scheduler.tasks}


def empty_chain(client: Client, length: int = 3) -> Callable[[], Any]:
    """A chain of empty tasks: no graph of three phases is faster."""

    def call() -> Any:
        name, graph = f"chain-{next(NUMBERS)}", {}
        for k in range(length):
            before = [TaskRef((name, k - 1))] if k else []
            graph[(name, k)] = Task((name, k), nothing, *before)
        return client.get(graph, [(name, length - 1)], sync=False)

    return call


def transfers(client: Client) -> tuple[int, int]:
    """Bytes that workers sent since the last call, and how many were operands'.

    What a plan fetches is in the logs of those that send it alone.
    Summaries and entries may be larger than the blocks of small studies: names tell them apart.
    """
    found = [each for log in client.run(_outgoing).values() for each in log]
    of_operands = sum(size for name, size in found if name not in ("speculate", "precompute", "propagate"))
    return sum(size for _, size in found), of_operands


@contextmanager
def solving(
    client: Client, way: str, recurrence: Callable[..., Any], *operands: Any, **options: Any
) -> Iterator[Call]:
    """A call that solves a recurrence by a way of WAYS."""
    if way == "plan":
        with mgrec.plan(recurrence, *operands, client=client, **options) as plan:
            yield plan
    elif way == "solve":
        yield partial(mgrec.dask.solve, recurrence, *operands, client=client, **options)
    else:
        yield lambda: dask.persist(recurrence(*operands, **options))[0]


def times_and_transfers(
    client: Client, kind: str, call: Call, repetitions: int
) -> tuple[Times, dict[str, int]]:
    """Times of calls; bytes that workers sent in one of them, and those of operands in all."""
    transfers(client)
    found = times(client, kind, call, repetitions)
    moved, of_operands = transfers(client)
    across = {"bytes_across": moved // (repetitions + 1), "operand_bytes_across": of_operands}
    return found, across


def _outgoing(dask_worker: Any) -> list[tuple[str, int]]:
    log = dask_worker.transfer_outgoing_log
    found = [(key_split(key), size) for each in log for key, size in each["keys"].items()]
    log.clear()
    return found


def copy_bandwidth(client: Client, kind: str, size: int, addresses: Sequence[str]) -> float:
    """Bytes read and written a second by a copy, of all these workers together."""
    return float(sum(client.run(_copy, kind, size, workers=list(addresses)).values()))


def _copy(kind: str, size: int) -> float:
    xp = library(kind)
    source = xp.ones(size, np.float32)
    target = xp.empty_like(source)
    return 2 * source.nbytes / times_here(kind, lambda: xp.copyto(target, source), 7).median
