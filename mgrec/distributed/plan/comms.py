"""Calls on an event loop, messages in batches, and comms by way of the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError

from .internals import call_by_scheduler

# Seconds that a message may wait for another one, to be sent together.
BATCHING = 0.002
# For messages by way of the scheduler: seconds that a worker waits for messages to its client, and
# until it closes the session of a silent client.
POLLING, SILENCE = 2.0, 60.0


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
        self,
        write: Callable[[list[Any]], Awaitable[Any]],
        on_error: Callable[[list[Any]], None],
    ) -> None:
        self._write, self._on_error = write, on_error
        self._messages: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def on(cls, comm: Any) -> Sender:
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
