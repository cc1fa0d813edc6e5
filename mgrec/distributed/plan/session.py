"""The client's side: comms to workers, and the requests that wait for their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future as Done
from itertools import count
from typing import Any
from uuid import uuid4

from distributed import Client
from distributed.comm import CommClosedError
from distributed.protocol.pickle import loads

from .internals import remove_worker, run_on
from .messages import Abandoned, WorkerLostError
from .queues import Calls, sender_of
from .relay import ClientComm
from .worker import install

NAME = "mgrec"
# A silent worker is sent a ping this often within a timeout, and is lost when it answers none.
PINGS = 5
# A shard may compute this many times as long as the plan's shortest solve so far; in the first
# one, which may compile for minutes on a busy machine, this many times the timeout.
PATIENCE, FIRST = 10.0, 30.0

Messages = Mapping[str, tuple[Any, ...]]
"""What a request says to each worker, by addresses."""

_opening = threading.Lock()


def session_of(client: Client) -> Session:
    """The session of a client, which lasts as long as the client."""
    with _opening:
        if NAME not in client.extensions:
            client.extensions[NAME] = Session(client)
        return client.extensions[NAME]


class Stream:
    """The comm to a worker: ordered messages both ways."""

    def __init__(self, address: str, comm: Any) -> None:
        self.address, self.comm, self.sender = address, comm, sender_of(comm)
        self.heard, self.is_lost = 0, False
        # The request that the worker computes, and for how many seconds.
        self.busy = 0, 0.0


class Ask:
    """One request to several workers.

    Attributes
    ----------
    done : concurrent.futures.Future
        The answers by address, or the first error.
    needs : tuple of Ask
        Requests whose results this one reads: their errors are its own.
    operands : tuple of weakref to Solution
        Results of the plan that this request reads. Workers free results in the order of messages;
        those that Dask may free, since it knows them, are kept until the request has ended.
    kept : list
        What the client refers to until the request has ended.
    on_end : callable
        Called with the error, or None, before `done` is.
    """

    def __init__(self, addresses: Iterable[str], timeout: float, limit: float) -> None:
        self.done: Done[dict[str, Any]] = Done()
        self.answers: dict[str, Any] = {}
        self.waiting = dict.fromkeys(addresses, (-1, 0))
        self.timeout, self.limit = timeout, limit
        self.number, self.needs = 0, tuple[Ask, ...]()
        self.operands: tuple[Any, ...] = ()
        self.kept: list[Any] = []
        self.on_end: Callable[[BaseException | None], None] = lambda error: None
        self.timer: asyncio.TimerHandle | None = None


class Session:
    """Requests of one client, which its workers handle in one order.

    All but `ask` and `free` run on the client's event loop, and one after the other.
    """

    def __init__(self, client: Client) -> None:
        self.client, self.name = client, uuid4().hex
        self.call = Calls(client.loop.asyncio_loop).add
        self.streams: dict[str, Stream] = {}
        self.asks: dict[int, Ask] = {}
        self._numbers = count(1)
        self._connecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def connect(self, addresses: Iterable[str], timeout: float) -> None:
        """Connect to workers.

        Raises
        ------
        WorkerLostError
            A worker does not answer within the timeout.
        """
        async with self._connecting:
            missing = [address for address in addresses if address not in self.streams]
            await asyncio.gather(*(self._connect(address, timeout) for address in missing))

    async def _connect(self, address: str, timeout: float) -> None:
        """Connect to a worker, or let the scheduler pass on what both say.

        The scheduler removes a worker that answers neither way.
        """
        for is_direct in (True, False):
            try:
                async with asyncio.timeout(timeout / 2):
                    comm = await self._open(address, is_direct)
            except OSError as error:  # A timeout is one.
                failure = error
            else:
                stream = self.streams[address] = Stream(address, comm)
                self.start(self._read(stream))
                return
        await remove_worker(self.client, address)
        raise WorkerLostError.of(address) from failure

    async def _open(self, address: str, is_direct: bool) -> Any:
        await run_on(self.client, address, install, is_direct)
        comm = ClientComm(self.client, address, self.name)
        if is_direct:
            comm = await self.client.rpc.connect(address)
            await comm.write({"op": "mgrec_session", "session": self.name, "reply": False})
        await comm.read()
        return comm

    def start(self, work: Any) -> None:
        """Run a coroutine on the event loop."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ask(self, ask: Ask, op: str, name: str, messages: Messages) -> Ask:
        """Send a request; workers handle those of a client in the order of these calls."""
        self.call(self.send, ask, op, name, messages)
        return ask

    def wait(self, ask: Ask) -> dict[str, Any]:
        """Wait for the answers to a request."""
        while True:
            try:
                return ask.done.result(1.0)
            except WorkerLostError:
                if self.client.status == "running":
                    raise
            except TimeoutError:
                if ask.done.done():
                    return ask.done.result()
            if self.client.status != "running" and (
                ask.done.done() or self.client.status == "closed"
            ):
                raise RuntimeError("the client was closed before a solve of its plan had ended")

    def release(self, addresses: Iterable[str], *message: Any) -> None:
        """Tell workers what they need not keep, soon and before later requests."""
        for address in addresses:
            if address in self.streams:
                self.streams[address].sender.add(*message)

    def send(self, ask: Ask, op: str, name: str, messages: Messages) -> None:
        """Send a request, on the event loop."""
        ask.number = next(self._numbers)
        self.asks[ask.number] = ask
        for operand in ask.operands:
            if (solution := operand()) is not None and solution.is_known:
                ask.kept.append(solution)
        for address in messages.keys() - self.streams.keys():
            self._fail(ask, WorkerLostError.of(address))
            return
        for address, message in messages.items():
            self.streams[address].sender.send(op, ask.number, name, *message)
        self._watch(ask)

    def _watch(self, ask: Ask) -> None:
        """Look after a part of the timeout whether workers are silent or compute too long."""
        loop = asyncio.get_running_loop()
        ask.timer = loop.call_later(ask.timeout / PINGS, self._check, ask)

    def _check(self, ask: Ask) -> None:
        for address, (heard, misses) in list(ask.waiting.items()):
            stream = self.streams[address]
            # Pings are counted, not seconds: this event loop may be late, too.
            misses = misses + 1 if stream.heard == heard else 0
            number, seconds = stream.busy
            is_hung = seconds > self.asks.get(number, ask).limit
            if misses >= PINGS - 1 or is_hung:
                if is_hung:  # It would be assigned the same chunks again.
                    self.start(remove_worker(self.client, address))
                self._lose(stream)
                return
            ask.waiting[address] = stream.heard, misses
            stream.sender.send("ping")
        self._watch(ask)

    async def _read(self, stream: Stream) -> None:
        try:
            while True:
                for op, *content in await stream.comm.read():
                    stream.heard += 1
                    if op == "pong":
                        stream.busy = tuple(content)
                    elif op == "answer":
                        self._take(stream.address, *content)
                    else:  # The worker has opened another session, without plans.
                        raise CommClosedError
        except OSError:
            self._lose(stream)

    def _take(self, address: str, number: int, answer: bytes | None) -> None:
        """Take an answer; those to requests that have failed are dropped."""
        ask = self.asks.get(number)
        if ask is None:
            return
        content: Any = None
        try:
            is_solved, content = loads(answer) if answer else (True, None)
        except Exception as error:
            is_solved, content = False, error
        if not is_solved:
            self._fail(ask, content)
            return
        ask.answers[address] = content
        del ask.waiting[address]
        if not ask.waiting:
            self._end(ask, None)
            ask.done.set_result(ask.answers)

    def _end(self, ask: Ask, error: BaseException | None) -> None:
        ask.on_end(error)
        del self.asks[ask.number]
        if ask.timer is not None:
            ask.timer.cancel()
        ask.needs, ask.operands = (), ()
        ask.kept.clear()

    def _fail(self, ask: Ask, error: BaseException) -> None:
        """Fail a request at once, and let the other workers give it up."""
        failed = (need.done.exception() for need in ask.needs if need.done.done())
        first = next((own for own in failed if own is not None), error)
        for address in ask.waiting.keys() & self.streams.keys():
            self.streams[address].sender.send("abandon", ask.number)
        if isinstance(first, Abandoned):
            first = RuntimeError("a worker has given up a solve that its client waits for")
        self._end(ask, first)
        ask.done.set_exception(first)

    def keep(self, solution: Any) -> None:
        """Keep results that Dask is about to know for the requests that read them."""
        for ask in self.asks.values():
            if any(operand() is solution for operand in ask.operands):
                ask.kept.append(solution)

    def _lose(self, stream: Stream) -> None:
        """Fail all requests that wait for a worker, whose comm is closed."""
        if stream.is_lost:
            return
        stream.is_lost = True
        self.streams.pop(stream.address, None)
        stream.comm.abort()
        for ask in list(self.asks.values()):
            if stream.address in ask.waiting:
                self._fail(ask, WorkerLostError.of(stream.address))
