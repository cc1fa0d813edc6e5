"""Repeated solves of one shape: messages straight to the workers, no graph."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import prod
from typing import Any
from uuid import uuid4

import dask.array.core as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future
from distributed.protocol.pickle import dumps

from ....families.family import AlongAxis, Place
from ....families.problem import Problem
from ...expressions import keeps_kind
from ...logs import log_planned
from ..cluster.door import client_of, problem_of
from ..graph.build import Solved, cut
from ..graph.cuts import Cut
from .calls import Call, Sizes, deal
from .lines import Abandoned, Lost
from .messages import Request, Share, name_of, row_of
from .post import Errors, post_of


class WorkerLostError(RuntimeError):
    """A worker of a plan is lost, with the operands and results in its memory.

    Every later call of the plan raises it again: build a new plan.
    """


class Plan:
    """A recurrence over one shape, ready on the workers: see :func:`mgrec.plan`."""

    def __init__(
        self, recurrence: Callable[..., Any], operands: Any, options: Any, client: Client | None
    ) -> None:
        self._problem = problem_of(recurrence, operands, options, may_be_grid=True)
        self.client = client_of(client)
        if self.client.asynchronous:
            raise TypeError("a plan needs a client that waits; got an asynchronous one")
        self._given = (recurrence, operands, options)
        self._lock, self._numbers, self._name = threading.Lock(), count(1), uuid4().hex[:16]
        self._end: tuple[type[RuntimeError], str] | None = None
        self._held, self._again = "", dict[str, bytes]()
        self._first = Call(cut(self._problem), self.client)
        self._assignments = deal(self._first, self.client)
        self._post = post_of(self.client)
        try:
            doors = self._post.reach(self.client, self._assignments)
        except Lost as error:
            self._raise({error.args[0]: error})
        by_number = {own.number: doors[address] for address, own in self._assignments.items()}
        self._shares = {
            address: Share(own, by_number, {at: self._first.cut.keys(at) for at, _ in own.chunks})
            for address, own in self._assignments.items()
        }

    def hold(self) -> Plan:
        """Let the workers take hold of their operands now: replicas may be dropped meanwhile."""
        if self._post.is_direct:
            addresses = list(self._shares)
            self._forget = weakref.finalize(self, self._post.forget, self._name, addresses)
            self._forget.atexit = False
            messages = {address: dumps(share) for address, share in self._shares.items()}
            _, errors = self._post.ask(self.client, self._name, messages)
            self._raise(errors)
            self._held = self._name
            self._again = dict(self._messages(self._first))
        return self

    def __repr__(self) -> str:
        function = getattr(self._given[0], "__name__", repr(self._given[0]))
        chunks = self._first.cut.chunks
        largest, count = tuple(map(max, chunks)), prod(map(len, chunks))
        error, _ = self._end or (None, "")
        state = "open" if error is None else "lost" if error is WorkerLostError else "closed"
        return (
            f"<mgrec.plan of {function}: results of shape {tuple(map(sum, chunks))} in {count} "
            f"chunks of up to {largest}, {len(self._shares)} workers, {state}>"
        )

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
        mgrec.dask.WorkerLostError
            A worker is lost, in this solve or in one before it.
        RuntimeError
            The plan or its client is closed.
        ValueError
            Operands of another shape, other chunks or another dtype.
        """
        with self._lock:
            if self._end:
                error, message = self._end
                raise error(message)
            if self.client.status != "running":
                raise RuntimeError("the client of the plan is closed: build it anew with another")
            recurrence, first, given = self._given
            if not operands and not options:
                return self._problem.finish(*self._solve(self._first))
            problem = problem_of(
                recurrence, operands or first, {**given, **options}, may_be_grid=True
            )
            return problem.finish(*self._solve(self._like(problem)))

    def _like(self, problem: Problem) -> Call:
        call = Call(cut(problem), self.client)
        call.check_like(self._first)
        return call

    def _solve(self, solve: Call) -> Solved:
        start, name = time.perf_counter(), f"solved-{self._name}-{next(self._numbers)}"
        if not self._post.is_direct:
            # Another worker than this plan's was out of reach: nobody holds anything any more.
            self._held, self._again = "", {}
        messages = self._again if solve is self._first and self._again else None
        running = _Solve(self, solve, name)
        answers, errors = self._post.ask(
            self.client, name, messages or dict(self._messages(solve)), running.begin, running.held
        )
        arrays = running.end(errors | self._post.lost(self._shares))
        log_planned(arrays, len(self._assignments), time.perf_counter() - start)
        return arrays, _told(solve, answers)

    def _messages(self, solve: Call) -> Iterator[tuple[str, bytes]]:
        cut, is_first, initial = solve.cut, solve is self._first, dict[Place, list[Any]]()
        is_chain = isinstance(cut.recurrence, AlongAxis)
        if is_chain:
            initial = solve.initial()
        for address, share in self._shares.items():
            places = [at for at, _ in share.assignment.chunks]
            rows = {row_of(at, cut.recurrence.axis) for at in places} if is_chain else ()
            request = Request(
                cut.recurrence,
                {row: initial[row] for row in rows},
                is_chain and cut.is_last_asked,
                self._held,
                None if self._held else share,
                None if is_first else {at: cut.keys(at) for at in places},
            )
            yield address, dumps(request)

    def _raise(self, errors: Mapping[str, BaseException]) -> None:
        """Raise an error, if there is one: a lost worker first, else what a chunk raised."""
        for address, error in errors.items():
            if isinstance(error, Lost):
                message = (
                    f"the plan lost its worker {error.args[0] if error.args else address}: what it "
                    f"held is gone. Build the plan anew with mgrec.plan, from operands that are "
                    f"there or are computed again"
                )
                self._end = WorkerLostError, message
                raise WorkerLostError(message) from error
        for error in errors.values():
            if not isinstance(error, Abandoned):
                raise error

    def close(self) -> None:
        """Release the plan's operands; its results stay."""
        with self._lock:
            if self._held:
                self._forget()
            self._end = self._end or (RuntimeError, "the plan is closed")


