"""Processors, memory and GPUs of this machine, and its copy bandwidth."""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from distributed.system import MEMORY_LIMIT

from ..backends.cpu.threads import cuts, processors

# Larger than the caches of most processors, small enough for a laptop.
COPY_BYTES = 256 << 20


@dataclass(frozen=True)
class Gpu:
    """A CUDA GPU as its driver describes it: name, MiB of memory, driver version."""

    name: str
    memory: int
    driver: str

    @property
    def extra(self) -> str:
        """The extra of mgrec that this driver can run: CUDA 13 needs release 580."""
        return "cuda13" if int(self.driver.split(".")[0]) >= 580 else "cuda12"


@dataclass(frozen=True)
class Bandwidth:
    """Bytes read and written together, a second, while `threads` threads copy `size` bytes."""

    rate: float
    size: int
    threads: int


def gpus() -> list[Gpu]:
    """The GPUs that NVIDIA's driver shows; none where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = "--query-gpu=name,memory.total,driver_version"
    try:
        answer = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return _parsed(answer)


def _parsed(answer: str) -> list[Gpu]:
    fields = [[field.strip() for field in line.split(",")] for line in answer.splitlines()]
    return [Gpu(f[0], int(f[1]), f[2]) for f in fields if len(f) == 3 and f[1].isdigit()]


def processor_name() -> str:
    found = _line("/proc/cpuinfo", "model name")
    return found or platform.processor() or platform.machine()


def memory_bytes() -> int:
    """The memory that this process may use: the machine's, or less in a container."""
    return int(MEMORY_LIMIT)


def _line(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def copy_bandwidth(
    size: int = COPY_BYTES, threads: int | None = None, repeats: int = 5
) -> Bandwidth:
    """Measure the copy bandwidth of this machine, the best of several copies.

    `size` is in bytes, a multiple of 8; `threads` are all processors when not given.
    """
    threads = threads or processors()
    source, target = np.ones(size // 8), np.zeros(size // 8)
    pieces = [slice(*ends) for ends in cuts(source.size, threads)]
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces))

        seconds = min(_seconds(copy) for _ in range(repeats + 1))
    return Bandwidth(2 * source.nbytes / seconds, source.nbytes, threads)


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
