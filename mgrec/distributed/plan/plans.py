"""Repeated solves of one shape: one message to each worker, and no graph."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from math import prod
from threading import BoundedSemaphore
from typing import Any
from uuid import uuid4

from dask.array.utils import meta_from_array
from distributed import Client
from distributed.protocol.pickle import dumps

from ...core.contract.recurrence import AlongAxis
from ..cluster.door import client_of, problem_of
from ..expressions import keeps_kind
from ..graph.build import cut
from ..graph.cuts import Cut
from ..logs import log_planned
from .calls import Call, assign
from .grids import GridShard
from .messages import ChainShard, PlanShard, Request, WorkerLostError, row_of
from .results import Layout, Solution, SolvedArray, register_later, solution_of
from .session import FIRST, PATIENCE, Ask, session_of

# Solves that may be unfinished at once when not asked otherwise: as many as have so many bytes of
# results together, and at most so many. Their requests, carries and answers go together.
SMALL, MOST = 1 << 22, 64


class Plan:
    """A recurrence over one shape, ready on the workers: see :func:`mgrec.plan`."""

    def __init__(
        self,
        recurrence: Callable[..., Any],
        operands: Any,
        options: Any,
        client: Client | None,
        timeout: float = 10.0,
        in_flight: int | None = None,
    ) -> None:
        _check_positive("timeout", timeout)
        _check_positive("in_flight", 2 if in_flight is None else in_flight)
        self._problem = problem_of(recurrence, operands, options, may_be_grid=True)
        self.client = client_of(client)
        if self.client.asynchronous:
            raise TypeError("a plan needs a client that waits; got an asynchronous one")
        self._given = (recurrence, operands, options)
        self._name, self._numbers = uuid4().hex[:16], count(1)
        self._timeout, self._state = float(timeout), _State()
        self._session = session_of(self.client)
        for attempt in range(2):
            self._first = Call(cut(self._problem), self.client)
            self._shards = assign(self._first, self.client)
            try:
                self.client.sync(self._session.connect, self._shards, self._timeout)
                break
            except WorkerLostError:  # Dask may compute again what the worker held.
                if attempt:
                    raise
        self._layout = _layout(self._first.cut, self._shards)
        self._in_flight = in_flight or max(2, min(MOST, SMALL // max(1, self._layout.nbytes)))
        self._slots = BoundedSemaphore(self._in_flight)
        self._held = self._hold()

    def _hold(self) -> Ask:
        """Let the workers keep their shards and operands, which Dask may drop otherwise."""
        by_number = {shard.number: address for address, shard in self._shards.items()}
        keys_of, requests, messages = self._first.cut.keys, self._requests(self._first), {}
        for address, shard in self._shards.items():
            keys = {chunk_index: keys_of(chunk_index) for chunk_index, _ in shard.chunks}
            kept = PlanShard(shard, by_number, keys, requests[address], self._in_flight)
            messages[address] = (dumps(kept),)
        session, ask = self._session, self._ask()
        session.ask(ask, "hold", self._name, messages)
        self._forget = weakref.finalize(
            self, session.call, session.release, list(messages), "forget", self._name
        )
        self._forget.atexit = False
        return ask

    def hold(self) -> Plan:
        """Wait until the workers hold their operands."""
        self._session.wait(self._held)
        return self

    def __repr__(self) -> str:
        function = getattr(self._given[0], "__name__", repr(self._given[0]))
        chunks = self._first.cut.chunks
        largest, count = tuple(map(max, chunks)), prod(map(len, chunks))
        error = self._state.error
        state = "lost" if isinstance(error, WorkerLostError) else "closed" if error else "open"
        return (
            f"<mgrec.plan of {function}: results of shape {tuple(map(sum, chunks))} in {count} "
            f"chunks of up to {largest}, {len(self._shards)} workers, {state}>"
        )

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @keeps_kind
    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Solve once more, and wait for the results.

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
        return self._start(operands, options).result()

    @keeps_kind
    def submit(self, *operands: Any, **options: Any) -> Any:
        """Start one more solve, and return its results before they are computed.

        Workers begin solves in the order of the calls. A result may be an operand of the next solve
        at once; any other use waits for it. Where `in_flight` solves are unfinished, the call waits
        for one of them, which bounds the memory of the workers.

        Parameters
        ----------
        *operands, **options
            As those of a call of the plan.

        Returns
        -------
        dask.array.Array, or tuple of these
            What a solve raises is raised where its result is used, also as an operand of a later
            solve.

        Raises
        ------
        TypeError
            The function returns more than Dask arrays, such as final states or a score.
        mgrec.dask.WorkerLostError
            A worker was lost in a solve before.
        RuntimeError
            The plan or its client is closed.
        ValueError
            Operands of another shape, other chunks or another dtype.

        Examples
        --------
        >>> import dask.array as da, mgrec
        >>> from distributed import Client
        >>> with Client(processes=False, n_workers=2, dashboard_address=None):
        ...     u = da.ones(1000, chunks=100)
        ...     with mgrec.plan(mgrec.linear_recurrence, 0.5, u) as step:
        ...         for _ in range(10):
        ...             u = step.submit(0.5, u)
        ...         float(u[-1].compute())
        1024.0
        """
        recurrence = self._first.cut.recurrence
        if not recurrence.results or getattr(recurrence, "returns_final_state", False):
            raise TypeError(
                f"submit needs a function that returns Dask arrays alone; {self!r} returns values "
                f"of the client, too: call the plan, or use its map"
            )
        started = self._start(operands, options, self._slots)
        return started.problem.to_return_value(started.arrays, None)

    def map(self, operands: Iterable[Any], *, in_flight: int | None = None) -> Iterator[Any]:
        """Solve for many operands, and return the results one by one.

        Parameters
        ----------
        operands : iterable
            The operands of each solve: a tuple, or an array where there is one.
        in_flight : int, optional
            How many solves are unfinished at once; that of the plan when not given.

        Yields
        ------
        dask.array.Array, or what else the function returns
            In order, each when it is computed. What a solve raises is raised there.
        """
        in_flight, started = in_flight or self._in_flight, deque[_Started]()
        _check_positive("in_flight", in_flight)
        for given in operands:
            # Half of the solves start in one moment, so that their requests go together.
            most = in_flight // 2 if len(started) >= in_flight else in_flight
            while started and (len(started) > most or started[0].solution.ask.done.done()):
                yield self._result(started.popleft())
            given = given if isinstance(given, tuple) else (given,)
            started.append(self._start(given, {}))
        while started:
            yield self._result(started.popleft())

    @keeps_kind
    def _result(self, started: _Started) -> Any:
        return started.result()

    def close(self) -> None:
        """Release the plan's operands; its results stay."""
        self._forget()
        self._state.error = self._state.error or RuntimeError("the plan is closed")

    def _start(
        self, operands: Any, options: Any, slots: BoundedSemaphore | None = None
    ) -> _Started:
        start = time.perf_counter()
        self._check_open()
        problem, call, messages = self._call(operands, options)
        while slots and not slots.acquire(timeout=1.0):
            self._check_open()
        name, state, ask = f"solved-{self._name}-{next(self._numbers)}", self._state, self._ask()
        ask.needs = self._held, *(operand.ask for operand in call.solutions)
        ask.operands = tuple(map(weakref.ref, call.solutions))
        ask.kept = [block for block in call.cut.blocks if solution_of(block) not in call.solutions]
        solution = Solution(self._session, name, ask, self._layout)
        reference = weakref.ref(solution)

        def end(error: BaseException | None) -> None:
            state.end(error, start, slots)
            if error is None:
                register_later(reference)

        ask.on_end = end
        self._session.ask(ask, "solve", name, messages)
        arrays = tuple(SolvedArray.of(solution, own) for own in self._layout.names(name))
        return _Started(solution, arrays, problem, call, start)

    def _call(self, operands: Any, options: Any) -> tuple[Any, Call, dict[str, Any]]:
        """The problem and the operands of a call, and what it says to each worker."""
        recurrence, first, given = self._given
        if not operands and not options:
            return self._problem, self._first, dict.fromkeys(self._shards, (self._name, None, None))
        alike = None if options else self._first.with_operands(first, operands)
        problem = self._problem
        if alike is None:
            options = {**given, **options}
            problem = problem_of(recurrence, operands or first, options, may_be_grid=True)
        call = Call(alike or cut(problem), self.client, self._name, self._first.cut.blocks)
        names = [block.name for block in call.cut.blocks]
        if alike is not None:
            return problem, call, dict.fromkeys(self._shards, (self._name, names, None))
        call.check_like(self._first)
        requests = self._requests(call).items()
        return problem, call, {to: (self._name, names, dumps(request)) for to, request in requests}

    def _check_open(self) -> None:
        if self.client.status != "running":
            raise RuntimeError("the client of the plan is closed: build a plan with another client")
        if self._state.error is not None:
            raise type(self._state.error)(*self._state.error.args)

    def _ask(self) -> Ask:
        shortest = self._state.shortest
        limit = FIRST * self._timeout if shortest is None else PATIENCE * shortest
        return Ask(self._shards, self._timeout, max(self._timeout, limit))

    def _requests(self, call: Call) -> dict[str, Request]:
        """What workers must know of a call besides its operands, by addresses."""
        cut, chunk_indices = call.cut, self._layout.chunk_indices
        if not isinstance(cut.recurrence, AlongAxis):
            return dict.fromkeys(chunk_indices, Request(cut.recurrence))
        initial, axis = call.initial(), cut.recurrence.axis
        rows = {
            address: {row_of(chunk_index, axis) for chunk_index in own}
            for address, own in chunk_indices.items()
        }
        return {
            address: Request(cut.recurrence, {row: initial[row] for row in own}, cut.is_last_asked)
            for address, own in rows.items()
        }


