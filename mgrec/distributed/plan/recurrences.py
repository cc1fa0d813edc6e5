"""Plans of one recurrence."""

from __future__ import annotations

import asyncio
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from math import prod
from threading import BoundedSemaphore
from typing import Any
from uuid import uuid4

from dask.array.utils import meta_from_array
from dask.utils import format_bytes
from distributed import Client
from distributed.protocol.pickle import dumps

from ...core.arrays.elements import Part
from ...core.backends import backend_of
from ...core.contract.grid import Grid
from ...core.contract.problem import Composed, Problem
from ...core.contract.recurrence import AlongAxis
from ..arguments import name_of, problem_of
from ..comms import WorkerLostError
from ..graph.aligned import AlignedProblem, align_problem
from ..graph.build import Solved
from ..observability import log_planned
from ..programs.bands import assign_bands
from ..programs.chains import row_of
from .assignment import assign, operand_sizes
from .calls import (
    NOTIFICATION,
    REGISTERING,
    Call,
    Layout,
    Solution,
    SolvedArray,
    register_if_alive,
    solution_of,
)
from .messages import PlanShard, Request, Shard
from .plans import Plan
from .session import Messages, PendingRequest, session_of

# The default number of unfinished solves: at least 2, and at most 64, as many as have this many
# bytes of results on a worker together. Their requests, summaries and answers are sent together. A
# GPU needs more of them than a CPU, which has nothing to do while messages are on their way: two
# H100 took 3.0 ms a solve with 2 results of 2 GB in flight, 2.6 with 3 or 4.
SMALL, LARGE, MOST = 1 << 22, 1 << 31, 64
Arguments = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class _Built:
    """What a plan was built with, until it is closed."""

    problem: Problem
    arguments: Arguments
    first: Call


