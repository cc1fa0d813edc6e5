"""What one worker does of a plan: the phases of its chunks, and its peers' summaries.

A share lives on its worker as a Dask actor. One solve is one message to each share. Shares
send each other the summaries of their chunks; each folds all that come before its own chunks,
in the order of the recurrence, so that the results have the bits of the graph's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from distributed import get_worker
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads
from distributed.sizeof import sizeof
from distributed.utils_comm import gather_from_workers
from distributed.worker_state_machine import FreeKeysEvent

from .blocks import (
    Entries,
    Pack,
    Recipe,
    Where,
    determine_block,
    precompute_block,
    propagate_group,
)

Place = tuple[int, ...]
Summaries = dict[Place, Any]


@dataclass(frozen=True)
class Peer:
    """Another share: where it is, and the chunks whose summaries it waits for."""

    address: str
    key: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Part:
    """A share before its operands.

    Attributes
    ----------
    number : int
        Of the share among all.
    chunks : tuple of (place, starts)
        Its own.
    count : int
        Chunks along the axis of the recurrence.
    peers : tuple of Peer
        Whom it sends summaries.
    senders : tuple of int
        Numbers of the shares that send it some.
    """

    number: int
    chunks: tuple[Where, ...]
    count: int
    peers: tuple[Peer, ...]
    senders: tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """One solve, as a share is asked for it.

    Attributes
    ----------
    number : int
        Of the solve.
    recipe : Recipe
    initial : dict, row of chunks -> list of arrays
    names : tuple of str
        Of the results, one a scalar of the state.
    keys : dict, place -> keys of operands, or None
        None for the operands that the plan was built with.
    """

    number: int
    recipe: Recipe
    initial: Mapping[Place, list[Any]]
    names: tuple[str, ...]
    keys: Mapping[Place, Sequence[Any]] | None = None


class Lost(Exception):
    """The worker at an address cannot be reached, or is another one by now."""


class Abandoned(Exception):
    """Another share failed."""


def row_of(place: Place, axis: int) -> Place:
    """The row of chunks along the axis."""
    return place[:axis] + place[axis + 1 :]


class Share:
    """The actor; its coroutines run on the worker's loop, the phases on threads of its own."""

    def __init__(self, part: Part, blocks: list[list[Any]]) -> None:
        self.part = part
        self.at = dict(part.chunks)
        self.blocks = dict(zip(self.at, blocks, strict=True))
        self.threads = max(1, get_worker().state.nthreads)
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="mgrec-plan")
        self.waiting: dict[int, dict[int, asyncio.Future[bytes]]] = {}
        self.exchange: asyncio.Future[Any] | None = None
        self.done = self.abandoned = 0
        self.results: list[Any] = []

    async def solve(self, request: Request) -> dict[Any, int]:
        """Solve the chunks of this worker and keep the results in its memory.

        Returns
        -------
        dict, key -> bytes
        """
        self.results = []
        try:
            packs = await self._packs(request)
            own = await self._summarise(request.recipe, packs)
            others = await self._exchange(request.number, own)
            results = await self._determine(request, packs, own, others)
        finally:
            self.done = request.number
            self.waiting.pop(request.number, None)
        get_worker().update_data(results)
        self.results = list(results)
        return {key: sizeof(value) for key, value in results.items()}

    async def receive(self, number: int, sender: int, summaries: bytes) -> None:
        """Take the summaries of another share for a solve."""
        if number > self.done:
            self._expected(number)[sender].set_result(summaries)

    async def abandon(self, number: int) -> None:
        """Wait no longer for the summaries of a solve: another share failed."""
        self.abandoned = number
        if self.exchange is not None:
            self.exchange.cancel()

    async def forget(self, number: int) -> None:
        """Free the results of a solve that failed elsewhere."""
        keys = self.results if number == self.done else []
        get_worker().handle_stimulus(FreeKeysEvent(keys=keys, stimulus_id=f"mgrec-{number}"))

    async def close(self) -> None:
        """Let go of the operands."""
        self.blocks.clear()
        self.pool.shutdown(wait=False)

    def _expected(self, number: int) -> dict[int, asyncio.Future[bytes]]:
        loop = asyncio.get_running_loop()
        return self.waiting.setdefault(
            number, {sender: loop.create_future() for sender in self.part.senders}
        )

    async def _exchange(self, number: int, own: Summaries) -> list[bytes]:
        """Send the summaries of this share, and wait for those of the others."""
        if self.abandoned == number:
            raise Abandoned
        expected = self._expected(number)
        self.exchange = asyncio.gather(
            self._send(number, own), *(expected[sender] for sender in self.part.senders)
        )
        try:
            _, *others = await self.exchange
        except asyncio.CancelledError:
            raise Abandoned from None
        finally:
            self.exchange = None
        return others

    async def _packs(self, request: Request) -> dict[Place, Pack]:
        blocks = self.blocks
        if request.keys is not None:
            found = await _blocks({key for keys in request.keys.values() for key in keys})
            blocks = {at: [found[key] for key in keys] for at, keys in request.keys.items()}
        return {at: Pack(tuple(own), at, self.at[at]) for at, own in blocks.items()}

    async def _summarise(self, recipe: Recipe, packs: Mapping[Place, Pack]) -> Summaries:
        last = 0 if recipe.problem.reverse else self.part.count - 1
        asked = [at for at in packs if at[recipe.problem.axis] != last]
        found = await self._spread(lambda at: precompute_block(packs[at], recipe), asked)
        return dict(zip(asked, found, strict=True))

    async def _send(self, number: int, own: Summaries) -> None:
        worker = get_worker()

        async def to(peer: Peer) -> None:
            # One frame: an array a frame took 29 of 80 ms where 256 chunks were solved.
            summaries = dumps({at: own[at] for at in peer.places})
            arguments = (number, self.part.number, summaries)
            try:
                await call(worker.rpc(peer.address), peer.key, "receive", *arguments)
            except Lost as error:
                raise Lost(peer.address) from error

        await asyncio.gather(*map(to, self.part.peers))

    async def _determine(
        self, request: Request, packs: Mapping[Place, Pack], own: Summaries, others: list[bytes]
    ) -> dict[Any, Any]:
        recipe, found = (
            request.recipe,
            {**own, **{k: v for o in others for k, v in loads(o).items()}},
        )
        axis, problem = recipe.problem.axis, recipe.problem
        rows: dict[Place, list[Place]] = {}
        for at in packs:
            rows.setdefault(row_of(at, axis), []).append(at)
        entries: dict[Place, Entries] = {}

        def enter(row: Place) -> None:
            before = [found[at] for at in self._before(rows[row], recipe)]
            entries[row] = propagate_group(recipe, before, request.initial[row])

        def determine(at: Place) -> Any:
            row = row_of(at, axis)
            if row not in entries:
                enter(row)
            number = self.part.count - 1 - at[axis] if problem.reverse else at[axis]
            return determine_block(recipe, packs[at], entries[row], number)

        if self.threads > 1:
            # With one thread a second trip to it would cost more than it is worth.
            await self._spread(enter, list(rows))
        results = await self._spread(determine, list(packs))
        return {
            (name, *at): array
            for at, arrays in zip(packs, results, strict=True)
            for name, array in zip(
                request.names, arrays if problem.is_several else [arrays], strict=True
            )
        }

    def _before(self, own: list[Place], recipe: Recipe) -> list[Place]:
        """The chunks of a row before the last one of this worker, in order."""
        axis, is_reverse = recipe.problem.axis, recipe.problem.reverse
        numbers = [at[axis] for at in own]
        span = range(self.part.count - 1, min(numbers), -1) if is_reverse else range(max(numbers))
        return [(*own[0][:axis], k, *own[0][axis + 1 :]) for k in span]

    async def _spread(self, function: Callable[[Any], Any], values: list[Any]) -> list[Any]:
        """Call a function on the threads of this share."""
        loop, size = asyncio.get_running_loop(), max(1, -(-len(values) // self.threads))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        calls = (
            loop.run_in_executor(self.pool, lambda part: list(map(function, part)), part)
            for part in parts
        )
        return [result for part in await asyncio.gather(*calls) for result in part]


async def _blocks(keys: set[Any]) -> dict[Any, Any]:
    """Operands from this worker's memory; those that lie elsewhere are fetched."""
    worker = get_worker()
    missing = [key for key in keys if key not in worker.data]
    fetched: dict[Any, Any] = {}
    if missing:
        where = await worker.scheduler.who_has(keys=missing)
        fetched, lost, *_ = await gather_from_workers(where, rpc=worker.rpc)
        if lost or len(fetched) < len(missing):
            raise RuntimeError(f"operands of a plan must be in memory; {missing[0]} is not")
    return {key: fetched[key] if key in fetched else worker.data[key] for key in keys}


async def call(rpc: Any, key: str, function: str, *arguments: Any) -> Any:
    """Call a coroutine of an actor, directly on its worker.

    Raises
    ------
    Lost
        The worker cannot be reached, or has no such actor.
    """
    given = [to_serialize(argument) for argument in arguments]
    try:
        answer = await rpc.actor_execute(function=function, actor=key, args=given, kwargs={})
    except (OSError, KeyError) as error:
        raise Lost from error
    if answer["status"] == "OK":
        return answer["result"]
    raise answer["exception"]
