"""One exchange of messages between the GPUs of a group, in the order of their streams."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

import cupy
import numpy as np
from cupyx import empty_pinned

from ...core.contract.kernels import HEADER, CacheMiss
from .group import GUESS, Group


@lru_cache(maxsize=256)
def digest_of(options: Any) -> int:
    """Return a number that is the same on ranks with the same options."""
    return int.from_bytes(blake2b(repr(options).encode(), digest_size=7).digest(), "little")


class _Memory:
    """The messages, the status and the event of calls on one stream, which follow each other."""

    def __init__(self, group: Group) -> None:
        self.sent = cupy.zeros(group.frame, np.uint8)
        self.received = cupy.empty((group.size, group.frame), np.uint8)
        self.status, self.event = empty_pinned(1, np.int64), cupy.cuda.Event(disable_timing=True)
        self.addresses = self.sent.data.ptr, self.received.data.ptr, self.status.ctypes.data
        self.header = empty_pinned(HEADER // 8, np.int64)
        self.on_host = empty_pinned((group.size, group.frame), np.uint8)


class DeviceExchange:
    """See :class:`mgrec.core.contract.kernels.RankExchange`.

    It waits before the next call begins, so that calls on a stream share their memory.
    """

    def __init__(self, group: Group, digest: int) -> None:
        self.rank, self.size, self.stride, self.digest = group.rank, group.size, group.frame, digest
        self._group, stream = group, cupy.cuda.get_current_stream().ptr
        key = DeviceExchange, stream, cupy.cuda.runtime.getDevice()
        memory = group.prepared.get(key)
        if memory is None:
            memory = group.prepared[key] = _Memory(group)
        self._memory = memory
        self.message, self._messages, self.status = memory.addresses
        memory.status[0] = 0

    def gather(self) -> int:
        self._group.all_gather_into(self._memory.received, self._memory.sent)
        return int(self._messages)

    def mark(self) -> None:
        self._memory.event.record()

    def wait(self) -> None:
        self._group.wait_for(self._memory.event)
        if self._memory.status[0] != 1:
            raise CacheMiss

    def fetch(self) -> list[np.ndarray]:
        memory = self._memory
        memory.header[:] = 0
        memory.header[:2] = GUESS, self.digest
        memory.sent[:HEADER].view(np.int64).set(memory.header)
        self.gather()
        memory.received.get(out=memory.on_host, blocking=False)
        self.mark()
        self._group.wait_for(memory.event)
        headers = memory.on_host[:, :16].copy().view(np.int64)
        if (headers != [GUESS, self.digest]).any():
            raise CacheMiss
        return [message[HEADER:] for message in memory.on_host]
