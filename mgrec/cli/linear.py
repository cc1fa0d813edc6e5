"""``mgrec linear``: w = s·w + t from files to a file."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
from distributed import Client
from distributed.client import futures_of
from rich.console import Console

from ..placement.dask.cluster.progress import steps_of
from ..placement.dask.graph.build import MANY_CHUNKS
from ..recurrences.linear import linear_recurrence
from . import cluster as clusters
from . import failure, progress, stores
from . import report as reports
from .output import check_output, in_place_when_complete

HELP = f"""Solve w_i = s_i·w_(i-1) + t_i for arrays in files.

S is a number, or an array that broadcasts against T; arrays are .npy files or .zarr stores.
They are read and OUT is written chunk by chunk, so that neither has to fit into memory. On
a cluster of several machines all paths must lie on a file system that every worker sees.

OUT appears when it is complete, and not before: whatever goes wrong, nothing half-written
is left under its name.

{failure.EXIT_CODES}"""


@dataclass(frozen=True)
class Job:
    """What to solve: operands as numbers or files, and the options of the recurrence."""

    s: Any
    t: stores.Stored
    initial: Any
    axis: int
    reverse: bool
    chunk: int | None
    memory: str

    def lazy(self) -> da.Array:
        """The result, not computed yet."""
        inputs = [v for v in (self.s, self.t) if isinstance(v, stores.Stored)]
        shape = _broadcast(inputs)
        if not -len(shape) <= self.axis < len(shape):
            raise failure.BadInput(f"axis must fit the shape {shape}; got {self.axis}")
        chunks = stores.chunks_for(shape, self.axis, self.chunk, inputs)
        count = len(chunks[self.axis])
        if count > MANY_CHUNKS:
            advice = f"{count} chunks along axis {self.axis} are slow to plan: raise --chunk"
            click.echo(f"Warning: {advice}", err=True)

        def operand(value: Any) -> Any:
            is_stored = isinstance(value, stores.Stored)
            return stores.lazy(value, chunks, shape) if is_stored else value

        initial = self.initial[...] if isinstance(self.initial, stores.Stored) else self.initial
        s, t = operand(self.s), operand(self.t)
        options: Any = {"axis": self.axis, "reverse": self.reverse, "memory": self.memory}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # warned of --chunk above
                w: da.Array = linear_recurrence(s, t, initial, **options)
        except (TypeError, ValueError) as error:
            raise failure.BadInput(str(error)) from error
        return w


def _broadcast(inputs: list[stores.Stored]) -> tuple[int, ...]:
    try:
        shape = np.broadcast_shapes(*(stored.shape for stored in inputs))
    except ValueError:
        shapes = " and ".join(f"{Path(i.path).name}: {i.shape}" for i in inputs)
        raise failure.BadInput(f"the shapes of S and T must broadcast; got {shapes}") from None
    if not shape:
        raise failure.BadInput("T must have at least one axis; got a single number")
    return shape


def _number_or_file(value: str) -> Any:
    parsers: tuple[Callable[[str], Any], ...] = (int, float, complex)
    for parse in parsers:
        try:
            return parse(value)
        except ValueError:
            continue
    path = Path(value)
    if path.suffix not in stores.KINDS:
        raise failure.BadInput(f"{value} is no number, and does not end in .npy or .zarr")
    return stores.find(path)


@click.command(
    "linear",
    help=HELP,
    short_help="Solve w = s·w + t for arrays in files.",
    # A negative number for S looks like an option.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("s")
@click.argument("t", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="OUT",
    help="The result: .npy or .zarr.",
)  # fmt: skip
@click.option("--initial", default="0", help="w before the first step: a number or a file.")
@click.option("--axis", default=-1, show_default=True, help="The axis of the steps.")
@click.option("--reverse", is_flag=True, help="Run from the end of the axis.")
@click.option("--chunk", type=click.IntRange(1), help="Steps a chunk [default: about 32 MiB].")
@click.option(
    "--memory", type=click.Choice(["stream", "two-pass"]), default="stream", show_default=True,
    help="Hold a group of chunks between the phases, or read the inputs twice.",
)  # fmt: skip
@click.option("--cluster", default="local", show_default=True, help=clusters.HELP)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help=reports.HELP)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
def linear(
    s: str, t: Path, out: Path, initial: str, axis: int, reverse: bool,
    chunk: int | None, memory: str, cluster: str, report: Path | None, overwrite: bool,
) -> None:  # fmt: skip
    with failure.in_one_line(f"{out} was not written"):
        stores.check_kind(out)
        check_output(out, overwrite)
        reports.check_report(report)
        source = stores.find(t)
        start = _number_or_file(initial)
        job = Job(_number_or_file(s), source, start, axis, reverse, chunk, memory)
        w = job.lazy()
        # The cluster is closed before the file is moved or removed: its workers have it open.
        with in_place_when_complete(out) as part, clusters.open_cluster(cluster) as client:
            with reports.reported(report, client):
                seconds = write(w, part, client, f"Writing {out.name}")
            workers, _ = clusters.describe(client)
    click.echo(describe(out, w, seconds, "steps", workers))


def describe(path: Path, w: da.Array, seconds: float, unit: str, workers: int) -> str:
    """What was written, how fast and by how many workers."""
    rate = w.size / max(seconds, 1e-9)
    return (
        f"{path}: {w.dtype} {w.shape} in {seconds:.2f} s, {rate:.3g} {unit}/s, "
        f"{workers} worker{'s' * (workers != 1)}"
    )


def write(w: da.Array, path: Path, client: Client, title: str) -> float:
    """Compute an array into a new file, chunk by chunk; the seconds it took."""
    return fill(stores.create(path, w.shape, w.dtype, w.chunks), w, client, title)


def fill(target: Any, w: da.Array, client: Client, title: str) -> float:
    """Compute an array into a file that is there, chunk by chunk; the seconds it took."""
    written = w.map_blocks(
        _write_block,
        target=target,
        chunks=tuple((1,) * len(lengths) for lengths in w.chunks),
        meta=np.empty((0,) * w.ndim, np.int64),
    )
    with progress.bars(Console(stderr=True)) as shown:
        bar = progress.add_bar(shown, title, w.size)
        start = time.perf_counter()
        futures = futures_of(client.persist(written))
        progress.follow(client, futures, steps_of(w, futures), shown, bar)
        return time.perf_counter() - start


def _write_block(block: Any, target: Any, block_info: Any = None) -> np.ndarray:
    """Write a chunk to its place in the file; returns its number of steps in its stead."""
    place = tuple(slice(*ends) for ends in block_info[0]["array-location"])
    target[place] = block
    return np.full((1,) * block.ndim, block.size)
