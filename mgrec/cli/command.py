"""The command ``mgrec``."""

from __future__ import annotations

import click

from .. import __version__
from . import align, bench, demo, machine, solve

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="mgrec %(version)s")
def main() -> None:
    """Recurrences that are too long, too many or too slow for one loop."""


for command in (
    demo.demo, solve.linear, solve.tridiagonal, solve.filter_, solve.sat, align.align, machine.info,
    bench.bench,
):  # fmt: skip
    main.add_command(command)
