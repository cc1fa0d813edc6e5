"""``mgrec info``: what is installed, what this machine can do, what would add the rest."""

from __future__ import annotations

import platform

import click
from distributed.system import MEMORY_LIMIT
from rich.console import Console
from rich.markup import escape

from .. import __version__
from ..engines.cpu.threads import processor_count
from . import machine
from .failure import in_one_line
from .machine import how_to_add, version_of

REQUIRED = ("numpy", "numba", "dask", "distributed")
OPTIONAL = {
    "zarr": "zarr", "xarray": "xarray", "scipy": "scipy", "matplotlib": "plot",
    "biopython": "align", "bokeh": "report",
}  # fmt: skip
"""Packages, and the extras that have them."""
CUPY = ("cupy-cuda12x", "cupy-cuda13x", "cupy")


@click.command("info", short_help="Versions, devices, memory bandwidth, what is missing.")
def info() -> None:
    """Say what is installed, what this machine can do, and what would add the rest."""
    console = Console()
    with in_one_line("nothing was changed"):
        gpus = machine.gpus()
        with console.status("Measuring how fast memory is copied"):
            copy = machine.copy_bandwidth()
        cupy = [f"{package} {version_of(package)}" for package in CUPY if version_of(package)]
        rows = {
            "mgrec": __version__,
            "python": platform.python_version(),
            **{package: version_of(package) or "not installed" for package in REQUIRED},
            **{
                package: version_of(package) or f"missing: {how_to_add(extra)}"
                for package, extra in OPTIONAL.items()
            },
            "processor": f"{machine.processor_name()}, {processor_count()} to use",
            "memory": f"{MEMORY_LIMIT / 2**30:.1f} GiB to use",
            "copy bandwidth": f"{copy / 1e9:.1f} GB/s read and written",
            **{
                f"GPU {number}": f"{gpu.name}, {gpu.memory} MiB, driver {gpu.driver}"
                for number, gpu in enumerate(gpus)
            },
            "backend cpu": f"numba {version_of('numba')}: NumPy, Dask of NumPy",
            "backend cuda": f"{(cupy or ['no CuPy'])[0]}: CuPy, Dask of CuPy",
            "GPUs": for_gpus(gpus),
        }
        for name, value in rows.items():
            console.print(f"[bold]{name:<15}[/] {escape(value)}", soft_wrap=True, highlight=False)


def for_gpus(gpus: list[machine.Gpu]) -> str:
    """Return what is missing to use the GPUs, and the command that adds it."""
    if not gpus:
        return (
            "none: no NVIDIA driver answers (nvidia-smi). On a machine with one, CuPy and "
            f"dask-cuda are added by {how_to_add('cuda13')}, or the extra cuda12"
        )
    missing = [] if any(map(version_of, CUPY)) else ["CuPy"]
    missing += [] if version_of("dask-cuda") else ["dask-cuda"]
    if missing:
        return f"missing {' and '.join(missing)}: {how_to_add(gpus[0].extra)}"
    return "CuPy and dask-cuda are installed"
