"""The client's side: comms to workers, and requests that wait for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any
from uuid import uuid4

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

Messages = Mapping[str, tuple[Any, ...]]
"""The contents of a request to each worker, by addresses."""

_opening = threading.Lock()


def session_of(client: Client) -> Session:
    """Return the session of a client, which lasts as long as the client."""
    if NAME not in client.extensions:
        client.sync(check_workers, client)
    with _opening:
        if NAME not in client.extensions:
            client.extensions[NAME] = Session(client)
        return client.extensions[NAME]


class Stream:
    """The comm to a worker: ordered messages both ways.

    Attributes
    ----------
    memory_limit : int or None
        The worker's, in bytes.
    received : int
        Number of its messages.
    """

    def __init__(self, address: str, comm: Comm, memory_limit: int | None) -> None:
        self.address, self.comm, self.sender = address, comm, Sender.on(comm)
        self.memory_limit, self.received = memory_limit, 0


class PendingRequest:
    """One request to several workers.

    Attributes
    ----------
    done : concurrent.futures.Future
        The answers by address, or the first error.
    unanswered : dict, address -> (messages received at the last check, checks without one since)
    plan : str
        The name of the plan; empty for requests without one.
    result : weakref to Solution, optional
        The results of a solve.
    dependencies : tuple of PendingRequest
        Requests whose results this one reads: it fails with their errors.
    operands : tuple of weakref to Solution
        Results of the plan that this request reads. Workers free results in the order of messages;
        results that the scheduler knows, and may free, are retained until the request has ended.
    retained : list
        References that the client keeps until the request has ended.
    on_end : callable
        Called with the error, or None, before `done` is.
    """

    def __init__(self, addresses: Iterable[str], timeout: float, plan: str = "") -> None:
        self.done: Future[dict[str, Any]] = Future()
        self.answers: dict[str, Any] = {}
        self.unanswered = dict.fromkeys(addresses, (-1, 0))
        self.timeout, self.plan = timeout, plan
        self.result: Callable[[], Any] | None = None
        self.number, self.dependencies = 0, tuple[PendingRequest, ...]()
        self.operands: tuple[Any, ...] = ()
        self.retained: list[Any] = []
        self.on_end: Callable[[BaseException | None], None] = lambda error: None
        self.timer: asyncio.TimerHandle | None = None


class Session:
    """Requests of one client, which its workers handle in one order.

    All methods but `request` and `wait` run on the client's event loop.
    """

    def __init__(self, client: Client) -> None:
        self.client, self.name = client, uuid4().hex
        self.call = Calls(client.loop.asyncio_loop).add
        self.streams: dict[str, Stream] = {}
        self.requests: dict[int, PendingRequest] = {}
        # Bytes on each worker of the operands of a plan, or of the results of a solve, by its name.
        self.stored: dict[str, Mapping[str, int]] = {}
        # Why workers were lost last.
        self.reasons: dict[str, str] = {}
        self._numbers = count(1)
        self._connecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def connect(self, addresses: Iterable[str], timeout: float) -> None:
        """Connect to workers; raise WorkerLostError if one does not answer within the timeout."""
        async with self._connecting:
            missing = [address for address in addresses if address not in self.streams]
            await asyncio.gather(*(self._connect(address, timeout) for address in missing))

    async def _connect(self, address: str, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await check_workers(self.client, [address])  # it may have joined later
                await self.client.run(install, workers=[address])
                comm = await self.client.rpc.connect(address)
                await comm.write({"op": "mgrec_session", "session": self.name, "reply": False})
                ((_, memory_limit),) = await comm.read()
        except TimeoutError as error:
            raise WorkerLostError.of(address, f"it has not answered for {timeout:g} s") from error
        except OSError as error:
            raise WorkerLostError.of(
                address, f"this client cannot connect to it, {error}. Plans need connections to "
                f"the workers; graphs and mgrec.dask.run do not"
            ) from error  # fmt: skip
        stream = self.streams[address] = Stream(address, comm, memory_limit)
        self.start(self._read(stream))

    def start(self, coroutine: Any) -> None:
        """Run a coroutine on the event loop."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def request(self, request: PendingRequest, op: str, name: str, messages: Messages) -> None:
        """Send a request; workers handle those of a client in the order of these calls."""
        self.call(self.send, request, op, name, messages)

    def wait(self, request: PendingRequest) -> dict[str, Any]:
        """Wait for the answers to a request."""
        while True:
            try:
                return request.done.result(1.0)
            except WorkerLostError:
                if self.client.status == "running":
                    raise
            except TimeoutError:
                if request.done.done():
                    return request.done.result()
            if self.client.status != "running" and (
                request.done.done() or self.client.status == "closed"
            ):
                raise RuntimeError("the client was closed before a solve of its plan had ended")

    def send_later(self, addresses: Iterable[str], *message: Any) -> None:
        """Send a message without an answer to workers, soon and before later requests."""
        for address in addresses:
            if address in self.streams:
                self.streams[address].sender.send_later(*message)

    def send(self, request: PendingRequest, op: str, name: str, messages: Messages) -> None:
        """Send a request, on the event loop."""
        request.number = next(self._numbers)
        self.requests[request.number] = request
        for operand in request.operands:
            if (solution := operand()) is not None and solution.is_registered:
                request.retained.append(solution)
        for address in messages.keys() - self.streams.keys():
            self._fail(request, WorkerLostError.of(address, self.reasons[address]))
            return
        # Workers forget the messages of earlier solves.
        oldest = (next(iter(self.requests)),) if op == "solve" else ()
        for address, message in messages.items():
            self.streams[address].sender.send(op, request.number, name, *oldest, *message)
        self._check_later(request)

    def _check_later(self, request: PendingRequest) -> None:
        loop = asyncio.get_running_loop()
        request.timer = loop.call_later(request.timeout / PINGS, self._check, request)

    def _check(self, request: PendingRequest) -> None:
        """Check whether workers are silent; one that computes is not."""
        lost = []
        for address, (received, misses) in request.unanswered.items():
            stream = self.streams[address]
            # Pings are counted, not seconds: this event loop may be late, too.
            misses = misses + 1 if stream.received == received else 0
            request.unanswered[address] = stream.received, misses
            stream.sender.send("ping")
            if misses >= PINGS - 1:
                lost.append(stream)
        for stream in lost:
            self._lose(stream, f"it has not answered for {request.timeout:g} s")
        if not lost:
            self._check_later(request)

    def remove_plan(self, plan: str, addresses: Iterable[str]) -> None:
        """Release a plan's operands, and abandon the solves whose results nothing needs."""
        needed = set[PendingRequest]()
        for request in reversed(list(self.requests.values())):
            is_unused = request.result is not None and request.result() is None
            if request.plan == plan and is_unused and request not in needed:
                self._fail(request, RuntimeError("the plan is closed"))
            else:
                needed.update(request.dependencies)
        self.stored.pop(plan, None)
        self.send_later(addresses, "remove_plan", plan)

    async def _read(self, stream: Stream) -> None:
        try:
            while True:
                for op, *content in await stream.comm.read():
                    stream.received += 1
                    if op == "answer":
                        self._take_answer(stream.address, *content)
        except OSError:
            self._lose(stream, "its connection has ended")

    def _take_answer(self, address: str, number: int, answer: bytes | None) -> None:
        """Take an answer; drop those to requests that have failed."""
        request = self.requests.get(number)
        if request is None:
            return
        content: Any = None
        try:
            is_solved, content = loads(answer) if answer else (True, None)
        except Exception as error:
            is_solved, content = False, error
        if not is_solved:
            self._fail(request, content)
            return
        request.answers[address] = content
        del request.unanswered[address]
        if not request.unanswered:
            self._end(request, None)
            request.done.set_result(request.answers)

    def _end(self, request: PendingRequest, error: BaseException | None) -> None:
        request.on_end(error)
        del self.requests[request.number]
        if request.timer is not None:
            request.timer.cancel()
        request.dependencies, request.operands = (), ()
        request.retained.clear()

    def _fail(self, request: PendingRequest, error: BaseException) -> None:
        """Fail a request at once, and make the other workers abandon it."""
        done = [dependency.done for dependency in request.dependencies if dependency.done.done()]
        first = next((e for e in (future.exception() for future in done) if e is not None), error)
        for address in request.unanswered.keys() & self.streams.keys():
            self.streams[address].sender.send("abandon", request.number, request.plan)
        self._end(request, first)
        request.done.set_exception(first)

    def retain(self, solution: Any) -> None:
        """Keep results that the scheduler is about to know for the requests that read them."""
        for request in self.requests.values():
            if any(operand() is solution for operand in request.operands):
                request.retained.append(solution)

    def _lose(self, stream: Stream, why: str) -> None:
        """Close the comm to a worker, and fail all requests that wait for the worker."""
        if self.streams.get(stream.address) is not stream:
            return
        del self.streams[stream.address]
        stream.comm.abort()
        self.reasons[stream.address] = why + self._fullness(stream)
        error = WorkerLostError.of(stream.address, self.reasons[stream.address])
        for request in list(self.requests.values()):
            if stream.address in request.unanswered:
                self._fail(request, error)

    def _fullness(self, stream: Stream) -> str:
        """Return what a worker stores of this client's plans, if that may be too much."""
        sizes = [(name, size.get(stream.address, 0)) for name, size in list(self.stored.items())]
        results = [size for name, size in sizes if name.startswith("solved-")]
        total = sum(size for _, size in sizes)
        if stream.memory_limit is None or total < stream.memory_limit / 4:
            return ""
        return (
            f"; plans keep {format_bytes(total - sum(results))} of operands and "
            f"{format_bytes(sum(results))} of results of {len(results)} solves there, and Dask "
            f"stops a worker that exceeds its memory limit, {format_bytes(stream.memory_limit)}"
        )
