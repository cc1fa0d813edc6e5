"""Place operands and their phases on workers, and persist results in stages."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import dask.array.core as da
import numpy as np
from dask import annotate
from dask.base import optimize, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, Scheduler, wait
from distributed.diagnostics.plugin import SchedulerPlugin

from ..core.arrays.chunk import has_unknown_sizes
from ..core.arrays.validation import as_axis, as_integer
from .arguments import check_dask_array, client_of
from .expressions import accepts_expressions
from .graph.packed import is_persisted
from .observability import phase_of


@accepts_expressions
def colocate(*arrays: da.Array, client: Client | None = None) -> tuple[da.Array, ...]:
    """Persist arrays so that chunks that belong together are on the same worker.

    Operands that were persisted one by one are wherever they were computed, and every solve
    moves about half of their bytes. `colocate` moves them once.

    Parameters
    ----------
    *arrays : dask.array.Array
        Arrays of the same shape, persisted or not. The last one stays where it is, or is persisted
        first; the others are rechunked like it and moved to it, chunk by chunk.
    client : distributed.Client, optional
        Default: the default client.

    Returns
    -------
    tuple of dask.array.Array
        The same arrays, in the memory of the workers.

    Raises
    ------
    TypeError
        There is no array, or one is not a Dask array.
    ValueError
        The shapes differ or are unknown.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     s, t = mgrec.dask.colocate(0.5 * da.ones(1000, chunks=100), da.ones(1000, chunks=100))
    ...     float(mgrec.linear_recurrence(s, t)[-1].compute())
    2.0
    """
    if not arrays:
        raise TypeError("colocate must be given arrays; got none")
    for number, array in enumerate(arrays):
        check_dask_array(f"array {number}", array)
    client = client_of(client)
    shapes = {array.shape for array in arrays}
    if has_unknown_sizes(shapes):
        raise ValueError("colocate needs the sizes of all chunks: call compute_chunk_sizes() on the arrays")
    if len(shapes) > 1:
        raise ValueError(f"arrays must have the same shape; got {sorted(shapes)}")
    last = client.persist(arrays[-1])
    wait(last)
    where = {key[1:]: workers for key, workers in client.who_has(last).items()}
    others = []
    for array in (other.rechunk(last.chunks) for other in arrays[:-1]):
        with annotate(workers=lambda key: list(where[key[1:]]), allow_other_workers=True):
            # Idle workers never steal tasks of this name; they steal others despite `workers`.
            name = f"rechunk-split-{tokenize('colocate', array, last)}"
            moved = array.map_blocks(_identity, name=name, meta=array._meta)
        # Fusion would drop the annotations.
        others.append(client.persist(moved, optimize_graph=False))
    return (*others, last)


def _identity(block: Any) -> Any:
    return block


def persisted(client: Client, array: da.Array) -> da.Array:
    """Return an array in the memory of the workers, which may still compute it."""
    return array if is_persisted(array) else client.persist(array)


def wait_for(client: Client, futures: list[Future]) -> None:
    """Wait for operands; raise the error of one that failed."""
    with client.as_current():
        wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()


class PinOperands(SchedulerPlugin):  # type: ignore[misc]
    """Runs the phases of a chunk on the worker that stores its operands, and nowhere else.

    By default the scheduler weighs moving a chunk against waiting for its worker. When all
    determinations of a group become ready at once it moves some: 1 to 3 of 24 chunks of 4 MB on
    two workers.
    """

    name = "mgrec-pin-operands"

    def start(self, scheduler: Scheduler) -> None:
        """Keep a reference to the scheduler."""
        self.scheduler = scheduler

    def update_graph(self, scheduler: Scheduler, *, tasks: list[Any], **kwargs: Any) -> None:
        """Pin the phases of chunks whose operands are in memory already."""
        for key in tasks:
            self._pin(scheduler.tasks[key])

    def transition(self, key: Hashable, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Pin the phases that read operands as soon as these are in memory."""
        if finish == "memory" and phase_of(key) not in _SMALL:
            for follower in self.scheduler.tasks[key].dependents:
                self._pin(follower)

    def _pin(self, task: Any) -> None:
        """Pin a phase to the worker that stores most of its operands, once all are in memory."""
        if phase_of(task.key) not in ("precompute", "determine"):
            return
        operands = [operand for operand in task.dependencies if phase_of(operand.key) not in _SMALL]
        if operands and all(operand.who_has for operand in operands):
            sizes: dict[str, int] = {}
            for operand in operands:
                for worker in operand.who_has:
                    sizes[worker.address] = sizes.get(worker.address, 0) + operand.nbytes
            # Among equals the same worker for all phases of a chunk.
            best = max(sorted(sizes), key=sizes.__getitem__)
            self.scheduler.set_restrictions({task.key: {best}})

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **kwargs: Any) -> None:
        """Pin the tasks of a lost worker to where their operands survive, or nowhere."""
        stranded = [task for task in scheduler.tasks.values() if task.worker_restrictions == {worker}]
        for task in stranded:
            scheduler.set_restrictions({task.key: None})
            self._pin(task)
        waiting = {task.key for task in stranded if task.state == "no-worker"}
        scheduler.transitions(dict.fromkeys(waiting, "processing"), stimulus_id=stimulus_id)


