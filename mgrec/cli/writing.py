"""Dask arrays are computed into files, chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import dask.array as da
import numpy as np
from distributed import Client
from distributed.client import futures_of
from rich.console import Console

from ..placement.dask.cluster.progress import steps_of
from . import cluster as clusters
from . import failure, progress, stores
from . import report as reports
from .compiling import Compile, compile_on
from .output import check_output, in_place_when_complete
from .places import Place


def _create(path: Place, w: da.Array) -> stores.Stored:
    return stores.create(path, w.shape, w.dtype, w.chunks)


class Solve(NamedTuple):
    """A lazy result, how its kernels are compiled, and how its file is created."""

    result: da.Array
    compile: Compile
    create: Callable[[Place, da.Array], Any] = _create


def solve_to_file(
    lazy: Callable[[], Solve],
    unit: str,
    out: Place,
    cluster: str,
    report: Path | None,
    overwrite: bool,
    check_kind: Callable[[Place], None] = stores.check_kind,
) -> None:
    """Compute the solve that `lazy` returns into `out`, and print its speed in `unit` a second.

    Failures are one line. Compiling is not part of the time.
    """
    with failure.in_one_line(f"{out} was not written"):
        check_kind(out)
        check_output(out, overwrite)
        reports.check_report(report)
        w, compile, create = lazy()
        # The cluster is closed before the file is moved or removed: its workers have it open.
        with (
            in_place_when_complete(out, overwrite) as part,
            clusters.open_cluster(cluster) as client,
        ):
            target = create(part, w)
            compile_on(client, compile)
            with reports.reported(report, client):
                seconds = fill(target, w, client, f"Writing {out.name}", unit)
            workers, _ = clusters.describe(client)
    click.echo(describe(out, w, seconds, unit, workers))


def describe(path: Place, w: da.Array, seconds: float, unit: str, workers: int) -> str:
    """What was written, how fast and by how many workers."""
    rate = w.size / max(seconds, 1e-9)
    return (
        f"{path}: {w.dtype} {w.shape} in {seconds:.2f} s, {rate:.3g} {unit}/s, "
        f"{workers} worker{'s' * (workers != 1)}"
    )


def fill(target: Any, w: da.Array, client: Client, title: str, unit: str) -> float:
    """Compute an array into a file that is there, chunk by chunk; the seconds it took."""
    written = w.map_blocks(
        _write_block,
        target=target,
        chunks=tuple((1,) * len(lengths) for lengths in w.chunks),
        meta=np.empty((0,) * w.ndim, np.int64),
    )
    with progress.bars(Console(stderr=True)) as shown:
        bar = progress.add_bar(shown, title, w.size, unit)
        start = time.perf_counter()
        futures = futures_of(client.persist(written))
        progress.follow(client, futures, steps_of(w, futures), shown, bar)
        return time.perf_counter() - start


def _write_block(block: Any, target: Any, block_info: Any = None) -> np.ndarray:
    """Write a chunk to its place in the file; returns its number of steps in its stead."""
    place = tuple(slice(*ends) for ends in block_info[0]["array-location"])
    target[place] = block
    return np.full((1,) * block.ndim, block.size)
