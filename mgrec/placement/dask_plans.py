"""Repeated solves of one shape: messages straight to the workers, no graph."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any
from uuid import uuid4

import dask.array as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, default_client, wait
from distributed.actor import ProxyRPC

from .dask import Solved, answered, capture
from .dask_cuts import Cut
from .dask_plan_calls import Call, deal
from .plan_messages import Abandoned, Answer, Lost, Part, Request, call, row_of
from .plan_shares import Share

# Seconds for a direct connection to a worker; after that its messages go by the scheduler.
REACH = 5.0
# Seconds between two looks at whether a worker is still there.
WATCH = 0.2


class Plan:
    """A recurrence over one shape, ready on the workers: see :func:`mgrec.plan`."""

    def __init__(
        self, recurrence: Callable[..., Any], operands: Any, options: Any, client: Client | None
    ) -> None:
        self.client = client or default_client()
        if self.client.asynchronous:
            raise TypeError("a plan needs a client that waits; got an asynchronous one")
        self._given = (recurrence, operands, options)
        self._lock, self._numbers, self._name = threading.Lock(), count(1), uuid4().hex[:16]
        self._first = Call(capture(lambda: recurrence(*operands, **options)), self.client)
        self._parts = deal(self._first, self.client, self._key)
        self._actors = {a: self._place(a, part) for a, part in self._parts.items()}
        wait(list(self._actors.values()))
        for actor in self._actors.values():
            actor.result()  # raises what kept it from being built
        self._rpcs = self.client.sync(self._reach)
        self._end = ""

    def _key(self, number: int) -> str:
        return f"plan-{self._name}-{number}"

    def _place(self, address: str, part: Part) -> Future:
        """Build the share of a worker, where its operands are."""
        futures = {future.key: future for future in self._first.cut.futures()}
        blocks = [[futures[key] for key in self._first.cut.keys(at)] for at, _ in part.chunks]
        key = self._key(part.number)
        return self.client.submit(Share, part, blocks, key=key, actor=True, workers=[address])

    async def _reach(self) -> dict[str, Any]:
        """Connections to the workers: direct ones where the network allows them."""

        async def reach(address: str) -> Any:
            direct = self.client.rpc(address)
            try:
                await asyncio.wait_for(direct.identity(), REACH)
            except (OSError, TimeoutError):
                return ProxyRPC(self.client.scheduler, address)
            return direct

        found = await asyncio.gather(*map(reach, self._parts))
        return dict(zip(self._parts, found, strict=True))

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Solve once more.

        Parameters
        ----------
        *operands
            In place of the plan's, of the same shapes, chunks and dtypes; none for the plan's.
        **options
            In place of the plan's, as ``initial=``.

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
            is_first = not operands and not options
            with answered(lambda cut: self._solve(self._first if is_first else self._like(cut()))):
                return recurrence(*(operands or first), **{**given, **options})

    def _like(self, cut: Cut) -> Call:
        call = Call(cut, self.client)
        call.check_like(self._first)
        return call

    def _solve(self, solve: Call) -> Solved:
        number, recipe = next(self._numbers), solve.cut.recipe
        names = tuple(f"solved-{self._name}-{number}-{k}" for k in range(recipe.results))
        requests = dict(self._requests(solve, number, names))
        answers = self.client.sync(self._ask, number, requests)
        futures = self._keep({address: answer.sizes for address, answer in answers.items()})
        parts = {row: part for answer in answers.values() for row, part in answer.exits.items()}
        arrays = tuple(_array(solve.cut, name, futures) for name in names)
        return arrays, solve.exit(parts) if recipe.is_exit_asked else None

    def _requests(
        self, solve: Call, number: int, names: tuple[str, ...]
    ) -> Iterator[tuple[str, Request]]:
        initial, is_first = solve.initial(), solve is self._first
        for address, part in self._parts.items():
            places = [at for at, _ in part.chunks]
            keys = None if is_first else {at: solve.cut.keys(at) for at in places}
            rows = {row_of(at, solve.cut.recipe.axis) for at in places}
            own = {row: initial[row] for row in rows}
            yield address, Request(number, solve.cut.recipe, own, names, keys)

    async def _ask(self, number: int, requests: Mapping[str, Request]) -> dict[str, Answer]:
        """Ask every share, and wait until all are done."""
        calls = {
            address: asyncio.ensure_future(self._call(address, "solve", request))
            for address, request in requests.items()
        }
        errors = await self._watch(calls)
        if errors:
            others = [address for address in calls if address not in errors]
            await self._all(others, "abandon", number)
            errors |= await self._watch({address: calls[address] for address in others})
            await self._all([each for each in others if each not in errors], "forget", number)
            self._raise(errors)
        return {address: each.result() for address, each in calls.items()}

    async def _watch(self, calls: Mapping[str, asyncio.Future[Any]]) -> dict[str, BaseException]:
        """Wait for all calls, or until some have failed: these, with what they raised."""
        running = set(calls.values())
        while running:
            _, running = await asyncio.wait(
                running, timeout=WATCH, return_when=asyncio.FIRST_EXCEPTION
            )
            for address, each in calls.items():
                # A dead worker would be dialled for half a minute.
                if not each.done() and self._actors[address].status != "finished":
                    each.cancel()
            errors = {address: _error(each) for address, each in calls.items() if each.done()}
            if any(errors.values()):
                return {address: error for address, error in errors.items() if error}
        return {}

    def _call(self, address: str, function: str, *arguments: Any) -> Any:
        key = self._key(self._parts[address].number)
        return call(self._rpcs[address], key, function, *arguments)

    async def _all(self, addresses: Any, function: str, *arguments: Any) -> None:
        """Call a coroutine of all shares; those that are lost do not answer."""
        calls = (self._call(address, function, *arguments) for address in addresses)
        await asyncio.gather(*calls, return_exceptions=True)

    def _keep(self, held: Mapping[str, Mapping[Any, int]]) -> dict[Any, Future]:
        """Results as futures: told to the scheduler, and released as any others."""
        who_has = {key: [address] for address, sizes in held.items() for key in sizes}
        nbytes = {key: size for sizes in held.values() for key, size in sizes.items()}
        # The stream keeps its order: a graph that is sent later finds these keys there.
        message = {"op": "update-data", "who_has": who_has, "nbytes": nbytes}
        self.client._send_to_scheduler({**message, "client": self.client.id})
        futures = {key: Future(key, self.client) for key in who_has}
        for key in futures:
            self.client.futures[key].finish()
        return futures

    def _raise(self, errors: Mapping[str, BaseException]) -> None:
        """Raise what went wrong first: a lost worker, or what a chunk raised."""
        for address, error in errors.items():
            if isinstance(error, Lost):
                self._end = (
                    f"the plan lost its worker {error.args[0] if error.args else address}: what it "
                    f"held is gone. Build the plan anew with mgrec.plan, from operands that are "
                    f"there or are computed again"
                )
                raise RuntimeError(self._end) from error
        raise next(error for error in errors.values() if not isinstance(error, Abandoned))

    def close(self) -> None:
        """Let go of the plan's operands; its results stay with whoever holds them."""
        with self._lock:
            if not self._end and self.client.status == "running":
                there = [a for a, actor in self._actors.items() if actor.status == "finished"]
                self.client.sync(self._all, there, "close")
            self._end = self._end or "the plan is closed"
            self._actors.clear()


def _error(call: asyncio.Future[Any]) -> BaseException | None:
    return Lost() if call.cancelled() else call.exception()


def _array(cut: Cut, name: str, futures: Mapping[Any, Future]) -> da.Array:
    layer = {key: future for key, future in futures.items() if key[0] == name}
    graph = HighLevelGraph({name: layer}, {name: set()})
    like, dtype = cut.blocks[0]._meta, cut.recipe.result_dtype
    meta = meta_from_array(like, ndim=len(cut.chunks), dtype=dtype)
    return da.Array(graph, name, cut.chunks, meta=meta)
