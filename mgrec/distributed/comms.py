"""Messages by Dask's comms: calls on event loops, senders, and the error of a lost worker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from distributed.comm import Comm
from distributed.protocol.pickle import dumps, loads

# Seconds that a message may wait for another one, to be sent together.
BATCHING = 0.002


class WorkerLostError(RuntimeError):
    """A worker is lost, with its operands and results there.

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


def picklable(error: BaseException) -> BaseException:
    """Return an error that can be sent: a RuntimeError in place of one that cannot."""
    try:
        loads(dumps(error))
    except Exception:
        other = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            other.add_note(note)
        return other
    return error


def call_on_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on the event loop of another thread, and wait for what it returns."""

    async def call() -> Any:
        return function(*arguments)

    return asyncio.run_coroutine_threadsafe(call(), loop).result()


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

    ``write(messages)`` is a coroutine function; ``on_error()`` is called if it raises an OSError.
    """

    def __init__(
        self, write: Callable[[list[Any]], Awaitable[Any]], on_error: Callable[[], None] = lambda: None
    ) -> None:
        self._write, self._on_error = write, on_error
        self._messages: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def on(cls, comm: Comm) -> Sender:
        """Return a sender on a comm; an error aborts the comm."""
        return cls(lambda messages: comm.write(messages, on_error="raise"), comm.abort)

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
        try:
            while self._messages:
                messages, self._messages = self._messages, []
                await self._write(messages)
        except OSError:
            self._messages = []
            self._on_error()
        finally:
            self._task = None
