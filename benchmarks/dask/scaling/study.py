"""The parts of a scaling study, the most important first, until its minutes are over."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client

import mgrec
import mgrec.dask

from ...harness.clock import Times
from ...harness.records import RESULTS, read
from ...harness.study import Study
from . import cluster as on
from . import predictions
from .cases import SCALED, Budget, check, stages, steps_of_chunk
from .files import by_candidate, keep
from .latency import measure_first, measure_latency
from .picture import stream
from .rows import Table
from .simulation import simulate

PARTS = {name.replace(", ", "-").replace(" ", "-"): name for name in SCALED}
OTHERS = ("first", "check", "latency", "stream", "peers", "simulation")
GUESSES = {"latency": 60.0, "peers": 15.0, "simulation": 60.0}
"""Seconds of the long parts."""
PEER = 2.5
"""How many times da.cumsum's time a prefix sum is wanted to be faster on GPUs."""
EVERY = 20.0
"""Seconds after which the files are written again."""

Section = tuple[str, Callable[[], None]]


def measure_peers(study: Study, client: Client, arguments: argparse.Namespace, addresses: list[str]) -> None:
    """A prefix sum by da.cumsum, on the same chunks in the same run."""
    kind, size = arguments.cluster, steps_of_chunk(arguments.cluster, arguments.small)
    chunks = len(addresses) * (1 if kind == "cuda" else 4)
    t = on.operand(client, kind, ((size,) * chunks,), addresses, -1.0, 1.0)
    case = f"prefix sum, {chunks} chunks of {size:,}"
    about = {"steps": size * chunks, "bytes": 8 * size * chunks}
    candidates = {
        "mgrec": lambda: mgrec.linear_recurrence(1.0, t).persist(),
        "mgrec, solve": lambda: mgrec.dask.solve(mgrec.linear_recurrence, 1.0, t, client=client),
        "da.cumsum, sequential": lambda: da.cumsum(t, axis=0, method="sequential").persist(),
        "da.cumsum, blelloch": lambda: da.cumsum(t, axis=0, method="blelloch").persist(),
    }
    if kind == "cuda":
        # It did not finish in four minutes over two chunks of 2^30 (anchors).
        study.miss(case, "da.cumsum, blelloch", "asked of small chunks alone")
        del candidates["da.cumsum, blelloch"]
    times = {name: on.times(client, kind, call) for name, call in candidates.items()}
    for name, each in times.items():
        study.add(case, name, each, **about)
    for name in ("mgrec", "mgrec, solve") if kind == "cuda" else ():
        text = f"{case}: da.cumsum over {name}"
        study.ratio(text, times["da.cumsum, sequential"], times[name], PEER)


def measure_simulation(study: Study, is_small: bool) -> None:
    for chunks in (1000,) if is_small else (10_000, 100_000):
        found = simulate(chunks)
        study.notes[f"scheduler alone, {chunks:,} chunks"] = found
        text = f"{found['seconds_to_take']:.1f} s to take in, {found['seconds_to_run']:.1f} to run"
        print(f"  the graph of {chunks:,} chunks on a scheduler alone: {text}", flush=True)


def sections(arguments: argparse.Namespace, table: Table) -> Iterator[Section]:
    """The chosen parts, the most important first."""
    study, client, own, kind = table.study, table.client, table.addresses, table.kind
    others: dict[str, Callable[[], None]] = {
        "first": lambda: measure_first(study, client, kind, own),
        "check": lambda: check(study, client, kind, own),
        "latency": lambda: measure_latency(study, client, arguments, own),
        "stream": lambda: measure_stream(study, client, arguments, own),
        "peers": lambda: measure_peers(study, client, arguments, own),
        "simulation": lambda: measure_simulation(study, arguments.small),
    }
    asked = [name for name in others if name in arguments.parts]
    scaled = [PARTS[name] for name in arguments.parts if name in PARTS]
    early = [name for name in asked if name in ("first", "check")]
    yield from ((name, others[name]) for name in early)
    # A model needs the latency part: it comes before the least important rows.
    late = [name for name in asked if name not in early]
    for number, cells in enumerate(stages(scaled, len(own)), 1):
        if number == 3:
            yield from ((name, others[name]) for name in late if name != "simulation")
            late = [name for name in late if name == "simulation"]
        for cell in cells:
            yield f"rows {number}", lambda cell=cell: table.measure(cell)
        yield f"operands {number}", table.operands.drop
    yield from ((name, others[name]) for name in late)


def measure_stream(study: Study, client: Client, arguments: argparse.Namespace, addresses: list[str]) -> None:
    size = 1 << 12 if arguments.small else 1 << 20
    cut = ((size,) * (8 * len(addresses)),)
    s, t = (on.operand(client, arguments.cluster, cut, addresses, -k, k) for k in (0.5, 1.0))
    spans = stream(client, addresses, s, t)
    seconds = Times((max((span["stop"] for span in spans), default=0.0) / 1e3,))
    study.add("task stream", "mgrec", seconds, spans=spans)


def measure(study: Study, arguments: argparse.Namespace) -> Path:
    budget, kind = Budget(arguments.minutes), arguments.cluster
    chunk = steps_of_chunk(kind, arguments.small)
    predicted = read_predictions(study, arguments)
    with on.connect(study, arguments, chunk) as (client, addresses):
        table = Table(study, client, kind, chunk, addresses, budget, predicted)
        written = time.monotonic()
        for name, section in sections(arguments, table):
            start = time.monotonic()
            if name in OTHERS and not budget.allows(name, GUESSES.get(name, 10.0)):
                study.miss(name, "this part", "the minutes of the study were over")
                continue
            try:
                section()
            except Exception as error:
                study.miss(name, "the rest of this part", f"{type(error).__name__}: {error}")
            spent = study.notes.get(f"seconds of {name}", 0.0) + time.monotonic() - start
            study.notes[f"seconds of {name}"] = round(spent, 1)
            if time.monotonic() - written > EVERY:
                path = keep(study, arguments.machine, arguments.out)
                print(f"  written: {path}", flush=True)
                written = time.monotonic()
        conclude(study)
        # Before the cluster is closed, which may take all the time left.
        return keep(study, arguments.machine, arguments.out)


def read_predictions(study: Study, arguments: argparse.Namespace) -> dict[tuple[str, str], float]:
    """Earlier predictions for such a machine."""
    path = arguments.predictions
    if path is None and arguments.cluster == "cuda" and not arguments.small:
        path = predictions.newest(RESULTS)
    if path is None:
        return {}
    study.notes["predictions"] = path.name
    return by_candidate(read(path))


def conclude(study: Study) -> None:
    """Bytes of operands that moved, errors of the predictions, and a model of these rows."""
    rows = [row for row in study.cases if "operand_bytes_across" in row]
    if not rows:
        return
    moved = sum(row["operand_bytes_across"] for row in rows)
    study.bar("bytes of operands that moved between workers", moved, moved, 0, is_least=False)
    errors = [row["predicted"] / row["median"] - 1 for row in rows if "predicted" in row]
    if errors:
        found = {"median": float(np.median(np.abs(errors))), "worst": max(errors, key=abs)}
        study.notes["errors of the predictions"] = {**found, "rows": len(errors)}
    fitted = predictions.fit({"cases": study.cases, "memory": study.memory})
    study.notes["model"] = fitted
    for way, each in fitted.items():
        if not predictions.fits(each):
            study.miss("predictions", f"model, {way}", "it does not fit what was measured")