class _State:
    """Why a plan ended, and the seconds of its shortest solve."""

    error: RuntimeError | None = None
    shortest: float | None = None

    def end(
        self, error: BaseException | None, start: float, slots: BoundedSemaphore | None
    ) -> None:
        """Take note of a solve that has ended."""
        if slots is not None:
            slots.release()
        if error is None:
            seconds = time.perf_counter() - start
            self.shortest = min(self.shortest or seconds, seconds)
        elif isinstance(error, WorkerLostError):
            self.error = error


class _Started:
    """A solve that has started."""

    def __init__(
        self, solution: Solution, arrays: Any, problem: Any, call: Call, start: float
    ) -> None:
        self.solution, self.arrays, self.problem = solution, arrays, problem
        self.call, self.start = call, start

    def result(self) -> Any:
        """Wait, and return what the function returns."""
        answers = self.solution.wait()
        log_planned(self.arrays, len(answers), time.perf_counter() - self.start)
        recurrence = self.call.cut.recurrence
        if not isinstance(recurrence, AlongAxis):
            final = next(
                (carry_out for carry_out in answers.values() if carry_out is not None), None
            )
        else:
            rows = {
                row: carry_out for own in answers.values() for row, carry_out in (own or {}).items()
            }
            final = self.call.carry_out(rows) if recurrence.returns_final_state else None
        return self.problem.to_return_value(self.arrays, final)


def _layout(cut: Cut, shards: Mapping[str, ChainShard | GridShard]) -> Layout:
    chunk_indices = {
        to: tuple(chunk_index for chunk_index, _ in shard.chunks) for to, shard in shards.items()
    }
    recurrence, ndim = cut.recurrence, len(cut.chunks)
    meta = meta_from_array(cut.blocks[0]._meta, ndim, recurrence.result_dtype)
    return Layout(chunk_indices, cut.chunks, meta, recurrence.results)


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name} must be a positive number; got {value!r}")
