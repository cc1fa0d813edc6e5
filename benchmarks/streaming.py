"""More than memory: s and t from a chunked store on disk to a store on disk.

One worker with a limit of 2 GiB reads 4e9 bytes and writes 2e9, with ``memory="stream"`` and
``"two-pass"``. The files are dropped from the page cache before each run and flushed within
the time. For comparison the same bytes are copied, file by file, on as many threads. The
result is verified chunk by chunk.

usage: python benchmarks/streaming.py [--bytes N] [--folder FOLDER] [--out FOLDER] [--plot RESULT]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster, wait
from record import Study, Times, run

import mgrec

LIMIT = 2 * 2**30
CHUNK = 2_000_000
THREADS = 2


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


def drop_caches(folder: Path) -> None:
    flush(folder / "s", is_dropped=True)
    flush(folder / "t", is_dropped=True)
    shutil.rmtree(folder / "w", ignore_errors=True)


def copy_bytes(folder: Path) -> float:
    """Seconds to read both operands and to write one of them."""
    drop_caches(folder)
    target = folder / "w" / "c"
    target.mkdir(parents=True)

    def copy(pair: tuple[Path, Path]) -> None:
        pair[0].read_bytes()
        (target / pair[1].name).write_bytes(pair[1].read_bytes())

    start = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        pairs = zip(chunk_files(folder / "s"), chunk_files(folder / "t"), strict=True)
        list(pool.map(copy, pairs))
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


def solve(folder: Path, size: int, memory: str) -> dict[str, Any]:
    drop_caches(folder)
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
        s, t = (da.from_zarr(str(folder / name)) for name in "st")
        w = mgrec.linear_recurrence(s, t, memory=memory)
        stored = client.compute(da.store(w, target, lock=False, compute=False))
        wait(stored)
        flush(folder / "w")
        seconds = time.perf_counter() - start
        stored.result()
        (after,) = client.run(read_worker).values()
        (peak,) = client.run(peak_memory).values()
    assert before["pid"] == after["pid"], "the worker went over its limit and was restarted"
    return {"seconds": seconds, "peak": peak, "idle": idle, "spilled": after["spilled"]}


def verify(folder: Path) -> float:
    """Largest deviation from the recurrence on one machine, chunk by chunk."""
    s, t, w = (zarr.open_array(str(folder / name), mode="r") for name in "stw")
    entry, worst = 0.0, 0.0
    for left in range(0, w.shape[0], CHUNK):
        part = slice(left, left + CHUNK)
        wanted = mgrec.linear_recurrence(s[part], t[part], entry)
        entry = wanted[-1]
        worst = max(worst, float(np.abs(w[part] - wanted).max()))
    assert worst < 1e-12, f"the result deviates by {worst}"
    return worst


def measure(study: Study, arguments: argparse.Namespace) -> None:
    size = arguments.bytes // 16
    folder = Path(tempfile.mkdtemp(prefix="streaming-", dir=arguments.folder))
    case = f"{arguments.bytes / 1e9:g}e9 bytes of s and t"
    about = {"steps": size, "bytes": 24 * size}
    try:
        for name in "st":
            write_operand(folder, name, size)
        copies = []
        for memory in ("stream", "two-pass"):
            copies.append(copy_bytes(folder))
            found = solve(folder, size, memory)
            deviation = verify(folder)
            about_run = {**about, "peak_bytes": found["peak"], "spilled_bytes": found["spilled"]}
            study.add(case, memory, Times((found["seconds"],)), **about_run)
            study.notes[f"{memory}: largest deviation"] = deviation
            study.notes[f"{memory}: peak MiB (before the run)"] = (
                f"{found['peak'] / 2**20:.0f} ({found['idle'] / 2**20:.0f})"
            )
            text = f"{memory}: peak memory of the worker, GiB"
            study.bar(text, *[found["peak"] / 2**30] * 2, LIMIT / 2**30, is_least=False)
            text = f"{memory}: chunks' worth of bytes spilled"
            study.bar(text, *[found["spilled"] / (16 * CHUNK)] * 2, 1, is_least=False)
        study.add(case, "copy of the same bytes", Times(tuple(copies)), **about)
        study.notes["copy bandwidth of the disk, GB/s"] = 24 * size / min(copies) / 1e9
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def draw(record: dict[str, Any]) -> Any:
    """Wall time, and the worker's peak memory against its limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), layout="constrained")
    times, memory = figure.subplots(1, 2)
    names = [row["candidate"] for row in record["cases"]]
    times.barh(names, [row["median"] for row in record["cases"]])
    times.set(xlabel="seconds", title=record["cases"][0]["case"])
    rows = [row for row in record["cases"] if "peak_bytes" in row]
    memory.barh([row["candidate"] for row in rows], [row["peak_bytes"] / 2**30 for row in rows])
    memory.axvline(LIMIT / 2**30, color="C3")
    memory.set(xlabel="peak memory of the worker, GiB (line: its limit)")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bytes", type=lambda text: int(float(text)), default=4 * 10**9)
    parser.add_argument("--folder", type=Path, help="on the disk to use; the system's temporary")
    run("streaming", measure, draw, parser)
