"""Messages of plans: their contents, and how clients and workers send them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from distributed import Client
from distributed.comm import Comm, CommClosedError
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from ...core.arrays.elements import Part
from ...core.contract.grid import Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex, Overlapping
from .assignment import Shard
from .internals import call_by_scheduler

# Seconds that a message may wait for another one, to be sent together.
BATCHING = 0.002
# For messages by way of the scheduler: seconds that a worker waits for messages to its client, and
# until it closes the session of a silent client.
POLLING, SILENCE = 2.0, 60.0

Result = TypeVar("Result")
Wait = Callable[[], Any]
"""Waits for a device, and returns what it has computed."""
Program = Generator[Collection[Hashable] | Wait, Any, Result]
"""Yields names of messages, and is resumed when all of them have arrived; or yields a wait, and is
resumed with what that returns. Other solves go on while a device is busy."""
Post = Callable[..., None]
"""``(address, name, *message)``: sends a message to a worker; on any thread."""


class WorkerLostError(RuntimeError):
    """A worker is lost, with its operands and results there, or a message between workers.

    Every later call of a plan raises it again: build a new plan. In a group of ranks, all ranks
    raise it.
    """

    @classmethod
    def of(cls, address: Any, why: str) -> WorkerLostError:
        return cls(
            f"the plan lost its worker {address}, with its operands and results there: {why}. "
            f"Build a new plan with mgrec.plan, from operands that are still in memory or can "
            f"be computed again"
        )


class Abandoned(Exception):
    """The client abandons a solve: another shard failed, or its worker is lost."""


@dataclass(frozen=True)
class Request:
    """The arguments of a solve of a shard, except for its operands.

    Attributes
    ----------
    recurrence : AlongAxis, Overlapping or Grid
    initial : dict, row of chunks -> list of arrays
    needs_last_summary : bool
        Whether the last chunk of a row is summarised, too.
    parts : tuple of Part
        What becomes of each result along an axis; empty for the result itself.
    """

    recurrence: AlongAxis | Overlapping | Grid
    initial: Mapping[ChunkIndex, list[Any]] = field(default_factory=dict)
    needs_last_summary: bool = False
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class PlanShard:
    """What a worker stores of a plan.

    Attributes
    ----------
    shard : Shard
    addresses : dict, number of a shard -> address of its worker
    keys : dict, chunk index -> keys of the operands
    request : Request
        For solves that come without one.
    in_flight : int
        How many solves may be in progress at once.
    """

    shard: Shard
    addresses: Mapping[int, str]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    request: Request
    in_flight: int


class Exchange:
    """The messages of one shard in one solve, from worker to worker by Dask's comms.

    A shard is the part of a solve that one worker computes. Its program is a generator
    (``shards.py``, ``grids.py``), which a worker steps on a thread. No thread waits for messages: a
    program that needs some yields their names, and the worker resumes it when they have arrived.
    The worker puts messages into `arrived`, by their names, and sets `is_abandoned` when the solve
    fails. A message is a pickle, and arrays that are sent without a copy.
    """

    def __init__(self, addresses: Mapping[int, str], post: Post) -> None:
        self._addresses, self._post = addresses, post
        self.arrived: dict[Hashable, Sequence[Any]] = {}
        self.is_abandoned = False

    def send(
        self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()
    ) -> None:
        """Send a message to the shard with a number. Do not write to `arrays` afterwards."""
        self._post(self._addresses[receiver], name, dumps(content), *map(to_serialize, arrays))

    def has(self, name: Hashable) -> bool:
        """Return whether a message has arrived."""
        return name in self.arrived

    def take(self, name: Hashable) -> Any:
        """Return the content of a message that has arrived, once."""
        return self.take_with_arrays(name)[0]

    def take_with_arrays(self, name: Hashable) -> tuple[Any, list[np.ndarray]]:
        """Return the content and the arrays of a message that has arrived, once."""
        content, *arrays = self.arrived.pop(name)
        return loads(content), arrays


def result_name(solve: str, number: int) -> str:
    """Return the name of a result of a solve, one for each scalar of the state."""
    return f"{solve}-{number}"


class Calls:
    """Calls on an event loop from any thread, in order; many calls wake the loop once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._is_awake = loop, False
        self._calls = deque[tuple[Callable[..., Any], tuple[Any, ...]]]()

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function soon; never if the loop is closed."""
        self._calls.append((function, arguments))
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            self._calls.clear()

    def _run(self) -> None:
        self._is_awake = False
        try:
            while self._calls:
                function, arguments = self._calls.popleft()
                function(*arguments)
        finally:
            if self._calls:  # A function raised.
                self._wake()


class Sender:
    """Sends messages in order without waiting, on an event loop.

    ``write(messages)`` is a coroutine function; ``on_error(messages)`` is called with the messages
    that could not be written.
    """

    def __init__(
        self, write: Callable[[list[Any]], Awaitable[Any]], on_error: Callable[[list[Any]], None]
    ) -> None:
        self._write, self._on_error = write, on_error
        self._messages: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def on(cls, comm: Comm) -> Sender:
        """Return a sender on a comm; an error aborts the comm."""
        return cls(lambda messages: comm.write(messages, on_error="raise"), lambda _: comm.abort())

    def send(self, *message: Any) -> None:
        """Send a message."""
        self._messages.append(message)
        self._start()

    def send_later(self, *message: Any) -> None:
        """Send a message with the next one, or soon."""
        self._messages.append(message)
        asyncio.get_running_loop().call_later(BATCHING, self._start)

    def _start(self) -> None:
        if self._task is None and self._messages:
            self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        messages: list[Any] = []
        try:
            while self._messages:
                messages, self._messages = self._messages, []
                await self._write(messages)
        except OSError:
            messages += self._messages
            self._messages = []
            self._on_error(messages)
        finally:
            self._task = None


class ClientComm:
    """The client's end of a comm by way of the scheduler, which passes on every read and write.

    For clients that cannot connect to workers.
    """

    def __init__(self, client: Client, address: str, session: str) -> None:
        self._client, self._address, self._session = client, address, session
        self._is_closed = False

    async def write(self, messages: list[Any], on_error: str = "raise") -> None:
        await self._call("mgrec_write", messages=messages)

    async def read(self) -> list[Any]:
        while not self._is_closed:
            if messages := await self._call("mgrec_read"):
                return list(messages)
        raise CommClosedError

    def abort(self) -> None:
        self._is_closed = True

    async def _call(self, op: str, **content: Any) -> Any:
        if self._client.status != "running":
            raise CommClosedError
        message = {"op": op, "session": self._session, **content}
        return await call_by_scheduler(self._client, self._address, message)


class WorkerComm:
    """The worker's end of a comm by way of the scheduler: two queues."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.last_poll = time.monotonic()

    async def write(self, messages: list[Any], on_error: str = "raise") -> None:
        self.outgoing.put_nowait(messages)

    async def read(self) -> list[Any]:
        while time.monotonic() - self.last_poll < SILENCE:
            try:
                return await asyncio.wait_for(self.incoming.get(), SILENCE)
            except TimeoutError:
                continue
        raise CommClosedError

    def abort(self) -> None:
        self.last_poll = 0.0

    async def poll(self) -> list[Any]:
        """Return messages for the client; none after a while without messages."""
        self.last_poll = time.monotonic()
        try:
            return await asyncio.wait_for(self.outgoing.get(), POLLING)
        except TimeoutError:
            return []
