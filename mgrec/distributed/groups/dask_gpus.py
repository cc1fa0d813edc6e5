"""Communicators of NCCL between workers of Dask, for one group of them after another."""

from __future__ import annotations

import pickle
import platform
import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from .nccl import INTERVAL, NCCLGroup, bus_id, same_device, unique_id

Workers = tuple[str, tuple[str, ...]]
"""The address of a worker, and those of all workers of a group, by rank."""

_lock = threading.Lock()
_free: dict[Workers, dict[str, NCCLGroup]] = {}
_names: WeakKeyDictionary[NCCLGroup, str] = WeakKeyDictionary()
"""The name of each communicator, which is that of its first group: the same on all ranks."""


def connect(group: Any) -> NCCLGroup | None:
    """Return a group of NCCL for the ranks of a group, or None.

    None if a GPU has several ranks, or without NCCL, or if connections must be encrypted.

    Parameters
    ----------
    group : DaskGroup
    """
    workers, free = _take(group)
    first = unique_id() if group.rank == 0 else None
    message = pickle.dumps((_device_of(group), [*free], first))
    try:
        answers = [pickle.loads(answer) for answer in group.all_gather_bytes(message)]
    except BaseException:
        _end(free.values())
        raise
    devices = [device for device, _, _ in answers]
    common = set.intersection(*({*names} for _, names, _ in answers))
    # Another rank has ended the others, with an error.
    _end(free.pop(name) for name in free.keys() - common)
    if None in devices or len({*devices}) < group.size:
        _give_back(workers, free)
        return None
    name = min(common, default=group.name)
    gpus = free.pop(name, None)
    _give_back(workers, free)
    if gpus is None:
        gpus = _start(group, answers[0][2])
    gpus.check = lambda waited: group.check_ranks()
    _names[gpus] = name
    return gpus


def release(group: Any, gpus: NCCLGroup) -> None:
    """Keep the communicator of a group that has ended without an error."""
    _give_back((group.addresses[group.rank], tuple(group.addresses)), {_names[gpus]: gpus})


def _device_of(group: Any) -> tuple[str, str] | None:
    """Return the host and the GPU of this rank; None if NCCL must not or cannot connect them."""
    if unique_id() is None or group.plugin.worker.security.require_encryption:
        return None
    return platform.node(), bus_id()


def _take(group: Any) -> tuple[Workers, dict[str, NCCLGroup]]:
    """Return the free communicators of these workers by name; end those with other workers."""
    workers = group.addresses[group.rank], tuple(group.addresses)
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


def _start(group: Any, first: Any) -> NCCLGroup:
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
