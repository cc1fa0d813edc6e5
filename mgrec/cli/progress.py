"""A live bar that counts steps, unknowns or pairs, while chunks finish on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from distributed import Client, Future
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..distributed.cluster import progress as dask_progress
from . import signals


@contextmanager
def bars(console: Console | None = None) -> Iterator[Progress]:
    """Yield bars on a terminal, by default on standard error; elsewhere the last state of each."""
    columns = (
        TextColumn("{task.description:<38}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.completed:.3g} {task.fields[unit]}", justify="right"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as progress:
        yield progress


def follow(
    client: Client, futures: Sequence[Future], sizes: Sequence[int], shown: Progress, bar: TaskID
) -> None:
    """Advance a bar by the size of every chunk as it finishes; raise what a chunk raised."""
    with closing(dask_progress.follow(client, futures, sizes)) as finished:
        for size in finished:
            shown.advance(bar, size)
            signals.check()
