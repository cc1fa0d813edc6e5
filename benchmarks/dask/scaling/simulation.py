"""The graph of very many chunks on a scheduler with simulated workers.

They answer every task at once and nothing crosses a network, so that what is left is what the
scheduler itself takes: the least a solve by graph can take, however many workers there are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from itertools import groupby
from typing import Any

from dask.task_spec import List, Task, TaskRef
from distributed import Scheduler, Status
from distributed.scheduler import ClientState, WorkerState

from mgrec.distributed.graph.chains import LARGEST_PERSISTED as GROUP
from mgrec.distributed.graph.packed import batch_size
from mgrec.distributed.placement import PinOperands

from ..tasks import nothing

# While durations are unknown, work stealing weighs all tasks again at each answer.
SPAN = ({"action": "compute", "start": 0.0, "stop": 0.01},)


class Answers:
    """A fake connection to a worker: keeps the tasks that it is sent."""

    def __init__(self, address: str, sent: deque[tuple[str, dict[str, Any]]]) -> None:
        self.address, self.sent = address, sent

    def send(self, *messages: dict[str, Any]) -> None:
        self.sent.extend((self.address, m) for m in messages if m["op"] == "compute-task")


def graph_of(chunks: int, workers: int) -> dict[Any, Task]:
    """The three phases over held chunks, in an order in which they can run."""
    tasks: dict[Any, Task] = {}
    before: list[Any] = []
    for group, first in enumerate(range(0, chunks, GROUP)):
        own = range(first, min(first + GROUP, chunks))
        runs = []
        for _, some in groupby(own, lambda k: k * workers // chunks):
            held = list(some)
            for left in range(0, len(held), batch_size(len(held))):
                key = ("precompute-x", held[left])
                blocks = [TaskRef(("block", k)) for k in held[left : left + batch_size(len(held))]]
                tasks[key] = Task(key, nothing, List(*blocks))
                runs.append(key)
        entry = ("propagate-x", group)
        tasks[entry] = Task(entry, nothing, List(*map(TaskRef, runs)), *before)
        before = [TaskRef(entry)]
        for k in own:
            key = ("determine-x", k)
            tasks[key] = Task(key, nothing, TaskRef(("block", k)), TaskRef(entry))
    return tasks


def simulate(chunks: int, workers: int = 64) -> dict[str, float]:
    """Seconds in which a scheduler receives the graph, and in which it runs it.

    The order of the tasks is given: ``dask.order`` takes time by the square of the chunks, which
    ``mgrec.dask.persist_in_stages`` avoids.
    """
    logging.getLogger("distributed").setLevel(logging.ERROR)
    return asyncio.run(_simulate(chunks, workers))


async def _simulate(chunks: int, workers: int) -> dict[str, float]:
    async with Scheduler(dashboard=False, port=0, validate=False) as scheduler:
        pins = PinOperands()
        pins.start(scheduler)
        scheduler.add_plugin(pins)
        sent: deque[tuple[str, dict[str, Any]]] = deque()
        addresses = [_join(scheduler, number, sent) for number in range(workers)]
        scheduler.clients["study"] = ClientState("study")
        held = {("block", k): [addresses[k * workers // chunks]] for k in range(chunks)}
        scheduler.update_data(who_has=held, nbytes=dict.fromkeys(held, 1 << 30), client="study")
        tasks = graph_of(chunks, workers)
        start = time.perf_counter()
        _submit(scheduler, tasks, {key for key in tasks if key[0] == "determine-x"})
        taken = time.perf_counter()
        apart = _run(scheduler, sent, held)
        end = time.perf_counter()
        states = {scheduler.tasks[key].state for key in tasks if key[0] == "determine-x"}
        assert states == {"memory"}, f"not all chunks were determined: {states}"
        for address in addresses:
            scheduler.workers.pop(address)
            scheduler.stream_comms.pop(address)
        about = {"chunks": chunks, "workers": workers, "tasks": len(tasks), "apart": apart}
        return {**about, "seconds_to_take": taken - start, "seconds_to_run": end - taken}


def _join(scheduler: Any, number: int, sent: deque[Any]) -> str:
    address = f"tcp://10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}:1"
    worker = WorkerState(
        address=address,
        status=Status.running,
        pid=0,
        name=number,
        nthreads=1,
        memory_limit=1 << 40,
        local_directory="",
        nanny=None,
        server_id=str(number),
        scheduler=scheduler,
    )
    scheduler.workers[address] = worker
    scheduler.running.add(worker)
    scheduler.total_nthreads += 1
    scheduler.stream_comms[address] = Answers(address, sent)
    scheduler.check_idle_saturated(worker)
    scheduler.extensions["stealing"].add_worker(worker=address)
    return address


def _submit(scheduler: Any, tasks: dict[Any, Task], keys: set[Any]) -> None:
    scheduler._create_taskstate_from_graph(
        dsk=tasks,
        client="study",
        keys=keys,
        start=time.time(),
        stimulus_id="study",
        ordered={key: number for number, key in enumerate(tasks)},
        submitting_task=None,
        span_metadata={"collections": []},
        annotations_by_type={},
        global_annotations=None,
    )


def _run(scheduler: Any, sent: deque[tuple[str, dict[str, Any]]], held: dict[Any, Any]) -> int:
    """Answer tasks until none is left; returns how many ran away from their chunk."""
    apart = 0
    while sent:
        address, message = sent.popleft()
        name, number = message["key"]
        apart += name == "determine-x" and held[("block", number)] != [address]
        scheduler.handle_task_finished(
            key=message["key"],
            worker=address,
            stimulus_id="study",
            run_id=message["run_id"],
            nbytes=1 << 10,
            type=b"",
            typename="ndarray",
            metadata={},
            startstops=SPAN,
        )
    return apart
