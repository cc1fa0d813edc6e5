"""``mgrec info``: what is installed, what this machine can do, what would add the rest."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import __version__
from ..backends.cpu.threads import processors
from . import devices, failure, hints

CORE = ("numpy", "numba", "dask", "distributed")
# The extras that have them, and what they are for.
OPTIONAL = {
    "zarr": ("zarr", ""),
    "xarray": ("xarray", ""),
    "matplotlib": ("plot", ""),
    "pillow": ("image", ", for mgrec sat"),
    "soundfile": ("audio", ", for recordings"),
    "fsspec": ("remote", ", for URLs"),
    "bokeh": ("report", ", for --report"),
    "scipy": ("scipy", ", for mgrec filter --butter"),
}
CUPY = ("cupy-cuda12x", "cupy-cuda13x", "cupy")


@click.command("info", short_help="Versions, devices, memory bandwidth, what is missing.")
def info() -> None:
    """Say what is installed, what this machine can do, and what would add the rest."""
    console = Console()
    with failure.in_one_line("nothing was changed"):
        gpus = devices.gpus()
        with console.status("Measuring how fast memory is copied"):
            copy = devices.copy_bandwidth()
        console.print(_versions())
        console.print(_devices(gpus, copy))
        console.print(f"[bold]GPUs:[/] {for_gpus(gpus)}", soft_wrap=True)


def _versions() -> Table:
    table = _plain("Versions")
    table.add_row("mgrec", __version__)
    table.add_row("python", platform.python_version())
    for package in CORE:
        table.add_row(package, installed(package) or "not installed")
    for package, (extra, purpose) in OPTIONAL.items():
        missing = escape(f"missing: {hints.install(extra)}{purpose}")
        table.add_row(package, installed(package) or missing)
    return table


def _devices(gpus: list[devices.Gpu], copy: devices.Bandwidth) -> Table:
    table = _plain("Devices")
    table.add_row("processor", f"{devices.processor_name()}, {processors()} to use")
    table.add_row("memory", f"{devices.memory_bytes() / 2**30:.1f} GiB to use")
    table.add_row(
        "copy bandwidth",
        f"{copy.rate / 1e9:.1f} GB/s read and written, {copy.size >> 20} MiB copied by "
        f"{copy.threads} threads",
    )
    for number, gpu in enumerate(gpus):
        table.add_row(f"GPU {number}", f"{gpu.name}, {gpu.memory} MiB, driver {gpu.driver}")
    table.add_row("backend cpu", f"numba {installed('numba')}: NumPy, Dask of NumPy")
    table.add_row("backend cuda", _cuda())
    return table


def _cuda() -> str:
    """The CuPy that the GPU backend runs on, if any."""
    found = [f"{package} {installed(package)}" for package in CUPY if installed(package)]
    return f"{found[0]}: CuPy, Dask of CuPy" if found else "needs CuPy, which is not installed"


def _plain(title: str) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column()
    return table


def for_gpus(gpus: list[devices.Gpu]) -> str:
    """What is missing to use the GPUs, and the extra that adds it."""
    if not gpus:
        return (
            "none: no NVIDIA driver answers (nvidia-smi). On a machine with one, CuPy and "
            f"dask-cuda are added by {escape(hints.install('cuda13'))}, or cuda12 in its place"
        )
    missing = [] if any(map(installed, CUPY)) else ["CuPy"]
    missing += [] if installed("dask-cuda") else ["dask-cuda"]
    if missing:
        return f"missing {' and '.join(missing)}: {escape(hints.install(gpus[0].extra))}"
    return "CuPy and dask-cuda are installed"


def installed(package: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
