"""The share of a plan that one worker computes.

A share is a Dask actor on its worker, and a solve is one message to each share. Shares send each
other the summaries of their chunks. Each folds all summaries before its own chunks, in the order
of the recurrence, so that results have the bits of the graph's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed import get_worker
from distributed.protocol.pickle import dumps, loads
from distributed.utils_comm import gather_from_workers

from ....families.family import AlongAxis, Pack, Place
from ..tasks.begun import Waiting, begin_blocks, finish_block, summarise_blocks
from ..tasks.phases import Entries, propagate_group
from .messages import Abandoned, Assignment, Lost, Peer, Request, call, row_of

Summaries = dict[Place, Any]

# Seconds between two checks that somebody still waits for a solve.
WATCH = 5.0


class Share:
    """The actor; its coroutines run on the worker's loop, the phases on threads of its own."""

    def __init__(self, assignment: Assignment, keys: bytes) -> None:
        self.assignment = assignment
        self.at = dict(assignment.chunks)
        self.keys = loads(keys)
        self.blocks: dict[Place, list[Any]] = {}
        self.threads = max(1, get_worker().state.nthreads)
        self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="mgrec-plan")
        self.waiting: dict[int, dict[int, asyncio.Future[bytes]]] = {}
        self.exchanges: dict[int, asyncio.Future[Any]] = {}
        self.done = self.abandoned = 0

    async def hold(self) -> None:
        """Hold the operands from now on: else replicas may be dropped before the first solve."""
        self.blocks = self.blocks or await _blocks(self.keys)

    async def solve(self, request: Request) -> dict[Place, Any]:
        """Solve the chunks of this worker and keep the results in its memory; the exits."""
        try:
            packs = await self._packs(request)
            waiting, own = await self._summarise(request, packs)
            others = await self._exchange(request.number, own)
            results, exits = await self._determine(request, waiting, own, others)
        finally:
            self.done = request.number
            self.waiting.pop(request.number, None)
        if not self._is_held():
            raise Abandoned
        get_worker().update_data(results)
        return exits

    async def receive(self, number: int, sender: int, summaries: bytes) -> None:
        """Take the summaries of another share for a solve."""
        if number > self.done:
            self._expected(number)[sender].set_result(summaries)

    async def abandon(self, number: int) -> None:
        """Stop waiting for the summaries of a solve: another share failed."""
        self.abandoned = number
        if number in self.exchanges:
            self.exchanges[number].cancel()

    async def close(self) -> None:
        """Release the operands."""
        self.blocks.clear()
        self.pool.shutdown(wait=False)

    def _expected(self, number: int) -> dict[int, asyncio.Future[bytes]]:
        loop = asyncio.get_running_loop()
        return self.waiting.setdefault(
            number, {sender: loop.create_future() for sender in self.assignment.senders}
        )

    async def _exchange(self, number: int, own: Summaries) -> list[bytes]:
        """Send the summaries of this share, and wait for those of the others."""
        if self.abandoned == number:
            raise Abandoned
        expected = self._expected(number)
        exchange = self.exchanges[number] = asyncio.gather(
            self._send(number, own), *(expected[sender] for sender in self.assignment.senders)
        )
        try:
            while not (await asyncio.wait([exchange], timeout=WATCH))[0]:
                if not self._is_held():
                    exchange.cancel()
            _, *others = await exchange
        except asyncio.CancelledError:
            raise Abandoned from None
        finally:
            del self.exchanges[number]
        return others

    def _is_held(self) -> bool:
        """Whether the plan's client is still there: the scheduler frees actors that it leaves."""
        return any(actor is self for actor in get_worker().state.actors.values())

    async def _packs(self, request: Request) -> dict[Place, Pack]:
        if request.keys is not None:
            blocks = await _blocks(request.keys)
        else:
            await self.hold()
            blocks = self.blocks
        return {at: Pack(tuple(own), at, self.at[at]) for at, own in blocks.items()}

    async def _summarise(
        self, request: Request, packs: Mapping[Place, Pack]
    ) -> tuple[dict[Place, Waiting], Summaries]:
        """Begin the chunks that forget; the summaries of all that somebody asks for."""
        recurrence = request.recurrence
        turns = {at: self._turn(at[recurrence.axis], recurrence) for at in packs}
        asked = {at for at, turn in turns.items() if request.is_last_asked or not self._ends(turn)}

        def start(part: list[Place]) -> list[tuple[Waiting, Any]]:
            begun = begin_blocks([packs[at] for at in part], recurrence)
            waiting = dict(zip(part, begun, strict=True))
            own = [at for at in part if at in asked]
            found = summarise_blocks([waiting[at] for at in own], recurrence)
            summaries = dict(zip(own, found, strict=True))
            return [(waiting[at], summaries.get(at)) for at in part]

        found = dict(zip(packs, await self._spread(start, list(packs)), strict=True))
        waiting = {at: chunk for at, (chunk, _) in found.items()}
        return waiting, {at: summary for at, (_, summary) in found.items() if at in asked}

    async def _send(self, number: int, own: Summaries) -> None:
        worker = get_worker()

        async def to(peer: Peer) -> None:
            # One frame: a frame an array took 29 of 80 ms in a solve of 256 chunks.
            summaries = dumps({at: own[at] for at in peer.places})
            arguments = (number, self.assignment.number, summaries)
            try:
                await call(worker.rpc(peer.address), peer.key, "receive", *arguments)
            except Lost as error:
                raise Lost(peer.address) from error

        await asyncio.gather(*map(to, self.assignment.peers))

    async def _determine(
        self,
        request: Request,
        waiting: Mapping[Place, Waiting],
        own: Summaries,
        others: list[bytes],
    ) -> tuple[dict[Any, Any], dict[Place, Any]]:
        """The results by their keys, and the exits by their rows of chunks."""
        recurrence, found = request.recurrence, dict(own)
        for summaries in others:
            found |= loads(summaries)
        rows: dict[Place, list[int]] = {}
        for at in waiting:
            rows.setdefault(row_of(at, recurrence.axis), []).append(
                self._turn(at[recurrence.axis], recurrence)
            )
        entries: dict[Place, Entries] = {}

        def enter(row: Place) -> None:
            before = [found[at] for at in self._before(row, max(rows[row]), request)]
            entries[row] = propagate_group(recurrence, before, request.initial[row])

        def determine(at: Place) -> Any:
            row = row_of(at, recurrence.axis)
            if row not in entries:
                enter(row)
            number = self._turn(at[recurrence.axis], recurrence)
            return finish_block(recurrence, waiting[at], entries[row], number)

        if self.threads > 1:
            # With one thread a second round trip to it does not pay.
            await self._spread(lambda part: list(map(enter, part)), list(rows))
        results = await self._spread(lambda part: list(map(determine, part)), list(waiting))
        keyed = {
            (name, *at): array
            for at, arrays in zip(waiting, results, strict=True)
            for name, array in zip(
                request.names, arrays if recurrence.results > 1 else [arrays], strict=True
            )
        }
        ended = [row for row in rows if recurrence.is_exit_asked and self._ends(max(rows[row]))]
        return keyed, {row: entries[row].leave(recurrence) for row in ended}

    def _turn(self, k: int, recurrence: AlongAxis) -> int:
        """The position of a chunk in its row, in the order of the recurrence."""
        return self.assignment.count - 1 - k if recurrence.reverse else k

    def _ends(self, turn: int) -> bool:
        return turn == self.assignment.count - 1

    def _before(self, row: Place, last: int, request: Request) -> list[Place]:
        """The chunks of a row whose summaries this worker needs, in order.

        Those before its last one; all for the exit, or of a two-sided recurrence.
        """
        recurrence, axis = request.recurrence, request.recurrence.axis
        is_all = recurrence.is_two_sided or self._ends(last)
        turns = range(self.assignment.count if is_all and request.is_last_asked else last)
        return [(*row[:axis], self._turn(turn, recurrence), *row[axis:]) for turn in turns]

    async def _spread(
        self, function: Callable[[list[Any]], list[Any]], values: list[Any]
    ) -> list[Any]:
        """Call a function of several values on the threads of this share."""
        loop, size = asyncio.get_running_loop(), max(1, -(-len(values) // self.threads))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        calls = (loop.run_in_executor(self.pool, function, part) for part in parts)
        return [result for part in await asyncio.gather(*calls) for result in part]


async def _blocks(asked: Mapping[Place, Sequence[Any]]) -> dict[Place, list[Any]]:
    """Operands from this worker's memory; those that lie elsewhere are fetched."""
    worker, keys = get_worker(), {key for own in asked.values() for key in own}
    # Taken before anything is awaited: replicas may be dropped meanwhile.
    found = {key: worker.data[key] for key in keys if key in worker.data}
    missing = [key for key in keys if key not in found]
    if missing:
        where = await worker.scheduler.who_has(keys=missing)
        fetched, lost, *_ = await gather_from_workers(where, rpc=worker.rpc)
        if lost or len(fetched) < len(missing):
            raise RuntimeError(f"operands of a plan must be in memory; {missing[0]} is not")
        found |= fetched
    return {at: [found[key] for key in own] for at, own in asked.items()}
