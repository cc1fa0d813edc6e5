"""Larger than memory: from chunked stores to a store on disk, within 2 GiB.

*recurrence* reads s and t, 4e9 bytes, and writes w, 2e9, with ``memory="stream"`` and
``"two-pass"``; *filter-zarr* and *filter-npy* read a signal of 4e9 bytes and write as many, as the
command ``mgrec filter`` does; each on a worker of 2 GiB and on the threads of one process, more
threads than processors, since they wait for the disk. The files are dropped from the page cache
before each run and flushed within the time, which begins when all is compiled. For comparison the
same bytes are copied, chunk by chunk, on as many threads, and Dask alone stores the sum of the
operands. The result is verified chunk by chunk.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from scipy import signal

import mgrec
from mgrec.signal import sosfilt

from ..harness.clock import Times
from ..harness.command import Command, Options
from ..harness.study import Study
from . import stores
from .stores import CHUNK, create, drop_caches, flush, load

LIMIT = 2 * 2**30
# Seconds over those of a copy of the same bytes.
AT_DISK_SPEED = 1.25
FILTER = signal.butter(8, 0.2, output="sos")


Work = Callable[..., da.Array]


@dataclass(frozen=True)
class Disk:
    """Where to measure: a folder, bytes of operands, threads of the worker."""

    folder: Path
    bytes: int
    threads: int


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    with open("/proc/self/status") as status:
        return int(re.findall(r"VmHWM:\s*(\d+)", status.read())[0]) * 1024


def read_worker(dask_worker: Any) -> dict[str, Any]:
    """Bytes that the worker spilled, pickled; a restarted worker has another pid."""
    spilled = sum(
        value for key, value in dask_worker.data.cumulative_metrics.items() if key == ("disk-write", "bytes")
    )
    return {"spilled": spilled, "pid": os.getpid()}


def compile_first(paths: list[Path], work: Work) -> None:
    small = (da.random.default_rng(0).random(2 * CHUNK, chunks=CHUNK) for _ in paths)
    work(*small)[-1].compute()


def store_on_worker(paths: list[Path], w: Path, size: int, threads: int, work: Work) -> dict[str, Any]:
    """Run `work` on the operands on a new worker, and store what it returns."""
    drop_caches(paths, w)
    target, options = create(w, size), {"memory_limit": LIMIT, "dashboard_address": None}
    with (
        LocalCluster(n_workers=1, threads_per_worker=threads, **options) as cluster,
        Client(cluster) as client,
    ):
        (idle,) = client.run(peak_memory).values()
        (before,) = client.run(read_worker).values()
        compile_first(paths, work)
        start = time.perf_counter()
        lazy = da.store(work(*map(load, paths)), target, lock=False, compute=False)
        stored = client.compute(lazy)
        wait(stored)
        flush(w)
        seconds = time.perf_counter() - start
        stored.result()
        (after,) = client.run(read_worker).values()
        (peak,) = client.run(peak_memory).values()
    assert before["pid"] == after["pid"], "the worker went over its limit and was restarted"
    return {"seconds": seconds, "peak": peak, "idle": idle, "spilled": after["spilled"]}


def store_on_threads(*arguments: Any) -> dict[str, Any]:
    """The same on the threads of a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_store_here, *arguments).result()


def _store_here(paths: list[Path], w: Path, size: int, threads: int, work: Work) -> dict[str, Any]:
    drop_caches(paths, w)
    target, idle = create(w, size), peak_memory()
    with dask.config.set(scheduler="threads", num_workers=threads):
        compile_first(paths, work)
        start = time.perf_counter()
        da.store(work(*map(load, paths)), target, lock=False)
        flush(w)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak": peak_memory(), "idle": idle, "spilled": 0}


WAYS = {"a worker": store_on_worker, "threads alone": store_on_threads}


def verify(paths: list[Path], step: Callable[..., tuple[np.ndarray, Any]]) -> float:
    """Largest deviation from the work on one machine, chunk by chunk.

    `step` takes the operands' parts and the state before them, and returns the result and the
    state after it.
    """
    *operands, w = map(stores.opened, paths)
    entry, worst = None, 0.0
    for left in range(0, w.shape[0], CHUNK):
        part = slice(left, left + CHUNK)
        wanted, entry = step(*(operand[part] for operand in operands), entry)
        worst = max(worst, float(np.abs(w[part] - wanted).max()))
    assert worst < 1e-12, f"the result deviates by {worst}"
    return worst


def add_up(*operands: da.Array) -> da.Array:
    return sum(operands)  # type: ignore[return-value]


