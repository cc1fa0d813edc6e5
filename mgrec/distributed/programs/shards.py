"""What the programs over shards share.

A shard is the part of a solve that one rank of a group, or one worker of a plan, computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ...core.contract.recurrence import ChunkIndex, ChunkPosition

Owner = TypeVar("Owner", bound=Hashable)
"""The address of a worker, or the number of a shard."""


@dataclass(frozen=True)
class Shard:
    """The chunks that one shard computes.

    `chunks`: tuple of (chunk index, starts).
    """

    number: int
    chunks: tuple[ChunkPosition, ...]


@dataclass(frozen=True)
class SendingShard(Shard):
    """Chunks of which other shards need something.

    `receivers`: dict, number of a shard -> what it needs of this one.
    `senders`: the shards of which this one needs something.
    """

    receivers: Mapping[int, tuple[Any, ...]]
    senders: tuple[int, ...]


class Exchange(Protocol):
    """The messages of one shard in one solve, to and from the shards of these numbers."""

    def send(self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()) -> None:
        """Send a message. Do not write to `arrays` afterwards."""

    def flush(self) -> None:
        """Let messages leave now that wait for others."""

    def has(self, sender: int, name: Hashable) -> bool:
        """Return whether a message has arrived."""

    def take(self, sender: int, name: Hashable) -> tuple[Any, list[np.ndarray]]:
        """Return the content and the arrays of a message, once; wait for it."""

    def wait(self, wait: Callable[[], Any]) -> Any:
        """Return what a function returns that waits for the device."""


@dataclass(frozen=True)
class Threads:
    """Threads for the chunks of a shard: a pool, or without one the thread of the caller."""

    count: int = 1
    pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
        """Call a function of each value on all threads."""
        return self.map_lists(lambda part: list(map(function, part)), list(values))

    def map_lists(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of a list of values on all threads, each with a part of the list."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


class Turns:
    """Programs of several threads, one of which runs at a time: the first that does not wait.

    `launcher`, threading.Thread: the thread that launches exchanges between GPUs. No program may
      run on it: the program would wait for messages of other shards, whose GPUs may wait for the
      next exchange.
    """

    launcher: threading.Thread | None = None

    def __init__(self) -> None:
        self._changed, self._ready = threading.Condition(), set[int]()
        self._is_running = False

    def announce(self, number: int) -> None:
        """Let a program run before those of larger numbers, though its thread has not started."""
        with self._changed:
            self._ready.add(number)

    def take(self, number: int) -> None:
        """Wait until the program with this number may run; raise RuntimeError on `launcher`."""
        if threading.current_thread() is self.launcher:
            raise RuntimeError(
                f"solve {number} must not wait for other workers on the thread that launches exchanges "
                f"between GPUs: their GPUs may wait for the exchange of a later solve, for ever"
            )
        with self._changed:
            self._ready.add(number)
            self._changed.wait_for(lambda: not self._is_running and number == min(self._ready))
            self._ready.remove(number)
            self._is_running = True

    def release(self) -> None:
        """Let other programs run."""
        with self._changed:
            self._is_running = False
            self._changed.notify_all()


def chunks_by_owner(owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, list[ChunkIndex]]:
    """Return the chunks of each owner."""
    chunks: dict[Owner, list[ChunkIndex]] = {}
    for chunk_index, owner in owners.items():
        chunks.setdefault(owner, []).append(chunk_index)
    return chunks
