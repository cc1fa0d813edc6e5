"""A live bar that counts steps, while chunks finish on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import Client, Future, as_completed
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


@contextmanager
def bars(console: Console) -> Iterator[Progress]:
    """Bars on a terminal; nothing but the last state of each elsewhere."""
    columns = (
        TextColumn("{task.description:<38}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[count]}", justify="right"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console) as progress:
        yield progress


def add_bar(progress: Progress, name: str, steps: int) -> TaskID:
    return progress.add_task(name, total=max(steps, 1), count="0 steps")


def advance(progress: Progress, bar: TaskID, steps: int) -> None:
    done = int(progress.tasks[bar].completed) + steps
    total = progress.tasks[bar].total
    is_last = steps == 0 and total == 1
    progress.update(bar, completed=1 if is_last else done, count=f"{done:.3g} steps")


def follow(
    client: Client,
    futures: Sequence[Future],
    sizes: Sequence[int],
    progress: Progress,
    bar: TaskID,
) -> None:
    """Advance a bar by the steps of every chunk as it finishes.

    Parameters
    ----------
    client : distributed.Client
    futures : sequence of Future
        One a chunk.
    sizes : sequence of int
        Steps of each.
    progress : rich.progress.Progress
    bar : TaskID

    Raises
    ------
    Exception
        What the first chunk that failed raised on its worker. The others are cancelled.
    """
    steps: dict[Any, int] = {f.key: size for f, size in zip(futures, sizes, strict=True)}
    try:
        for future in as_completed(futures, loop=client.loop):
            if future.status != "finished":
                future.result()
            advance(progress, bar, steps[future.key])
    except BaseException:
        client.cancel(list(futures), force=True)
        raise
