"""Packages, processors, memory, GPUs and copy bandwidth of this machine; ``mgrec info``."""

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

import click
import numpy as np
from distributed.system import MEMORY_LIMIT
from packaging.requirements import Requirement
from rich.console import Console
from rich.markup import escape

from .. import __version__
from ..engines.cpu.threads import processor_count, split_range
from .failure import BadInput, in_one_line

REQUIRED = ("numpy", "numba", "dask", "distributed")
OPTIONAL = {
    "zarr": "zarr",
    "xarray": "xarray",
    "scipy": "scipy",
    "matplotlib": "plot",
    "biopython": "align",
    "bokeh": "report",
}
"""Packages, and the extras that install them."""
CUPY = ("cupy-cuda12x", "cupy-cuda13x", "cupy")


def version_of(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def how_to_add(extra: str) -> str:
    """Return the command that installs the packages of an extra, which works without an index."""
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
        package = {"Bio": "biopython", "dask_cuda": "dask-cuda"}.get(module, module)
        raise BadInput(f"{what} needs {package}: {how_to_add(extra)}")


class Gpu(NamedTuple):
    """A CUDA GPU: its name, MiB of memory, and driver version."""

    name: str
    memory: int
    driver: str

    @property
    def extra(self) -> str:
        """The extra of mgrec for this driver: CUDA 13 needs release 580."""
        return "cuda13" if int(self.driver.split(".")[0]) >= 580 else "cuda12"


def gpus() -> list[Gpu]:
    """Return the GPUs that nvidia-smi lists."""
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
    rows = re.findall(r"^(.*), *(\d+), *(\S+)$", answer, re.MULTILINE)
    return [Gpu(name, int(memory), driver) for name, memory, driver in rows]


def processor_name() -> str:
    path = Path("/proc/cpuinfo")
    match = re.search(r"model name\s*: (.*)", path.read_text()) if path.exists() else None
    return match[1] if match else platform.processor() or platform.machine()


def copy_bandwidth(size: int = 256 << 20, repeats: int = 6) -> float:
    """Return the bytes a second, read and written together, of the best of several copies.

    All threads copy `size` bytes, a multiple of 8: more than most caches store.
    """
    source, target = np.ones(size // 8), np.zeros(size // 8)
    pieces, seconds = [slice(*ends) for ends in split_range(source.size, processor_count())], []
    with ThreadPoolExecutor(len(pieces)) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda piece: np.copyto(target[piece], source[piece]), pieces))
            seconds.append(time.perf_counter() - start)
    return 2 * size / min(seconds)


@click.command("info")
def info() -> None:
    """Report the installed packages, the features of this machine, and how to add more."""
    console = Console()
    with in_one_line("nothing was changed"):
        devices = gpus()
        with console.status("Measuring how fast memory is copied"):
            copy = copy_bandwidth()
        cupy = [f"{package} {version_of(package)}" for package in CUPY if version_of(package)]
        rows = {"mgrec": __version__, "python": platform.python_version()}
        rows |= {package: version_of(package) or "not installed" for package in REQUIRED}
        for package, extra in OPTIONAL.items():
            rows[package] = version_of(package) or f"missing: {how_to_add(extra)}"
        rows |= {
            "processor": f"{processor_name()}, {processor_count()} to use",
            "memory": f"{MEMORY_LIMIT / 2**30:.1f} GiB to use",
            "copy bandwidth": f"{copy / 1e9:.1f} GB/s read and written",
        }
        for k, gpu in enumerate(devices):
            rows[f"GPU {k}"] = f"{gpu.name}, {gpu.memory} MiB, driver {gpu.driver}"
        rows |= {
            "backend cpu": f"numba {version_of('numba')}: NumPy, Dask of NumPy",
            "backend cuda": f"{(cupy or ['no CuPy'])[0]}: CuPy, Dask of CuPy",
            "GPUs": for_gpus(devices),
        }
        for name, value in rows.items():
            console.print(f"[bold]{name:<15}[/] {escape(value)}", soft_wrap=True, highlight=False)


def for_gpus(devices: list[Gpu]) -> str:
    """Return the packages that these GPUs need, and the command that installs them."""
    if not devices:
        return (
            "none: no NVIDIA driver answers (nvidia-smi). On a machine with one, CuPy and "
            f"dask-cuda are added by {how_to_add('cuda13')}, or the extra cuda12"
        )
    missing = [] if any(map(version_of, CUPY)) else ["CuPy"]
    missing += [] if version_of("dask-cuda") else ["dask-cuda"]
    if missing:
        return f"missing {' and '.join(missing)}: {how_to_add(devices[0].extra)}"
    return "CuPy and dask-cuda are installed"