def _told(solve: Call, answers: Mapping[str, Any]) -> Any:
    """What the shares told: the exits of a chain where they are asked for, the exit of a grid."""
    recurrence = solve.cut.recurrence
    if not isinstance(recurrence, AlongAxis):
        return next((exit for exit in answers.values() if exit is not None), None)
    exits = {row: exit for own in answers.values() for row, exit in own.items()}
    return solve.exit(exits) if recurrence.is_exit_asked else None


class _Solve:
    """The results of a solve that is asked for, built while the workers compute them."""

    def __init__(self, plan: Plan, solve: Call, name: str) -> None:
        self.plan, self.solve, self.name, self.client = plan, solve, name, plan.client
        self.held: list[Any] = []

    def begin(self) -> None:
        cut = self.solve.cut
        names = [name_of(self.name, k) for k in range(cut.recurrence.results)]
        sizes = {a: self.solve.sizes(own, names) for a, own in self.plan._assignments.items()}
        loop = self.client.loop.asyncio_loop
        self.registered = asyncio.run_coroutine_threadsafe(self._register(sizes), loop)
        self.futures = {key: Future(key, self.client) for own in sizes.values() for key in own}
        self.held.append(self.futures)
        self.arrays = tuple(_array(cut, name, self.futures) for name in names)

    def end(self, errors: Errors) -> tuple[da.Array, ...]:
        """The results, when all workers have answered; raises what one of them raised."""
        try:
            self.plan._raise(errors | self.registered.result())
        except Exception:
            for future in self.futures.values():
                future.release()
            raise
        for state in (self.client.futures[key] for key in self.futures):
            if state.status == "pending":  # the scheduler's message is on its way
                state.finish()
        return self.arrays

    async def _register(self, sizes: Mapping[str, Sizes]) -> Errors:
        """Register the results with the scheduler while they are computed; the workers it lost.

        By a call, not on the client's stream: on results of a lost worker that come there, the
        scheduler (Dask 2026.7) drops the client, and all that the client holds is gone.
        """
        left = dict(sizes)
        lost: Errors = {}
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
                lost[address] = Lost(address)
            else:
                break
        return lost


def _array(cut: Cut, name: str, futures: Mapping[Any, Future]) -> da.Array:
    layer = {key: future for key, future in futures.items() if key[0] == name}
    graph = HighLevelGraph({name: layer}, {name: set()})
    like, dtype = cut.blocks[0]._meta, cut.recurrence.result_dtype
    meta = meta_from_array(like, ndim=len(cut.chunks), dtype=dtype)
    return da.Array(graph, name, cut.chunks, meta=meta)
