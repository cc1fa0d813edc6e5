"""Solves over the workers of a cluster: of plans, alone and queued, and in a loop on the workers.

The figure of a row is the time of one call on one worker's part of the data, divided by the time of
a solve on all workers. It is 1 if nothing is lost. *Alone* is a call of a plan, after a pause.
*Queued* is one of 20 solves by `Plan.map`, mostly with 4 in flight. *Loop* is one of 20 calls with
`group=` in a function of `mgrec.dask.run`, between two exchanges. The figure of a pair of sequences
is the time of one worker for the whole pair, divided by that of all. `--parts` selects rows by the
start of their names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from distributed import Client
from scipy import signal

import mgrec
import mgrec.dask
from mgrec.signal import lfilter, sosfiltfilt

from ..harness.clock import Times, of_slowest, seconds_on_rank
from ..harness.command import Command, Options
from ..harness.study import Study
from . import grids
from .scaling import cluster as on

QUEUED, ALONE, REPETITIONS = 20, 7, 5
FILTER = np.array([[0.2, 0.3, 0.2], [1.0, -0.6, 0.2]], np.float32)
S, T, SIDE, DIAGONAL = (-0.5, 0.5), (-1.0, 1.0), (-1.0, 1.0), (2.5, 3.5)
CHANNELS, RATE = 384, 30_000
BAND = signal.butter(5, [300, 6000], "bandpass", fs=RATE, output="sos")


@dataclass(frozen=True)
class Row:
    """A solve: its function, the ranges of its operands, chunks and bars.

    Attributes
    ----------
    steps : int
        Of one worker.
    chunks : int
        Of one worker.
    wanted : (float, float, float)
        Alone, queued and in a loop: fractions, or seconds if `is_time`.
    in_flight : int, optional
        How many solves are in progress if they are queued. None: as many as a plan allows.
    tails : tuple of tuple of int
        Axes of each operand after that of the steps.
    dtype : str
        Dtype of the operands.
    """

    name: str
    call: Callable[..., Any]
    ranges: tuple[tuple[float, float], ...]
    steps: int
    chunks: int
    wanted: tuple[float, float, float]
    small: int = 1 << 14
    is_time: bool = False
    in_flight: int | None = 4
    tails: tuple[tuple[int, ...], ...] = ()
    dtype: str = "f4"

    @property
    def tails_of_operands(self) -> tuple[tuple[int, ...], ...]:
        return self.tails or ((),) * len(self.ranges)


def _linear(value: float) -> Callable[..., Any]:
    return lambda call, t: call(mgrec.linear_recurrence, value, t)


def _arrays(call: Callable[..., Any], s: Any, t: Any) -> Any:
    return call(mgrec.linear_recurrence, s, t)


def _filter(call: Callable[..., Any], x: Any) -> Any:
    return call(lfilter, *FILTER, x)


def _table(call: Callable[..., Any], x: Any) -> Any:
    return call(mgrec.summed_area_table, x, dtype="f4")


def _tridiagonal(call: Callable[..., Any], *operands: Any) -> Any:
    return call(mgrec.solve_tridiagonal, *operands)


def _matrix(call: Callable[..., Any], M: Any, b: Any) -> Any:
    return call(mgrec.scan, mgrec.maps.matrix(2), M, b, initial=[0.0, 0.0], axis=0)


def _recording(call: Callable[..., Any], x: Any) -> Any:
    return call(sosfiltfilt, BAND, x, axis=0, dtype="f4")


def _kalman(call: Callable[..., Any], y: Any) -> Any:
    """A level and its slope."""
    design, transition = on.like(y, [[1.0, 0.0]]), on.like(y, [[1.0, 1.0], [0.0, 1.0]])
    return call(
        mgrec.statespace.kalman_filter,
        y,
        design,
        on.like(y, [[0.5]]),
        transition,
        on.like(y, np.diag([0.1, 0.01])),
        initial_state=on.like(y, np.zeros(2)),
        initial_state_cov=on.like(y, np.eye(2)),
    )


def _posteriors(call: Callable[..., Any], x: Any) -> Any:
    states = x.shape[-1]
    transmat = np.full((states, states), 0.1 / states) + 0.9 * np.eye(states)
    startprob = np.full(states, 1 / states)
    return call(mgrec.hmm.forward_backward, on.like(x, startprob), on.like(x, transmat), x)


ROWS = [
    Row("latency: two chunks of 1,000", _arrays, (S, T), 1000, 1, (1.9e-3, 0.35e-3, 0.12e-3), 1000,
        is_time=True, in_flight=None),
    Row("arrays, one chunk of 2^29", _arrays, (S, T), 1 << 29, 1, (0.48, 0.90, 0.95)),
    Row("constant, one chunk of 2^29", _linear(0.9), (T,), 1 << 29, 1, (0.38, 0.85, 0.95)),
    Row("arrays, 2^31", _arrays, (S, T), 1 << 31, 4, (0.75, 0.95, 0.97)),
    Row("constant, 2^31", _linear(0.9), (T,), 1 << 31, 4, (0.68, 0.94, 0.97)),
    Row("prefix sum, 2^31", _linear(1.0), (T,), 1 << 31, 4, (0.46, 0.62, 0.60)),
    Row("filter of order 2, 2^31", _filter, (T,), 1 << 31, 4, (0.64, 0.93, 0.96)),
    Row("tridiagonal, dominant, 2^28", _tridiagonal, (SIDE, DIAGONAL, SIDE, SIDE), 1 << 28, 4,
        (0.42, 0.85, 0.94)),
    Row("constant, 2^32", _linear(0.9), (T,), 1 << 32, 4, (0.87, 0.95, 0.97),
        in_flight=2),
    Row("arrays, 2^32", _arrays, (S, T), 1 << 32, 4, (0.90, 0.96, 0.97),
        in_flight=2),
    Row("recording of 384 channels, 120 s in chunks of 10 s", _recording, ((-500.0, 500.0),),
        120 * RATE, 12, (0.60, 0.85, 0.85), 72_000, in_flight=None, tails=((CHANNELS,),),
        dtype="i2"),
    Row("Kalman filter of 2 states, 8·10^7", _kalman, (T,), 80_000_000, 4, (0.39, 0.80, 0.90),
        in_flight=None, tails=((1,),), dtype="f8"),
    Row("matrix maps of 2 states, 2^26", _matrix, ((-0.45, 0.45), (-1.0, 1.0)), 1 << 26, 4,
        (0.40, 0.80, 0.90), in_flight=None, tails=((2, 2), (2,)), dtype="f8"),
    Row("posteriors of 4 states, 8·10^7", _posteriors, ((-4.0, 0.0),), 80_000_000, 4,
        (0.60, 0.85, 0.85), in_flight=None, tails=((4,),), dtype="f8"),
]  # fmt: skip
PARTS = [row.name for row in ROWS] + ["table", "pair"]


def _solve(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    return function(*operands, **options)


def one_call(kind: str, name: str, steps: int) -> Times:
    """Times of calls on one worker's part, in the memory of the worker."""
    row = next(row for row in ROWS if row.name == name)
    operands = [
        on.fill(kind, (k,), (steps, *tail), *ends, row.dtype)
        for k, (ends, tail) in enumerate(zip(row.ranges, row.tails_of_operands, strict=True))
    ]
    try:
        return on.times_here(kind, partial(row.call, _solve, *operands), ALONE)
    finally:
        del operands
        on.free(kind)


