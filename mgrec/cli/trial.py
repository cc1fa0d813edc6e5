"""The work of ``mgrec demo``: load, solve, and judge every step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, Future, get_task_stream
from distributed.client import futures_of
from rich.console import Console
from rich.progress import Progress

from ..backends.cpu.affine.reference import Judge
from ..recurrences.linear import linear_recurrence
from . import cluster as clusters
from . import devices, earth, progress, records

TURNS_A_CHUNK = 40
BYTES_A_STEP = 3 * 8  # s and t are read, w is written
PLACES_SHOWN = 2160
TRIES = 3


@dataclass
class Run:
    """The results and times of a demo."""

    air: earth.MaritimeAir
    chunks: int
    workers: int
    threads: int
    copy: devices.Bandwidth
    judge: Judge
    loading: float = 0.0
    tries: list[float] = field(default_factory=list)
    records: list[records.Record] = field(default_factory=list)
    # The result at every 20th place.
    shown: np.ndarray = field(default_factory=lambda: np.empty((0, PLACES_SHOWN)))

    @property
    def steps(self) -> int:
        return self.air.shape[1]

    @property
    def solving(self) -> float:
        """Seconds of the best try."""
        return min(self.tries)

    @property
    def rate(self) -> float:
        return self.steps * BYTES_A_STEP / self.solving


def solve_and_verify(air: earth.MaritimeAir, cluster: str | None, console: Console) -> Run:
    with console.status("Measuring how fast this machine copies memory"):
        copy = devices.copy_bandwidth()
    name = cluster or clusters.default_cluster()
    console.print(f"Opening the cluster: {name}")
    with clusters.open_cluster(name) as client:
        with console.status(
            "Loading kernels; the first time they are compiled, about half a minute"
        ):
            client.run(_warm_up)
        series = _series(air)
        judge = Judge(np.dtype(np.float64))
        run = Run(air, series.numblocks[0], *clusters.describe(client), copy, judge)
        with progress.bars(console) as shown:
            loaded = _load_all(run, client, series, shown)
            futures = _solve(run, client, loaded, shown)
            _verify(run, futures, shown)
    return run


def _warm_up() -> None:
    """Compile and load the demo's kernels in the process of a worker."""
    linear_recurrence(*_halves(da.ones(8192, chunks=2048))).compute(scheduler="sync")


def _series(air: earth.MaritimeAir) -> da.Array:
    """s and t as one array: a chunk holds both of its steps, so that they lie on one worker."""
    steps = da.core.normalize_chunks(TURNS_A_CHUNK * earth.PLACES, (air.shape[1],))[0]
    chunks = (tuple(2 * size for size in steps),)
    name = f"load-{air.turns}"
    return da.map_blocks(_load, air=air, chunks=chunks, name=name, meta=np.empty(0))


def _load(air: earth.MaritimeAir, block_info: Any = None) -> np.ndarray:
    begin, end = block_info[None]["array-location"][0]
    return air[:, begin // 2 : end // 2].ravel()


def _halves(series: da.Array) -> list[da.Array]:
    """s and t as views of the chunks: they fuse into the pack and copy nothing."""
    chunks = (tuple(size // 2 for size in series.chunks[0]),)
    return [
        series.map_blocks(_half, k, chunks=chunks, name=f"{name}-{series.name}", meta=np.empty(0))
        for k, name in enumerate("st")
    ]


def _half(block: np.ndarray, k: int) -> np.ndarray:
    return block.reshape(2, -1)[k]


def _load_all(run: Run, client: Client, series: da.Array, shown: Progress) -> da.Array:
    """Load the data first, so that the time of the solve is measured alone."""
    bar = progress.add_bar(shown, "Loading", run.steps)
    start = time.perf_counter()
    loaded: da.Array = client.persist(series)
    progress.follow(client, futures_of(loaded), _sizes(series), shown, bar)
    run.loading = time.perf_counter() - start
    return loaded


def _solve(run: Run, client: Client, loaded: da.Array, shown: Progress) -> list[Future]:
    """The chunks of the result, each on its worker, computed several times.

    The best try counts, as of the copy: the first one waits for fresh memory (0.5 of 14 GB/s
    where this was measured).
    """
    bar = progress.add_bar(shown, f"Solving, {TRIES} times", run.steps * TRIES)
    futures: list[Future] = []
    for _ in range(TRIES):
        _forget(client, futures)
        with get_task_stream(client=client) as stream:
            start = time.perf_counter()
            solved = client.persist(linear_recurrence(*_halves(loaded)))
            futures = sorted(futures_of(solved), key=lambda future: future.key[1])
            progress.follow(client, futures, _sizes(loaded), shown, bar)
            run.tries.append(time.perf_counter() - start)
        del solved
        if run.tries[-1] == run.solving:
            run.records = records.read(stream.data)
    return futures


def _forget(client: Client, futures: list[Future]) -> None:
    """Release results, and wait until no worker holds one: held ones are not computed again."""
    keys = [future.key for future in futures]
    futures.clear()
    deadline = time.monotonic() + 30
    while keys and any(client.who_has().get(key) for key in keys):
        if time.monotonic() > deadline:
            raise TimeoutError("the workers still hold results that were released 30 s ago")
        time.sleep(0.02)


def _sizes(series: da.Array) -> list[int]:
    return [size // 2 for size in series.chunks[0]]


def _verify(run: Run, futures: list[Future], shown: Progress) -> None:
    """Judge every step; the data are read once more, without the cluster."""
    bar = progress.add_bar(shown, "Checking against the sequential loop", run.steps)
    pieces = []
    for future in futures:
        w = future.result()
        begin = run.judge.steps
        s, t = run.air[:, begin : begin + w.size]
        run.judge.add(s, t, w)
        pieces.append(w.reshape(-1, earth.PLACES)[:, :: earth.PLACES // PLACES_SHOWN].copy())
        future.release()
        progress.advance(shown, bar, w.size)
    run.shown = np.concatenate(pieces)
