"""What this machine has: packages, processors, memory and GPUs, and its copy bandwidth."""

from __future__ import annotations

import importlib.util
import platform
import re
import shlex
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from packaging.requirements import Requirement

from ..engines.cpu.threads import processor_count, split_range
from .failure import BadInput


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def how_to_add(extra: str) -> str:
    """Return the command that installs the packages of an extra; no index need have mgrec."""
    known = map(Requirement, (requires("mgrec") or ()) if version_of("mgrec") else ())
    packages = [
        str(package).partition(";")[0].strip()
        for package in known
        if package.marker and package.marker.evaluate({"extra": extra})
    ]
    return " ".join(["pip install", *map(shlex.quote, packages or [f"mgrec[{extra}]"])])


def require(module: str, extra: str, what: object) -> None:
    """Raise BadInput if a module that `what` needs cannot be imported."""
    if importlib.util.find_spec(module) is None:
        raise BadInput(f"{what} needs {module}: {how_to_add(extra)}")


class Gpu(NamedTuple):
    """A CUDA GPU as its driver describes it: name, MiB of memory, driver version."""

    name: str
    memory: int
    driver: str

    @property
    def extra(self) -> str:
        """The extra of mgrec that this driver can run: CUDA 13 needs release 580."""
        return "cuda13" if int(self.driver.split(".")[0]) >= 580 else "cuda12"


def gpus() -> list[Gpu]:
    """Return the GPUs that NVIDIA's driver shows; none where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = "--query-gpu=name,memory.total,driver_version"
    try:
        answer = subprocess.run(
            [program, query, "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    rows = re.findall(r"^(.*), *(\d+), *(\S+)$", answer, re.MULTILINE)
    return [Gpu(name, int(memory), driver) for name, memory, driver in rows]


def processor_name() -> str:
    path = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*: (.*)", path.read_text()) if path.exists() else None
    return match[1] if match else platform.processor() or platform.machine()


def copy_bandwidth(size: int = 256 << 20, repeats: int = 6) -> float:
    """Measure bytes read and written together, a second, by all threads, in the best of copies.

    `size` is in bytes, a multiple of 8: larger than the caches of most processors.
    """
    source, target = np.ones(size // 8), np.zeros(size // 8)
    pieces, seconds = [slice(*ends) for ends in split_range(source.size, processor_count())], []
    with ThreadPoolExecutor(len(pieces)) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces))
            seconds.append(time.perf_counter() - start)
    return 2 * size / min(seconds)
