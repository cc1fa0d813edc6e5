"""What a worker runs for plans: sessions of clients, on handlers of Dask's server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from distributed import WorkerPlugin
from distributed.protocol.pickle import dumps, loads

from .exchange import CommExchange, Program
from .internals import Sender, blocks_of, free, publish, store, wait_until_freed
from .messages import Abandoned, PlanShard
from .relay import WorkerComm
from .shards import Threads, solve_shard

NAME = "mgrec-plans"
logger = logging.getLogger("mgrec")


async def install(dask_worker: Any) -> None:
    """Install the plugin on a worker that does not have it."""
    if NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(PlansPlugin(), NAME, catch_errors=False)


class PlansPlugin(WorkerPlugin):  # type: ignore[misc]
    """Sessions of clients, and the threads on which their shards run.

    ``mgrec_session`` opens a session on a comm from a client, which lasts as long as the comm.
    ``mgrec_carry`` takes a message from another worker. No thread ever waits for a message, so
    that any number of threads is enough for any number of sessions.
    """

    name = NAME

    def setup(self, worker: Any) -> None:
        self.worker = worker
        count = max(1, worker.state.nthreads)
        self.programs = ThreadPoolExecutor(count, "mgrec-plan")
        self.chunks = ThreadPoolExecutor(count, "mgrec-chunk") if count > 1 else None
        self.threads = Threads(count, self.chunks)
        self.sessions: dict[str, Session] = {}
        worker.handlers["mgrec_session"] = self.serve
        worker.handlers["mgrec_carry"] = self.take_carry
        worker.handlers["mgrec_write"] = self.write
        worker.handlers["mgrec_read"] = self.read

    def teardown(self, worker: Any) -> None:
        for pool in (self.programs, self.chunks):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    async def serve(self, comm: Any, session: str) -> None:
        """Serve one client until its comm ends."""
        await self._open(session, comm).run()

    def _open(self, name: str, comm: Any) -> Session:
        self.sessions[name] = session = Session(self, name, comm)
        return session

    def write(self, session: str, messages: list[Any]) -> None:
        """Take messages from a client by way of the scheduler."""
        self._relayed(session).incoming.put_nowait(messages)

    async def read(self, session: str) -> list[Any]:
        """Return messages to a client that come by way of the scheduler."""
        return await self._relayed(session).poll()

    def _relayed(self, name: str) -> WorkerComm:
        if name not in self.sessions:
            session = self._open(name, WorkerComm())
            session.task = asyncio.ensure_future(session.run())
        return self.sessions[name].comm

    def take_carry(self, session: str, solve: int, name: Hashable, message: bytes) -> None:
        """Take a message from another worker; one for a session that has ended is dropped."""
        if session in self.sessions:
            self.sessions[session].take_carry(solve, name, message)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a thread for programs."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.programs, function, *arguments)


class Session:
    """The plans of one client; their solves run one by one, in the order of its requests."""

    def __init__(self, plugin: PlansPlugin, name: str, comm: Any) -> None:
        self.plugin, self.worker, self.name, self.comm = plugin, plugin.worker, name, comm
        self.sender = Sender(comm)
        self.requests: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()
        self.plans: dict[str, tuple[PlanShard, Any]] = {}
        self.results: dict[str, list[Any]] = {}
        self.registered: set[str] = set()
        self.carries: dict[int, dict[Hashable, bytes]] = {}
        self.abandoned: set[int] = set()
        self.exchange: CommExchange | None = None
        self.task: asyncio.Task[None] | None = None
        self.current, self.done, self.since = 0, 0, 0.0

    async def run(self) -> None:
        """Read messages until the comm ends."""
        working = asyncio.create_task(self._work())
        self.sender.send("ready")
        try:
            while True:
                for op, *given in await self.comm.read():
                    getattr(self, f"_take_{op}", self._queue)(op, *given)
        except OSError:
            return
        finally:
            working.cancel()
            self._close()

    def _close(self) -> None:
        """Release what the client held here; the scheduler frees what it knows."""
        if self.plugin.sessions.get(self.name) is self:
            del self.plugin.sessions[self.name]
        names = self.results.keys() - self.registered
        free(self.worker, [key for name in names for key in self.results[name]])
        if self.exchange is not None:
            self.exchange.abandon(Abandoned())

    def _queue(self, op: str, *given: Any) -> None:
        self.requests.put_nowait((op, given))

    def _take_ping(self, op: str) -> None:
        self.sender.send("pong", time.monotonic() - self.since if self.since else 0.0)

    def _take_abandon(self, op: str, number: int) -> None:
        if number > self.done:
            self.abandoned.add(number)
        if number == self.current and self.exchange is not None:
            self.exchange.abandon(Abandoned())

    def _take_register(self, op: str, number: int, name: str, message: bytes) -> None:
        """Make results of a solve Dask's, too."""
        publish(self.worker, self.results[name])
        self.registered.add(name)
        self.sender.send("answer", number, dumps((True, None)))

    def take_carry(self, solve: int, name: Hashable, message: bytes) -> None:
        if solve == self.current and self.exchange is not None:
            self.exchange.put(name, message)
        elif solve > self.done:
            self.carries.setdefault(solve, {})[name] = message

    async def _work(self) -> None:
        while True:
            op, given = await self.requests.get()
            try:
                await getattr(self, op)(*given)
            except Exception:
                logger.exception("a message from a client of plans")
                self.comm.abort()
            del given

    async def hold(self, number: int, name: str, message: bytes) -> None:
        """Keep the shard of a plan and its operands."""
        await self._answer(number, self._hold(name, message))

    async def _hold(self, name: str, message: bytes) -> None:
        shard = loads(message)
        self.plans[name] = shard, await blocks_of(self.worker, shard.keys)

    async def forget(self, name: str) -> None:
        """Release a plan."""
        self.plans.pop(name, None)

    async def free(self, name: str, is_used: bool) -> None:
        """Free the results of a solve, which their client has released.

        Tasks may need results that left the plan (`is_used`): the scheduler frees these.
        """
        keys, is_registered = self.results.pop(name, []), name in self.registered
        self.registered.discard(name)
        if is_used and is_registered:
            await wait_until_freed(self.worker, keys)
        else:
            free(self.worker, keys)

    async def solve(self, number: int, name: str, message: bytes) -> None:
        """Solve the shard of a plan."""
        await self._answer(number, self._solve(number, name, message))

    async def _answer(self, number: int, work: Any) -> None:
        """Send what a request returns, or what it raises."""
        self.current = number
        try:
            answer = dumps((True, await work))
        except Exception as error:
            answer = _pickled(error)
        self.done, self.current, self.exchange = number, 0, None
        self.carries.pop(number, None)
        self.abandoned = {later for later in self.abandoned if later > number}
        self.sender.send("answer", number, answer)

    async def _solve(self, number: int, name: str, message: bytes) -> Any:
        request = loads(message)
        kept, blocks = self.plans[request.plan]
        if request.keys is not None:
            blocks = await blocks_of(self.worker, request.keys)
        self.exchange = CommExchange(kept.addresses, self._post_for(number))
        for carry in self.carries.pop(number, {}).items():
            self.exchange.put(*carry)
        if number in self.abandoned:
            raise Abandoned
        program = solve_shard(request, name, kept.shard, blocks, self.exchange, self.plugin.threads)
        del blocks
        results, answer = await self._run(program, self.exchange)
        if number in self.abandoned:
            raise Abandoned
        store(self.worker, results)
        self.results[name] = list(results)
        return answer

    def _post_for(self, solve: int) -> Callable[..., Any]:
        async def post(address: str, message: Any) -> None:
            name, content = message
            carry = {"session": self.name, "solve": solve, "name": name, "message": content}
            await self.worker.rpc(address).mgrec_carry(**carry, reply=False)

        return post

    async def _run(self, program: Program[Any], exchange: CommExchange) -> Any:
        """Run a program on threads, and wait on the event loop for the messages that it needs."""
        try:
            while True:
                has_ended, value = await self.plugin.call(self._step, program)
                if has_ended:
                    return value
                await exchange.wait(value)
        finally:
            with suppress(ValueError):  # A thread still runs a step; the program ends with it.
                program.close()

    def _step(self, program: Program[Any]) -> tuple[bool, Any]:
        """Run a program until it needs a message, or ends."""
        self.since = time.monotonic()
        try:
            return False, next(program)
        except StopIteration as end:
            return True, end.value
        finally:
            self.since = 0.0


def _pickled(error: Exception) -> bytes:
    """An error as its client gets it, also where it cannot be pickled."""
    try:
        pickled = dumps((False, error))
        loads(pickled)
    except Exception:
        return dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return pickled