def measure_row(study: Study, client: Client, row: Row, arguments: Any, own: list[str]) -> None:
    kind, steps = arguments.cluster, row.small if arguments.small else row.steps
    first = client.submit(one_call, kind, row.name, steps, workers=own[:1]).result()
    study.add(row.name, "one worker's part, one call", first, steps=steps)
    chunks = ((steps // row.chunks,) * (row.chunks * len(own)),)
    operands = [
        on.operand(client, kind, chunks, own, *ends, tail=tail, dtype=row.dtype)
        for ends, tail in zip(row.ranges, row.tails_of_operands, strict=True)
    ]

    with row.call(partial(mgrec.plan, client=client), *operands) as plan:
        measure_plan(study, client, kind, row, plan, first)
    client.run(on.free, kind)
    measure_loop(study, client, kind, row, operands, first)


def loop(*parts: Any, group: Any, kind: str, name: str) -> list[float]:
    """Seconds of calls on a rank."""
    row = next(row for row in ROWS if row.name == name)
    call = partial(row.call, partial(_solve, group=group), *parts)
    return seconds_on_rank(group, call, QUEUED, REPETITIONS, partial(on.synchronise, kind))


def measure_loop(
    study: Study, client: Client, kind: str, row: Row, operands: list[Any], first: Times
) -> None:
    ranks = mgrec.dask.run(loop, *operands, client=client, kind=kind, name=row.name)
    times = of_slowest(ranks)
    study.add(row.name, "run, loop", times)
    _judge(study, row, "loop", first, times, row.wanted[2])


def _judge(study: Study, row: Row, how: str, first: Times, times: Times, bar: float) -> None:
    case = f"{row.name}, {how}"
    if row.is_time:
        study.bar(f"{case}: seconds", times.median, times.best, bar, is_least=False)
    else:
        study.ratio(case, first, times, bar)


def measure_plan(study: Study, client: Client, kind: str, row: Row, plan: Any, first: Times) -> None:
    def queued() -> None:
        for _ in plan.map((() for _ in range(QUEUED)), in_flight=row.in_flight):
            pass

    for name, call, count, bar in (
        ("alone", plan, 1, row.wanted[0]),
        ("queued", queued, QUEUED, row.wanted[1]),
    ):
        repetitions = ALONE if count == 1 else REPETITIONS
        times = on.times(client, kind, call, repetitions, count)
        study.add(row.name, f"plan, {name}", times)
        _judge(study, row, name, first, times, bar)


def measure_table(study: Study, client: Client, arguments: Any, own: list[str]) -> None:
    kind, side = arguments.cluster, 256 if arguments.small else 1 << 16
    case = f"table of {side:,} x {side:,}"
    part = side, side // len(own)
    first = client.submit(grids.one_table, kind, part, workers=own[:1]).result()
    study.add(case, "one worker's part, one call", first)
    x = grids.image(client, kind, side, own)
    with _table(partial(mgrec.plan, client=client), x) as plan:
        row = Row(case, _table, (), side, 4, (0.80, 0.88, 1.0))
        measure_plan(study, client, kind, row, plan, first)


def measure_pair(study: Study, client: Client, arguments: Any, own: list[str]) -> None:
    kind, size = arguments.cluster, 4000 if arguments.small else 400_000
    case = f"pair of {size:,} x {size:,}"
    _, first = client.submit(grids.one_pair, kind, size, "score", workers=own[:1]).result()
    study.add(case, "one worker, one call", first)
    query = grids.sequence(client, kind, "query", size, len(own), own)
    target = grids.sequence(client, kind, "target", size, 4, own)
    align = partial(mgrec.plan, mgrec.smith_waterman, query, target, client=client)
    with align(output="score", **grids.SCORES) as plan:
        times = on.times(client, kind, lambda: grids._done(plan), ALONE)
        study.add(case, "plan, alone", times)
        study.ratio(f"{case}, alone: one worker over {len(own)}", first, times, 1.5)


def sections(
    study: Study, client: Client, arguments: Any, own: list[str]
) -> Iterator[tuple[str, Callable[[], None]]]:
    for row in ROWS:
        yield row.name, partial(measure_row, study, client, row, arguments, own)
    yield "table", partial(measure_table, study, client, arguments, own)
    yield "pair", partial(measure_pair, study, client, arguments, own)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    kind, size = arguments.cluster, 1 << (16 if arguments.small else 28)
    with on.connect(study, arguments, size) as (client, own):
        study.notes["empty calls of all workers, ms"] = f"{1e3 * on.empty_calls(client, own):.3g}"
        for name, section in sections(study, client, arguments, own):
            if not any(name.startswith(part) for part in arguments.parts):
                continue
            try:
                section()
            except Exception as error:
                study.miss(name, "plan", f"{type(error).__name__}: {str(error)[:200]}")
            client.run(on.free, kind)


OPTIONS: Options = {
    **on.OPTIONS,
    "--workers": {"type": int, "default": 2},
    "--small": {"action": "store_true", "help": "sizes that tests and CI can bear"},
    "--parts": {"nargs": "+", "default": PARTS},
}

if __name__ == "__main__":
    Command("queued", __doc__, measure, options=OPTIONS).main()
