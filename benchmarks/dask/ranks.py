"""One long recurrence over several processes, by MPI and by Dask, against one process.

Each process has a part of the operands in its memory, and calls the function with ``group=`` in a
loop, on one thread: of MPI by ``mpiexec``, of Dask by `mgrec.dask.run`. *One process* solves the
whole, on one thread and on as many as there are processors. The results of processes must have the
bits of Dask's graph with the same chunks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from scipy import signal

import mgrec
import mgrec.collective
import mgrec.dask
from mgrec.signal import lfilter

from ..cpu.candidates import threads
from ..harness.clock import of_slowest, seconds_on_rank
from ..harness.command import Command, Options
from ..harness.study import Study
from .scaling import cluster as on

COUNTS, BLOCKS, STEPS, SMALL = (2, 4), 4, 1 << 24, 1 << 12
"""Numbers of processes, of parts that operands are made of, and of steps of the whole."""
REPETITIONS, CALLS = 7, 4
B, A = signal.butter(2, 0.2)
ROWS: dict[str, tuple[Callable[..., Any], tuple[tuple[float, float], ...]]] = {
    "constant": (lambda t, **group: mgrec.linear_recurrence(0.9, t, **group), ((-1.0, 1.0),)),
    "arrays": (mgrec.linear_recurrence, ((-0.5, 0.5), (-1.0, 1.0))),
    "prefix sum": (lambda t, **group: mgrec.linear_recurrence(1.0, t, **group), ((-1.0, 1.0),)),
    "filter of order 2": (lambda x, **group: lfilter(B, A, x, **group), ((-1.0, 1.0),)),
    "tridiagonal": (mgrec.solve_tridiagonal, ((-1.0, 1.0), (2.5, 3.5), (-1.0, 1.0), (-1.0, 1.0))),
}
"""Functions, and the ranges of their operands."""


def operands_of(name: str, steps: int, rank: int = 0, size: int = 1) -> list[np.ndarray]:
    """The parts of operands on a rank."""
    own = range(rank * BLOCKS // size, (rank + 1) * BLOCKS // size)
    return [
        np.concatenate(
            [np.random.default_rng((number, block)).uniform(*ends, steps // BLOCKS) for block in own]
        )
        for number, ends in enumerate(ROWS[name][1])
    ]


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def loop(*parts: np.ndarray, group: Any, name: str) -> tuple[list[float], str]:
    """Seconds of a call on a rank, and the digest of its result."""
    os.environ["MGREC_NUM_THREADS"] = "1"
    call = partial(ROWS[name][0], *parts, group=group)
    return seconds_on_rank(group, call, CALLS, REPETITIONS), digest(call())


def by_mpi(steps: int, size: int) -> dict[str, list[Any]]:
    """The answers of all ranks of ``mpiexec``, by the names of rows."""
    command = [Path(sys.executable).with_name("mpiexec"), "-n", str(size), sys.executable]
    program = [*command, "-m", __spec__.name, "--rank", "--steps", str(steps)]
    printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(printed))


def print_as_rank(steps: int) -> None:
    """The program of a rank of MPI: the first one prints the answers of all."""
    from mpi4py import MPI

    group = mgrec.collective.from_mpi(MPI.COMM_WORLD)
    answers = {}
    for name in ROWS:
        parts = operands_of(name, steps, group.rank, group.size)
        answers[name] = MPI.COMM_WORLD.gather(loop(*parts, group=group, name=name))
    if group.rank == 0:
        print(json.dumps(answers))


def by_dask(steps: int, size: int) -> dict[str, list[Any]]:
    """The answers of all workers, by the names of rows."""
    options: Any = {"threads_per_worker": 1, "dashboard_address": None}
    answers = {}
    with LocalCluster(n_workers=size, **options) as cluster, Client(cluster) as client:
        for name in ROWS:
            operands = [place(client, whole) for whole in operands_of(name, steps)]
            answers[name] = mgrec.dask.run(loop, *operands, client=client, name=name)
            answers[name] = [*zip(*answers[name], strict=True)]
    return answers


def place(client: Client, whole: np.ndarray) -> da.Array:
    """An array with a chunk on each worker: a scheduler might place two of them on one."""
    workers = sorted(client.nthreads())
    parts, name = np.split(whole, len(workers)), f"operand-{next(on.NUMBERS)}"
    keys = {
        (name, k): client.submit(np.array, part, key=(name, k), workers=[workers[k]])
        for k, part in enumerate(parts)
    }
    wait(list(keys.values()))
    return da.Array(keys, name, (tuple(map(len, parts)),), meta=whole[:0])


def digests_of_graph(name: str, steps: int, size: int) -> list[str]:
    operands = [da.from_array(x, chunks=steps // size) for x in operands_of(name, steps)]
    whole = ROWS[name][0](*operands).compute(scheduler="threads")
    return [digest(part) for part in np.split(whole, size)]


def measure(study: Study, arguments: argparse.Namespace) -> None:
    steps, processors = SMALL if arguments.small else STEPS, os.cpu_count() or 1
    study.notes["processors"] = processors
    found = {
        f"{how}, {size} processes": (size, ask(steps, size))
        for size in COUNTS
        for how, ask in (("MPI", by_mpi), ("Dask", by_dask))
    }
    for name, (call, _) in ROWS.items():
        whole, about = operands_of(name, steps), {"dtype": "float64", "steps": steps}
        one = {f"one process, {count} threads": threads(count, call, *whole) for count in (1, processors)}
        times = study.compare(name, one, REPETITIONS, **about)
        graphs = {size: digests_of_graph(name, steps, size) for size in COUNTS}
        for candidate, (size, answers) in found.items():
            seconds, digests = zip(*answers[name], strict=True)
            assert [*digests] == graphs[size], f"{name}, {candidate}: other bits than the graph"
            ranks = of_slowest(seconds)
            study.add(name, candidate, ranks, **about)
            first = times["one process, 1 threads"]
            text = f"{name}: one process on one thread, over {candidate}"
            study.notes[text] = f"{first.median / ranks.median:.2f}"


OPTIONS: Options = {
    "--small": {"action": "store_true", "help": "sizes that tests can bear"},
    "--rank": {"action": "store_true", "help": argparse.SUPPRESS},
    "--steps": {"type": int, "help": argparse.SUPPRESS},
}

if __name__ == "__main__":
    command = Command("ranks", __doc__, measure, options=OPTIONS)
    given = command.parser.parse_args()
    if given.rank:
        print_as_rank(given.steps)
    else:
        command.main()
