"""Comms by way of the scheduler, for clients that cannot connect to workers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError

from .internals import by_scheduler

# Seconds that a worker waits for messages to its client, and until it gives a silent client up.
WAITING, SILENCE = 2.0, 60.0


class ClientComm:
    """The client's end: every write and every read is a call that the scheduler passes on."""

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
        return await by_scheduler(self._client, self._address, message)


class WorkerComm:
    """The worker's end: two queues."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.outgoing: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.heard = time.monotonic()

    async def write(self, messages: list[Any], on_error: str = "raise") -> None:
        self.outgoing.put_nowait(messages)

    async def read(self) -> list[Any]:
        while time.monotonic() - self.heard < SILENCE:
            try:
                return await asyncio.wait_for(self.incoming.get(), SILENCE)
            except TimeoutError:
                continue
        raise CommClosedError

    def abort(self) -> None:
        self.heard = 0.0

    async def poll(self) -> list[Any]:
        """Messages for the client, when there are some; none after a while."""
        self.heard = time.monotonic()
        try:
            return await asyncio.wait_for(self.outgoing.get(), WAITING)
        except TimeoutError:
            return []
