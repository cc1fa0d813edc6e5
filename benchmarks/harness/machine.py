"""The machine that a study runs on: its hardware, packages and load."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from dask.system import CPU_COUNT

PACKAGES = "numpy numba dask distributed scipy pandas jax zarr cupy-cuda13x torch triton".split()
PACKAGES += "numba-cuda cuda-cccl accelerated-scan statsmodels hmmlearn".split()
PACKAGES += "torchaudio torchlpc philtorch".split()
# A machine is quiet if others take less than this of one processor, and if the median of the
# calibration loop is within this factor of its best.
QUIET_PROCESSORS, QUIET_RATIO = 0.1, 1.1


def optional(name: str) -> Any:
    """Return a module, or None where it is not installed or finds no library that it needs."""
    try:
        return import_module(name)
    except (ImportError, OSError):
        return None


def processor_count() -> int:
    """Processors that the affinity and the quota of this process allow."""
    return min(len(os.sched_getaffinity(0)), CPU_COUNT)


def calibrate() -> float:
    """Seconds of a loop that needs only a processor."""
    start = time.perf_counter()
    total = 0
    for number in range(20_000):
        total += number
    return time.perf_counter() - start


def copy_bandwidth() -> float:
    """Bytes read and written a second by a copy of 80 MB on one thread."""
    source = np.ones(10**7)
    target, seconds = np.empty_like(source), []
    for _ in range(15):
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    return 2 * source.nbytes / median(seconds)


def read_load() -> dict[str, float]:
    """Seconds of all processors so far: busy, busy with this study, stolen."""
    tick = os.sysconf("SC_CLK_TCK")
    spent = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    busy = sum(spent) - spent[3] - spent[4]
    return {
        "clock": time.time(),
        "busy": busy / tick,
        "own": _own_ticks() / tick,
        "stolen": spent[7] / tick,
        "average": os.getloadavg()[0],
    }


def _own_ticks() -> int:
    """Of this process, its descendants, and those of them that have ended."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        process = int(path.parent.name)
        parents[process], ticks[process] = int(words[1]), sum(map(int, words[11:15]))
    return sum(ticks[process] for process in ticks if _descends(process, parents))


def _descends(process: int, parents: dict[int, int]) -> bool:
    while process and process != os.getpid():
        process = parents.get(process, 0)
    return process == os.getpid()


def describe_load(
    begin: dict[str, float], end: dict[str, float], calibrations: list[float]
) -> dict[str, Any]:
    wall = end["clock"] - begin["clock"]
    foreign = (end["busy"] - begin["busy"]) - (end["own"] - begin["own"])
    ratio = median(calibrations) / min(calibrations)
    return {
        "seconds": wall,
        "foreign_processors": foreign / wall,
        "stolen_processors": (end["stolen"] - begin["stolen"]) / wall,
        "load_average_before": begin["average"],
        "calibration_best": min(calibrations),
        "calibration_median": median(calibrations),
        "quiet": foreign / wall <= QUIET_PROCESSORS and ratio <= QUIET_RATIO,
    }


def describe_machine() -> dict[str, Any]:
    processor = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "processor": processor[1] if processor else platform.machine(),
        "cores": processor_count(),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "gpus": _name_gpus(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _name_gpus() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [", driver ".join(line.split(", ")) for line in found.strip().split("\n")]


def slug(about: dict[str, Any]) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", about["processor"].lower()).strip("-")
    return f"{words}-{about['cores']}-cores"


def describe_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def describe_commit() -> str:
    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parents[2]), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    if told := os.environ.get("MGREC_COMMIT"):
        return told  # of a copy that is not the checkout
    if not (Path(__file__).parents[2] / "benchmarks").is_dir():
        return version("mgrec")  # installed
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "mgrec", "benchmarks")
        return git("rev-parse", "HEAD") + (" with changes not committed" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
