"""``mgrec demo``: solve, check, time and plot a long recurrence over real data.

The series is one thread of air, wound round the Earth from pole to pole. ``earth.npz`` has land and
sea of the GLOBE digital elevation model (NOAA National Geophysical Data Center, 1999, 30 arc
seconds, public domain): each tenth parallel, 2,160 parallels of 43,200 places, 93,312,000 steps.
They were read from the mask of the package global-land-mask 1.0.0 (MIT), rows 5, 15, 25, ..., from
180° W to 180° E, and are stored as lengths of their runs, sea first.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
from dask.utils import key_split
from distributed import Client, Future, get_task_stream
from distributed.client import futures_of
from distributed.system import MEMORY_LIMIT
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ..distributed import observability
from ..engines.cpu.threads import thread_count
from ..scans.cpu.reference import Judge, loop
from ..scans.functions import linear_recurrence
from . import cluster as clusters
from . import machine, picture
from .failure import EXIT_CODES, BadInput, Failure, in_one_line
from .files import check_output

PARALLELS = 2160
PLACES = 43_200
RADIUS = 6371.0  # km
# Distances in km after which 1 - 1/e of the air has changed, over sea and over land.
DISTANCES = np.array([500.0, 1000.0])
STEPS_A_CHUNK = 40 * PLACES
BYTES_A_STEP = 3 * 8  # s and t are read, w is written
EVERY = 20  # of these places is drawn
TRIES = 3
OUTSIDE = "the result is outside its stated error bound: please report this"
# At most the number that fits into half of the memory.
TURNS = max(1, min(PARALLELS, MEMORY_LIMIT // (2 * BYTES_A_STEP * PLACES)))


@dataclass(frozen=True)
class MaritimeAir:
    """Coefficients of w_i = s_i·w_{i-1} + t_i, the share of maritime air in a west wind.

    Over sea the share relaxes towards 1 within about L = 500 km, over land towards 0 within about
    1000 km; dx is the distance between two places, shorter nearer to the poles::

        s_i = exp(-dx_i / L_i),   t_i = 1 - s_i over sea, 0 over land

    At 180° the thread continues one parallel further south: one recurrence from pole to pole.
    `turns` is the number of parallels; fewer than all start at 60° N.

    Examples
    --------
    >>> s, t = MaritimeAir(2160)[40_000_000:40_000_002]
    >>> s
    array([0.99819498, 0.99819498])
    """

    turns: int

    @property
    def first(self) -> int:
        """The first parallel."""
        return 0 if self.turns > PARALLELS - 360 else 360

    @property
    def steps(self) -> int:
        return self.turns * PLACES

    def latitude(self) -> np.ndarray:
        """Return degrees north of every turn."""
        return 90.0 - (5 + 10 * np.arange(self.first, self.first + self.turns)) / 120

    def is_sea(self, start: int, stop: int) -> np.ndarray:
        """Return whether there is sea, for the steps from `start` to `stop`."""
        ends, north = _ends(), self.first * PLACES
        start, stop = north + start, north + stop
        spans = slice(np.searchsorted(ends, start, "right"), np.searchsorted(ends, stop) + 1)
        lengths = np.diff(np.clip(ends[spans], start, stop), prepend=start)
        return np.repeat(np.arange(spans.start, spans.start + lengths.size) % 2 == 0, lengths)

    def __getitem__(self, steps: slice) -> np.ndarray:
        """Return s and t of steps."""
        start, stop, _ = steps.indices(self.steps)
        sea = self.is_sea(start, stop)
        coefficients = np.empty((2, sea.size))
        # One exponential for each parallel and surface, not for each step.
        for parallel in range(start // PLACES, -(-stop // PLACES)):
            part = slice(max(parallel * PLACES - start, 0), (parallel + 1) * PLACES - start)
            dx = 2 * np.pi * RADIUS / PLACES * np.cos(np.radians(self.latitude()[parallel]))
            coefficients[0, part] = np.where(sea[part], *np.exp(-dx / DISTANCES))
            coefficients[1, part] = sea[part] * -np.expm1(-dx / DISTANCES[0])
        return coefficients


@cache
def _ends() -> np.ndarray:
    with files(__package__).joinpath("earth.npz").open("rb") as file:
        return np.cumsum(np.load(file)["lengths"], dtype=np.int64)


@dataclass
class Report:
    """The results and times of a demo."""

    air: MaritimeAir
    workers: int = 0
    threads: int = 0
    judge: Judge = field(default_factory=lambda: Judge(np.dtype(np.float64)))
    chunks: int = 0
    loading: float = 0.0
    tries: list[float] = field(default_factory=list)
    # Seconds of the plain loop and of one call, on one array in existing memory.
    loop: float = 0.0
    call: float = 0.0
    # Of each task: the phase, the number of its thread, start and stop in seconds.
    records: list[tuple[str, int, float, float]] = field(default_factory=list)
    shown: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def solving(self) -> float:
        """Seconds of the best try."""
        return min(self.tries)


@click.command("demo", epilog=EXIT_CODES)
@click.option(
    "-o", "--output", "out", default="mgrec-demo.png", show_default=True, metavar="PNG",
    type=click.Path(path_type=Path, dir_okay=False), help="The picture.",
)  # fmt: skip
@click.option(
    "--turns", type=click.IntRange(1, PARALLELS), default=TURNS, show_default=True,
    help="Turns round the Earth; by default what fits into half of the memory.",
)  # fmt: skip
@click.option("--cluster", default="auto", show_default=True, help=clusters.HELP)
def demo(out: Path, turns: int, cluster: str) -> None:
    """Solve a long recurrence over real data, check, time and plot it.

    How far does the sea reach into the land? A wind from the west blows along one thread that
    is wound round the Earth from the north pole to the south pole, 2,160 times, over the land
    and sea of NOAA's GLOBE elevation model: 93 million steps of w_i = s_i·w_(i-1) + t_i, where w
    is the share of maritime air. First a plain loop, compiled by numba, and one call of mgrec solve
    one array in memory. Then a cluster solves it in chunks. All steps are checked.
    """
    console = Console()
    with in_one_line("the demo was stopped"):
        if out.suffix.lower() != ".png":
            raise BadInput(f"{out} must end in .png")
        check_output(out, overwrite=True)
        with console.status("Measuring how fast this machine copies memory"):
            copy = machine.copy_bandwidth()
        report = Report(MaritimeAir(turns))
        with console.status("Solving one array by a loop and by one call"):
            _solve_one_array(report)
        _solve_and_verify(report, cluster, console)
        console.print(_table(report, copy))
        if importlib.util.find_spec("matplotlib") is None:
            command = escape(machine.how_to_add("plot"))
            console.print(f"No picture without matplotlib: {command} adds it.", soft_wrap=True)
        else:
            picture.draw(report, out)
            console.print(f"The picture: {out}", soft_wrap=True)
        if not report.judge.holds:
            raise Failure(OUTSIDE)


def _solve_one_array(report: Report) -> None:
    """Time the loop and one call, into the same memory, and check the result of the call."""
    s, t = report.air[: report.air.steps]
    w = np.empty_like(t)
    report.loop = min(_seconds(loop, s, t, w) for _ in range(TRIES))
    report.call = min(_seconds(linear_recurrence, s, t, out=w) for _ in range(TRIES))
    judge = Judge(w.dtype)
    judge.add(s, t, linear_recurrence(s, t, out=w))
    if not judge.holds:
        raise Failure(OUTSIDE)


def _seconds(function: Any, *arguments: Any, **options: Any) -> float:
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def _solve_and_verify(report: Report, cluster: str, console: Console) -> None:
    console.print(f"Opening the cluster: {cluster}")
    with clusters.open_cluster(cluster) as client:
        with console.status("Loading kernels; the first time they are compiled"):
            client.run(_warm_up)
        report.workers, report.threads = clusters.describe(client)
        with clusters.bars(console) as progress:
            operands = _load(report, client, progress)
            futures = _solve(report, client, operands, progress)
            _verify(report, futures, progress)


def _warm_up() -> None:
    """Compile and load the kernels of the demo in a worker's process."""
    linear_recurrence(*_halves(da.ones(8192, chunks=2048))).compute(scheduler="sync")


