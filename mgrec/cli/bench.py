"""``mgrec bench``: run the studies of ``benchmarks/``, from a clone or an installed package."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from .failure import BadInput, in_one_line
from .machine import gpus, require

ROOT = Path(__file__).parents[2]
"""The clone that mgrec runs from, or the folder of installed packages."""


def _package() -> str:
    """Return the name of the package of studies."""
    for name in ("benchmarks", "mgrec._studies"):
        if (ROOT / name.replace(".", "/") / "catalogue.py").is_file():
            return name
    raise BadInput("bench needs the studies, which this copy of mgrec was installed without")


def _catalogue() -> Sequence[Any]:
    package = _package()
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"{package}.catalogue").STUDIES
    finally:
        sys.path.remove(str(ROOT))


def _run(module: str, options: Sequence[str], folder: str = "--out") -> int:
    """Run a module of the package in a new process, and return its exit code."""
    package = _package()
    for needed in ("jinja2", "markdown_it", "matplotlib", "scipy"):
        require(needed, "bench", "bench")
    if package != "benchmarks":
        options = [folder, ".", *options]  # not among the installed packages
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", f"{package}.{module}", *options]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode


@click.group("bench")
def bench() -> None:
    """Measure mgrec where it runs; results are files with the machine and the date."""


@bench.command("list", short_help="The studies, and what they need.")
def list_studies() -> None:
    """Show all studies: what each compares with what, and how long it takes."""
    with in_one_line("nothing was run"):
        table = Table("study", "what it measures", "minutes", "needs", box=None)
        for study in _catalogue():
            needs = {"gpu": "a GPU", "disk": "8 GB of disk"}.get(study.needs, "")
            table.add_row(study.name, study.about, f"{study.minutes:g}", needs)
        Console(width=max(100, shutil.get_terminal_size().columns)).print(table)


@bench.command("run", short_help="Run some studies, or all.")
@click.argument("names", nargs=-1, required=True, metavar="STUDY...")
@click.option("--out", help="Folder of the results [default: this one, or benchmarks/results/ of a clone].")
def run_studies(names: tuple[str, ...], out: str | None) -> None:
    """Run the named studies one after the other; "all" are those that this machine can run.

    A study that fails does not end the others, and sets the exit code.
    """
    with in_one_line("results that were written stay"):
        console, failed = Console(stderr=True, highlight=False), []
        studies = _select(_catalogue(), names, console)
        for number, study in enumerate(studies, 1):
            console.rule(f"{number} of {len(studies)}: {study.name}, about {study.minutes:g} min")
            start = time.monotonic()
            if _run(study.module, ["--out", out] if out else []):
                failed.append(study.name)
            console.print(f"{study.name}: {time.monotonic() - start:.0f} s")
        if failed:
            raise BadInput(f"these studies failed, or say that something is wrong: {failed}")


def _select(studies: Sequence[Any], names: tuple[str, ...], console: Console) -> list[Any]:
    """Return the studies with these names, in the order of the catalogue."""
    known = [study.name for study in studies]
    for name in names:
        if name not in (*known, "all"):
            similar = [k for k in known if name in k] or get_close_matches(name, known)
            hint = f"did you mean {' or '.join(similar)}? " if similar else ""
            raise BadInput(f"there is no study {name!r}; {hint}mgrec bench list shows them")
    if "all" not in names:
        return [study for study in studies if study.name in names]
    omitted = [] if gpus() else [study.name for study in studies if study.needs == "gpu"]
    if omitted:
        console.print(f"Left out, since there is no GPU: {', '.join(omitted)}")
    return [study for study in studies if study.name not in omitted]


def _add(name: str, module: str, folder: str, short_help: str) -> None:
    """Add a command that passes its options to a module, which documents them by --help."""

    def pass_on(options: tuple[str, ...]) -> None:
        with in_one_line("results that were written stay"):
            code = _run(module, options, folder)
        if code:
            raise SystemExit(code)

    argument = click.Argument(["options"], nargs=-1, type=click.UNPROCESSED)
    about: Any = {"short_help": short_help, "add_help_option": False}
    settings = {"ignore_unknown_options": True}
    bench.add_command(click.Command(name, settings, pass_on, [argument], **about))


_add("scaling", "dask.scaling", "--out", "One recurrence over 1 to all GPUs, or processes.")
_add("report", "published.report", "--results", "All results on one page.")
