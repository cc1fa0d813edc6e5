"""The client's side: comms to workers, and requests that wait for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import count
from typing import Any

from dask.utils import format_bytes
from distributed import Client
from distributed.comm import Comm
from distributed.protocol.pickle import loads

from ..comms import Calls, Sender, WorkerLostError
from ..versions import check_workers
from .worker import install

NAME = "mgrec"
# Number of pings to a silent worker within a timeout. It is lost if it answers none.
PINGS = 5

_opening = threading.Lock()


def session_of(client: Client) -> ClientSession:
    """Return the session of a client, which lasts as long as the client."""
    if NAME not in client.extensions:
        client.sync(check_workers, client)
    with _opening:
        if NAME not in client.extensions:
            client.extensions[NAME] = ClientSession(client)
        return client.extensions[NAME]


async def release_gpus(client: Client, timeout: float) -> None:
    """Let the plans of a client leave the exchanges between GPUs to a program, on all workers."""
    session = client.extensions.get(NAME)
    if session is not None and (streams := {**session.streams}):
        request = PendingRequest(streams, timeout)
        session.send(request, "release_gpus", dict.fromkeys(streams, ()))
        with suppress(WorkerLostError):  # the program raises it
            await asyncio.wrap_future(request.done)


class Stream:
    """The comm to a worker: ordered messages both ways.

    `memory_limit`: the worker's, in bytes.
    `stored`: bytes of operands and results there, when the last answer was sent.
    """

    def __init__(self, address: str, comm: Comm, memory_limit: int | None) -> None:
        self.address, self.comm, self.sender = address, comm, Sender.on(comm)
        self.memory_limit, self.stored, self.received = memory_limit, 0, 0
        self.reader: asyncio.Task[None] | None = None

    def usage(self) -> str:
        """Return how much this client stores on the worker."""
        usage = f"plans keep {format_bytes(self.stored)} of operands and results there"
        if self.memory_limit is None:
            return usage
        limit = format_bytes(self.memory_limit)
        return f"{usage}, and Dask stops a worker that exceeds its memory limit, {limit}"


Streams = Mapping[str, Stream]
"""The comms to the workers of a plan, by their addresses."""


class PendingRequest:
    """One request to several workers.

    `streams`: dict, address -> Stream.
    `done`, concurrent.futures.Future: the answers by address, or the first error, which does not
      wait for other answers.
    `unanswered`: dict, Stream -> (messages received at the last check, checks without one since).
    `retained`: referred to until all workers have answered.
    """

    def __init__(self, streams: Streams, timeout: float, retained: Any = None) -> None:
        self.streams, self.timeout, self.retained = streams, timeout, retained
        self.done: Future[dict[str, Any]] = Future()
        self.answers: dict[str, Any] = {}
        self.unanswered = dict.fromkeys(streams.values(), (-1, 0))
        self.number = 0
        self.timer: asyncio.TimerHandle | None = None


class ClientSession:
    """Requests of one client, which its workers handle in one order.

    All methods but `wait` run on the client's event loop, by `call` from other threads.
    """

    def __init__(self, client: Client) -> None:
        self.client, self.call = client, Calls(client.loop.asyncio_loop).add
        self.streams: dict[str, Stream] = {}
        self.requests: dict[int, PendingRequest] = {}
        # Why workers were lost last.
        self.reasons: dict[str, str] = {}
        self._numbers = count(1)
        self._connecting = asyncio.Lock()

    async def connect(self, addresses: Iterable[str], timeout: float) -> Streams:
        """Connect to workers; raise WorkerLostError if one does not answer within the timeout."""
        async with self._connecting:
            streams = {to: self.streams[to] for to in addresses if to in self.streams}
            missing = [address for address in addresses if address not in streams]
            opened = await asyncio.gather(*(self._connect(to, timeout) for to in missing))
            return streams | dict(zip(missing, opened, strict=True))

    async def _connect(self, address: str, timeout: float) -> Stream:
        try:
            async with asyncio.timeout(timeout):
                await check_workers(self.client, [address])  # it may have joined later
                await self.client.run(install, workers=[address])
                comm = await self.client.rpc.connect(address)
                await comm.write({"op": "mgrec_session", "reply": False})
                ((_, memory_limit),) = await comm.read()
        except TimeoutError as error:
            raise WorkerLostError.of(address, f"it has not answered for {timeout:g} s") from error
        except OSError as error:
            raise WorkerLostError.of(
                address,
                f"this client cannot connect to it, {error}. Plans need connections to "
                f"the workers; graphs and mgrec.dask.run do not",
            ) from error
        stream = self.streams[address] = Stream(address, comm, memory_limit)
        stream.reader = asyncio.ensure_future(self._read(stream))
        return stream

    def lost(self, streams: Streams) -> str | None:
        """Return a worker that was lost since its comm was opened."""
        lost = (to for to, stream in streams.items() if self.streams.get(to) is not stream)
        return next(lost, None)

    def check(self, streams: Streams) -> None:
        """Raise an error if a worker was lost since its comm was opened."""
        if (address := self.lost(streams)) is not None:
            raise self._error(address)

    def _error(self, address: str) -> RuntimeError:
        """Return the error of requests to a lost worker."""
        if self.client.status != "running":
            return RuntimeError("the client was closed before a solve of its plan had ended")
        return WorkerLostError.of(address, self.reasons[address])

    def wait(self, request: PendingRequest) -> dict[str, Any]:
        """Wait for the answers to a request."""
        while not wait([request.done], 1.0).done:
            if self.client.status == "closed":  # and perhaps its event loop
                raise self._error("")
        return request.done.result()

    def send(self, request: PendingRequest, op: str, contents: Mapping[str, Any]) -> None:
        """Send a request: the contents for each worker, by addresses."""
        request.number = next(self._numbers)
        self.requests[request.number] = request
        if (address := self.lost(request.streams)) is not None:
            for stream in request.streams.values():
                self._settle(request, stream, self._error(address))
            return
        # Workers forget the messages of earlier solves.
        oldest = (next(iter(self.requests)),) if op == "solve" else ()
        for address, stream in request.streams.items():
            stream.sender.send(op, request.number, *oldest, *contents[address])
        self._check_later(request)

    def send_later(self, streams: Streams, *message: Any) -> None:
        """Send a message without an answer to workers, soon and before later requests."""
        for stream in streams.values():
            stream.sender.send_later(*message)

    def free(self, streams: Streams, name: str, timeout: float, futures: Mapping[Any, Any]) -> None:
        """Free the results of a solve."""
        if not futures:
            self.send_later(streams, "free", 0, name)
            return
        # The scheduler may free them when the workers have got all earlier solves that read them.
        request = PendingRequest(streams, timeout, futures)
        self.send(request, "free", dict.fromkeys(streams, (name,)))

    def _check_later(self, request: PendingRequest) -> None:
        loop = asyncio.get_running_loop()
        request.timer = loop.call_later(request.timeout / PINGS, self._check, request)

    def _check(self, request: PendingRequest) -> None:
        """Check whether workers are silent; one that computes is not."""
        for stream, (received, misses) in list(request.unanswered.items()):
            # Pings are counted, not seconds: this event loop may be late, too.
            misses = misses + 1 if stream.received == received else 0
            request.unanswered[stream] = stream.received, misses
            stream.sender.send("ping")
            if misses >= PINGS - 1:
                self._lose(stream, f"it has not answered for {request.timeout:g} s")
        if request.unanswered:
            self._check_later(request)

    async def _read(self, stream: Stream) -> None:
        try:
            while True:
                for op, *content in await stream.comm.read():
                    stream.received += 1
                    if op == "answer":
                        self._take_answer(stream, *content)
        except OSError:
            self._lose(stream, "its connection has ended")

    def _take_answer(self, stream: Stream, number: int, stored: int, answer: bytes | None) -> None:
        """Take an answer: a value or an error."""
        stream.stored, request = stored, self.requests.get(number)
        if request is None or stream not in request.unanswered:
            return  # The worker was lost meanwhile.
        try:
            is_solved, content = loads(answer) if answer else (True, None)
        except Exception as error:
            is_solved, content = False, error
        if isinstance(content, MemoryError):
            content.add_note(f"{stream.address}: {stream.usage()}")
        if is_solved:
            request.answers[stream.address] = content
        self._settle(request, stream, None if is_solved else content)

    def _settle(self, request: PendingRequest, stream: Stream, error: BaseException | None) -> None:
        """Count a worker as answered; end the request when all are."""
        del request.unanswered[stream]
        if error is not None and not request.done.done():
            request.done.set_exception(error)
        if request.unanswered:
            return
        del self.requests[request.number]
        request.retained = None
        if request.timer is not None:
            request.timer.cancel()
        if not request.done.done():
            request.done.set_result(request.answers)

    def _lose(self, stream: Stream, why: str) -> None:
        """Close the comm to a worker, and fail all requests that wait for the worker."""
        if self.streams.get(stream.address) is not stream:
            return
        if stream.memory_limit is not None and stream.stored >= stream.memory_limit / 4:
            why += f"; {stream.usage()}"
        self.reasons[stream.address] = why  # Other threads may read it when the stream is gone.
        del self.streams[stream.address]
        stream.comm.abort()
        for request in list(self.requests.values()):
            if stream in request.unanswered:
                self._settle(request, stream, self._error(stream.address))
