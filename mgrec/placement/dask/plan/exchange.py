"""Carries between the shards of a solve: what every exchange promises, and that by Dask's comms.

A *shard* is what one worker computes of a solve. Its program is a generator (``shards.py``,
``tiles.py``), which a worker runs on a thread of its pool and which calls an exchange:

- **One exchange a shard.** Along an axis a program calls `publish` once a solve, with the
  summaries of all its chunks, and `collect` once for those of the other shards. It may compute
  between the two. Over a grid it calls `send` for the edges of each tile that another shard needs,
  and `receive` for those that it needs, by the names of tiles.
- **One order.** The workers begin the solves of one client in the order of its requests, which is
  the same on all of them. A program calls its exchange in an order that depends on the plan
  alone. So collectives of one client have one order on all ranks. Solves of different clients
  overlap: an exchange whose collectives must not has to order those of different clients itself.
- **No thread waits.** A program that needs a message yields its names; the worker resumes it on a
  thread when all have arrived. An exchange whose messages are ordered by a GPU's stream yields
  nothing, and returns arrays of the device. It may keep its connections between solves: all
  solves of a client, and all plans, share them.
- **The client detects failures.** `send` reports a worker that cannot be reached. Everything
  else, timeouts included, the client detects: it abandons the solve, and the worker calls `abandon`
  from its event loop. This must return at once and free whatever waits, in kernels, too. The
  program is then closed where it stands, and the worker goes on with the next solve.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Hashable, Mapping
from typing import Any, TypeVar

from distributed.protocol.pickle import dumps, loads

from ....families.family import Place
from .messages import ChainShard, PeerLost

Result = TypeVar("Result")
Program = Generator[Collection[Hashable], None, Result]
"""Yields names of messages, and is resumed when all have arrived."""
Post = Callable[[str, Any], Any]
"""Coroutine function that sends a message to a worker, given by its address."""


class Exchange(ABC):
    """The messages of one shard in one solve; see the module."""

    @abstractmethod
    def publish(self, shard: ChainShard, summaries: Mapping[Place, Any]) -> None:
        """Start the exchange of summaries with those of a shard's chunks."""

    @abstractmethod
    def collect(self, shard: ChainShard) -> Program[dict[Place, Any]]:
        """Return the summaries of other shards that a shard needs, by their chunks."""

    @abstractmethod
    def send(self, receiver: int, name: Hashable, edges: Any) -> None:
        """Send the edges of a tile to the shard with a number."""

    @abstractmethod
    def has(self, name: Hashable) -> bool:
        """Whether edges have arrived."""

    @abstractmethod
    def receive(self, name: Hashable) -> Program[Any]:
        """Return the edges of a tile; they are returned once."""

    @abstractmethod
    def abandon(self, error: Exception) -> None:
        """Make the program end with an error, now or when it next yields."""


class CommExchange(Exchange):
    """Messages from worker to worker by Dask's comms, for arrays in host memory.

    Parameters
    ----------
    addresses : dict, number of a shard -> address of its worker
    post : callable
        Called on the event loop.
    """

    def __init__(self, addresses: Mapping[int, str], post: Post) -> None:
        self._addresses, self._post = addresses, post
        self._loop = asyncio.get_running_loop()
        self._arrived: dict[Hashable, bytes] = {}
        self._missing: set[Hashable] = set()
        self._error: Exception | None = None
        self._changed: asyncio.Future[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def publish(self, shard: ChainShard, summaries: Mapping[Place, Any]) -> None:
        for number, places in shard.receivers.items():
            self.send(number, shard.number, {place: summaries[place] for place in places})

    def collect(self, shard: ChainShard) -> Program[dict[Place, Any]]:
        gathered: dict[Place, Any] = {}
        if shard.senders:
            yield shard.senders
        for sender in shard.senders:
            gathered |= loads(self._arrived.pop(sender))
        return gathered

    def send(self, receiver: int, name: Hashable, edges: Any) -> None:
        message = self._addresses[receiver], (name, dumps(edges))
        self._loop.call_soon_threadsafe(self._start, *message)

    def has(self, name: Hashable) -> bool:
        return name in self._arrived

    def receive(self, name: Hashable) -> Program[Any]:
        if name not in self._arrived:
            yield (name,)
        return loads(self._arrived.pop(name))

    def abandon(self, error: Exception) -> None:
        self._error = self._error or error
        self._wake()

    def put(self, name: Hashable, message: bytes) -> None:
        """Take a message that has arrived."""
        self._arrived[name] = message
        self._missing.discard(name)
        if not self._missing:
            self._wake()

    async def wait(self, names: Collection[Hashable]) -> None:
        """Wait on the event loop until messages have arrived; raises where they will not come."""
        self._missing = {name for name in names if name not in self._arrived}
        while self._missing and self._error is None:
            self._changed = self._loop.create_future()
            await self._changed
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _start(self, address: str, message: Any) -> None:
        task = self._loop.create_task(self._send(address, message))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, address: str, message: Any) -> None:
        try:
            await self._post(address, message)
        except OSError:
            self.abandon(PeerLost(address))