class RecurrencePlan(Plan):
    """A plan of one recurrence over one shape, ready on the workers."""

    def __init__(
        self, problem: Problem, arguments: Arguments, client: Client, timeout: float,
        in_flight: int | None,
    ) -> None:  # fmt: skip
        self.client, self._function = client, name_of(arguments[0])
        self._name, self._numbers = uuid4().hex[:16], count(1)
        self._timeout, self._state = timeout, _State()
        self._session = session_of(self.client)
        for attempt in range(2):
            first = Call(align_problem(problem), self.client)
            self._shards = self._assign(first)
            try:
                self.client.sync(self._session.connect, self._shards, self._timeout)
                break
            except WorkerLostError:
                time.sleep(NOTIFICATION)
                if attempt or client.nthreads().keys() >= self._shards.keys():
                    raise
                # Dask has removed the worker, and may compute its blocks again.
        self._built: _Built | None = _Built(problem, arguments, first)
        self._parts = problem.parts
        self._layout = self._lay_out(first.aligned)
        self._in_flight = in_flight or self._default_in_flight()
        self._slots = BoundedSemaphore(self._in_flight)
        self._session.stored[self._name] = self._check_memory(first)
        self._added = self._add_to_workers(first)

    def _assign(self, first: Call) -> Mapping[str, Shard]:
        aligned = first.aligned
        shards = assign(aligned, first.locate(self.client))
        if not isinstance(aligned.recurrence, Grid):
            return shards
        return assign_bands(aligned, list(shards), self.client) or shards

    def _lay_out(self, aligned: AlignedProblem) -> Layout:
        recurrence = aligned.recurrence
        chunk_indices = {
            address: tuple(index for index, _ in shard.chunks)
            for address, shard in self._shards.items()
        }
        ndim, dtype = len(aligned.chunks), recurrence.result_dtype
        meta = meta_from_array(aligned.blocks[0]._meta, ndim, dtype)
        parts = self._parts or (Part(),) * recurrence.results
        return Layout(chunk_indices, aligned.chunks, meta, parts)

    def _default_in_flight(self) -> int:
        most = LARGE if backend_of(self._layout.meta).is_asynchronous else SMALL
        return max(2, min(MOST, most // max(1, self._layout.largest)))

    def _check_memory(self, first: Call) -> Mapping[str, int]:
        """Return the bytes of operands by workers; raise MemoryError if a worker has no room.

        Operands do not spill while the plan keeps them. They are not counted if all of them and
        the results of a solve take a quarter of the memory of one worker, or are on GPUs.
        """
        streams, results = self._session.streams, self._layout.sizes
        limits = {
            to: streams[to].memory_limit or sys.maxsize for to in self._shards if to in streams
        }
        total = sum(block.nbytes for block in first.aligned.blocks) + sum(results.values())
        is_host = backend_of(self._layout.meta).is_host
        if not is_host or total < min(limits.values(), default=0) / 4:
            return {}
        sizes = operand_sizes(first.aligned, self._layout.chunk_indices)
        for address, limit in limits.items():
            if sizes[address] + results[address] > limit:
                raise MemoryError(
                    f"a plan of {self._function} needs {format_bytes(sizes[address])} for operands "
                    f"and {format_bytes(results[address])} for results in the memory of {address}, "
                    f"whose limit is {format_bytes(limit)}. Use more workers, or the graph that "
                    f"{self._function} returns, which needs memory for a few chunks at once"
                )
        return sizes

    def _add_to_workers(self, first: Call) -> PendingRequest:
        """Make the workers keep their shards and operands, which Dask may drop otherwise."""
        addresses = sorted(self._shards, key=lambda address: self._shards[address].number)
        messages = {}
        for address, solve_request in self._requests(first).items():
            shard, keys_of = self._shards[address], first.aligned.keys
            keys = {index: keys_of(index) for index in self._layout.chunk_indices[address]}
            messages[address] = (
                dumps(PlanShard(shard, addresses, keys, solve_request, self._timeout)),
            )
        session, request = self._session, self._pending()
        session.request(request, "add_plan", self._name, messages)
        self._remove = weakref.finalize(
            self, session.call, session.remove_plan, self._name, list(messages)
        )
        self._remove.atexit = False
        return request

    def hold(self) -> RecurrencePlan:
        """Wait until the workers store their operands."""
        self._session.wait(self._added)
        return self

    def __repr__(self) -> str:
        chunks = self._layout.chunks
        largest, number = tuple(map(max, chunks)), prod(map(len, chunks))
        error = self._state.error
        state = "lost" if isinstance(error, WorkerLostError) else "closed" if error else "open"
        return (
            f"<mgrec.plan of {self._function}: results of shape {tuple(map(sum, chunks))} in "
            f"{number} chunks of up to {largest}, {len(self._shards)} workers, {state}>"
        )

    def close(self) -> None:
        self._state.error = self._state.error or RuntimeError("the plan is closed")
        self._remove()
        self._built = None

    def solve(self, problem: Problem) -> Solved:
        """Solve a problem like that of the plan; return the results and the final states.

        If it has no final states, results are returned before they are computed.
        """
        built = self._open()
        is_first = problem is built.problem
        call = self._call((), {}) if is_first else self._call_of(built, problem)
        if self._returns_arrays:
            return self._send(*call, self._slots).arrays, None
        started = self._send(*call)
        return started.arrays, started.final(started.solution.wait())

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def _returns_arrays(self) -> bool:
        """Whether the function returns Dask arrays and nothing else."""
        recurrence = self._open().first.aligned.recurrence
        return recurrence.results and not getattr(recurrence, "returns_final_state", False)

    def _start(self, operands: Any, options: Any, is_queued: bool = False) -> _Started:
        if is_queued and not self._returns_arrays:
            raise TypeError(
                f"submit needs a function that returns only Dask arrays; {self!r} also returns "
                f"values in host memory: call the plan, or use its map"
            )
        return self._send(*self._call(operands, options), self._slots if is_queued else None)

    def _send(
        self,
        problem: Problem,
        call: Call,
        messages: Messages,
        slots: BoundedSemaphore | None = None,
    ) -> _Started:
        """Send a solve to the workers."""
        start = time.perf_counter()
        while slots and not slots.acquire(timeout=1.0):
            self._open()
        name, state = f"solved-{self._name}-{next(self._numbers)}", self._state
        request = self._pending()
        solutions = call.solutions
        request.dependencies = self._added, *(operand.request for operand in solutions)
        request.operands = tuple(map(weakref.ref, solutions))
        request.retained = [b for b in call.aligned.blocks if solution_of(b) not in solutions]
        solution = Solution(self._session, name, request, self._layout)
        reference = request.result = weakref.ref(solution)

        def end(error: BaseException | None) -> None:
            state.end(error, slots)
            if error is None:
                asyncio.get_running_loop().call_later(REGISTERING, register_if_alive, reference)

        request.on_end = end
        self._session.request(request, "solve", name, messages)
        arrays = tuple(
            SolvedArray.of(solution, result, part)
            for result, part in zip(self._layout.names(name), self._layout.parts, strict=True)
        )
        return _Started(solution, arrays, problem, call, start)

    def _call(self, operands: Any, options: Any) -> tuple[Problem, Call, Messages]:
        """Return the problem and the operands of a call, and its message to each worker."""
        built = self._open()
        recurrence, first, first_options = built.arguments
        if not operands and not options:
            return built.problem, built.first, dict.fromkeys(self._shards, (self._name, None, None))
        aligned = None if options else built.first.with_operands(first, operands)
        if aligned is None:
            options = {**first_options, **options}
            problem = problem_of(recurrence, operands or first, options)
            if isinstance(problem, Composed):
                raise ValueError(
                    f"operands of a plan must be like those it was built with; got operands for "
                    f"which {problem.name} is several recurrences: build a plan with them"
                )
            return self._call_of(built, problem)
        call, names = self._with_names(built, aligned)
        return built.problem, call, dict.fromkeys(self._shards, (self._name, names, None))

    def _call_of(self, built: _Built, problem: Problem) -> tuple[Problem, Call, Messages]:
        """Return what `_call` returns for a call that may differ in more than its Dask arrays."""
        call, names = self._with_names(built, align_problem(problem))
        call.check_like(built.first)
        has_initial = problem.initial or built.problem.initial
        if not has_initial and problem.recurrence.is_same(built.problem.recurrence):
            return problem, call, dict.fromkeys(self._shards, (self._name, names, None))
        requests = self._requests(call).items()
        return problem, call, {to: (self._name, names, dumps(request)) for to, request in requests}

    def _with_names(self, built: _Built, aligned: AlignedProblem) -> tuple[Call, list[str]]:
        call = Call(aligned, self.client, self._accepts, built.first.aligned.blocks)
        return call, [block.name for block in call.aligned.blocks]

    def _accepts(self, solution: Solution) -> bool:
        """Return whether results of a solve may be operands before they are computed.

        Each worker must store the chunks that it needs.
        """
        is_here = solution.session is self._session
        return is_here and solution.layout.owners == self._layout.owners

    def _open(self) -> _Built:
        """Return what the plan was built with; raise if it is closed or lost."""
        built = self._built
        if self.client.status != "running":
            raise RuntimeError("the client of the plan is closed: build a plan with another client")
        if self._state.error is not None:
            raise type(self._state.error)(*self._state.error.args)
        assert built is not None
        return built

    def _pending(self) -> PendingRequest:
        return PendingRequest(self._shards, self._timeout, self._name)

    def _requests(self, call: Call) -> dict[str, Request]:
        """Return the arguments of a call except for its operands, by addresses."""
        aligned, chunk_indices = call.aligned, self._layout.chunk_indices
        recurrence = aligned.recurrence
        if not isinstance(recurrence, AlongAxis):
            return dict.fromkeys(chunk_indices, Request(recurrence))
        initial, requests = call.initial(), {}
        for address, indices in chunk_indices.items():
            rows = {row_of(index, recurrence.axis) for index in indices}
            states = {row: initial[row] for row in rows}
            requests[address] = Request(recurrence, states, aligned.needs_last_summary, self._parts)
        return requests


class _State:
    """Why a plan ended."""

    error: RuntimeError | None = None

    def end(self, error: BaseException | None, slots: BoundedSemaphore | None) -> None:
        """Record the end of a solve."""
        if slots is not None:
            slots.release()
        if isinstance(error, WorkerLostError):
            self.error = error


@dataclass(frozen=True)
class _Started:
    """A solve that has started."""

    solution: Solution
    arrays: tuple[Any, ...]
    problem: Problem
    call: Call
    start: float

    @property
    def is_done(self) -> bool:
        return self.solution.request.done.done()

    def result(self) -> Any:
        answers = self.solution.wait()
        log_planned(self.arrays, len(answers), time.perf_counter() - self.start)
        return self.problem.to_return_value(self.arrays, self.final(answers))

    def unfinished(self) -> Any:
        return self.problem.to_return_value(self.arrays, None)

    def final(self, answers: Mapping[str, Any]) -> Any:
        """Return the final states, or the result of a grid without an array, or None."""
        recurrence = self.call.aligned.recurrence
        present = [answer for answer in answers.values() if answer is not None]
        if not isinstance(recurrence, AlongAxis):
            return next(iter(present), None)
        if not recurrence.returns_final_state:
            return None
        states = {row: state for answer in present for row, state in answer.items()}
        return self.call.join_carry_outs(states)
