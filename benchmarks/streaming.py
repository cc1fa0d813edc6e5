"""More than memory: from chunked stores on disk to a store on disk, within a limit of 2 GiB.

*recurrence* reads s and t, 4e9 bytes, and writes w, 2e9, with ``memory="stream"`` and
``"two-pass"``; *filter* reads a signal of 4e9 bytes and writes as many. The files are dropped
from the page cache before each run and flushed within the time. For comparison the same bytes
are copied, file by file, on as many threads, and Dask alone stores the sum of the operands. The
result is verified chunk by chunk.

usage: python benchmarks/streaming.py [CASE ...] [--bytes N] [--folder FOLDER] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster, wait
from record import Study, Times, run
from scipy import signal

import mgrec
from mgrec.signal import sosfilt

LIMIT = 2 * 2**30
CHUNK = 2_000_000
THREADS = 2
FILTER = signal.butter(8, 0.2, output="sos")


def create(folder: Path, name: str, size: int) -> Any:
    return zarr.create_array(
        str(folder / name), shape=(size,), chunks=(CHUNK,), dtype="f8", compressors=None
    )


def write_operand(folder: Path, name: str, size: int) -> None:
    store, rng = create(folder, name, size), np.random.default_rng(ord(name))
    for left in range(0, size, CHUNK):
        store[left : left + CHUNK] = rng.uniform(-1, 1, min(CHUNK, size - left))


def chunk_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "c").rglob("*") if path.is_file())


def flush(folder: Path, is_dropped: bool = False) -> None:
    """Bring a store's files to the disk, and out of the page cache."""
    for path in chunk_files(folder):
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        if is_dropped:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def drop_caches(folder: Path, names: str) -> None:
    for name in names:
        flush(folder / name, is_dropped=True)
    shutil.rmtree(folder / "w", ignore_errors=True)


def copy_bytes(folder: Path, names: str) -> float:
    """Seconds to read all operands and to write the last one of them."""
    drop_caches(folder, names)
    target = folder / "w" / "c"
    target.mkdir(parents=True)

    def copy(files: tuple[Path, ...]) -> None:
        *others, last = files
        for path in others:
            path.read_bytes()
        (target / last.name).write_bytes(last.read_bytes())

    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        together = zip(*(chunk_files(folder / name) for name in names), strict=True)
        list(pool.map(copy, together))
    flush(folder / "w")
    return time.perf_counter() - start


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    with open("/proc/self/status") as status:
        return int(re.findall(r"VmHWM:\s*(\d+)", status.read())[0]) * 1024


def read_worker(dask_worker: Any) -> dict[str, Any]:
    """What the worker spilled, in bytes as pickled; one that was restarted has another pid."""
    spilled = sum(
        value
        for key, value in dask_worker.data.cumulative_metrics.items()
        if key == ("disk-write", "bytes")
    )
    return {"spilled": spilled, "pid": os.getpid()}


def store(folder: Path, size: int, names: str, work: Callable[..., da.Array]) -> dict[str, Any]:
    """Run `work` on the operands, and store what it returns."""
    drop_caches(folder, names)
    target = create(folder, "w", size)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=THREADS, memory_limit=LIMIT, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        (idle,) = client.run(peak_memory).values()
        (before,) = client.run(read_worker).values()
        start = time.perf_counter()
        w = work(*(da.from_zarr(str(folder / name)) for name in names))
        stored = client.compute(da.store(w, target, lock=False, compute=False))
        wait(stored)
        flush(folder / "w")
        seconds = time.perf_counter() - start
        stored.result()
        (after,) = client.run(read_worker).values()
        (peak,) = client.run(peak_memory).values()
    assert before["pid"] == after["pid"], "the worker went over its limit and was restarted"
    return {"seconds": seconds, "peak": peak, "idle": idle, "spilled": after["spilled"]}


def verify(folder: Path, names: str, step: Callable[..., tuple[np.ndarray, Any]]) -> float:
    """Largest deviation from the work on one machine, chunk by chunk.

    `step` takes the operands' parts and the state before them, and returns the result and the
    state after it.
    """
    *operands, w = (zarr.open_array(str(folder / name), mode="r") for name in names + "w")
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
    study: Study, folder: Path, case: str, names: str, size: int,
    works: dict[str, Callable[..., da.Array]], step: Any,
) -> None:  # fmt: skip
    about = {"steps": size, "bytes": 8 * size * (len(names) + 1)}
    for name in names:
        write_operand(folder, name, size)
    alone = Times((store(folder, size, names, add_up)["seconds"],))
    study.add(case, "Dask alone", alone, **about)
    copies = []
    for candidate, work in works.items():
        copies.append(copy_bytes(folder, names))
        found = store(folder, size, names, work)
        study.notes[f"{candidate}: largest deviation"] = verify(folder, names, step)
        study.notes[f"{candidate}: peak MiB (before the run)"] = (
            f"{found['peak'] / 2**20:.0f} ({found['idle'] / 2**20:.0f})"
        )
        memory = {"peak_bytes": found["peak"], "spilled_bytes": found["spilled"]}
        taken = Times((found["seconds"],))
        study.add(case, candidate, taken, **about, **memory)
        study.notes[f"{candidate}: times Dask alone"] = taken.median / alone.median
        text = f"{candidate}: peak memory of the worker, GiB"
        study.bar(text, *[found["peak"] / 2**30] * 2, LIMIT / 2**30, is_least=False)
        text = f"{candidate}: chunks' worth of bytes spilled"
        study.bar(text, *[found["spilled"] / (8 * len(names) * CHUNK)] * 2, 1, is_least=False)
    copies.append(copy_bytes(folder, names))
    study.add(case, "copy of the same bytes", Times(tuple(copies)), **about)
    study.notes[f"{case}: copy bandwidth, GB/s"] = about["bytes"] / min(copies) / 1e9
    for name in names + "w":
        shutil.rmtree(folder / name)


def recurrence(study: Study, folder: Path, size: int) -> None:
    works = {
        memory: partial(mgrec.linear_recurrence, memory=memory) for memory in ("stream", "two-pass")
    }
    case = f"{size * 8 / 1e9:g}e9 bytes of s and t"
    measure_case(study, folder, case, "st", size // 2, works, solve_part)


def filter_(study: Study, folder: Path, size: int) -> None:
    works = {f"sosfilt, {len(FILTER)} sections": partial(sosfilt, FILTER)}
    case = f"{size * 8 / 1e9:g}e9 bytes of a signal"
    measure_case(study, folder, case, "x", size, works, filter_part)


CASES = {"recurrence": recurrence, "filter": filter_}


def measure(study: Study, arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="streaming-", dir=arguments.folder))
    try:
        for case in arguments.cases or CASES:
            CASES[case](study, folder, arguments.bytes // 8)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def draw(record: dict[str, Any]) -> Any:
    """Wall time, and the worker's peak memory against its limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    times, memory = figure.subplots(1, 2)
    names = [f"{row['case']}:\n{row['candidate']}" for row in record["cases"]]
    times.barh(names, [row["median"] for row in record["cases"]])
    times.set(xlabel="seconds")
    rows = [row for row in record["cases"] if "peak_bytes" in row]
    memory.barh([row["candidate"] for row in rows], [row["peak_bytes"] / 2**30 for row in rows])
    memory.axvline(LIMIT / 2**30, color="C3")
    memory.set(xlabel="peak memory of the worker, GiB (line: its limit)")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=4 * 10**9)
    parser.add_argument("--folder", type=Path, help="on the disk to use; the system's temporary")
    run("streaming", measure, draw, parser)
