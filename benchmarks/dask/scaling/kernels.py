"""Seconds without Dask: the phases of a solve on the busiest worker, and one call of one worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dask.task_spec import GraphNode
from dask.utils import key_split
from distributed import Client

from ...harness.clock import Times
from .cases import CASES
from .cluster import fill, free, times_here

SMALL = "propagate"
"""The only phase whose results are the same few bytes for all workers."""


def kernels(client: Client, kind: str, solve: Callable[[], Any]) -> float:
    """Run the tasks of all workers at once, each worker's in turn; the longest time.

    The tasks are those of the graph of the lazy result that `solve` builds from operands that the
    workers hold, whatever the recurrence; what propagates is computed before.
    """
    lazy = solve().dask
    graph = dict(lazy)
    entries = [key for key in graph if key_split(key) == SMALL]
    known = dict(zip(entries, client.get(lazy, entries), strict=True))
    found = client.run(_clock, kind, _by_worker(client, graph), known)
    return float(max(found.values()))


def _by_worker(client: Client, graph: Mapping[Any, Any]) -> dict[str, list[GraphNode]]:
    """Tasks of each worker, which holds the first of their blocks, in the order of the graph."""
    where, found = client.who_has(), dict[str, list[GraphNode]]()
    homes = {key: where[key][0] for key, task in graph.items() if not isinstance(task, GraphNode)}
    waiting = [task for task in graph.values() if isinstance(task, GraphNode)]
    waiting = [task for task in waiting if key_split(task.key) != SMALL]
    while waiting:
        late = []
        for task in waiting:
            home = next((homes[key] for key in sorted(task.dependencies, key=str) if key in homes), None)
            if home is None:
                late.append(task)
                continue
            homes[task.key] = home
            found.setdefault(home, []).append(task)
        if len(late) == len(waiting):
            raise ValueError(f"these tasks lie on no worker: {[task.key for task in late]}")
        waiting = late
    return found


def _clock(kind: str, tasks: Any, known: dict[Any, Any], dask_worker: Any) -> float:
    own = tasks.get(dask_worker.address, [])
    held = {key for task in own for key in task.dependencies if key in dask_worker.data}
    values = known | {key: dask_worker.data[key] for key in held}
    asked = {key for task in own for key in task.dependencies}
    return times_here(kind, lambda: _run(own, dict(values), asked), 3).median


def _run(tasks: list[GraphNode], values: dict[Any, Any], asked: set[Any]) -> None:
    """Run tasks one by one; drop results that no task of this worker takes."""
    for task in tasks:
        result = task({key: values[key] for key in task.dependencies})
        if task.key in asked:
            values[task.key] = result


def one_call(client: Client, kind: str, address: str, name: str, rows: int, steps: int) -> Times:
    """Times of one call of a case on one worker, over an array that no cluster knows.

    `steps` are those of all rows together.
    """
    given = kind, name, (rows, steps // rows) if rows > 1 else (steps,)
    (found,) = client.run(_clock_call, *given, workers=[address]).values()
    return found


def _clock_call(kind: str, name: str, shape: tuple[int, ...]) -> Times:
    operands = [fill(kind, (seed,), shape, low, -low) for seed, low in enumerate((-0.5, -1.0))]
    # A worker process has one thread.
    given = os.environ.get("MGREC_NUM_THREADS")
    os.environ["MGREC_NUM_THREADS"] = "1"
    try:
        return times_here(kind, partial(CASES[name].solve, *operands), 3)
    finally:
        del operands
        free(kind)
        if given is None:
            del os.environ["MGREC_NUM_THREADS"]
        else:
            os.environ["MGREC_NUM_THREADS"] = given
