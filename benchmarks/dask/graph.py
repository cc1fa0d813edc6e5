"""The cost of a recurrence's graph: many small chunks on two worker processes.

Against ``dask.array.cumsum``, one map task a chunk, and the recurrence's own graph with every
task emptied, which is what Dask alone takes. *mgrec* is the whole of it: build, persist, wait.
Above 2,000 chunks mgrec persists in stages, and every candidate has a cluster of its own, once,
and a limit of time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.core import flatten
from dask.task_spec import Task, TaskRef
from distributed import Client, LocalCluster, wait

import mgrec
import mgrec.dask

from ..harness.clock import Call, Times
from ..harness.command import Command, Options
from ..harness.study import Study
from .tasks import nothing

# From this many chunks on mgrec advises stages, and a candidate may take minutes.
MANY, CHUNKS = 2000, [10, 100, 1000]


def operands(chunks: int, elements: int) -> tuple[da.Array, da.Array]:
    size = chunks * elements
    return da.zeros(size, chunks=elements) + 0.5, da.ones(size, chunks=elements)


def arrays(s: da.Array, t: da.Array) -> dict[str, Callable[[], da.Array]]:
    # Without its axis, cumsum by blelloch first rechunks to as many steps as there were chunks.
    return {
        "mgrec": lambda: mgrec.linear_recurrence(s, t),
        "one map task a chunk": lambda: da.map_blocks(np.multiply, s, t),
        "cumsum, sequential": lambda: da.cumsum(t, axis=0, method="sequential"),
        "cumsum, blelloch": lambda: da.cumsum(t, axis=0, method="blelloch"),
    }


def tasks_of(array: da.Array) -> dict[Any, Any]:
    return dict(dask.optimize(array)[0].__dask_graph__())


def emptied(array: da.Array, client: Client) -> Call:
    """The same graph, optimized, with tasks that do nothing."""
    graph = {
        key: Task(key, nothing, *map(TaskRef, sorted(task.dependencies, key=str)))
        for key, task in tasks_of(array).items()
    }
    keys = list(flatten(array.__dask_keys__()))
    return lambda: wait(client.get(graph, keys, sync=False))


def persisted(build: Callable[[], da.Array]) -> Call:
    return lambda: wait(build().persist())


def settled(client: Client) -> Call:
    """Wait until the cluster has forgotten what ran before."""

    def count(dask_scheduler: Any) -> int:
        return len(dask_scheduler.tasks)

    def settle() -> None:
        while client.run_on_scheduler(count):
            time.sleep(0.05)
        time.sleep(0.2)

    return settle


def cluster() -> LocalCluster:
    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)


def measure_few(study: Study, client: Client, chunks: int, elements: int) -> None:
    s, t = operands(chunks, elements)
    built = arrays(s, t)
    if chunks <= 100:
        wanted = mgrec.linear_recurrence(0.5, np.ones(chunks * elements))
        np.testing.assert_allclose(built["mgrec"]().compute(), wanted, 1e-12)
    calls = {name: persisted(build) for name, build in built.items()}
    case = f"{chunks:,} chunks of {elements:,}"
    count = len(tasks_of(built["mgrec"]())) / chunks
    study.notes[f"tasks a chunk, {case}"] = round(count, 3)
    about = {"settle": settled(client), "chunks": chunks, "elements": elements}
    quick = {
        "mgrec": calls.pop("mgrec"),
        "mgrec, empty tasks": emptied(built["mgrec"](), client),
        "one map task a chunk": calls.pop("one map task a chunk"),
    }
    times = study.compare(case, quick, 3 if chunks > 500 else 7, **about)
    study.compare(case, calls, 1 if chunks > 500 else 3, **about)
    if (chunks, elements) == (1000, 1):
        text = f"{case}: wall time over that of empty tasks"
        study.ratio(text, times["mgrec"], times["mgrec, empty tasks"], 1.3, is_least=False)
    study.bar(f"{case}: tasks a chunk, propagation apart", *[_without_groups(built)] * 2, 3, False)


def _without_groups(built: dict[str, Callable[[], da.Array]]) -> float:
    array = built["mgrec"]()
    keys = [key for key in tasks_of(array) if not str(key).startswith("('propagate-")]
    return len(keys) / array.npartitions


def run_alone(name: str, chunks: int, elements: int, answer: Any) -> None:
    """One candidate over very many chunks, on a cluster of its own."""
    warnings.simplefilter("ignore")
    with cluster() as own, Client(own) as client:
        few = arrays(*operands(10, elements))[name]
        wait(few().persist())
        build = arrays(*operands(chunks, elements))[name]
        settled(client)()
        answer.send("ready")
        start = time.perf_counter()
        array = build()
        array = mgrec.dask.persist_in_stages(array) if name == "mgrec" else array.persist()
        wait(array)
        answer.send(time.perf_counter() - start)
        if name == "mgrec":
            assert float(array[-1].compute()) == 2.0


def measure_many(study: Study, chunks: int, elements: int, limit: float) -> None:
    case = f"{chunks:,} chunks of {elements:,}"
    for name in arrays(*operands(1, 1)):
        context = multiprocessing.get_context("spawn")
        question, answer = context.Pipe(duplex=False)
        process = context.Process(target=run_alone, args=(name, chunks, elements, answer))
        process.start()
        answer.close()
        assert question.recv() == "ready"
        if question.poll(limit):
            seconds = Times((question.recv(),))
            process.join()
            assert process.exitcode == 0, f"{name} failed over {case}"
            staged = "mgrec, persist_in_stages" if name == "mgrec" else name
            study.add(case, staged, seconds, chunks=chunks, elements=elements)
        else:
            process.kill()
            process.join()
            study.notes[f"{case}, {name}"] = f"not finished in {limit:g} s"
            print(f"  {case:44} {name:30} not finished in {limit:g} s", flush=True)


def measure(study: Study, arguments: argparse.Namespace) -> None:
    if arguments.chunks != CHUNKS:
        study.name += "-" + "-".join(map(str, arguments.chunks))
    few = [chunks for chunks in arguments.chunks if chunks <= MANY]
    with cluster() as own, Client(own) as client:
        for elements, chunks in product(arguments.elements, few):
            measure_few(study, client, chunks, elements)
    many = sorted(set(arguments.chunks) - set(few))
    for elements, chunks in product(arguments.elements, many):
        measure_many(study, chunks, elements, arguments.limit)


OPTIONS: Options = {
    "--chunks": {"type": int, "nargs": "+", "default": CHUNKS},
    "--elements": {"type": int, "nargs": "+", "default": [1, 1000]},
    "--limit": {"type": float, "default": 60, "help": "seconds, above 2,000 chunks"},
}

if __name__ == "__main__":
    Command("graph", __doc__, measure, options=OPTIONS).main()
