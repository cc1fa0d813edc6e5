"""What the programs over shards share.

A shard is the part of a solve that one rank of a group, or one worker of a plan, computes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ...core.contract.recurrence import ChunkIndex

Owner = TypeVar("Owner", bound=Hashable)
"""The address of a worker, or the number of a shard."""


class Exchange(Protocol):
    """The messages of one shard in one solve, to and from the shards of these numbers."""

    def send(
        self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()
    ) -> None:
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
    pool: Executor | None = None

    def map(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of a list of values on all threads, each with a part of the list."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


def chunks_by_owner(owners: Mapping[ChunkIndex, Owner]) -> dict[Owner, list[ChunkIndex]]:
    """Return the chunks of each owner."""
    chunks: dict[Owner, list[ChunkIndex]] = {}
    for chunk_index, owner in owners.items():
        chunks.setdefault(owner, []).append(chunk_index)
    return chunks
