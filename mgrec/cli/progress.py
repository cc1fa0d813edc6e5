"""A live bar that counts steps, pixels or cells, while chunks finish on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from distributed import Client, Future
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ..placement.dask.cluster import progress as dask_progress
from . import signals


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """Bars on a terminal; elsewhere only the last state of each."""
    columns = (
        TextColumn("{task.description:<38}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[count]}", justify="right"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console) as progress:
        yield progress


def add_bar(progress: Progress, name: str, total: int, unit: str = "steps") -> TaskID:
    return progress.add_task(name, total=max(total, 1), count=f"0 {unit}", unit=unit)


def advance(progress: Progress, bar: TaskID, number: int) -> None:
    """Advance a bar by a number of its unit."""
    task = progress.tasks[bar]
    done = int(task.completed) + number
    is_last = number == 0 and task.total == 1
    count = f"{done:.3g} {task.fields['unit']}"
    progress.update(bar, completed=1 if is_last else done, count=count)


def follow(
    client: Client,
    futures: Sequence[Future],
    sizes: Sequence[int],
    progress: Progress,
    bar: TaskID,
) -> None:
    """Advance a bar by the size of every chunk as it finishes; raise what a chunk raised."""
    with closing(dask_progress.follow(client, futures, sizes)) as finished:
        for size in finished:
            advance(progress, bar, size)
            signals.check()
