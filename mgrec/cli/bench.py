"""``mgrec bench``: the studies of ``benchmarks/``, from a clone of the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from . import failure
from .failure import BadInput

STUDIES = Path(__file__).parents[2] / "benchmarks"
"""A package beside mgrec's, in a clone alone; Python finds it from the folder that holds it."""
# Absolute, since a study runs in the root of the clone.
FOLDER = click.Path(path_type=Path, resolve_path=True)


@click.group("bench", short_help="Measure this machine or its cluster.")
def bench() -> None:
    """Measure mgrec where it runs; results are files with the machine and the date."""


@bench.command("scaling", short_help="One recurrence over 1 to all GPUs, or processes.")
@click.option("--cluster", type=click.Choice(["local", "cuda"]), default="local", show_default=True)
@click.option("--workers", type=click.IntRange(1), help="[default: all GPUs, or 2 processes]")
@click.option("--small", is_flag=True, help="Small arrays: seconds instead of minutes.")
@click.option("--minutes", type=click.FloatRange(min=0.0), help="At most so many, in all.")
@click.option("--out", type=FOLDER, help="Folder of the results.")
def scaling(
    cluster: str, workers: int | None, small: bool, minutes: float | None, out: Path | None
) -> None:
    """Measure strong and weak scaling, latency, plans and peers on a cluster.

    Efficiency, Dask's share, bytes that crossed workers, the fraction of a copy's bandwidth, and
    a model fitted on them, as JSON and as tables; benchmarks/README.md says how to draw them.
    """
    with failure.in_one_line("results that were written stay"):
        if not (STUDIES / "dask" / "scaling" / "__main__.py").is_file():
            raise BadInput(
                "bench needs the studies of a clone of the repository: install mgrec there with "
                "pip install -e . (or run python -m benchmarks.dask.scaling there)"
            )
        options = ["--cluster", cluster, *(["--small"] if small else [])]
        options += ["--workers", str(workers)] if workers else []
        options += ["--minutes", str(minutes)] if minutes else []
        options += ["--out", str(out)] if out else []
        command = [sys.executable, "-m", "benchmarks.dask.scaling", *options]
        code = subprocess.run(command, cwd=STUDIES.parent).returncode
    if code:
        raise SystemExit(code)
