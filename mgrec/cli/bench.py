"""``mgrec bench``: the studies of ``benchmarks/``, of a clone or as they were installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from . import failure, hints
from .failure import BadInput

NEEDED = ("matplotlib", "scipy")
HERE = Path(__file__).parents[1]
# Absolute, since a study of a clone runs in its root.
FOLDER = click.Path(path_type=Path, resolve_path=True)


@dataclass(frozen=True)
class Studies:
    """A package of studies, the folder that Python finds it from, and where results go."""

    name: str
    root: Path
    out: Path | None


def _found() -> Studies:
    """The studies of the clone that mgrec runs from, else those that were installed with it."""
    clone = HERE.parent
    if (clone / "benchmarks" / "dask" / "scaling" / "__main__.py").is_file():
        return Studies("benchmarks", clone, None)
    if (HERE / "_studies" / "dask" / "scaling" / "__main__.py").is_file():
        return Studies("mgrec._studies", Path.cwd(), Path.cwd())
    raise BadInput("bench needs the studies, which this copy of mgrec was installed without")


@click.group("bench", short_help="Measure this machine or its cluster.")
def bench() -> None:
    """Measure mgrec where it runs; results are files with the machine and the date."""


@bench.command("scaling", short_help="One recurrence over 1 to all GPUs, or processes.")
@click.option("--cluster", type=click.Choice(["local", "cuda"]), default="local", show_default=True)
@click.option("--workers", type=click.IntRange(1), help="[default: all GPUs, or 2 processes]")
@click.option("--small", is_flag=True, help="Small arrays: seconds instead of minutes.")
@click.option("--minutes", type=click.FloatRange(min=0.0), help="At most so many, in all.")
@click.option(
    "--out", type=FOLDER,
    help="Folder of the results [default: this one, or benchmarks/results/ of a clone].",
)  # fmt: skip
def scaling(
    cluster: str, workers: int | None, small: bool, minutes: float | None, out: Path | None
) -> None:
    """Measure strong and weak scaling, latency, plans and peers on a cluster.

    Efficiency, Dask's share, bytes that crossed workers, the fraction of a copy's bandwidth, and
    a model fitted on them, as JSON and as tables; benchmarks/README.md says how to draw them.
    """
    with failure.in_one_line("results that were written stay"):
        studies = _found()
        lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if lacking:
            raise BadInput(f"bench needs {' and '.join(lacking)}: {hints.install('bench')}")
        out = out or studies.out
        options = ["--cluster", cluster, *(["--small"] if small else [])]
        options += ["--workers", str(workers)] if workers else []
        options += ["--minutes", str(minutes)] if minutes else []
        options += ["--out", str(out)] if out else []
        command = [sys.executable, "-m", f"{studies.name}.dask.scaling", *options]
        code = subprocess.run(command, cwd=studies.root).returncode
    if code:
        raise SystemExit(code)
