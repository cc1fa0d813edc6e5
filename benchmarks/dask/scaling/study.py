"""The parts of a scaling study, the most important first, until its minutes are over."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask.array as da
from distributed import Client

import mgrec
import mgrec.dask

from ...harness.study import Study
from . import cluster as on
from .cases import SCALED, Budget, check, stages, steps_of_chunk
from .files import keep
from .latency import measure_first, measure_latency
from .rows import Table

PARTS = {name.replace(", ", "-").replace(" ", "-"): name for name in SCALED}
OTHERS = ("first", "check", "latency", "peers")
GUESSES = {"latency": 60.0, "peers": 15.0}
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


def sections(arguments: argparse.Namespace, table: Table) -> Iterator[Section]:
    """The chosen parts, the most important first."""
    study, client, own, kind = table.study, table.client, table.addresses, table.kind
    others: dict[str, Callable[[], None]] = {
        "first": lambda: measure_first(study, client, kind, own),
        "check": lambda: check(study, client, kind, own),
        "latency": lambda: measure_latency(study, client, arguments, own),
        "peers": lambda: measure_peers(study, client, arguments, own),
    }
    asked = [name for name in others if name in arguments.parts]
    scaled = [PARTS[name] for name in arguments.parts if name in PARTS]
    early = [name for name in asked if name in ("first", "check")]
    yield from ((name, others[name]) for name in early)
    late = [name for name in asked if name not in early]
    for number, cells in enumerate(stages(scaled, len(own)), 1):
        if number == 3:
            yield from ((name, others[name]) for name in late)
            late = []
        for cell in cells:
            yield f"rows {number}", lambda cell=cell: table.measure(cell)
        yield f"operands {number}", table.operands.drop
    yield from ((name, others[name]) for name in late)


def measure(study: Study, arguments: argparse.Namespace) -> Path:
    budget, kind = Budget(arguments.minutes), arguments.cluster
    chunk = steps_of_chunk(kind, arguments.small)
    with on.connect(study, arguments, chunk) as (client, addresses):
        table = Table(study, client, kind, chunk, addresses, budget)
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
        rows = [row for row in study.cases if "operand_bytes_across" in row]
        if rows:
            moved = sum(row["operand_bytes_across"] for row in rows)
            study.bar("bytes of operands that moved between workers", moved, moved, 0, is_least=False)
        # Before the cluster is closed, which may take all the time left.
        return keep(study, arguments.machine, arguments.out)
