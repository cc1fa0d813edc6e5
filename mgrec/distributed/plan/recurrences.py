"""Plans of one recurrence."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from itertools import count
from math import prod
from threading import BoundedSemaphore
from typing import Any
from uuid import uuid4

from dask.array.utils import meta_from_array
from distributed import Client
from distributed.protocol.pickle import dumps

from ...core.arrays.elements import Part
from ...core.backends import backend_of, common_backend
from ...core.contract.problem import Composed, Problem
from ...engines.cuda.device import free_memory
from ..arguments import name_of, problem_of
from ..comms import WorkerLostError
from ..graph.aligned import AlignedProblem, align_problem, chunk_indices_of
from ..graph.build import Solved
from ..observability import log_planned
from ..programs.assignment import assign
from .calls import NOTIFICATION, PlanCall, ResultLayout, Solution, solution_of
from .plans import Plan, Started
from .program import PlanShard
from .session import PendingRequest, Streams, session_of

# The default number of unfinished solves: at least 2, and at most 64, as many as have this many
# bytes of results on a worker together. Their requests, summaries and answers are sent together. A
# GPU needs more of them than a CPU, which has nothing to do while messages are on their way: two
# H100 took 3.0 ms a solve with 2 results of 2 GB in flight, 2.6 with 3 or 4. So larger results are
# up to BUSY if they take half of the memory that the GPUs have left.
SMALL, LARGE, MOST, BUSY = 1 << 22, 1 << 31, 64, 4
Arguments = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class RecurrencePlan(Plan):
    """A plan of one recurrence over one shape, ready on the workers."""

    def __init__(
        self, problem: Problem, arguments: Arguments, client: Client, timeout: float, in_flight: int | None
    ) -> None:
        self.client, self._function = client, name_of(arguments[0])
        self._name, self._numbers, self._timeout = uuid4().hex[:16], count(1), timeout
        session = self._session = session_of(client)
        for attempt in range(2):
            first = PlanCall(problem, align_problem(problem), client)
            self._shards = assign(first.aligned, first.locate(client), client)
            try:
                self._streams: Streams = client.sync(session.connect, list(self._shards), timeout)
                break
            except WorkerLostError:
                time.sleep(NOTIFICATION)
                if attempt or client.nthreads().keys() >= self._shards.keys():
                    raise
                # Dask has removed the worker, and may compute its blocks again.
        # What the plan was built with, until it is closed.
        self._built: tuple[Arguments, PlanCall] | None = arguments, first
        self._layout = self._lay_out(first)
        self._in_flight = in_flight or self._default_in_flight()
        self._slots = BoundedSemaphore(self._in_flight)
        self._add_to_workers(first)

    def _lay_out(self, first: PlanCall) -> ResultLayout:
        aligned, dtype = first.aligned, first.aligned.recurrence.result_dtype
        chunk_indices = {
            address: tuple(index for index, _ in shard.chunks) for address, shard in self._shards.items()
        }
        meta = meta_from_array(aligned.blocks[0]._meta, len(aligned.chunks), dtype)
        parts = first.problem.parts or (Part(),) * aligned.recurrence.results
        return ResultLayout(chunk_indices, aligned.chunks, meta, parts)

    def _default_in_flight(self) -> int:
        layout = self._layout
        largest = max(layout.sizes().values(), default=0)
        if not layout.parts:
            largest = layout.meta.itemsize * prod(map(sum, layout.chunks))
        is_on_gpus = backend_of(layout.meta).is_asynchronous
        in_flight = max(2, min(MOST, (LARGE if is_on_gpus else SMALL) // max(1, largest)))
        if not is_on_gpus or in_flight >= BUSY:
            return in_flight
        free = self.client.run(free_memory, workers=list(self._shards), on_error="ignore")
        return max(in_flight, min(BUSY, min(free.values(), default=0) // (2 * largest)))

    def _add_to_workers(self, first: PlanCall) -> None:
        """Make the workers keep their shards and operands, which Dask may drop otherwise."""
        addresses = tuple(sorted(self._shards, key=lambda address: self._shards[address].number))
        contents, arguments, is_on_gpus = {}, first.request(), self._is_on_gpus(first)
        sizes = self._layout.sizes() if backend_of(self._layout.meta).is_host else {}
        for address, shard in self._shards.items():
            keys, size = {i: first.aligned.keys(i) for i, _ in shard.chunks}, sizes.get(address, 0)
            stored = PlanShard(shard, addresses, keys, size, arguments, self._timeout, is_on_gpus)
            contents[address] = self._name, dumps(stored)
        session, request = self._session, PendingRequest(self._streams, self._timeout)
        session.call(session.send, request, "add_plan", contents)
        remove = session.send_later, self._streams, "remove_plan", 0, self._name
        self._remove = weakref.finalize(self, session.call, *remove)
        self._remove.atexit = False
        session.wait(request)

    def _is_on_gpus(self, first: PlanCall) -> bool:
        """Return whether workers, in their order, have as many neighbouring chunks on GPUs each."""
        aligned, problem = first.aligned, first.problem
        recurrence, shards = aligned.recurrence, [*self._shards.values()]
        if not recurrence.has_shards or recurrence.returns_final_state or problem.parts:
            return False
        order = [index for shard in shards for index, _ in shard.chunks]
        counts = {len(shard.chunks) for shard in shards}
        is_in_order = order == [*chunk_indices_of(aligned.chunks)] and len(order) == aligned.count
        has_gpus = not common_backend(aligned.blocks).is_host
        return has_gpus and is_in_order and len(counts) == 1 and len(shards) > 1

    def __repr__(self) -> str:
        chunks = self._layout.chunks
        largest, number = tuple(map(max, chunks)), prod(map(len, chunks))
        is_lost = self._session.lost(self._streams) is not None
        state = "closed" if self._built is None else "lost" if is_lost else "open"
        return (
            f"<mgrec.plan of {self._function}: results of shape {tuple(map(sum, chunks))} in "
            f"{number} chunks of up to {largest}, {len(self._shards)} workers, {state}>"
        )

    def close(self) -> None:
        self._remove()
        self._built = None

    def solve(self, problem: Problem) -> Solved:
        """Solve a problem like that of the plan; return the results and the final states.

        If it has no final states, results are returned before they are computed.
        """
        _, first = self._open()
        is_first = problem is first.problem
        call = first if is_first else self._call_of(problem, align_problem(problem))
        is_queued = first.returns_arrays
        solution, arrays = self._send(call, is_queued)
        return arrays, None if is_queued else call.final(solution.wait())

    def _start(self, operands: Any, options: Any, is_queued: bool = False) -> Started:
        call, start = self._call(operands, options), time.perf_counter()
        if is_queued and not call.returns_arrays:
            raise TypeError(
                f"submit needs a function that returns only Dask arrays; {self!r} also returns "
                f"values in host memory: call the plan, or use its map"
            )
        solution, arrays = self._send(call, is_queued)

        def value(answers: list[Mapping[str, Any]]) -> Any:
            if answers:
                log_planned(arrays, len(self._shards), time.perf_counter() - start)
            final = call.final(answers[0]) if answers else None
            return call.problem.to_return_value(arrays, final)

        return Started([solution], value)

    def _send(self, call: PlanCall, is_queued: bool) -> tuple[Solution, tuple[Any, ...]]:
        """Send a solve to the workers; return its results, also as arrays."""
        name, layout = f"solved-{self._name}-{next(self._numbers)}", self._layout
        content = self._name, name, *self._differences(call)
        while is_queued and not self._slots.acquire(timeout=1.0):
            self._open()
        # Workers keep the results of earlier solves until those that read them have ended.
        retained = [b for b in call.aligned.blocks if solution_of(b) not in call.solutions]
        request = PendingRequest(self._streams, self._timeout, retained)
        solution = Solution(self._session, name, request, layout)
        if is_queued:
            slots = self._slots
            request.done.add_done_callback(lambda _: slots.release())
        contents = dict.fromkeys(self._streams, content)
        self._session.call(self._session.send, request, "solve", contents)
        return solution, layout.arrays(solution)

    def _differences(self, call: PlanCall) -> tuple[list[str] | None, bytes | None]:
        """Return operands and arguments of a call, or None for those that the workers store."""
        _, first = self._open()
        if call is first:
            return None, None
        names, problem, built = [b.name for b in call.aligned.blocks], call.problem, first.problem
        has_initial = problem.initial or built.initial
        is_same = not has_initial and problem.recurrence.is_same(built.recurrence)
        return names, None if problem is built or is_same else dumps(call.request())

    def _call(self, operands: Any, options: Any) -> PlanCall:
        """Return the call of the function with operands, by default those of the plan."""
        (recurrence, first_operands, first_options), first = self._open()
        if not operands and not options:
            return first
        aligned = None if options else first.with_operands(first_operands, operands)
        if aligned is not None:
            return self._call_of(first.problem, aligned)
        options = {**first_options, **options}
        problem = problem_of(recurrence, operands or first_operands, options)
        if isinstance(problem, Composed):
            raise ValueError(
                f"operands of a plan must be like those it was built with; got operands for "
                f"which {problem.name} is several recurrences: build a plan with them"
            )
        return self._call_of(problem, align_problem(problem))

    def _call_of(self, problem: Problem, aligned: AlignedProblem) -> PlanCall:
        _, first = self._open()
        call = PlanCall(problem, aligned, self.client, self._accepts, first.aligned.blocks)
        call.check_like(first)
        return call

    def _accepts(self, solution: Solution) -> bool:
        """Return whether results of a solve may be operands before they are computed."""
        is_here = solution.request.streams == self._streams
        return is_here and solution.layout.chunk_indices == self._layout.chunk_indices

    def _open(self) -> tuple[Arguments, PlanCall]:
        """Return what the plan was built with; raise if it is closed or lost."""
        built = self._built
        if self.client.status != "running":
            raise RuntimeError("the client of the plan is closed: build a plan with another client")
        if built is None:
            raise RuntimeError("the plan is closed")
        self._session.check(self._streams)
        return built