_SMALL = ("precompute", "propagate")
"""Phases whose results are a few scalars a chunk."""


def pin_operands(client: Client | None = None) -> None:
    """Make a cluster run every phase of a chunk on the worker that stores its operands.

    Nearly all phases run there anyway, but the scheduler moves a chunk when its worker is busy
    and another one is idle. Moving a chunk costs more than solving it, unless the network is
    faster than the memory.

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the default client. Its scheduler must have mgrec installed.

    Raises
    ------
    TypeError
        `client` is not a Client.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    ...     mgrec.dask.pin_operands(client)
    ...     float(mgrec.linear_recurrence(0.5, da.ones(1000, chunks=100))[-1].compute())
    2.0
    """
    client_of(client).register_plugin(PinOperands())


@accepts_expressions
def persist_in_stages(
    array: da.Array, axis: int = -1, chunks: int = 1000, client: Client | None = None
) -> da.Array:
    """Persist the result of a recurrence over very many chunks, stage by stage.

    Dask orders a whole graph before it computes anything. For any recurrence this takes time that
    grows with the square of the chunks: minutes for 20,000. In stages of 1,000 chunks it takes
    seconds, and the workers compute one stage while the next is ordered.

    Parameters
    ----------
    array : dask.array.Array
        The result of a recurrence, or of chunk-wise functions of it.
    axis : int, optional
        The axis of the recurrence.
    chunks : int, optional
        Chunks along the axis in one stage.
    client : distributed.Client, optional
        Default: the default client.

    Returns
    -------
    dask.array.Array
        The same array, computing or in the memory of the workers.

    Raises
    ------
    TypeError
        `array` is not a Dask array, or `axis` or `chunks` is not an integer.
    ValueError
        `axis` is out of range, or `chunks` is below 1.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     w = mgrec.linear_recurrence(1.0, da.ones(300, chunks=1))
    ...     float(mgrec.dask.persist_in_stages(w, chunks=100)[-1].compute())
    300.0
    """
    check_dask_array("array", array)
    axis, chunks = as_axis(axis, array.shape), as_integer("chunks", chunks)
    if chunks < 1:
        raise ValueError(f"chunks must be at least 1; got {chunks}")
    client = client_of(client)
    # An optimized graph lacks the futures of persisted operands.
    persisted = {k: v for k, v in dict(array.__dask_graph__()).items() if isinstance(v, Future)}
    graph = persisted | dict(optimize(array)[0].__dask_graph__())
    keys = list(flatten(array.__dask_keys__()))
    numbers = np.moveaxis(np.arange(len(keys)).reshape(array.numblocks), axis, 0)
    numbers = numbers.reshape(len(numbers), -1)
    first, last = (len(_needed(graph, [keys[numbers[k, 0]]])) for k in (0, -1))
    if last < first:
        numbers = numbers[::-1]  # the recurrence runs from the end
    futures: dict[Any, Future] = {}
    for left in range(0, len(numbers), chunks):
        wanted = [keys[k] for k in numbers[left : left + chunks].ravel()]
        stage = _needed(graph, wanted)
        # The next stage starts from these.
        links = [key for key in stage if phase_of(key) == "propagate" and key not in futures]
        computing = client.get(stage, [*wanted, *links], sync=False)
        for key, future in zip((*wanted, *links), computing, strict=True):
            graph[key] = futures[key] = future
    layer = {key: futures[key] for key in keys}
    return da.Array(
        HighLevelGraph({array.name: layer}, {array.name: set()}), array.name, array.chunks, meta=array._meta
    )


def _needed(graph: dict[Any, Any], wanted: list[Any]) -> dict[Any, Any]:
    """Return the tasks on which keys depend, down to the futures of earlier stages."""
    tasks: dict[Any, Any] = {}
    queue = list(wanted)
    while queue:
        key = queue.pop()
        if key not in tasks:
            tasks[key] = graph[key]
            queue += getattr(graph[key], "dependencies", ())
    return tasks
