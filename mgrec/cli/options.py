"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from . import cluster as clusters
from . import report as reports
from .places import PlaceType

Option = Callable[[Any], Any]


def output(kinds: str) -> Option:
    """Where the result goes; `kinds` are the suffixes it may have."""
    text = f"The result: {kinds}."
    return click.option(
        "-o", "--output", "out", required=True, type=PlaceType(), metavar="OUT", help=text
    )  # fmt: skip


def axis(what: str) -> Option:
    """The axis that a solve runs along, in `what`."""
    return click.option("--axis", default=-1, show_default=True, help=f"The axis of the {what}.")


def chunk(what: str) -> Option:
    """The length of a chunk along the axis, in `what`."""
    text = f"{what.capitalize()} a chunk [default: about 32 MiB]."
    return click.option("--chunk", type=click.IntRange(1), help=text)


def memory(text: str) -> Option:
    """What is held between the phases."""
    kinds = click.Choice(["stream", "two-pass"])
    return click.option("--memory", type=kinds, default="stream", show_default=True, help=text)


def running(command: Any) -> Any:
    """Where a command runs, and what it does beside its result."""
    report_path = click.Path(path_type=Path, dir_okay=False)
    for add in (
        click.option("--overwrite", is_flag=True, help="Replace OUT if it exists."),
        click.option("--report", type=report_path, help=reports.HELP),
        click.option("--cluster", default="local", show_default=True, help=clusters.HELP),
    ):
        command = add(command)
    return command
