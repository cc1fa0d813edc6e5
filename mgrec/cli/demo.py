"""``mgrec demo``: solve, check, time and plot a long recurrence over real data.

A plain loop, one call and a cluster solve the series of :mod:`.earth` in memory. Then a cluster
streams it from files to a file, in less memory than one call needs (:mod:`.streaming`).
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import dask.array as da
import numpy as np
from distributed import Client, Future, wait
from distributed.client import futures_of
from distributed.system import MEMORY_LIMIT
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..distributed import observability
from ..distributed.placement import colocate
from ..distributed.plan.functions import plan
from ..distributed.warm_up import warm_up
from ..engines.cpu.threads import MIN_STEPS_FOR_THREADS, thread_count
from ..scans.cpu.reference import Judge, loop
from ..scans.functions import linear_recurrence
from . import cluster as clusters
from . import machine, picture, signals, streaming
from .earth import PARALLELS, POINTS, MaritimeAir
from .failure import EXIT_CODES, BadInput, Failure, in_one_line
from .files import check_output

# s and t, and the results of one call and of the cluster.
BYTES_A_STEP = 4 * 8
# One for each thread: chunks of 112 MB and more, where Dask advises about 100 MB or more.
LEAST_CHUNKS, MOST_CHUNKS = 2, 5
EVERY = 20  # of these points is drawn
TRIES = 5
OUTSIDE = "the result is outside its stated error bound: please report this"
# From 75° N to 60° S, but at most the number that fits into half of the memory. At the poles
# coefficients are so close to 1 that no chunk is solved speculatively.
DEFAULT_PARALLELS = max(1, min(1620, MEMORY_LIMIT // (2 * BYTES_A_STEP * POINTS)))
FLOAT64 = np.dtype(np.float64)


@dataclass
class DemoReport:
    """The results and times of a demo."""

    air: MaritimeAir
    workers: int = 0
    threads: int = 0
    # Steps of each chunk.
    chunks: tuple[int, ...] = ()
    # Seconds of each try: of the plain loop, of one call and of the cluster.
    loop: list[float] = field(default_factory=list)
    call: list[float] = field(default_factory=list)
    cluster: list[float] = field(default_factory=list)
    # Of the results of one call and of the cluster, and of the streamed one.
    judge: Judge = field(default_factory=lambda: Judge(FLOAT64))
    judge_of_file: Judge = field(default_factory=lambda: Judge(FLOAT64))
    shown: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def holds(self) -> bool:
        """Whether all results lie within the stated error bound."""
        return self.judge.holds and self.judge_of_file.holds

    @property
    def speedup(self) -> float:
        """How many times as fast as the loop one call is."""
        return min(self.loop) / min(self.call)


@click.command("demo", epilog=EXIT_CODES)
@click.option(
    "-o",
    "--output",
    "out",
    default="mgrec-demo.png",
    show_default=True,
    metavar="PNG",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The picture.",
)
@click.option(
    "--turns",
    "parallels",
    type=click.IntRange(1, PARALLELS),
    default=DEFAULT_PARALLELS,
    show_default=True,
    help="Turns round the Earth; by default what fits into half of the memory.",
)
@click.option("--cluster", default="auto", show_default=True, help=clusters.HELP)
def demo(out: Path, parallels: int, cluster: str) -> None:
    """Solve a long recurrence over real data, check, time and plot it.

    How far does the sea reach into the land? A wind from the west blows along one line that is
    wound round the Earth from 75° N to 60° S, 1,620 times, over the land and sea of NOAA's GLOBE
    elevation model: 70 million steps of w_i = s_i·w_(i-1) + t_i, where w is the share of maritime
    air. In memory, a plain loop compiled by numba, one call of mgrec and a cluster solve it. Then a
    cluster that may allocate 1 GB streams it from disk to disk: files of 1.7 GB in the folder of
    the picture, which are removed at the end. All steps are checked.
    """
    console = Console()
    with in_one_line("the demo was stopped"):
        if out.suffix.lower() != ".png":
            raise BadInput(f"{out} must end in .png")
        check_output(out, overwrite=True)
        report = DemoReport(MaritimeAir(parallels))
        with TemporaryDirectory(prefix=".mgrec-demo-", dir=out.parent) as folder:
            streamed = _solve_in_memory(report, cluster, Path(folder), console)
            streaming.stream(streamed)
            _draw_and_check(report, streamed, out, console)
        console.print(_table(report, streamed))
        if importlib.util.find_spec("matplotlib") is None:
            command = escape(machine.how_to_add("plot"))
            console.print(f"No picture without matplotlib: {command} adds it.", soft_wrap=True)
        else:
            console.print(f"The picture: {out}", soft_wrap=True)
        if not report.holds:
            raise Failure(OUTSIDE)


def _solve_in_memory(report: DemoReport, cluster: str, folder: Path, console: Console) -> streaming.Streamed:
    """Time the loop, one call and the cluster; check results, and write s and t to files."""
    with console.status("Loading the series, and the kernels: the first time they are compiled"):
        series = [_load_and_compile(report.air)]
    console.print(f"Opening the cluster: {cluster}")
    with clusters.open_cluster(cluster) as client:
        with console.status(f"Solving, {TRIES} times each: a plain loop, one call, the cluster"):
            result, futures = _time(report, client, series.pop())
        with console.status("Checking all steps"), ThreadPoolExecutor(1) as pool:
            writing = pool.submit(streaming.write, folder, report.air)
            _check(report, result, futures)
            return writing.result()


def _load_and_compile(air: MaritimeAir) -> np.ndarray:
    """Return s and t, which one thread computes while another one compiles."""
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(lambda: air[:])
        _compile()
        signals.check()
        return loading.result()


def _compile() -> None:
    """Compile, or load from disk, what this process calls."""
    few, many = np.ones(8), np.full(MIN_STEPS_FOR_THREADS, 0.5)
    loop(few, few, np.empty_like(few))
    linear_recurrence(many, many)
    for results in ([few], [few, few]):
        Judge(FLOAT64).add(few, few, *results)
    chunks = da.ones(8192, chunks=2048)
    linear_recurrence(chunks, chunks).compute(scheduler="sync")


_loaded: dict[MaritimeAir, np.ndarray] = {}
"""Series in the memory of this process, which workers in the same process share."""


@contextmanager
def _shared(air: MaritimeAir, series: np.ndarray) -> Iterator[None]:
    """Share a series with workers in this process."""
    _loaded[air] = series
    try:
        yield
    finally:
        del _loaded[air]


def _load(report: DemoReport, client: Client) -> tuple[da.Array, ...]:
    """Load s and t, and the kernels, on the workers, so that no time of a solve includes it."""
    report.workers, report.threads = clusters.describe(client)
    report.chunks = _chunks(report.air.parallels, report.threads)
    s, t = (
        da.map_blocks(
            _load_chunk,
            air=report.air,
            row=row,
            chunks=(report.chunks,),
            meta=np.empty(0),
            name=f"load-{report.air.parallels}-{len(report.chunks)}-{row}",
        )
        for row in range(2)
    )
    with client.as_current():
        operands = colocate(s, t)
        wait(operands)
    warm_up(linear_recurrence, *operands, client=client)
    return operands


def _chunks(parallels: int, threads: int) -> tuple[int, ...]:
    """Return the steps of each chunk."""
    count = min(parallels, MOST_CHUNKS, max(LEAST_CHUNKS, threads))
    stops = [parallels * k // count for k in range(count + 1)]
    return tuple(POINTS * (stop - start) for start, stop in pairwise(stops))


def _load_chunk(air: MaritimeAir, row: int, block_info: Any = None) -> np.ndarray:
    """Return a chunk of s, row 0, or of t, row 1."""
    ((start, stop),) = block_info[None]["array-location"]
    if air in _loaded:
        return _loaded[air][row, start:stop]
    return air[start:stop][row].copy()


def _time(report: DemoReport, client: Client, series: np.ndarray) -> tuple[np.ndarray, list[Future]]:
    """Time the loop, one call and the cluster by turns, each into new memory.

    Return the result of one call, and the chunks of the result of the cluster.
    """
    s, t = series
    result: Any = None
    with _shared(report.air, series):
        operands = _load(report, client)
        with plan(linear_recurrence, *operands, client=client) as solve:
            for _ in range(TRIES):
                result = w = None  # frees their memory
                _timed(report.loop, lambda: loop(s, t, np.empty_like(t)))
                result = _timed(report.call, lambda: linear_recurrence(s, t))
                w = _timed(report.cluster, lambda: solve(*operands))
                signals.check()
    return result, sorted(futures_of(w), key=lambda future: future.key[1])


def _timed(seconds: list[float], function: Callable[[], Any]) -> Any:
    """Call a function, append the seconds that it takes, and return its result."""
    start = time.perf_counter()
    result = function()
    seconds.append(time.perf_counter() - start)
    return result


def _check(report: DemoReport, result: np.ndarray, futures: list[Future]) -> None:
    """Check all steps of one call and of the cluster, without the cluster."""
    pieces, judge, most = [], report.judge, streaming.parts_of(report.air)[0].stop
    for future in futures:
        w = future.result()
        stop = judge.steps + w.size
        while judge.steps < stop:
            part = slice(judge.steps, min(judge.steps + most, stop))
            judge.add(*report.air[part], result[part], w[part.start - stop + w.size :][:most])
            signals.check()
        pieces.append(w.reshape(-1, POINTS)[:, ::EVERY].copy())
        future.release()
    report.shown = np.concatenate(pieces)


def _draw_and_check(report: DemoReport, streamed: streaming.Streamed, out: Path, console: Console) -> None:
    """Draw the picture, while another thread checks the streamed result."""
    with console.status("Drawing, and checking the file"), ThreadPoolExecutor(1) as pool:
        checking = pool.submit(streaming.check, streamed, report.air, report.judge_of_file)
        if importlib.util.find_spec("matplotlib") is not None:
            picture.draw(report, streamed, out)
        checking.result()


def _table(report: DemoReport, streamed: streaming.Streamed) -> Table:
    judges, steps = (report.judge, report.judge_of_file), report.air.steps
    loop_seconds, call, cluster = map(min, (report.loop, report.call, report.cluster))
    seconds = {phase: 0.0 for phase in observability.PHASES if phase != "pack"}
    for phase, _, start, stop in streamed.records:
        if phase in seconds:
            seconds[phase] += stop - start
    refused = ", and the system refuses them" if streamed.is_refused else ""
    largest = {
        name: max(getattr(judge, name) for judge in judges)
        for name in ("largest_error", "largest_fraction", "largest_difference")
    }
    rows = {
        "steps": f"{steps:,}, {report.air.parallels:,} times round the Earth, float64",
        "plain loop": f"{loop_seconds:.3f} s, compiled by numba, on one thread",
        "one call": f"{call:.3f} s, {report.speedup:.1f} times as fast as the loop, "
        f"on {thread_count()} threads",
        "cluster": f"{cluster:.3f} s, {loop_seconds / cluster:.1f} times as fast as the loop, "
        f"{cluster / call:.2f} times as long as one call",
        "": f"workers: {report.workers}, threads: {report.threads}, chunks: {len(report.chunks)} "
        f"of up to {8e-6 * max(report.chunks):.0f} MB",
        "from disk to disk": f"{streamed.seconds:.2f} s in {streamed.chunks} chunks of "
        f"{8e-6 * streamed.steps_a_chunk:.0f} MB, on {streaming.THREADS} threads",
        "memory": f"{streamed.peak / 1e9:.2f} GB of {streaming.LIMIT / 1e9:g} GB that it may "
        f"allocate; the arrays of one call have {streamed.needed / 1e9:.2f} GB{refused}",
        "by phase": ", ".join(f"{phase} {seconds[phase]:.2f} s" for phase in seconds),
        "largest error": f"{largest['largest_error']:.1e} from the exact result",
        "stated bound": f"{'holds' if report.holds else 'FAILS'}, largest error / bound "
        f"{largest['largest_fraction']:.1e}",
        "sequential loop": f"differs by at most {largest['largest_difference']:.1e}, "
        f"3 times {report.judge.steps:,} steps compared",
    }
    title = f"w = s·w + t, the share of maritime air; times are the best of {TRIES}"
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    for row in rows.items():
        table.add_row(*row)
    return table
