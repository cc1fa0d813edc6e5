"""Repeated solves of one shape: messages straight to the workers, no graph."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import dask.array.core as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, wait
from distributed.actor import ProxyRPC
from distributed.protocol.pickle import dumps

from ....families.family import Place
from ....families.problem import Problem
from ...expressions import keeps_kind
from ...logs import log_planned
from ..cluster.door import client_of, problem_of
from ..graph.build import Solved, cut
from ..graph.cuts import Cut
from .calls import Call, Sizes, deal
from .messages import Abandoned, Assignment, Lost, Request, call, row_of
from .shares import Share

# Seconds to connect to a worker; after that its messages go by the scheduler.
REACH = 5.0
# Seconds between two checks that a worker is still there.
WATCH = 0.2


class WorkerLostError(RuntimeError):
    """A worker of a plan is gone, and what it held."""


class Plan:
    """A recurrence over one shape, ready on the workers: see :func:`mgrec.plan`."""

    def __init__(
        self, recurrence: Callable[..., Any], operands: Any, options: Any, client: Client | None
    ) -> None:
        self._problem = problem_of(recurrence, operands, options)
        self.client = client_of(client)
        if self.client.asynchronous:
            raise TypeError("a plan needs a client that waits; got an asynchronous one")
        self._given = (recurrence, operands, options)
        self._lock, self._numbers, self._name = threading.Lock(), count(1), uuid4().hex[:16]
        self._first = Call(cut(self._problem), self.client)
        self._assignments = deal(self._first, self.client, self._key)
        self._actors = {a: self._build(a, own) for a, own in self._assignments.items()}
        self._end = ""
        self._rpcs = self.client.sync(self._reach)
        self._settle()

    def _key(self, number: int) -> str:
        return f"plan-{self._name}-{number}"

    def _build(self, address: str, own: Assignment) -> Future:
        """Build the share of a worker, where its operands are."""
        # Pickled: Dask would look for futures in each of them.
        keys = {at: self._first.cut.keys(at) for at, _ in own.chunks}
        key = self._key(own.number)
        return self.client.submit(Share, own, dumps(keys), key=key, actor=True, workers=[address])

    def _settle(self) -> None:
        """Wait for the shares; raise if a worker is lost, since its share will never come."""
        while not all(map(self._is_there, self._actors)):
            with suppress(TimeoutError):
                wait(list(self._actors.values()), timeout=WATCH)
            errors = {
                a: each.exception() for a, each in self._actors.items() if each.status == "error"
            }
            there = self.client.nthreads(workers=list(self._actors))
            self._raise(errors | {a: Lost() for a in self._actors if a not in there})

    async def _reach(self) -> dict[str, Any]:
        """Connections to the workers: direct ones where the network allows them."""

        async def reach(address: str) -> Any:
            direct = self.client.rpc(address)
            try:
                await asyncio.wait_for(direct.identity(), REACH)
            except (OSError, TimeoutError):
                return ProxyRPC(self.client.scheduler, address)
            return direct

        found = await asyncio.gather(*map(reach, self._assignments))
        return dict(zip(self._assignments, found, strict=True))

    def hold(self) -> Plan:
        """Let the shares take hold of their operands now, not in the first solve."""
        self._raise(self.client.sync(self._all, list(self._actors), "hold"))
        return self

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @keeps_kind
    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Solve once more.

        Parameters
        ----------
        *operands
            Of the same shapes, chunks and dtypes as the plan's; the plan's when not given.
        **options
            Such as ``initial=``; the plan's when not given.

        Returns
        -------
        dask.array.Array, or tuple of these
            In the memory of the workers.

        Raises
        ------
        RuntimeError
            The plan is closed, or a worker is lost.
        ValueError
            Operands of another shape, other chunks or another dtype.
        """
        with self._lock:
            if self._end:
                raise RuntimeError(self._end)
            if self.client.status != "running":
                raise RuntimeError("the client of the plan is closed: build it anew with another")
            recurrence, first, given = self._given
            if not operands and not options:
                return self._problem.finish(*self._solve(self._first))
            problem = problem_of(recurrence, operands or first, {**given, **options})
            return problem.finish(*self._solve(self._like(problem)))

    def _like(self, problem: Problem) -> Call:
        call = Call(cut(problem), self.client)
        call.check_like(self._first)
        return call

    def _solve(self, solve: Call) -> Solved:
        number, recurrence, start = next(self._numbers), solve.cut.recurrence, time.perf_counter()
        names = tuple(f"solved-{self._name}-{number}-{k}" for k in range(recurrence.results))
        requests = dict(self._requests(solve, number, names))
        sizes = {a: solve.sizes(own, names) for a, own in self._assignments.items()}
        futures = {key: Future(key, self.client) for own in sizes.values() for key in own}
        try:
            exits = self.client.sync(self._ask, number, requests, sizes, futures)
        except Exception:
            for future in futures.values():
                future.release()
            raise
        arrays = tuple(_array(solve.cut, name, futures) for name in names)
        log_planned(arrays[0], len(self._assignments), time.perf_counter() - start)
        return arrays, solve.exit(exits) if recurrence.is_exit_asked else None

    def _requests(
        self, solve: Call, number: int, names: tuple[str, ...]
    ) -> Iterator[tuple[str, Request]]:
        initial, is_first = solve.initial(), solve is self._first
        for address, assignment in self._assignments.items():
            places = [at for at, _ in assignment.chunks]
            keys = None if is_first else {at: solve.cut.keys(at) for at in places}
            rows = {row_of(at, solve.cut.recurrence.axis) for at in places}
            own = {row: initial[row] for row in rows}
            yield (
                address,
                Request(number, solve.cut.recurrence, own, names, solve.cut.is_last_asked, keys),
            )

    async def _ask(
        self,
        number: int,
        requests: Mapping[str, Request],
        sizes: Mapping[str, Sizes],
        futures: Mapping[Any, Future],
    ) -> dict[Place, Any]:
        """Ask every share, and wait for all: the exits by their rows of chunks."""
        registered = asyncio.ensure_future(self._register(sizes))
        calls = {
            address: asyncio.ensure_future(self._call(address, "solve", request))
            for address, request in requests.items()
        }
        for each in calls.values():
            # Held until then even after ctrl-C: a result stored after its release stays for good.
            each.add_done_callback(lambda _: futures)
        errors = await self._watch(calls, asyncio.FIRST_EXCEPTION)
        if errors:
            await self._all([each for each in calls if each not in errors], "abandon", number)
            errors |= await self._watch(calls, asyncio.ALL_COMPLETED)
        lost = {address: Lost() for address in calls if not self._is_there(address)}
        self._raise({**errors, **await registered, **lost})
        for state in (self.client.futures[key] for key in futures):
            if state.status == "pending":  # the scheduler's message is on its way
                state.finish()
        return {row: exit for each in calls.values() for row, exit in each.result().items()}

    async def _watch(
        self, calls: Mapping[str, asyncio.Future[Any]], until: str
    ) -> dict[str, BaseException]:
        """Wait for all calls, or until the first fails; what the failed ones raised."""
        running = set(calls.values())
        errors: dict[str, BaseException] = {}
        while running and not (errors and until == asyncio.FIRST_EXCEPTION):
            _, running = await asyncio.wait(running, timeout=WATCH, return_when=until)
            for address, each in calls.items():
                # Connecting to a dead worker is tried for half a minute.
                if not each.done() and not self._is_there(address):
                    each.cancel()
            ended = {address: _error(each) for address, each in calls.items() if each.done()}
            errors = {address: error for address, error in ended.items() if error}
        return errors

    def _is_there(self, address: str) -> bool:
        """Whether a share is built, and its worker is not known to be lost."""
        return bool(self._actors[address].status == "finished")

    def _call(self, address: str, function: str, *arguments: Any) -> Any:
        key = self._key(self._assignments[address].number)
        return call(self._rpcs[address], key, function, *arguments)

    async def _all(
        self, addresses: Iterable[str], function: str, *arguments: Any
    ) -> dict[str, BaseException]:
        """Call a coroutine of shares; what failed or lost ones raised."""
        calls = {a: asyncio.ensure_future(self._call(a, function, *arguments)) for a in addresses}
        return await self._watch(calls, asyncio.ALL_COMPLETED)

    async def _register(self, sizes: Mapping[str, Sizes]) -> dict[str, BaseException]:
        """Register the results with the scheduler while they are computed; the workers it lost.

        By a call, not on the client's stream: on results of a lost worker that come there, the
        scheduler (Dask 2026.7) drops the client, and all that the client holds is gone.
        """
        left = dict(sizes)
        lost: dict[str, BaseException] = {}
        while left:
            who_has = {key: [address] for address, own in left.items() for key in own}
            nbytes = {key: size for own in left.values() for key, size in own.items()}
            try:
                await self.client.scheduler.update_data(
                    who_has=who_has, nbytes=nbytes, client=self.client.id
                )
            except KeyError as error:
                (address,) = error.args
                del left[address]
                lost[address] = Lost()
            else:
                break
        return lost

    def _raise(self, errors: Mapping[str, BaseException]) -> None:
        """Raise an error, if there is one: a lost worker first, else what a chunk raised."""
        for address, error in errors.items():
            if isinstance(error, Lost):
                self._end = (
                    f"the plan lost its worker {error.args[0] if error.args else address}: what it "
                    f"held is gone. Build the plan anew with mgrec.plan, from operands that are "
                    f"there or are computed again"
                )
                raise WorkerLostError(self._end) from error
        for error in errors.values():
            if not isinstance(error, Abandoned):
                raise error

    def close(self) -> None:
        """Release the plan's operands; its results stay."""
        with self._lock:
            if not self._end and self.client.status == "running":
                self.client.sync(self._all, list(self._actors), "close")
            self._end = self._end or "the plan is closed"
            self._actors.clear()


def _error(call: asyncio.Future[Any]) -> BaseException | None:
    return Lost() if call.cancelled() else call.exception()


def _array(cut: Cut, name: str, futures: Mapping[Any, Future]) -> da.Array:
    layer = {key: future for key, future in futures.items() if key[0] == name}
    graph = HighLevelGraph({name: layer}, {name: set()})
    like, dtype = cut.blocks[0]._meta, cut.recurrence.result_dtype
    meta = meta_from_array(like, ndim=len(cut.chunks), dtype=dtype)
    return da.Array(graph, name, cut.chunks, meta=meta)
