"""Long recordings from zarr to zarr: zero-phase filters of chunks against SciPy on the whole array.

A band-pass of five sections is applied forward and backward to channels of int16 at 30 kHz, in
chunks of one second, to float32, without compression. mgrec filters on Dask's threads. SciPy reads
the whole array, filters it in float64, as mgrec does, and writes it. The files stay in the page
cache. A process that does nothing else measures the memory of each.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from scipy import signal

from mgrec.signal import sosfiltfilt

from ..dask.streaming import peak_memory
from ..harness.command import Command, Options
from ..harness.study import Study

RATE, CHANNELS = 30_000, 384
FILTER = signal.butter(5, [300, 6000], "bandpass", fs=RATE, output="sos")
# How many times as fast as SciPy, and bytes of memory.
WANTED_RATIO, WANTED_MEMORY = 4.0, 1e9


def create(path: Path, seconds: int, dtype: str) -> Any:
    import zarr

    return zarr.create_array(
        str(path),
        shape=(seconds * RATE, CHANNELS),
        chunks=(RATE, CHANNELS),
        dtype=dtype,
        compressors=None,
        overwrite=True,
    )


def write_recording(path: Path, seconds: int) -> None:
    store, rng = create(path, seconds, "i2"), np.random.default_rng(0)
    for left in range(0, seconds * RATE, RATE):
        store[left : left + RATE] = rng.integers(-500, 500, (RATE, CHANNELS), "i2")


def by_mgrec(source: Path, target: Path, seconds: int) -> None:
    filtered = sosfiltfilt(FILTER, da.from_zarr(str(source)), axis=0, dtype="f4")
    da.store(filtered, create(target, seconds, "f4"), lock=False)


def by_scipy(source: Path, target: Path, seconds: int) -> None:
    import zarr

    filtered = signal.sosfiltfilt(FILTER, zarr.open_array(source, mode="r")[...], axis=0)
    create(target, seconds, "f4")[...] = filtered


def peak_of(work: Callable[[], Any]) -> int:
    """Return the largest resident set of a process in which `work` runs, in bytes."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(work).result()
        return pool.submit(peak_memory).result()


def check(paths: dict[str, Path], seconds: int) -> float:
    """Return the largest difference between the results, chunk by chunk."""
    import zarr

    ours, theirs = (zarr.open_array(path, mode="r") for path in paths.values())
    worst = 0.0
    for left in range(0, seconds * RATE, RATE):
        part = slice(left, left + RATE)
        worst = max(worst, float(np.abs(ours[part] - theirs[part]).max()))
    assert worst < 1e-4, f"the results differ by {worst}"  # of 2,000: two roundings of float32
    return worst


def measure(study: Study, arguments: argparse.Namespace) -> None:
    seconds = 4 if arguments.quick else arguments.seconds
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        source = Path(name, "recording.zarr")
        write_recording(source, seconds)
        targets = {candidate: Path(name, f"{candidate}.zarr") for candidate in ("mgrec", "SciPy")}
        works = {
            candidate: partial(work, source, targets[candidate], seconds)
            for candidate, work in (("mgrec", by_mgrec), ("SciPy", by_scipy))
        }
        peaks = {candidate: peak_of(work) for candidate, work in works.items()}
        study.notes["largest difference"] = check(targets, seconds)
        shape, case = [seconds * RATE, CHANNELS], f"{CHANNELS} channels, {seconds} s"
        about = {"dtype": "int16", "shape": shape, "steps": shape[0] * CHANNELS}
        times = study.compare(case, works, 1 if arguments.quick else 5, **about)
    for candidate, peak in peaks.items():
        study.notes[f"{candidate}: peak memory, bytes"] = peak
    study.ratio("SciPy over mgrec", times["SciPy"], times["mgrec"], WANTED_RATIO)
    study.bar("bytes of memory", peaks["mgrec"], peaks["mgrec"], WANTED_MEMORY, is_least=False)


OPTIONS: Options = {
    "--quick": {"action": "store_true", "help": "4 s, once, to see that it works"},
    "--seconds": {"type": int, "default": 20, "help": "length of the recording"},
    "--folder": {"type": Path, "help": "for the files; temporary by default"},
}

if __name__ == "__main__":
    Command("recordings", __doc__, measure, options=OPTIONS).main()
