"""The worker's side of plans: sessions of clients, on handlers of Dask's server."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from operator import itemgetter
from typing import Any

from dask.utils import format_bytes
from distributed import Worker, WorkerPlugin
from distributed.comm import Comm
from distributed.protocol.pickle import dumps, loads

from ...core.backends import common_backend
from .assignment import BandShard
from .internals import blocks_of, free, memory_limit_of, publish, store, wait_until_freed
from .messages import (
    Abandoned,
    Calls,
    Exchange,
    PlanShard,
    Program,
    Sender,
    Wait,
    WorkerComm,
    WorkerLostError,
)
from .shards import Threads, solve_shard

NAME = "mgrec-plans"
# Threads of a worker that may wait for its device at once.
DEVICE_WAITS = 8
# Seconds of a step that the event loop takes over from the threads. Every change of threads takes
# 0.1 ms or more, and a thread that runs Python keeps the loop from sending messages.
SHORT = 0.003
# Seconds of a wait for a device that no other thread need take over.
BRIEF = 0.0002
# Most seconds that a step waits for those of other clients: one of them may never end.
LONGEST_WAIT = 1.0
logger = logging.getLogger("mgrec")


async def install(dask_worker: Worker) -> None:
    """Install the plugin on a worker that does not have it."""
    if NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(PlansPlugin(), NAME, catch_errors=False)


class PlansPlugin(WorkerPlugin):  # type: ignore[misc]
    """Sessions of clients, and the threads on which their shards run.

    The handler ``mgrec_session`` opens a session on a comm from a client, which lasts as long as
    the comm. ``mgrec_write`` and ``mgrec_read`` are calls of a client by way of the scheduler.
    ``mgrec_carries`` takes messages from another worker. No thread ever waits for a message, so
    that any number of threads is enough for any number of sessions. Threads wait for devices: a
    solve is on a device while the next one starts.
    """

    name = NAME

    def setup(self, worker: Worker) -> None:
        self.worker, self.calls = worker, Calls(asyncio.get_running_loop())
        # In a process of its own; workers and clients of one process share an event loop.
        self.owns_loop = threading.current_thread() is threading.main_thread()
        count = max(1, worker.state.nthreads)
        self.programs = ThreadPoolExecutor(count + DEVICE_WAITS, "mgrec-plan")
        self.stepping = threading.BoundedSemaphore(count)
        self.chunks = ThreadPoolExecutor(count, "mgrec-chunk") if count > 1 else None
        self.threads = Threads(count, self.chunks)
        self.sessions: dict[str, Session] = {}
        self.peers: dict[str, Sender] = {}
        worker.handlers["mgrec_session"] = self.serve
        worker.handlers["mgrec_carries"] = self.take_carries
        worker.handlers["mgrec_write"] = self.write
        worker.handlers["mgrec_read"] = self.read

    def teardown(self, worker: Worker) -> None:
        for pool in (self.programs, self.chunks):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

    async def serve(self, comm: Comm, session: str) -> None:
        """Serve one client until its comm ends."""
        await Session(self, session, comm).run()

    def write(self, session: str, messages: list[Any]) -> None:
        """Take messages from a client by way of the scheduler."""
        self._comm_by_scheduler(session).incoming.put_nowait(messages)

    async def read(self, session: str) -> list[Any]:
        """Return messages to a client by way of the scheduler."""
        return await self._comm_by_scheduler(session).poll()

    def _comm_by_scheduler(self, name: str) -> WorkerComm:
        if name not in self.sessions:
            session = Session(self, name, WorkerComm())
            session.task = asyncio.ensure_future(session.run())
        return self.sessions[name].comm

    def take_carries(self, carries: Sequence[Any]) -> None:
        """Take messages from another worker; drop those for a session that has ended."""
        for session, *carry in carries:
            if session in self.sessions:
                self.sessions[session].take_carry(*carry)

    def send_carry(self, address: str, *carry: Any) -> None:
        """Send a message to another worker: (session, solve, name, *message)."""
        if address not in self.peers:
            worker, rpc = self.worker, self.worker.rpc(address)

            def abandon(carries: list[Any]) -> None:
                for session, solve, *_ in carries:
                    if session in self.sessions:
                        error = WorkerLostError.of(address, f"{worker.address} cannot reach it")
                        self.sessions[session].abandon(solve, error)

            def write(carries: list[Any]) -> Any:
                # Lists: Dask looks for arrays in no tuples.
                return rpc.mgrec_carries(carries=list(map(list, carries)), reply=False)

            self.peers[address] = Sender(write, abandon)
        self.peers[address].send(*carry)


class Solve:
    """A solve of a shard, from its request to its answer.

    Attributes
    ----------
    name, plan : str
        Names of the results and of the plan.
    blocks : dict, key -> array
        The operands, until the program starts.
    sources : dict, solve -> keys
        Unfinished solves, and the blocks that are their results.
    program : generator, optional
        None before it starts, and after its end.
    missing : set
        Names of messages that the program needs to go on.
    wait : callable, optional
        Waits for the device; `step` resumes the program with what it returned or raised.
    results : dict, key -> array, optional
        None until the program has ended.
    error : Exception, optional
        Why the solve fails.
    is_freed : bool
        Whether the client no longer refers to the results.
    waits_in_place : bool
        Whether `step` also waits: there is no device, or waits are brief.
    is_short : bool
        Whether the event loop steps the program.
    seconds, waited : float
        The longest step and the longest wait so far.
    """

    def __init__(
        self, number: int, name: str, plan: str, stored: PlanShard, exchange: Exchange
    ) -> None:
        self.number, self.name, self.plan, self.exchange = number, name, plan, exchange
        self.shard, self.request, self.keys = stored.shard, stored.request, stored.keys
        self.waits_in_place = self.is_short = False
        self.seconds = self.waited = 0.0
        self.blocks: dict[Any, Any] = {}
        self.sources: dict[Solve, list[Any]] = {}
        self.program: Program[Any] | None = None
        self.missing: set[Hashable] = set()
        self.wait: Wait | None = None
        self.value: Any = None
        self.results: dict[Any, Any] | None = None
        self.answer: Any = None
        self.error: BaseException | None = None
        self.has_ended = self.is_freed = False

    def take_results(self, source: Solve) -> None:
        """Take operands from the results of a solve that has ended."""
        keys = self.sources.pop(source)
        if source.results is None:
            self.error = self.error or source.error
        else:
            self.blocks |= {key: source.results[key] for key in keys}

    @property
    def is_ready(self) -> bool:
        """Whether the program can start or go on."""
        has_all = not self.missing and not self.sources
        return self.wait is None and (has_all or self.error is not None)

    def run_wait(self) -> None:
        """Wait for the device; the program can go on when `wait` is None again."""
        assert self.wait is not None
        start = time.monotonic()
        try:
            self.value = self.wait()
        except BaseException as error:
            self.error = self.error or error
        self.waited = max(self.waited, time.monotonic() - start)

    def step(self, threads: Threads) -> None:
        """Run the program until it needs messages or waits for the device, or ends."""
        try:
            if self.error is not None:
                raise self.error
            if self.program is None:
                self.program = self._start(threads)
                self.blocks = {}
            value, self.value = self.value, None
            needed = self.program.send(value)
            while callable(needed) and self.waits_in_place:
                start = time.monotonic()
                value = needed()
                self.waited = max(self.waited, time.monotonic() - start)
                needed = self.program.send(value)
            if callable(needed):
                self.wait = needed
            else:
                self.missing = set(needed)
        except StopIteration as end:
            self.results, self.answer = end.value
            self.has_ended = True
        except BaseException as error:
            # Frames of a traceback would keep the arrays of the solve.
            self.error, self.has_ended = error.with_traceback(None), True
            if self.program is not None:
                self.program.close()
        if self.has_ended:
            self.program, self.blocks = None, {}

    def _start(self, threads: Threads) -> Program[Any]:
        self.waits_in_place |= not common_backend(self.blocks.values()).is_asynchronous
        blocks = {index: [self.blocks[key] for key in keys] for index, keys in self.keys.items()}
        return solve_shard(self.request, self.name, self.shard, blocks, self.exchange, threads)


class Session:
    """The plans of one client.

    Its solves start in the order of requests, and go on in any order: while one needs messages or
    waits for the device, the next one starts. Programs are stepped one at a time: by the event loop
    if the steps of the plan's last solve were short, else by threads.
    """

    def __init__(self, plugin: PlansPlugin, name: str, comm: Comm) -> None:
        self.plugin, self.worker, self.name, self.comm = plugin, plugin.worker, name, comm
        plugin.sessions[name], self.sender = self, Sender.on(comm)
        self.requests: asyncio.Queue[tuple[str, tuple[Any, ...]]] = asyncio.Queue()
        self.plans: dict[str, tuple[PlanShard, dict[Any, Any]]] = {}
        # Seconds of the longest step and of the longest wait of each plan's last solve.
        self.seconds: dict[str, tuple[float, float]] = {}
        # The keys of each solve's results, and their bytes.
        self.results: dict[str, dict[Any, int]] = {}
        self.registered: set[str] = set()
        self.carries: dict[int, dict[Hashable, Sequence[Any]]] = {}
        self.abandoned: set[int] = set()
        self.task: asyncio.Task[None] | None = None
        # Solves in the order of their requests, until they are answered; and the last number.
        self.solves: dict[int, Solve] = {}
        self.last, self.has_room = 0, asyncio.Event()
        # Guards everything on which `Solve.is_ready` depends.
        self.lock = threading.Lock()
        self.is_stepping = self.is_fetching = False
        # Number of steps so far.
        self.steps = 0
        # Solves that threads step or wait for, by numbers, and since when.
        self.busy: dict[int, float] = {}

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
        names = self.results.keys() - self.registered
        free(self.worker, [key for name in names for key in self.results[name]])
        for number in list(self.solves):
            self.abandon(number, Abandoned())

    def _queue(self, op: str, *arguments: Any) -> None:
        self.requests.put_nowait((op, arguments))

    def _take_ping(self, op: str) -> None:
        number, since = min(list(self.busy.items()), key=itemgetter(1), default=(0, 0.0))
        seconds = time.monotonic() - since if number else 0.0
        self.sender.send("pong", number, seconds, None if self._has_work() else self.steps)

    def _has_work(self) -> bool:
        """Return whether the session does more than to wait for messages."""
        with self.lock:
            is_on_device = any(solve.wait is not None for solve in self.solves.values())
            is_busy = self.is_stepping or self.is_fetching or bool(self.busy)
            return is_on_device or is_busy or self._next() is not None

    def _take_abandon(self, op: str, number: int) -> None:
        self.abandon(number, Abandoned())

    def _take_register(self, op: str, number: int, name: str) -> None:
        """Add results of a solve to the worker's state."""
        try:
            publish(self.worker, self.results[name])
        except Exception as error:
            self._answer(number, error)
        else:
            self.registered.add(name)
            self._answer(number)

    def abandon(self, number: int, error: Exception) -> None:
        """Make a solve fail, now or when it starts."""
        if (solve := self.solves.get(number)) is not None:
            with self.lock:
                solve.error, solve.exchange.is_abandoned = solve.error or error, True
            self._resume()
        elif number > self.last:
            self.abandoned.add(number)

    def take_carry(self, number: int, name: Hashable, *message: Any) -> None:
        """Take a message of another shard of a solve."""
        if (solve := self.solves.get(number)) is not None:
            with self.lock:
                solve.exchange.arrived[name] = message
                solve.missing.discard(name)
            self._resume()
        elif number > self.last:
            self.carries.setdefault(number, {})[name] = message

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
            plan = loads(message)
            keys = {key for keys in plan.keys.values() for key in keys}
            self.plans[name] = plan, await self._fetch(keys)
        except Exception as error:
            self._answer(number, error)
        else:
            self._answer(number)
        self.last = number

    async def remove_plan(self, name: str) -> None:
        """Release the shard of a plan and its operands."""
        self.plans.pop(name, None)
        self.seconds.pop(name, None)

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
        self, number: int, name: str, plan: str, names: Sequence[str] | None, request: bytes | None
    ) -> None:
        """Solve the shard of a plan, for operands with these names."""
        if plan not in self.plans:  # If it was not added, the client has the error.
            self.last = number
            self.carries.pop(number, None)
            error = WorkerLostError.of(self.worker.address, "its connection has ended")
            return self._answer(number, error)
        stored, blocks = self.plans[plan]
        while len(self.solves) >= stored.in_flight:
            self.has_room.clear()
            await self.has_room.wait()

        def post(address: str, *carry: Any) -> None:
            self.plugin.calls.add(self.plugin.send_carry, address, self.name, number, *carry)

        solve = Solve(number, name, plan, stored, Exchange(stored.addresses, post))
        # Another request may need other kernels, which take seconds to compile.
        step, wait = self.seconds.get(plan, (inf, inf)) if request is None else (inf, inf)
        # A step of bands may wait for a kernel that waits for another GPU. The event loop must be
        # free, to abandon the solve if that GPU's worker is lost.
        may_wait = isinstance(stored.shard, BandShard)
        solve.is_short = step < SHORT and self.plugin.owns_loop and not may_wait
        solve.waits_in_place = wait < BRIEF
        try:
            if request is not None:
                solve.request = loads(request)
            if names is not None:
                solve.keys = {
                    index: [(array, *key[1:]) for array, key in zip(names, keys, strict=True)]
                    for index, keys in stored.keys.items()
                }
            await self._find_operands(solve, blocks)
        except Exception as error:
            solve.error = error
        if number in self.abandoned:
            solve.error = Abandoned()
        self.abandoned = {later for later in self.abandoned if later > number}
        solve.exchange.arrived |= self.carries.pop(number, {})
        with self.lock:
            self.solves[number], self.last = solve, number
        self._resume()

    async def _find_operands(self, solve: Solve, stored: dict[Any, Any]) -> None:
        """Find the operands of a solve: the plan's, results of unfinished solves, and others."""
        unfinished = {solve.name: solve for solve in self.solves.values()}
        others = []
        for key in {key for keys in solve.keys.values() for key in keys}:
            source = unfinished.get(key[0].rpartition("-")[0])
            if key in stored:
                solve.blocks[key] = stored[key]
            elif source is not None:
                solve.sources.setdefault(source, []).append(key)
            else:
                others.append(key)
        solve.blocks |= await self._fetch(others)
        with self.lock:
            for source in [source for source in solve.sources if source.has_ended]:
                solve.take_results(source)

    async def _fetch(self, keys: Collection[Any]) -> dict[Any, Any]:
        """Return blocks by their keys, those of other workers as well."""
        self.is_fetching = True
        try:
            return await blocks_of(self.worker, keys)
        finally:
            self.is_fetching = False

    def _resume(self) -> None:
        """Step the programs that are ready, here or on a thread, unless one is stepped."""
        deadline, stepped = time.monotonic() + SHORT, set[Solve]()
        # At least once, however late: without a step, nothing resumes the programs again.
        while not stepped or time.monotonic() < deadline:
            with self.lock:
                solve = None if self.is_stepping else self._next(stepped)
                if solve is None:
                    break
                self.is_stepping = True
            if not solve.is_short:
                return self._submit(self._step_all)
            stepped.add(solve)
            self._step(solve)
            with self.lock:
                self.is_stepping = False
            if solve.wait is not None:
                self._submit(self._wait, solve)
        if stepped:
            # After their messages: one turn of the loop creates a task, which sends in the next.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._resume)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> None:
        with suppress(RuntimeError):  # The worker is closing.
            self.plugin.programs.submit(function, *arguments)

    def _next(self, excluded: Collection[Solve] = ()) -> Solve | None:
        """Return the first solve that is ready; none starts before those requested earlier."""
        for solve in self.solves.values():
            if not solve.has_ended:
                if solve.is_ready and solve not in excluded:
                    return solve
                if solve.program is None:
                    return None
        return None

    def _step_all(self) -> None:
        """Step programs on a thread as long as one is ready."""
        while True:
            with self.lock:
                solve = self._next()
                self.is_stepping = solve is not None
            if solve is None:
                return
            has_permit = self.plugin.stepping.acquire(timeout=LONGEST_WAIT)
            self._step(solve)
            if has_permit:
                self.plugin.stepping.release()
            if solve.wait is not None:
                with self.lock:
                    self.is_stepping = False
                self.plugin.calls.add(self._resume)
                self._wait(solve)
                return
            if len(self.plugin.sessions) > 1:  # Solves of other clients come before the next one.
                return self._submit(self._step_all)

    def _wait(self, solve: Solve) -> None:
        """Wait for the device, on a thread."""
        self.busy[solve.number] = time.monotonic()
        solve.run_wait()
        del self.busy[solve.number]
        with self.lock:
            solve.wait = None
        self.plugin.calls.add(self._resume)

    def _step(self, solve: Solve) -> None:
        start = self.busy[solve.number] = time.monotonic()
        solve.step(self.plugin.threads)
        solve.seconds = max(solve.seconds, time.monotonic() - start)
        del self.busy[solve.number]
        self.steps += 1
        with self.lock:
            solve.missing = {name for name in solve.missing if not solve.exchange.has(name)}
            for later in self.solves.values() if solve.has_ended else ():
                if solve in later.sources:
                    later.take_results(solve)
        if solve.has_ended:
            self.plugin.calls.add(self._end, solve)

    def _end(self, solve: Solve) -> None:
        """Store the results of a solve, and answer."""
        with self.lock:
            del self.solves[solve.number]
        self.has_room.set()
        if solve.plan in self.plans:
            self.seconds[solve.plan] = solve.seconds, solve.waited
        if self.plugin.sessions.get(self.name) is not self:
            return
        try:
            if solve.results is None or solve.error is not None:
                raise solve.error or Abandoned()
            if not solve.is_freed:
                store(self.worker, solve.results)
                self.results[solve.name] = {
                    key: result.nbytes for key, result in solve.results.items()
                }
        except BaseException as error:
            self._answer(solve.number, error)
        else:
            self._answer(solve.number, solve.answer)

    def _answer(self, number: int, answer: Any = None) -> None:
        """Send the result or the error of a request."""
        is_error = isinstance(answer, BaseException)
        if isinstance(answer, MemoryError):
            answer.add_note(self._fullness())
        message = _pickled(answer) if is_error else dumps((True, answer))
        self.sender.send("answer", number, None if answer is None else message)

    def _fullness(self) -> str:
        """Return how many bytes the client's plans store here."""
        sizes = [size for keys in self.results.values() for size in keys.values()]
        blocks = {key: block for _, blocks in self.plans.values() for key, block in blocks.items()}
        operands = sum(block.nbytes for block in blocks.values())
        return (
            f"The memory of {self.worker.address} is full. Plans of this client keep "
            f"{format_bytes(operands)} of operands and {format_bytes(sum(sizes))} of results of "
            f"{len(self.results)} solves there, to which the program refers"
        )


def _pickled(error: BaseException) -> bytes:
    """Return an error for the client; a RuntimeError if it cannot be pickled."""
    try:
        pickled = dumps((False, error))
        loads(pickled)
    except Exception:
        other = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            other.add_note(note)
        return dumps((False, other))
    return pickled