def solve_part(s: np.ndarray, t: np.ndarray, entry: Any) -> tuple[np.ndarray, Any]:
    w = mgrec.linear_recurrence(s, t, 0.0 if entry is None else entry)
    return w, w[-1]


def filter_part(x: np.ndarray, entry: Any) -> tuple[np.ndarray, Any]:
    states = np.zeros((len(FILTER), 2)) if entry is None else entry
    filtered: tuple[np.ndarray, Any] = signal.sosfilt(FILTER, x, zi=states)
    return filtered


def measure_case(
    study: Study,
    disk: Disk,
    case: str,
    names: str,
    size: int,
    works: Mapping[str, Work],
    step: Any,
    suffix: str = ".zarr",
) -> None:
    folder, threads = disk.folder, disk.threads
    about = {"steps": size, "bytes": 8 * size * (len(names) + 1)}
    paths, target = [folder / f"{name}{suffix}" for name in names], folder / f"w{suffix}"
    for path in paths:
        stores.write_operand(path, size)
    copies: list[float] = []
    for way, store in WAYS.items():
        alone = Times((store(paths, target, size, threads, add_up)["seconds"],))
        study.add(case, f"Dask alone, {way}", alone, **about)
        for candidate, work in works.items():
            copies.append(stores.copy_bytes(paths, target, threads))
            found = store(paths, target, size, threads, work)
            worst = verify([*paths, target], step)
            copies.append(stores.copy_bytes(paths, target, threads))
            memory = {"peak_bytes": found["peak"], "spilled_bytes": found["spilled"]}
            taken, beside = Times((found["seconds"],)), Times(tuple(copies[-2:]))
            study.add(case, f"{candidate}, {way}", taken, **about, **memory)
            text = f"{case}, {candidate}, {way}"
            judge(study, text, found, 8 * len(names) * CHUNK)
            study.notes[f"{text}: largest deviation"] = worst
            study.notes[f"{text}: times Dask alone"] = taken.median / alone.median
            text = f"{text}: times a copy of the same bytes"
            study.ratio(text, taken, beside, AT_DISK_SPEED, is_least=False)
    study.add(case, "copy of the same bytes", Times(tuple(copies)), **about)
    study.notes[f"{case}: copy bandwidth, GB/s"] = about["bytes"] / min(copies) / 1e9
    for path in (*paths, target):
        stores.remove(path)


def judge(study: Study, name: str, found: dict[str, Any], chunk: int) -> None:
    """The bars of a run's memory."""
    before, peak = found["idle"] / 2**20, found["peak"] / 2**30
    study.notes[f"{name}: peak MiB before the run"] = round(before)
    text = f"{name}: peak memory, GiB"
    study.bar(text, peak, peak, LIMIT / 2**30, is_least=False)
    text = f"{name}: chunks' worth of bytes spilled"
    study.bar(text, *[found["spilled"] / chunk] * 2, 1, is_least=False)


def recurrence(study: Study, disk: Disk) -> None:
    works = {memory: partial(mgrec.linear_recurrence, memory=memory) for memory in ("stream", "two-pass")}
    case = f"{disk.bytes / 1e9:g}e9 bytes of s and t"
    measure_case(study, disk, case, "st", disk.bytes // 16, works, solve_part)


def filter_(study: Study, disk: Disk, suffix: str) -> None:
    works = {f"sosfilt, {len(FILTER)} sections": partial(sosfilt, FILTER)}
    case = f"{disk.bytes / 1e9:g}e9 bytes of a signal, {suffix}"
    measure_case(study, disk, case, "x", disk.bytes // 8, works, filter_part, suffix)


CASES = {
    "recurrence": recurrence,
    "filter-zarr": partial(filter_, suffix=".zarr"),
    "filter-npy": partial(filter_, suffix=".npy"),
}


def measure(study: Study, arguments: argparse.Namespace) -> None:
    study.notes["threads of the worker, and of the copy"] = arguments.threads
    folder = Path(tempfile.mkdtemp(prefix="streaming-", dir=arguments.folder))
    try:
        for case in arguments.cases or CASES:
            CASES[case](study, Disk(folder, arguments.bytes, arguments.threads))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


OPTIONS: Options = {
    "cases": {"nargs": "*", "metavar": "CASE", "help": ", ".join(CASES)},
    "--bytes": {"type": lambda text: int(float(text)), "default": 4 * 10**9},
    "--threads": {"type": int, "default": 4},
    "--folder": {"type": Path, "help": "on the disk to use; the system's temporary"},
}

if __name__ == "__main__":
    Command("streaming", __doc__, measure, options=OPTIONS).main()
