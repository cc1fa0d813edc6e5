"""The worker's side of plans: sessions of clients, on handlers of Dask's server."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from dask.utils import format_bytes
from distributed import Worker, WorkerPlugin
from distributed.comm import Comm
from distributed.protocol.pickle import dumps, loads

from ...core.backends import backend_of
from ..comms import Sender, picklable
from ..groups import mailbox
from ..groups.mailbox import Mailbox
from ..programs.shards import Threads, Turns
from .gpus import GPUThread
from .internals import blocks_of, free
from .program import PlanShard, Solve, StoredPlan

NAME = "mgrec-plans"
# Solves of a client that a worker computes at once: one runs Python while others wait for messages
# or for the device.
IN_PROGRESS = 4
# Seconds that a worker waits for the scheduler to free results, and bytes from which on it does.
FREEING, LARGE = 0.5, 1 << 24
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
        self.worker, self.groups = worker, worker.plugins[mailbox.NAME]
        count = max(1, worker.state.nthreads)
        pool = ThreadPoolExecutor(count, "mgrec-chunk") if count > 1 else None
        self.threads = Threads(count, pool)
        self.sessions: set[WorkerSession] = set()
        worker.handlers["mgrec_session"] = lambda comm: WorkerSession(self, comm).run()

    def teardown(self, worker: Worker) -> None:
        if self.threads.pool is not None:
            self.threads.pool.shutdown(wait=False, cancel_futures=True)


class WorkerSession:
    """The plans of one client, whose requests a worker handles in their order.

    Handlers have the names of requests. Errors that they raise are the answers.
    """

    def __init__(self, plugin: PlansPlugin, comm: Comm) -> None:
        self.plugin, self.worker, self.comm = plugin, plugin.worker, comm
        self.sender = Sender.on(comm)
        self.requests: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()
        self.plans: dict[str, StoredPlan] = {}
        # In the order of their requests.
        self.solves: dict[str, Solve] = {}
        # Bytes of operands and results in host memory.
        self.size = 0
        self.turns, self.pool = Turns(), ThreadPoolExecutor(IN_PROGRESS, "mgrec-plan")
        self.gpus: GPUThread | None = None

    async def run(self) -> None:
        """Read messages until the comm ends."""
        self.plugin.sessions.add(self)
        working = asyncio.create_task(self._work())
        self.sender.send("ready", self.worker.memory_manager.memory_limit)
        try:
            while True:
                for op, *arguments in await self.comm.read():
                    if op == "ping":
                        self.pong()
                    else:
                        self.requests.put_nowait((op, arguments))
        except OSError:
            return
        finally:
            working.cancel()
            self._close()

    def pong(self) -> None:
        """Answer a ping: the worker is alive, whatever it computes."""
        self.sender.send("pong")

    def _close(self) -> None:
        """End all solves, and free their results; the scheduler frees those that it knows."""
        self.plugin.sessions.discard(self)
        error = dumps(RuntimeError("the client of the plan has left"))
        for plan in {*self.plans.values(), *(solve.plan for solve in self.solves.values())}:
            if plan is not None:
                plan.mailbox.fail(error)
                plan.mailbox.close()
        self.pool.shutdown(wait=False)
        if self.gpus is not None:
            self.gpus.close()
        for solve in self.solves.values():
            if not solve.is_registered:
                free(self.worker, solve.stored)

    async def _work(self) -> None:
        while True:
            op, (number, *arguments) = await self.requests.get()
            try:
                await getattr(self, op)(number, *arguments)
            except Exception as error:
                if not number:
                    logger.exception("a message from a client of plans")
                self._answer(number, error)
            del arguments

    async def add_plan(self, number: int, name: str, message: bytes) -> None:
        """Store the shard of a plan and its operands."""
        shard: PlanShard = loads(message)
        blocks = await blocks_of(self.worker, {k for keys in shard.keys.values() for k in keys})
        size = _size_of(blocks.values())
        self._check_memory(size, shard.result_size)
        groups = self.plugin.groups
        box = Mailbox(groups, name, shard.shard.number, [*shard.addresses], shard.timeout)
        groups.add(name, box)
        self.plans[name] = plan = StoredPlan(shard, blocks, box)
        # Solves keep a removed plan until they have ended.
        weakref.finalize(plan, box.close)
        self.size += size
        if shard.is_on_gpus and self.gpus is None:
            self.gpus = GPUThread(groups, self._run, self._start)
            self.turns.launcher = self.gpus.thread
        self._answer(number)

    def _check_memory(self, operands: int, results: int) -> None:
        """Raise MemoryError if the worker has no room; operands of a plan do not spill."""
        limit = self.worker.memory_manager.memory_limit
        if limit is not None and operands + results > limit:
            raise MemoryError(
                f"a plan needs {format_bytes(operands)} for operands and {format_bytes(results)} "
                f"for results in the memory of {self.worker.address}, whose limit is "
                f"{format_bytes(limit)}. Use more workers, or the graph that the function returns "
                f"without a plan, which needs memory for a few chunks at once"
            )

    async def remove_plan(self, number: int, name: str) -> None:
        """Release the operands of a plan, and end the solves that nothing needs."""
        if (plan := self.plans.pop(name, None)) is None:
            return
        self.size -= _size_of(plan.blocks.values())
        error, needed = dumps(RuntimeError("the plan is closed")), set[Any]()
        for solve in reversed(self.solves.values()):
            if solve.plan is plan and solve.is_freed and solve.outcome not in needed:
                plan.mailbox.fail(error, solve.number)
            else:
                needed |= solve.awaited()

    async def solve(
        self,
        number: int,
        oldest: int,
        plan: str,
        name: str,
        names: Sequence[str] | None,
        request: bytes | None,
    ) -> None:
        """Solve the shard of a plan, for operands with these names.

        No worker needs messages of solves before the `oldest` number any more.
        """
        if plan not in self.plans:
            raise RuntimeError("the plan is closed")
        stored = self.plans[plan]
        stored.mailbox.forget(oldest)
        solve = self.solves[name] = Solve(number, name, stored, self.turns)
        try:
            if request is not None:
                solve.request = loads(request)
            if names is not None:
                solve.keys = {
                    index: [(array, *key[1:]) for array, key in zip(names, keys, strict=True)]
                    for index, keys in stored.shard.keys.items()
                }
            await self._find_operands(solve, stored)
        except Exception as error:
            stored.mailbox.fail_everywhere(error, number)
        (self.gpus.solve if self.gpus and stored.shard.is_on_gpus else self._start)(solve)

    def _start(self, solve: Solve) -> None:
        """Start a solve on a thread, from any thread."""
        if not solve.awaited():
            self.turns.announce(solve.number)
        self.pool.submit(self._run, solve)

    async def _find_operands(self, solve: Solve, plan: StoredPlan) -> None:
        """Find the operands of a solve: the plan's, results of earlier solves, and others."""
        others = []
        for key in {key for keys in solve.keys.values() for key in keys}:
            source = self.solves.get(key[0].rpartition("-")[0])
            if key in plan.blocks:
                solve.blocks[key] = plan.blocks[key]
            elif source is not None and source.outcome is not None:
                solve.blocks[key] = source.outcome
            else:
                others.append(key)
        solve.blocks |= await blocks_of(self.worker, others)

    def _run(self, solve: Solve) -> None:
        """Run a solve on a thread, and let the event loop store its results and answer."""
        outcome, answer = solve.outcome, None
        try:
            results, answer = solve.run(self.plugin.threads)
        except BaseException as error:
            # Frames of a traceback would keep the arrays of the solve.
            answer = error.with_traceback(None)
            outcome.set_exception(answer)
        else:
            outcome.set_result(results)
            del results, outcome  # this thread may be late to return
        self.plugin.groups.calls.add(self._end, solve, answer)

    def _end(self, solve: Solve, answer: Any) -> None:
        """Store the results of a solve, and answer."""
        solve.plan = None
        if self not in self.plugin.sessions:
            return
        if not isinstance(answer, BaseException):
            results, solve.outcome = solve.outcome.result(), None
            try:
                self._store(solve, {} if solve.is_freed else results)
            except BaseException as error:
                answer, solve.outcome = error, Future()
                solve.outcome.set_exception(error)
        if solve.is_freed:
            del self.solves[solve.name]
        self._answer(solve.number, answer)

    def _store(self, solve: Solve, results: dict[Any, Any]) -> None:
        """Put results into the worker's memory, where Dask spills them if it must.

        The worker's state does not include them: each key in there costs two messages to the
        scheduler.
        """
        solve.stored, solve.size = list(results), _size_of(results.values())
        self.size += solve.size
        for key, result in results.items():
            self.worker.data[key] = result

    async def register(self, number: int, name: str) -> None:
        """Add results of a solve to the worker's state, before the scheduler knows them."""
        solve, sizes = self.solves[name], {}
        for key in solve.stored:  # One by one: together they may not fit into memory.
            block = self.worker.data[key]
            self.worker.update_data({key: block})
            sizes[key] = block.nbytes
        solve.is_registered = True
        self._answer(number, sizes)

    async def release_gpus(self, number: int) -> None:
        """Leave the exchanges of GPUs to a program, when all earlier solves have ended."""
        if self.gpus is None:
            self._answer(number)
        else:
            self.gpus.release(partial(self.plugin.groups.calls.add, self._answer, number))

    async def free(self, number: int, name: str) -> None:
        """Free the results of a solve, which the client has released.

        If the scheduler knows them, tasks may need them: the scheduler frees these.
        """
        if (solve := self.solves.get(name)) is None:
            return
        solve.is_freed = True
        self._answer(number)
        if solve.plan is not None:
            return  # It has not ended.
        del self.solves[name]
        self.size -= solve.size
        if not solve.is_registered:
            free(self.worker, solve.stored)
        elif solve.size >= LARGE:
            deadline = time.monotonic() + FREEING
            while any(k in self.worker.data for k in solve.stored) and time.monotonic() < deadline:
                await asyncio.sleep(0.002)

    def _answer(self, number: int, answer: Any = None) -> None:
        """Send the result or the error of a request, unless its number is 0."""
        if not number:
            return
        is_error = isinstance(answer, BaseException)
        message = (not is_error, picklable(answer) if is_error else answer)
        self.sender.send("answer", number, self.size, None if answer is None else dumps(message))


def _size_of(arrays: Iterable[Any]) -> int:
    """Return the bytes of arrays in host memory; blocks may be no arrays, which a solve refuses."""
    return sum(getattr(array, "nbytes", 0) for array in arrays if backend_of(array).is_host)
