"""The share of a solve that one worker computes.

Shares send each other the summaries of their chunks. Each folds all summaries before its own
chunks, in the order of the recurrence, so that results have the bits of the graph's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from ....families.family import AlongAxis, Pack, Place
from ....families.grid import Grid
from ..tasks.begun import Waiting, begin_in_turn, finish_block, summarise_blocks
from ..tasks.phases import Entries, propagate_group
from .early import Early, turn_of
from .grids import GridAssignment
from .inbox import Mail
from .messages import Assignment, Request, Share, name_of, row_of
from .tiles import solve_tiles

Summaries = dict[Place, Any]
Blocks = Mapping[Place, list[Any]]


@dataclass(frozen=True)
class Threads:
    """Those of a worker: one works where it is called, more in a pool."""

    count: int
    pool: Executor | None

    def spread(self, function: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
        """Call a function of several values on all threads."""
        if self.pool is None:
            return function(values)
        size = max(1, -(-len(values) // self.count))
        parts = [values[left : left + size] for left in range(0, len(values), size)]
        return [result for part in self.pool.map(function, parts) for result in part]


def solve_share(
    request: Request, name: str, share: Share, blocks: Blocks, mail: Mail, threads: Threads
) -> tuple[dict[Any, Any], Any]:
    """The results of a share by their keys, and what it tells the client.

    Along an axis the exits, by their rows of chunks; of a grid without results what its last tile
    tells, or None.
    """
    recurrence, assignment = request.recurrence, share.assignment
    starts = dict(assignment.chunks)
    packs = {at: Pack(tuple(own), at, starts[at]) for at, own in blocks.items()}
    if isinstance(recurrence, Grid):
        assert isinstance(assignment, GridAssignment)
        found, told = solve_tiles(recurrence, assignment, packs, mail)
        return {(name_of(name, 0), *at): array for at, array in found.items()}, told
    assert isinstance(assignment, Assignment)
    early = Early(recurrence, assignment.count, request.initial)
    return _Chain(request, recurrence, name, assignment, mail, threads, early).solve(packs)


@dataclass(frozen=True)
class _Chain:
    """The chunks of a share along the axis of their recurrence."""

    request: Request
    recurrence: AlongAxis
    name: str
    assignment: Assignment
    mail: Mail
    threads: Threads
    early: Early

    def solve(self, packs: Mapping[Place, Pack]) -> tuple[dict[Any, Any], dict[Place, Any]]:
        waiting, found = self._summarise(packs)
        for peer in self.assignment.peers:
            own = {place: found[place] for place in peer.places}
            self.mail.send(peer.number, self.assignment.number, own)
        for at in waiting if self.assignment.senders else ():
            self.early.finish(at, waiting)
        for sender in self.assignment.senders:
            found |= self.mail.receive(sender)
        return self._determine(waiting, found)

    def _summarise(self, packs: Mapping[Place, Pack]) -> tuple[dict[Place, Waiting], Summaries]:
        """Begin the chunks that forget; the summaries of all that somebody asks for."""
        recurrence, is_last_asked = self.recurrence, self.request.is_last_asked
        turns = {at: self._turn(at) for at in packs}
        asked = {at for at, turn in turns.items() if is_last_asked or not self._ends(turn)}

        def start(part: list[Place]) -> list[tuple[Waiting, Any]]:
            begun = begin_in_turn([packs[at] for at in part], recurrence)
            waiting: dict[Place, Waiting] = {}
            for k, (at, chunk) in enumerate(zip(part, begun, strict=True)):
                waiting[at] = chunk
                # Not at the last one, whose summary others wait for.
                if 0 < k < len(part) - 1:
                    self.early.finish(part[k - 1], waiting)
            own = [at for at in part if at in asked]
            found = summarise_blocks([waiting[at] for at in own], recurrence)
            summaries = dict(zip(own, found, strict=True))
            return [(waiting[at], summaries.get(at)) for at in part]

        order = sorted(packs, key=turns.__getitem__)
        found = dict(zip(order, self.threads.spread(start, order), strict=True))
        waiting = {at: chunk for at, (chunk, _) in found.items()}
        return waiting, {at: summary for at, (_, summary) in found.items() if at in asked}

    def _determine(
        self, waiting: Mapping[Place, Waiting], found: Summaries
    ) -> tuple[dict[Any, Any], dict[Place, Any]]:
        request, recurrence = self.request, self.recurrence
        rows: dict[Place, list[int]] = {}
        for at in waiting:
            own = rows.setdefault(row_of(at, recurrence.axis), [])
            own.append(self._turn(at))

        def enter(part: list[Place]) -> list[Entries]:
            before = ([found[at] for at in self._before(row, max(rows[row]))] for row in part)
            states = (request.initial[row] for row in part)
            pairs = zip(before, states, strict=True)
            return [propagate_group(recurrence, *pair) for pair in pairs]

        entries = dict(zip(rows, self.threads.spread(enter, list(rows)), strict=True))

        def determine(part: list[Place]) -> list[Any]:
            found = []
            for at in part:
                own = entries[row_of(at, recurrence.axis)], self._turn(at)
                early = self.early.take(at, waiting[at], *own)
                late = finish_block(recurrence, waiting[at], *own) if early is None else early
                found.append(late)
            return found

        results = self.threads.spread(determine, list(waiting))
        keyed = {
            (name_of(self.name, k), *at): array
            for at, arrays in zip(waiting, results, strict=True)
            for k, array in enumerate(arrays if recurrence.results > 1 else [arrays])
        }
        ended = [row for row in rows if recurrence.is_exit_asked and self._ends(max(rows[row]))]
        return keyed, {row: entries[row].leave(recurrence) for row in ended}

    def _ends(self, turn: int) -> bool:
        return turn == self.assignment.count - 1

    def _turn(self, at: Place) -> int:
        return turn_of(self.recurrence, self.assignment.count, at[self.recurrence.axis])

    def _before(self, row: Place, last: int) -> list[Place]:
        """The chunks of a row whose summaries this worker needs, in order.

        Those before its last one; all for the exit, or of a two-sided recurrence.
        """
        recurrence, axis = self.recurrence, self.recurrence.axis
        is_all = recurrence.is_two_sided or self._ends(last)
        turns = range(self.assignment.count if is_all and self.request.is_last_asked else last)
        places = (turn_of(recurrence, self.assignment.count, turn) for turn in turns)
        return [(*row[:axis], place, *row[axis:]) for place in places]
