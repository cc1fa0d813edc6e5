"""``mgrec bench``: the studies of ``benchmarks/``, of a clone or as they were installed."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from . import failure, hints
from .failure import BadInput
from .output import check_output, in_place_when_complete

NEEDED = {
    "jinja2": "jinja2",
    "markdown_it": "markdown-it-py",
    "matplotlib": "matplotlib",
    "scipy": "scipy",
}
"""Modules that studies and reports import, and the packages that have them."""
HERE = Path(__file__).parents[1]
# Absolute, since a study of a clone runs in its root.
FOLDER = click.Path(path_type=Path, resolve_path=True)
FILE = click.Path(path_type=Path, resolve_path=True, dir_okay=False)


@dataclass(frozen=True)
class Studies:
    """A package of studies, the folder that Python finds it from, and where results go."""

    name: str
    root: Path
    out: Path | None

    @property
    def results(self) -> Path:
        """The folder of the results."""
        return self.out or self.root / self.name / "results"

    def module(self, name: str) -> Any:
        """One of the package's modules."""
        with _found_from(self.root):
            return importlib.import_module(f"{self.name}.{name}")

    def command(self, module: str, out: Path | None, options: Sequence[str] = ()) -> list[str]:
        out = out or self.out
        given = [*options, *(["--out", str(out)] if out else [])]
        return [sys.executable, "-m", f"{self.name}.{module}", *given]

    def run(self, command: list[str]) -> int:
        return subprocess.run(command, cwd=self.root).returncode


@contextmanager
def _found_from(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _found() -> Studies:
    """The studies of the clone that mgrec runs from, else those that were installed with it."""
    clone = HERE.parent
    if (clone / "benchmarks" / "catalogue.py").is_file():
        return Studies("benchmarks", clone, None)
    if (HERE / "_studies" / "catalogue.py").is_file():
        return Studies("mgrec._studies", Path.cwd(), Path.cwd())
    raise BadInput("bench needs the studies, which this copy of mgrec was installed without")


def _complete() -> Studies:
    """The studies, and what all of them are drawn with."""
    studies = _found()
    lacking = [NEEDED[name] for name in NEEDED if importlib.util.find_spec(name) is None]
    if lacking:
        told = " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
        raise BadInput(f"bench needs {told}: {hints.install('bench')}")
    return studies


@click.group("bench", short_help="Measure this machine or its cluster; report results.")
def bench() -> None:
    """Measure mgrec where it runs; results are files with the machine and the date."""


@bench.command("list", short_help="The studies, and what they need.")
def list_studies() -> None:
    """Show all studies: what each holds against what, and how long it takes."""
    with failure.in_one_line("nothing was run"):
        entries = _found().module("catalogue").STUDIES
        table = Table("study", "what it measures", "minutes", "needs", box=None)
        for entry in entries:
            needs = {"gpu": "a GPU", "disk": "8 GB of disk"}.get(entry.needs, "")
            table.add_row(entry.name, entry.about, f"{entry.minutes:g}", needs)
        Console(width=max(100, shutil.get_terminal_size().columns)).print(table)


@bench.command("run", short_help="Run some studies, or all.")
@click.argument("names", nargs=-1, required=True, metavar="STUDY...")
@click.option(
    "--out", type=FOLDER,
    help="Folder of the results [default: this one, or benchmarks/results/ of a clone].",
)  # fmt: skip
def run_studies(names: tuple[str, ...], out: Path | None) -> None:
    """Run the named studies one after the other; "all" are those that this machine can run.

    A study that fails does not end the others; the exit code tells.
    """
    with failure.in_one_line("results that were written stay"):
        studies = _complete()
        console = Console(stderr=True)
        chosen = _chosen(studies.module("catalogue").STUDIES, names, console)
        failed = []
        for number, entry in enumerate(chosen, 1):
            console.rule(f"{number} of {len(chosen)}: {entry.name}, about {entry.minutes:g} min")
            begun = time.monotonic()
            if studies.run(studies.command(entry.module, out)):
                failed.append(entry.name)
            console.print(f"{entry.name}: {time.monotonic() - begun:.0f} s", highlight=False)
        if failed:
            raise BadInput(f"these studies failed, or say that something is wrong: {failed}")


def _chosen(entries: Sequence[Any], names: tuple[str, ...], console: Console) -> list[Any]:
    """The entries of the names, in the order of the list."""
    known = {entry.name: entry for entry in entries}
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        near = _near(unknown[0], [*known])
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise BadInput(f"there is no study {unknown[0]!r}; {meant}mgrec bench list shows them")
    if "all" not in names:
        return [entry for entry in entries if entry.name in names]
    has_gpu = _has_gpu()
    left = [entry.name for entry in entries if entry.needs == "gpu" and not has_gpu]
    if left:
        console.print(f"Left out, since there is no GPU: {', '.join(left)}", highlight=False)
    return [entry for entry in entries if entry.name not in left]


def _near(word: str, names: Sequence[str]) -> list[str]:
    """Names that contain a word, or are spelt nearly like it."""
    return [name for name in names if word in name] or get_close_matches(word, names)


def _has_gpu() -> bool:
    from .devices import gpus

    return bool(gpus())


@bench.command("report", short_help="All results on one page.")
@click.option("--results", type=FOLDER, help="Folder of results [default: as of bench run].")
@click.option("--out", type=FILE, default="mgrec-report.html", show_default=True)
def report(results: Path | None, out: Path) -> None:
    """Render stored results into one HTML page that needs no other file.

    A picture a result, its machine, versions and tables.
    """
    with failure.in_one_line("nothing was written"):
        check_output(out, overwrite=True)
        studies = _complete()
        render = studies.module("published.report").render
        try:
            page = render(results or studies.results)
        except FileNotFoundError as error:
            raise BadInput(str(error)) from None
        with in_place_when_complete(out) as part:
            part.write_text(page)
        click.echo(out)


@bench.command("scaling", short_help="One recurrence over 1 to all GPUs, or processes.")
@click.option("--cluster", type=click.Choice(["local", "cuda"]), default="local", show_default=True)
@click.option("--workers", type=click.IntRange(1), help="[default: all GPUs, or 2 processes]")
@click.option("--small", is_flag=True, help="Small arrays: about two minutes.")
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
        studies = _complete()
        options = ["--cluster", cluster, *(["--small"] if small else [])]
        options += ["--workers", str(workers)] if workers else []
        options += ["--minutes", str(minutes)] if minutes else []
        code = studies.run(studies.command("dask.scaling", out, options))
    if code:
        raise SystemExit(code)
