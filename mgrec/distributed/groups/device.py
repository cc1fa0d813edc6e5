"""One exchange of messages between the GPUs of a group, in the order of their streams.

A rank has one shard or several, and sends the messages of all together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import cupy
import numpy as np
from cupyx import empty_pinned

from ...core.contract.kernels import HEADER, CacheMiss, ShardMessages, ShardSteps
from .group import GUESS, Group


@lru_cache(maxsize=256)
def digest_of(options: Any) -> int:
    """Return a number that is the same on ranks with the same options."""
    return int.from_bytes(blake2b(repr(options).encode(), digest_size=7).digest(), "little")


class _Memory:
    """The messages, the status and the event of calls on one stream, which follow each other."""

    def __init__(self, group: Group, shards: int, message_bytes: int) -> None:
        self.stride = max(group.frame // shards // HEADER, -(-message_bytes // HEADER)) * HEADER
        frame = shards * self.stride
        self.sent = cupy.zeros(frame, np.uint8)
        self.received = cupy.empty((group.size, frame), np.uint8)
        self.status, self.event = empty_pinned(1, np.int64), cupy.cuda.Event(disable_timing=True)
        self.header = empty_pinned(HEADER // 8, np.int64)
        # The digest of the last call, and the shards for which the host has written a header.
        self.digest, self.headers = 0, set[int]()
        self.agreement = _Agreement(group) if message_bytes else None


class _Agreement:
    """The first messages of ranks that are about to send long ones, while the kernels of these run."""

    def __init__(self, group: Group) -> None:
        self._stream, self._event = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event(disable_timing=True)
        self._digest, self._header = 0, empty_pinned(2, np.int64)
        with self._stream:
            self._sent = cupy.zeros(group.frame // 8, np.int64)
            self._received = cupy.empty((group.size, group.frame // 8), np.int64)
        self._headers = empty_pinned(self._received.shape, np.int64)

    def check(self, group: Group, digest: int) -> None:
        """Raise CacheMiss, on all ranks, unless all send one for the same problem."""
        with self._stream:
            if digest != self._digest:
                self._digest, self._header[:] = digest, (GUESS, digest)
                self._sent[:2].set(self._header)
            group.all_gather_into(self._received, self._sent)
            self._received.get(out=self._headers, blocking=False)
            self._event.record()
        group.wait_for(self._event)
        if not (self._headers[:, :2] == self._header).all():
            raise CacheMiss


class DeviceMessages:
    """See :class:`mgrec.core.contract.kernels.ShardMessages`.

    The status is read before another call has the memory.
    """

    def __init__(self, group: Group, digest: int, memory: _Memory, shard: int, shards: int) -> None:
        self.rank, self.size = group.rank * shards + shard, group.size * shards
        self.digest, self.stride, self._group, self._memory = digest, memory.stride, group, memory
        self._shard = shard
        self.message = memory.sent.data.ptr + shard * memory.stride
        self.status = memory.status.ctypes.data
        self.received = memory.received.data.ptr, self.stride, self.rank, self.size, digest

    def mark(self) -> None:
        self._memory.event.record()

    def wait(self) -> None:
        self._group.wait_for(self._memory.event)
        if self._memory.status[0] != 1:
            raise CacheMiss

    def write_header(self) -> None:
        memory = self._memory
        if self._shard in memory.headers:
            return
        memory.headers.add(self._shard)
        memory.header[:] = 0
        memory.header[:2] = GUESS, self.digest
        start = self.message - memory.sent.data.ptr
        memory.sent[start : start + HEADER].view(np.int64).set(memory.header)


def start_shards(
    group: Group,
    digest: int,
    shards: Sequence[Callable[[ShardMessages], ShardSteps]],
    sends_always: bool = False,
    slot: int = 0,
    message_bytes: int = 0,
) -> Callable[[], list[Any]]:
    """Launch the shards of this rank, as many as each rank has, with one exchange on the device.

    A rank that raises an error before the exchange sends no message, or with `sends_always` one
    that does not suffice.

    `slot`: which memory a call has: it differs in calls of which one starts before the other ends.
    `message_bytes`: of the message of a shard, the same on all ranks with this digest.

    The returned function waits, and returns what the shards return. It raises CacheMiss, on all
    ranks, if the messages do not suffice.
    """
    count, stream = len(shards), cupy.cuda.get_current_stream().ptr
    is_long = message_bytes > group.frame // count // HEADER * HEADER
    size = message_bytes if is_long else 0
    key = start_shards, count, slot, stream, cupy.cuda.runtime.getDevice(), size
    memory: _Memory | None = group.prepared.get(key)
    if memory is None:
        memory = group.prepared[key] = _Memory(group, count, size)
    memory.status[0] = 0
    if memory.digest != digest:
        memory.digest = digest
        memory.headers.clear()
    steps = list[ShardSteps]()
    try:
        for number, start in enumerate(shards):
            steps.append(start(DeviceMessages(group, digest, memory, number, count)))
            next(steps[-1])
    except BaseException:
        if sends_always:
            memory.sent[:], memory.digest = 0, 0
            group.all_gather_into(memory.received, memory.sent)
        raise
    if memory.agreement is not None:
        memory.agreement.check(group, digest)
    group.all_gather_into(memory.received, memory.sent)
    for step in steps:
        next(step)
    return lambda: [_result_of(step) for step in steps]


def sum_on_device(group: Group, values: Any) -> Any:
    """Return the sum of the arrays of all ranks, in their order, without a wait of the host.

    A rank that raises an error in place of its array sends the error in its next message.
    """
    sent = cupy.zeros(group.frame, np.uint8)
    sent[:8].view(np.int64)[:] = GUESS
    stop = HEADER + values.nbytes
    sent[HEADER:stop] = cupy.ascontiguousarray(values).reshape(-1).view(np.uint8)
    received = cupy.empty((group.size, group.frame), np.uint8)
    group.all_gather_into(received, sent)
    arrays = [row[HEADER:stop].view(values.dtype).reshape(values.shape) for row in received]
    return sum(arrays[1:], arrays[0])


def _result_of(steps: ShardSteps) -> Any:
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError("a shard has two steps before its last one")
