"""A plugin of the scheduler that keeps operands where they are."""

from __future__ import annotations

from typing import Any

from distributed import Client, default_client
from distributed.diagnostics.plugin import SchedulerPlugin


class PinOperands(SchedulerPlugin):  # type: ignore[misc]
    """Run the phases of a chunk on the worker that holds its pack, and nowhere else.

    Left alone, the scheduler weighs moving a chunk against waiting for its worker; when all
    determinations of a group become ready at once it moves some, 1 to 3 of 24 chunks of 4 MB
    on two workers.
    """

    name = "mgrec-pin-operands"

    def start(self, scheduler: Any) -> None:
        """Remember the scheduler."""
        self.scheduler = scheduler

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Pin what follows from a pack as soon as the pack is in memory."""
        if finish == "memory" and isinstance(key, tuple) and str(key[0]).startswith("pack-"):
            self._pin(self.scheduler.tasks[key])

    def _pin(self, pack: Any) -> list[Any]:
        holders = {worker.address for worker in pack.who_has or ()}
        followers = [task.key for task in pack.dependents]
        self.scheduler.set_restrictions(dict.fromkeys(followers, holders or None))
        return followers

    def remove_worker(
        self, scheduler: Any, worker: str, *, stimulus_id: str, **kwargs: Any
    ) -> None:
        """Pin the followers of what survives elsewhere to where it is, and let them run."""
        stranded = [
            task for task in scheduler.tasks.values() if task.worker_restrictions == {worker}
        ]
        packs = {
            pack
            for task in stranded
            for pack in task.dependencies
            if str(pack.key[0]).startswith("pack-")
        }
        followers = {key for pack in packs for key in self._pin(pack)}
        waiting = {key for key in followers if scheduler.tasks[key].state == "no-worker"}
        scheduler.transitions(dict.fromkeys(waiting, "processing"), stimulus_id=stimulus_id)


def pin_operands(client: Client | None = None) -> None:
    """Make a cluster run every phase where its chunk's operands are.

    Without it nearly all run there; the scheduler moves a chunk when its worker is busy and
    another one is idle. Moving a chunk costs more than solving it, unless the network is
    faster than the memory.

    Parameters
    ----------
    client : distributed.Client, optional
        The default client when not given. Its scheduler must have mgrec installed.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    ...     mgrec.dask.pin_operands(client)
    ...     float(mgrec.linear_recurrence(0.5, da.ones(1000, chunks=100))[-1].compute())
    2.0
    """
    (client or default_client()).register_plugin(PinOperands())
