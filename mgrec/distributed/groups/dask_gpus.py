"""Communicators of NCCL between workers of Dask, for one group of them after another."""

from __future__ import annotations

import pickle
import platform
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .dask import DaskGroup
from .group import DEVICE_FRAME, Group
from .nccl import INTERVAL, NCCLGroup, bus_id, same_device, unique_id

Workers = tuple[str, tuple[str, ...]]
"""The address of a worker, and those of all workers of a group, by rank."""

_lock = threading.Lock()
_free: dict[Workers, dict[str, NCCLGroup]] = {}
"""Communicators without a group, by name: that of their first group, the same on all ranks."""


class DaskGPUGroup(Group):
    """Workers of Dask with a rank and a GPU each, between which NCCL exchanges arrays and messages.

    `host`: the same ranks, which exchange errors and wait for each other's return by Dask's comms.
    `owner`: whose :class:`ExchangeRight` the group uses.
    """

    frame, is_asynchronous = DEVICE_FRAME, True

    def __init__(self, host: DaskGroup, gpus: NCCLGroup, owner: str) -> None:
        self.host, self.gpus, self.rank, self.size = host, gpus, host.rank, host.size
        self.store, self._owner, self._is_kept = host.store, owner, False
        self.check_with(lambda: None)

    def all_gather(self, array: Any) -> Any:
        return self.gpus.all_gather(array)

    def all_gather_into(self, received: Any, sent: Any) -> None:
        self.gpus.all_gather_into(received, sent)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        return self.gpus.exchange(to_left, to_right)

    def wait_for(self, event: Any) -> None:
        self.gpus.wait_for(event)

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Make the stream of the communicator the current one, and wait for it at the end."""
        with self.gpus.on_stream():
            yield
            event = self.gpus.new_event()
            event.record()
            self.wait_for(event)

    def check_with(self, check: Callable[[], None]) -> None:
        """While this rank waits for others, it checks them; `check` may raise what ends it, too."""

        def check_all(waited: float) -> None:
            check()
            self.host.check_ranks()

        self.gpus.check = check_all

    @property
    def has_ended(self) -> bool:
        return self.gpus.is_aborted or self.host.has_failed(0)

    def wait_for_return(self) -> None:
        """Wait until the functions of all ranks have returned; keep the communicator."""
        self.host.wait_for_return()
        self.retain()

    def retain(self) -> None:
        """Keep the communicator for other groups of these workers."""
        _give_back(_workers_of(self.host), {self.gpus.name: self.gpus})
        self._is_kept = True

    def abort(self, error: BaseException | None = None) -> None:
        if not self._is_kept:
            self.gpus.abort()
        self.host.abort(error)

    def close(self) -> None:
        self.host.plugin.right.release(self._owner)
        self.host.close()


def connect(group: DaskGroup, owner: str) -> DaskGPUGroup | None:
    """Return a group of the GPUs of a group's ranks, or None.

    None if a GPU has several ranks, or without NCCL, or if connections must be encrypted, or if
    another owner has the :class:`ExchangeRight` of a worker.
    """
    workers, free = _take(group)
    right = group.plugin.right
    had_right = right.is_of(owner)  # for other groups
    first = unique_id() if group.rank == 0 else None
    device = _device_of(group) if right.acquire(owner) else None
    message, gpus = pickle.dumps((device, [*free], first)), None
    try:
        answers = [pickle.loads(answer) for answer in group.all_gather_bytes(message)]
        devices = [device for device, _, _ in answers]
        common = set.intersection(*({*names} for _, names, _ in answers))
        # Another rank has ended the others, with an error.
        _end(free.pop(name) for name in free.keys() - common)
        if None not in devices and len({*devices}) == group.size:
            name = min(common, default=group.name)
            gpus = free.pop(name, None) or _start(group, answers[0][2])
            gpus.name = name
    except BaseException:
        _end(free.values())
        free.clear()
        raise
    finally:
        _give_back(workers, free)
        if gpus is None and not had_right:
            right.release(owner)
    return None if gpus is None else DaskGPUGroup(group, gpus, owner)


def _workers_of(group: DaskGroup) -> Workers:
    return group.addresses[group.rank], tuple(group.addresses)


def _device_of(group: DaskGroup) -> tuple[str, str] | None:
    """Return the host and the GPU of this rank; None if NCCL must not or cannot connect them."""
    if unique_id() is None or group.plugin.worker.security.require_encryption:
        return None
    return platform.node(), bus_id()


def _take(group: DaskGroup) -> tuple[Workers, dict[str, NCCLGroup]]:
    """Return the free communicators of these workers by name; end those with other workers."""
    workers = _workers_of(group)
    with _lock:
        others = [key for key in _free if key[0] == workers[0] and key != workers]
        ended = [gpus for key in others for gpus in _free.pop(key).values()]
        free = _free.pop(workers, {})
    _end(ended)
    return workers, free


def _end(communicators: Iterable[NCCLGroup]) -> None:
    for gpus in communicators:
        gpus.abort()


def _give_back(workers: Workers, communicators: dict[str, NCCLGroup]) -> None:
    if communicators:
        with _lock:
            _free.setdefault(workers, {}).update(communicators)


def _start(group: DaskGroup, first: Any) -> NCCLGroup:
    """Connect all ranks, on a thread, since a lost rank would keep it waiting for ever."""
    started, errors = list[NCCLGroup](), list[BaseException]()
    use_device = same_device()

    def start() -> None:
        try:
            use_device()
            started.append(NCCLGroup(first, group.rank, group.size, group.timeout))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=start, name="mgrec-nccl", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(INTERVAL)
        if thread.is_alive():
            group.check_ranks(are_connected=False)
    if errors:
        raise errors[0]
    return started[0]
