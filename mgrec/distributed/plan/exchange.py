"""Carries between the shards of a solve: what every exchange promises, and that by Dask's comms.

A *shard* is what one worker computes of a solve. Its program is a generator (``shards.py``,
``tiles.py``), which a worker steps on a thread of its pool and which calls an exchange:

- **One exchange a shard.** Along an axis a program calls `publish` once a solve, with the
  summaries of all its chunks, and `collect` once for those of the other shards. It may compute
  between the two. Over a grid it calls `send` for the edges of each tile that another shard needs,
  and `receive` for those that it needs, by the names of tiles.
- **One order.** The workers begin the solves of one client in the order of its requests, which is
  the same on all of them: each program runs up to its first `yield`, or its end, before the next
  one begins. Along an axis it has published then. So collectives of one client have one order on
  all ranks. While a program waits, others go on. Solves of different clients overlap: an exchange
  whose collectives must not has to order those of different clients itself.
- **No thread waits.** A program that needs a message yields its names; the worker resumes it on a
  thread when all have arrived. An exchange whose messages are ordered by a GPU's stream yields
  nothing, and returns arrays of the device. It may keep its connections between solves: all
  solves of a client, and all plans, share them.
- **The client detects failures.** A worker that cannot be reached is reported as soon as a
  message is sent. Everything else, timeouts included, the client detects: it abandons the solve,
  and the worker calls `abandon` from its event loop. This must return at once and free whatever
  waits, in kernels, too. The program is then closed where it stands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Mapping
from typing import Any, TypeVar

from distributed.protocol.pickle import dumps, loads

from ...core.contract.recurrence import ChunkIndex
from .messages import ChainShard

Result = TypeVar("Result")
Program = Generator[Collection[Hashable], None, Result]
"""Yields names of messages, and is resumed when all have arrived."""
Post = Callable[[str, Hashable, bytes], None]
"""Sends a message with a name to a worker, given by its address; on any thread."""


class Exchange(ABC):
    """The messages of one shard in one solve; see the module."""

    @abstractmethod
    def publish(self, shard: ChainShard, summaries: Mapping[ChunkIndex, Any]) -> None:
        """Start the exchange of summaries with those of a shard's chunks."""

    @abstractmethod
    def collect(self, shard: ChainShard) -> Program[dict[ChunkIndex, Any]]:
        """Return the summaries of other shards that a shard needs, by their chunks."""

    @abstractmethod
    def send(self, receiver: int, name: Hashable, edges: Any) -> None:
        """Send the edges of a tile to the shard with a number."""

    @abstractmethod
    def has(self, name: Hashable) -> bool:
        """Whether a message has arrived."""

    @abstractmethod
    def receive(self, name: Hashable) -> Program[Any]:
        """Return the edges of a tile; they are returned once."""

    def abandon(self) -> None:  # noqa: B027
        """Free what waits outside of the program, such as kernels."""


class CommExchange(Exchange):
    """Messages from worker to worker by Dask's comms, for arrays in host memory.

    Parameters
    ----------
    addresses : dict, number of a shard -> address of its worker
    post : callable
    arrived : dict, name -> message
        The worker puts messages there.
    """

    def __init__(
        self, addresses: Mapping[int, str], post: Post, arrived: dict[Hashable, bytes]
    ) -> None:
        self._addresses, self._post, self.arrived = addresses, post, arrived

    def publish(self, shard: ChainShard, summaries: Mapping[ChunkIndex, Any]) -> None:
        for number, chunk_indices in shard.receivers.items():
            self.send(
                number,
                shard.number,
                {chunk_index: summaries[chunk_index] for chunk_index in chunk_indices},
            )

    def collect(self, shard: ChainShard) -> Program[dict[ChunkIndex, Any]]:
        gathered: dict[ChunkIndex, Any] = {}
        if shard.senders:
            yield shard.senders
        for sender in shard.senders:
            gathered |= loads(self.arrived.pop(sender))
        return gathered

    def send(self, receiver: int, name: Hashable, edges: Any) -> None:
        self._post(self._addresses[receiver], name, dumps(edges))

    def has(self, name: Hashable) -> bool:
        return name in self.arrived

    def receive(self, name: Hashable) -> Program[Any]:
        if name not in self.arrived:
            yield (name,)
        return loads(self.arrived.pop(name))
