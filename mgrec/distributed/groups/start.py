"""How workers of Dask become ranks: of programs, and of plans on GPUs."""

from __future__ import annotations

from typing import Any

from ..comms import call_on_loop
from .dask import DaskGroup
from .mailbox import GroupsPlugin


def start_group(
    plugin: GroupsPlugin, name: str, rank: int, addresses: list[str], timeout: float, owner: str
) -> Any:
    """Return the group of a rank that starts here; raise the error of one that has ended.

    If each rank has a GPU, NCCL exchanges arrays and messages, for one `owner` at a time; "" for none.
    """
    group = DaskGroup(plugin, name, rank, addresses, timeout)
    call_on_loop(plugin.loop, plugin.add, name, group)
    if not owner or group.size == 1:
        return group
    try:
        from .dask_gpus import connect
    except ImportError:  # CuPy without NCCL
        return group
    try:
        return connect(group, owner) or group
    except BaseException as error:
        group.abort(error)
        raise
