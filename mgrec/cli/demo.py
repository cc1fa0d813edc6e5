"""``mgrec demo``: a long recurrence over real data, solved, checked, timed and plotted."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
from distributed import Client, Future, get_task_stream
from distributed.client import futures_of
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..backends.cpu.reference import Judge
from ..recurrences.linear import linear_recurrence
from . import cluster as clusters
from . import devices, earth, failure, picture, progress, records

TURNS_A_CHUNK = 40
BYTES_A_STEP = 3 * 8  # s and t are read, w is written
PLACES_SHOWN = 2160

HELP = f"""Solve a long recurrence over real data on a cluster, check, time and plot it.

How far does the sea reach into the land? A wind from the west blows along one thread that
is wound round the Earth from the north pole to the south pole, 2,160 times, over the land
and sea of NOAA's GLOBE elevation model: 93 million steps of w_i = s_i·w_(i-1) + t_i, where w
is the share of maritime air. Every step is then checked against the sequential loop.

{failure.EXIT_CODES}"""


@dataclass
class Run:
    """What one demo found out."""

    air: earth.MaritimeAir
    chunks: int
    workers: int
    threads: int
    copy: devices.Bandwidth
    judge: Judge
    loading: float = 0.0
    solving: float = 0.0
    records: list[records.Record] = field(default_factory=list)
    # The result at every 20th place.
    shown: np.ndarray = field(default_factory=lambda: np.empty((0, PLACES_SHOWN)))

    @property
    def steps(self) -> int:
        return self.air.shape[1]

    @property
    def rate(self) -> float:
        return self.steps * BYTES_A_STEP / self.solving


@click.command("demo", help=HELP, short_help="Solve, check, time and plot a recurrence.")
@click.option(
    "-o", "--output", "out", default="mgrec-demo.png", show_default=True, metavar="PNG",
    type=click.Path(path_type=Path, dir_okay=False), help="The picture.",
)  # fmt: skip
@click.option(
    "--turns", type=click.IntRange(1, earth.PARALLELS),
    help="Turns round the Earth, fewer for less memory [default: 2160, if half of it is enough].",
)  # fmt: skip
@click.option("--cluster", help=f"{clusters.HELP} [default: cuda if there are GPUs, or local]")
def demo(out: Path, turns: int | None, cluster: str | None) -> None:
    console = Console()
    with failure.in_one_line("the demo was stopped"):
        if not out.absolute().parent.is_dir():
            raise failure.BadInput(f"the folder of {out} does not exist")
        run = _run(earth.MaritimeAir(turns or _turns()), cluster, console)
        console.print(_table(run))
        if importlib.util.find_spec("matplotlib") is None:
            console.print("No picture without matplotlib: pip install 'mgrec\\[plot]' adds it.")
        else:
            picture.draw(run, out)
            console.print(f"The picture: {out}", soft_wrap=True)
    if not run.judge.holds:
        raise failure.Failure("the result is outside its stated error bound: please report this")


def _turns() -> int:
    """As many as fit into half of the memory."""
    memory = devices.memory_bytes() or 8 << 30
    return max(1, min(earth.PARALLELS, memory // 2 // (BYTES_A_STEP * earth.PLACES)))


def _run(air: earth.MaritimeAir, cluster: str | None, console: Console) -> Run:
    with console.status("Measuring how fast this machine copies memory"):
        copy = devices.copy_bandwidth()
    name = cluster or clusters.default_cluster()
    console.print(f"Opening the cluster: {name}")
    with clusters.open_cluster(name) as client:
        with console.status("Compiling the kernels (the first time only, about half a minute)"):
            client.run(_warm_up)
        series = _series(air)
        judge = Judge(np.dtype(np.float64))
        run = Run(air, series.numblocks[0], *clusters.describe(client), copy, judge)
        with progress.bars(console) as shown:
            futures = _solve(run, client, series, shown)
            _verify(run, futures, shown)
    return run


def _warm_up() -> None:
    """Compile and load, in the process of a worker, what the demo runs."""
    linear_recurrence(*_halves(da.ones(8192, chunks=2048))).compute(scheduler="sync")


def _series(air: earth.MaritimeAir) -> da.Array:
    """All of s and t; a chunk holds both of its steps, so that they lie on one worker."""
    steps = da.core.normalize_chunks(TURNS_A_CHUNK * earth.PLACES, (air.shape[1],))[0]
    chunks = (tuple(2 * size for size in steps),)
    name = f"load-{air.turns}"
    return da.map_blocks(_load, air=air, chunks=chunks, name=name, meta=np.empty(0))


def _load(air: earth.MaritimeAir, block_info: Any = None) -> np.ndarray:
    begin, end = block_info[None]["array-location"][0]
    return air[:, begin // 2 : end // 2].ravel()


def _halves(series: da.Array) -> list[da.Array]:
    """s and t as views of the chunks: they fuse into the pack and copy nothing."""
    chunks = (tuple(size // 2 for size in series.chunks[0]),)
    return [
        series.map_blocks(_half, k, chunks=chunks, name=f"{name}-{series.name}", meta=np.empty(0))
        for k, name in enumerate("st")
    ]


def _half(block: np.ndarray, k: int) -> np.ndarray:
    return block.reshape(2, -1)[k]


def _solve(run: Run, client: Client, series: da.Array, shown: Progress) -> list[Future]:
    """The chunks of the result, each on its worker. Data first, so that times are comparable."""
    sizes = [size // 2 for size in series.chunks[0]]
    bars = [progress.add_bar(shown, name, run.steps) for name in ("Loading", "Solving")]
    start = time.perf_counter()
    loaded = client.persist(series)
    progress.follow(client, futures_of(loaded), sizes, shown, bars[0])
    run.loading = time.perf_counter() - start
    with get_task_stream(client=client) as stream:
        start = time.perf_counter()
        solved = client.persist(linear_recurrence(*_halves(loaded)))
        futures: list[Future] = sorted(futures_of(solved), key=lambda future: future.key[1])
        progress.follow(client, futures, sizes, shown, bars[1])
        run.solving = time.perf_counter() - start
    run.records = records.read(stream.data)
    return futures


def _verify(run: Run, futures: list[Future], shown: Progress) -> None:
    """Judge every step; the data are read once more, apart from the cluster."""
    bar = progress.add_bar(shown, "Checking against the sequential loop", run.steps)
    pieces = []
    for future in futures:
        w = future.result()
        begin = run.judge.steps
        s, t = run.air[:, begin : begin + w.size]
        run.judge.add(s, t, w)
        pieces.append(w.reshape(-1, earth.PLACES)[:, :: earth.PLACES // PLACES_SHOWN].copy())
        future.release()
        progress.advance(shown, bar, w.size)
    run.shown = np.concatenate(pieces)


def _table(run: Run) -> Table:
    judge, copy = run.judge, run.copy
    spent = records.seconds(run.records)
    rows: dict[str, Any] = {
        "steps": f"{run.steps:,}, {run.air.turns:,} times round the Earth, float64",
        "chunks": f"{run.chunks} of {TURNS_A_CHUNK * earth.PLACES:,} steps",
        "workers": f"{run.workers} with {run.threads} threads in all",
        "time": f"{run.solving:.2f} s to solve, after {run.loading:.2f} s to load",
        "of it, by phase": ", ".join(f"{name} {spent[name]:.2f} s" for name in spent),
        "speed": f"{run.rate / 1e9:.2f} GB/s, at {BYTES_A_STEP} bytes a step",
        "of copy bandwidth": f"{run.rate / copy.rate:.0%} of {copy.rate / 1e9:.1f} GB/s "
        f"({copy.threads} threads)",
        "largest error": f"{judge.largest_error:.1e} from the exact result",
        "stated bound": f"{'holds' if judge.holds else 'FAILS'}, largest error / bound "
        f"{judge.largest_share:.1e}",
        "sequential loop": f"differs by at most {judge.largest_difference:.1e}, "
        f"{judge.steps:,} steps compared",
    }
    table = Table(title="w = s·w + t, the share of maritime air", title_justify="left")
    table.add_column("", style="bold")
    table.add_column("")
    table.show_header = False
    for name, value in rows.items():
        table.add_row(name, value)
    return table
