"""The command ``mgrec``: ``demo``, ``linear``, ``tridiagonal``, ``filter``, ``align``, ..."""

from __future__ import annotations

import click

from .. import __version__
from . import align, bench, demo, info, linear, sat, tridiagonal
from . import filter as filtering

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="mgrec %(version)s")
def main() -> None:
    """Recurrences that are too long, too many or too slow for one loop."""


for command in (
    demo.demo, linear.linear, tridiagonal.tridiagonal, filtering.filter_, sat.sat, align.align,
    info.info, bench.bench,
):  # fmt: skip
    main.add_command(command)
