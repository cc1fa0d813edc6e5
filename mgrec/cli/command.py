"""The command ``mgrec``."""

from __future__ import annotations

from importlib import import_module

import click

from .. import __version__

__all__ = ["main"]

_COMMANDS = {
    "align": (".align", "Align sequences in FASTA files."),
    "bench": (".bench", "Measure this machine or its cluster; report results."),
    "demo": (".demo", "Solve, check, time and plot a recurrence."),
    "filter": (".solve", "Filter a recording in a file."),
    "info": (".machine", "Versions, devices, memory bandwidth, missing packages."),
    "linear": (".solve", "Solve w = s·w + t for arrays in files."),
    "sat": (".solve", "Write the summed-area table of an image."),
    "tridiagonal": (".solve", "Solve tridiagonal systems for arrays in files."),
    "warm-up": (".warm_up", "Compile functions before their first calls."),
}
"""The module of each command, and its line in the help."""
_FUNCTIONS = {"filter": "filter_", "warm-up": "warm_up"}
"""The function of a command, if it has another name."""


class Commands(click.Group):
    """Commands whose modules are imported when they run.

    Their imports, Dask among them, take a second; the help needs none of them.
    """

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, remaining = super().resolve_command(context, arguments)
        if name is not None:
            module = import_module(_COMMANDS[name][0], __package__)
            command = getattr(module, _FUNCTIONS.get(name, name))
        return name, command, remaining


@click.group(
    cls=Commands,
    commands={name: click.Command(name, short_help=about) for name, (_, about) in _COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="mgrec %(version)s")
def main() -> None:
    """Solve recurrences of arrays in files, in parallel."""
