"""Calls and messages that wait for an event loop; those of one moment go together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

# Seconds that a message waits for another one with which it may go.
SOON = 0.002


class Calls:
    """Calls on an event loop from any thread, in order; many wake the loop once."""

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
            if self._calls:  # One has raised.
                self._wake()


class Sender:
    """Sends messages in order without waiting, on an event loop.

    Parameters
    ----------
    write : coroutine function
        Called with a list of messages.
    on_error : callable
        Called with the messages that could not be written.
    """

    def __init__(
        self,
        write: Callable[[list[Any]], Awaitable[Any]],
        on_error: Callable[[list[Any]], None],
    ) -> None:
        self._write, self._on_error = write, on_error
        self._messages: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    def send(self, *message: Any) -> None:
        """Send a message."""
        self._messages.append(message)
        self._start()

    def add(self, *message: Any) -> None:
        """Send a message with the next one, or soon."""
        self._messages.append(message)
        asyncio.get_running_loop().call_later(SOON, self._start)

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


def sender_of(comm: Any) -> Sender:
    """A sender on a comm, which is closed on an error."""
    return Sender(lambda messages: comm.write(messages, on_error="raise"), lambda _: comm.abort())