def _load(report: Report, client: Client, progress: Progress) -> list[da.Array]:
    """Load s and t before the solve, so that the time of the solve excludes it.

    They are one array, so that s and t of a step lie on the same worker.
    """
    bar = progress.add_task("Loading", total=report.air.steps, unit="steps")
    sizes = da.core.normalize_chunks(STEPS_A_CHUNK, (report.air.steps,))[0]
    name, chunks = f"load-{report.air.turns}", (tuple(2 * size for size in sizes),)
    start = time.perf_counter()
    series = client.persist(
        da.map_blocks(_load_chunk, air=report.air, chunks=chunks, name=name, meta=np.empty(0))
    )
    clusters.follow(client, futures_of(series), sizes, progress, bar)
    report.loading, report.chunks = time.perf_counter() - start, len(sizes)
    return _halves(series)


def _load_chunk(air: MaritimeAir, block_info: Any = None) -> np.ndarray:
    start, stop = block_info[None]["array-location"][0]
    return air[start // 2 : stop // 2].ravel()


def _halves(series: da.Array) -> list[da.Array]:
    """Return s and t as views of the chunks, by tasks that are fused into those of the solve.

    Rows of an array of shape (2, steps) would not be fused.
    """
    chunks = (tuple(size // 2 for size in series.chunks[0]),)
    return [
        series.map_blocks(_half, k, chunks=chunks, name=f"{name}-{series.name}", meta=np.empty(0))
        for k, name in enumerate("st")
    ]


def _half(block: np.ndarray, k: int) -> np.ndarray:
    return block.reshape(2, -1)[k]


def _solve(
    report: Report, client: Client, operands: list[da.Array], progress: Progress
) -> list[Future]:
    """Compute the chunks of the result several times, each on its worker.

    The first try waits for new memory (0.5 of 14 GB/s where this was measured), so the best counts.
    """
    total = report.air.steps * TRIES
    bar = progress.add_task(f"Solving, {TRIES} times", total=total, unit="steps")
    futures: list[Future] = []
    for _ in range(TRIES):
        _release(client, futures)
        with get_task_stream(client=client) as stream:
            start = time.perf_counter()
            result = client.persist(linear_recurrence(*operands))
            futures = sorted(futures_of(result), key=lambda future: future.key[1])
            clusters.follow(client, futures, operands[0].chunks[0], progress, bar)
            report.tries.append(time.perf_counter() - start)
        del result
        if report.tries[-1] == report.solving:
            report.records = records_of(stream.data)
    return futures


def _release(client: Client, futures: list[Future]) -> None:
    """Release results until no worker stores one, since stored results are not computed again."""
    released = [future.key for future in futures]
    futures.clear()
    deadline = time.monotonic() + 30
    while released and any(client.who_has().get(key) for key in released):
        if time.monotonic() > deadline:
            raise TimeoutError("the workers still hold results that were released 30 s ago")
        time.sleep(0.02)


def _verify(report: Report, futures: list[Future], progress: Progress) -> None:
    """Check all steps against the loop over data that are read again, without the cluster."""
    title = "Checking against the sequential loop"
    bar = progress.add_task(title, total=report.air.steps, unit="steps")
    pieces = []
    for future in futures:
        w = future.result()
        start = report.judge.steps
        s, t = report.air[start : start + w.size]
        report.judge.add(s, t, w)
        pieces.append(w.reshape(-1, PLACES)[:, ::EVERY].copy())
        future.release()
        progress.advance(bar, w.size)
    report.shown = np.concatenate(pieces)


def records_of(stream: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the records of a task stream, as :func:`distributed.get_task_stream` collects it."""
    tasks = [
        (key_split(task["key"]), (task["worker"], task["thread"]), span["start"], span["stop"])
        for task in stream
        for span in task["startstops"]
        if span["action"] == "compute"
    ]
    threads = sorted({thread for _, thread, _, _ in tasks})
    first = min((start for _, _, start, _ in tasks), default=0.0)
    return [(phase, threads.index(thread), a - first, b - first) for phase, thread, a, b in tasks]


def _table(report: Report, copy: float) -> Table:
    judge, steps = report.judge, report.air.steps
    tries = ", ".join(f"{seconds:.2f}" for seconds in report.tries)
    seconds = {phase: 0.0 for phase in observability.PHASES if phase != "pack"}
    for phase, _, start, stop in report.records:
        if phase in seconds:
            seconds[phase] += stop - start
    rate = steps * BYTES_A_STEP / report.call
    rows = {
        "steps": f"{steps:,}, {report.air.turns:,} times round the Earth, float64",
        "plain loop": f"{report.loop:.2f} s, compiled by numba, one thread, into existing memory",
        "one call": f"{report.call:.2f} s, {report.loop / report.call:.1f} times as fast as the "
        f"loop; {thread_count()} threads, into the same memory",
        "": f"{rate / 1e9:.1f} GB/s at {BYTES_A_STEP} bytes a step, {rate / copy:.0%} of the "
        f"{copy / 1e9:.1f} GB/s of a copy",
        "cluster": f"{report.solving:.2f} s, {report.loop / report.solving:.1f} times as fast as "
        f"the loop; the best of {tries}, into new memory; loading {report.loading:.2f} s",
        "workers": f"{report.workers} with {report.threads} threads in all; "
        f"{report.chunks} chunks of {STEPS_A_CHUNK:,} steps",
        "by phase": ", ".join(f"{phase} {seconds[phase]:.2f} s" for phase in seconds),
        "largest error": f"{judge.largest_error:.1e} from the exact result",
        "stated bound": f"{'holds' if judge.holds else 'FAILS'}, largest error / bound "
        f"{judge.largest_share:.1e}",
        "sequential loop": f"differs by at most {judge.largest_difference:.1e}, "
        f"{judge.steps:,} steps compared",
    }
    title = "w = s·w + t, the share of maritime air"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    for row in rows.items():
        table.add_row(*row)
    return table
