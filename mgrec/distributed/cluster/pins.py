"""A plugin of the scheduler that keeps operands where they are."""

from __future__ import annotations

from typing import Any

from distributed import Client
from distributed.diagnostics.plugin import SchedulerPlugin

from ..tasks.keys import phase_of
from .door import client_of


class PinOperands(SchedulerPlugin):  # type: ignore[misc]
    """Run the phases of a chunk on the worker that holds its operands, and nowhere else.

    By itself the scheduler weighs moving a chunk against waiting for its worker. When all
    determinations of a group become ready at once it moves some: 1 to 3 of 24 chunks of 4 MB on
    two workers.
    """

    name = "mgrec-pin-operands"

    def start(self, scheduler: Any) -> None:
        """Remember the scheduler."""
        self.scheduler = scheduler

    def update_graph(self, scheduler: Any, *, tasks: list[Any], **kwargs: Any) -> None:
        """Pin the phases of chunks whose operands are in memory already."""
        for key in tasks:
            self._pin(scheduler.tasks[key])

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Pin what follows from operands as soon as they are in memory."""
        if finish == "memory" and phase_of(key) not in _SMALL:
            for follower in self.scheduler.tasks[key].dependents:
                self._pin(follower)

    def _pin(self, task: Any) -> None:
        """Pin a phase to the worker that holds most of its operands, once all are there."""
        if phase_of(task.key) not in ("precompute", "determine"):
            return
        operands = _operands(task)
        if operands and all(operand.who_has for operand in operands):
            held: dict[str, int] = {}
            for operand in operands:
                for worker in operand.who_has:
                    held[worker.address] = held.get(worker.address, 0) + operand.nbytes
            # Among equals the same worker for all phases of a chunk.
            best = max(sorted(held), key=held.__getitem__)
            self.scheduler.set_restrictions({task.key: {best}})

    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Pin its tasks to where their operands survive, or nowhere, and let them run."""
        stranded = [
            task for task in scheduler.tasks.values() if task.worker_restrictions == {worker}
        ]
        for task in stranded:
            scheduler.set_restrictions({task.key: None})
            self._pin(task)
        waiting = {task.key for task in stranded if task.state == "no-worker"}
        scheduler.transitions(dict.fromkeys(waiting, "processing"), stimulus_id=stimulus_id)


_SMALL = ("precompute", "propagate")
"""Phases whose results are a few scalars a chunk."""


def _operands(task: Any) -> list[Any]:
    return [each for each in task.dependencies if phase_of(each.key) not in _SMALL]


def pin_operands(client: Client | None = None) -> None:
    """Make a cluster run every phase where its chunk's operands are.

    Nearly all phases run there anyway, but the scheduler moves a chunk when its worker is busy
    and another one is idle. Moving a chunk costs more than solving it, unless the network is
    faster than the memory.

    Parameters
    ----------
    client : distributed.Client, optional
        The default client when not given. Its scheduler must have mgrec installed.

    Raises
    ------
    TypeError
        `client` is something else.

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
