"""The worker's side of plans: sessions of clients, on handlers of Dask's server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from dask.utils import format_bytes
from distributed import Worker, WorkerPlugin
from distributed.comm import Comm
from distributed.protocol.pickle import dumps, loads

from ...core.backends import common_backend
from ..comms import Calls, Sender, WorkerLostError, picklable
from ..groups import mailbox
from ..groups.mailbox import Mailbox
from ..programs.shards import Threads
from .assignment import solve_shard
from .internals import blocks_of, free, memory_limit_of, publish, store, wait_until_freed
from .messages import PlanExchange, PlanShard, Request

NAME = "mgrec-plans"
# Solves of a client that a worker computes at once: one runs Python while others wait for messages
# or for the device.
IN_PROGRESS = 4
logger = logging.getLogger("mgrec")


async def install(dask_worker: Worker) -> None:
    """Install the plugins on a worker that does not have them."""
    await mailbox.install(dask_worker)
    if NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(PlansPlugin(), NAME, catch_errors=False)


class PlansPlugin(WorkerPlugin):  # type: ignore[misc]
    """Sessions of clients.

    The handler ``mgrec_session`` opens a session on a comm from a client, which lasts as long as
    the comm.
    """

    name = NAME

    def setup(self, worker: Worker) -> None:
        self.worker, self.calls = worker, Calls(asyncio.get_running_loop())
        count = max(1, worker.state.nthreads)
        self.chunks = ThreadPoolExecutor(count, "mgrec-chunk") if count > 1 else None
        self.threads = Threads(count, self.chunks)
        self.sessions: dict[str, Session] = {}
        worker.handlers["mgrec_session"] = self.serve

    def teardown(self, worker: Worker) -> None:
        if self.chunks is not None:
            self.chunks.shutdown(wait=False, cancel_futures=True)

    async def serve(self, comm: Comm, session: str) -> None:
        """Serve one client until its comm ends."""
        await Session(self, session, comm).run()


class Turns:
    """Programs of several threads, one of which runs at a time: the first that does not wait.

    They begin in the order of their numbers.
    """

    def __init__(self) -> None:
        self._changed, self._ready = threading.Condition(), set[int]()
        self._is_running = False

    def announce(self, number: int) -> None:
        """Add a program, before its thread begins."""
        with self._changed:
            self._ready.add(number)

    @contextmanager
    def taken(self, number: int) -> Iterator[None]:
        """Run as the program with this number; smaller numbers come first."""
        self._take(number)
        try:
            yield
        finally:
            self._release()

    @contextmanager
    def released(self, number: int) -> Iterator[None]:
        """Let other programs run while this one waits."""
        self._release()
        try:
            yield
        finally:
            self._take(number)

    def _take(self, number: int) -> None:
        with self._changed:
            self._ready.add(number)
            self._changed.wait_for(lambda: not self._is_running and number == min(self._ready))
            self._ready.remove(number)
            self._is_running = True

    def _release(self) -> None:
        with self._changed:
            self._is_running = False
            self._changed.notify_all()


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """What a worker stores of a plan: its shard, its operands by keys, and its messages."""

    shard: PlanShard
    blocks: Mapping[Any, Any]
    mailbox: Mailbox


class Solve:
    """A solve of a shard, from its request to its answer.

    Attributes
    ----------
    number : int
    name : str
        The name of the results.
    plan : StoredPlan
    request : Request
    results : Future
        The results by their keys.
    is_freed : bool
        Whether the client no longer refers to the results.
    """

    def __init__(self, number: int, name: str, plan: StoredPlan) -> None:
        self.number, self.name, self.plan = number, name, plan
        self.request: Request = plan.shard.request
        self.results: Future[dict[Any, Any]] = Future()
        self.is_freed = False

    def run(self, blocks: dict[Any, Any], keys: Any, turns: Turns, threads: Threads) -> Any:
        """Return the results and the answer; operands may be futures of earlier solves."""
        try:
            with turns.taken(self.number):
                self.plan.mailbox.check(self.number)
                if any(isinstance(block, Future) for block in blocks.values()):
                    with turns.released(self.number):
                        blocks |= {
                            key: block.result()[key]
                            for key, block in blocks.items()
                            if isinstance(block, Future)
                        }
                is_asynchronous = common_backend(blocks.values()).is_asynchronous
                exchange = PlanExchange(
                    self.plan.mailbox, self.number, partial(turns.released, self.number),
                    is_asynchronous,
                )  # fmt: skip
                operands = {index: [blocks[key] for key in own] for index, own in keys.items()}
                blocks.clear()
                stored = self.plan.shard
                return solve_shard(
                    self.request, self.name, stored.shard, operands, exchange, threads
                )
        except BaseException as error:
            # The plan has ended with a worker; other errors end the solve.
            number = None if isinstance(error, WorkerLostError) else self.number
            self.plan.mailbox.fail_everywhere(error, number)
            raise


class Session:
    """The plans of one client: its solves start in the order of requests."""

    def __init__(self, plugin: PlansPlugin, name: str, comm: Comm) -> None:
        self.plugin, self.worker, self.name, self.comm = plugin, plugin.worker, name, comm
        plugin.sessions[name], self.sender = self, Sender.on(comm)
        self.requests: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()
        self.plans: dict[str, StoredPlan] = {}
        # The keys of each solve's results, and their bytes.
        self.results: dict[str, dict[Any, int]] = {}
        self.registered: set[str] = set()
        # Solves in the order of their requests, until they are answered.
        self.solves: dict[int, Solve] = {}
        self.turns, self.pool = Turns(), ThreadPoolExecutor(IN_PROGRESS, "mgrec-plan")

    async def run(self) -> None:
        """Read messages until the comm ends."""
        working = asyncio.create_task(self._work())
        self.sender.send("ready", memory_limit_of(self.worker))
        try:
            while True:
                for op, *arguments in await self.comm.read():
                    getattr(self, f"_take_{op}", self._queue)(op, *arguments)
        except OSError:
            return
        finally:
            working.cancel()
            self._close()

    def _close(self) -> None:
        """Free the client's results; the scheduler frees those that it knows."""
        if self.plugin.sessions.get(self.name) is self:
            del self.plugin.sessions[self.name]
        error = dumps(RuntimeError("the client of the plan has left"))
        for plan in {*self.plans.values(), *(solve.plan for solve in self.solves.values())}:
            plan.mailbox.fail(error)
            plan.mailbox.close()
        self.pool.shutdown(wait=False)
        names = self.results.keys() - self.registered
        free(self.worker, [key for name in names for key in self.results[name]])

    def _queue(self, op: str, *arguments: Any) -> None:
        self.requests.put_nowait((op, arguments))

    def _take_ping(self, op: str) -> None:
        self.sender.send("pong")

    def _take_abandon(self, op: str, number: int, plan: str) -> None:
        """Make a solve fail, now or when it starts."""
        if plan in self.plans:
            error = RuntimeError("the client has abandoned the solve")
            self.plans[plan].mailbox.fail(dumps(error), number)

    def _take_register(self, op: str, number: int, name: str) -> None:
        """Add results of a solve to the worker's state."""
        try:
            publish(self.worker, self.results[name])
        except Exception as error:
            self._answer(number, error)
        else:
            self.registered.add(name)
            self._answer(number)

    async def _work(self) -> None:
        while True:
            op, arguments = await self.requests.get()
            try:
                await getattr(self, op)(*arguments)
            except Exception:
                logger.exception("a message from a client of plans")
                self.comm.abort()
            del arguments

    async def add_plan(self, number: int, name: str, message: bytes) -> None:
        """Store the shard of a plan and its operands."""
        try:
            shard: PlanShard = loads(message)
            blocks = await blocks_of(self.worker, {k for own in shard.keys.values() for k in own})
            groups, rank = self.worker.plugins[mailbox.NAME], shard.shard.number
            own = Mailbox(
                groups, name, rank, shard.addresses, shard.timeout, lost=WorkerLostError.of
            )
            groups.add(name, own)
            self.plans[name] = StoredPlan(shard, blocks, own)
        except Exception as error:
            self._answer(number, error)
        else:
            self._answer(number)

    async def remove_plan(self, name: str) -> None:
        """Release the shard of a plan and its operands."""
        if (plan := self.plans.pop(name, None)) is not None:
            self._close_if_unused(plan)

    def _close_if_unused(self, plan: StoredPlan) -> None:
        if plan in self.plans.values() or any(s.plan is plan for s in self.solves.values()):
            return
        plan.mailbox.close()

    async def free(self, name: str, is_used: bool) -> None:
        """Free the results of a solve, which the client has released.

        If results were used outside of the plan (`is_used`), tasks may need them: the scheduler
        frees these.
        """
        for solve in self.solves.values():
            solve.is_freed = solve.is_freed or solve.name == name
        keys, is_registered = list(self.results.pop(name, ())), name in self.registered
        self.registered.discard(name)
        if is_used and is_registered:
            await wait_until_freed(self.worker, keys)
        else:
            free(self.worker, keys)

    async def solve(
        self, number: int, name: str, oldest: int, plan: str, names: Sequence[str] | None,
        request: bytes | None,
    ) -> None:  # fmt: skip
        """Solve the shard of a plan, for operands with these names."""
        if plan not in self.plans:  # If it was not added, the client has the error.
            error = WorkerLostError.of(self.worker.address, "its connection has ended")
            return self._answer(number, error)
        stored = self.plans[plan]
        stored.mailbox.forget(oldest)
        solve, keys = Solve(number, name, stored), stored.shard.keys
        blocks: dict[Any, Any] = {}
        try:
            if request is not None:
                solve.request = loads(request)
            if names is not None:
                keys = {
                    index: [(array, *key[1:]) for array, key in zip(names, own, strict=True)]
                    for index, own in keys.items()
                }
            blocks = await self._find_operands(keys, stored)
        except Exception as error:
            stored.mailbox.fail_everywhere(error, number)
        self.solves[number] = solve
        self.turns.announce(number)
        self.pool.submit(self._run, solve, blocks, keys)

    async def _find_operands(self, keys: Mapping[Any, Sequence[Any]], plan: StoredPlan) -> Any:
        """Return operands by keys: the plan's, futures of unfinished solves, and others."""
        unfinished = {solve.name: solve for solve in self.solves.values()}
        blocks, others = dict[Any, Any](), list[Any]()
        for key in {key for own in keys.values() for key in own}:
            source = unfinished.get(key[0].rpartition("-")[0])
            if key in plan.blocks:
                blocks[key] = plan.blocks[key]
            elif source is not None:
                blocks[key] = source.results
            else:
                others.append(key)
        return blocks | await blocks_of(self.worker, others)

    def _run(self, solve: Solve, blocks: dict[Any, Any], keys: Any) -> None:
        """Run a solve on a thread, and let the event loop store its results and answer."""
        answer: Any = None
        try:
            results, answer = solve.run(blocks, keys, self.turns, self.plugin.threads)
        except BaseException as error:
            # Frames of a traceback would keep the arrays of the solve.
            answer = error.with_traceback(None)
            solve.results.set_exception(answer)
        else:
            solve.results.set_result(results)
            del results  # this thread may be late to return
        self.plugin.calls.add(self._end, solve, answer)

    def _end(self, solve: Solve, answer: Any) -> None:
        """Store the results of a solve, and answer."""
        del self.solves[solve.number]
        computed, solve.results = solve.results, Future()
        self._close_if_unused(solve.plan)
        if self.plugin.sessions.get(self.name) is not self:
            return
        try:
            if not isinstance(answer, BaseException) and not solve.is_freed:
                results = computed.result()
                store(self.worker, results)
                self.results[solve.name] = {key: block.nbytes for key, block in results.items()}
        except BaseException as error:
            answer = error
        self._answer(solve.number, answer)

    def _answer(self, number: int, answer: Any = None) -> None:
        """Send the result or the error of a request."""
        is_error = isinstance(answer, BaseException)
        if isinstance(answer, MemoryError):
            answer.add_note(self._fullness())
        message = dumps((not is_error, picklable(answer) if is_error else answer))
        self.sender.send("answer", number, None if answer is None else message)

    def _fullness(self) -> str:
        """Return how many bytes the client's plans store here."""
        sizes = [size for keys in self.results.values() for size in keys.values()]
        blocks = {k: block for plan in self.plans.values() for k, block in plan.blocks.items()}
        operands = sum(block.nbytes for block in blocks.values())
        return (
            f"The memory of {self.worker.address} is full. Plans of this client keep "
            f"{format_bytes(operands)} of operands and {format_bytes(sum(sizes))} of results of "
            f"{len(self.results)} solves there, to which the program refers"
        )
