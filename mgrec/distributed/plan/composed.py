"""Plans of functions that solve several recurrences, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any

import dask.array.core as da
from dask.base import unpack_collections
from distributed import Client, futures_of

from ...core.contract.grid import Swept, Traceback
from ...core.contract.problem import Problem
from ..cluster.arguments import check_in_flight, name_of
from ..expressions import accepts_expressions, mapped
from ..graph.build import SOLVER, Solved
from ..graph.persisted import is_persisted
from .calls import wait_for
from .plans import Arguments, Plan
from .results import SolvedArray, solution_of


class ComposedPlan:
    """The plans of the recurrences that a function solves, one after the other.

    They are built in the first call. What the function does besides is a graph of Dask, but for the
    parts of results that it asks for by :func:`mgrec.solve.solve_parts`.
    """

    def __init__(
        self, arguments: Arguments, client: Client, timeout: float, in_flight: int | None
    ) -> None:
        # Each call reads the operands in the memory of the workers.
        self._arguments: Arguments = mapped(arguments, da.Array, partial(_persisted, client))
        self.client = client
        self._limits, self._plans = (timeout, in_flight), list[Plan]()
        self._lock, self._is_closed = Lock(), False

    def __repr__(self) -> str:
        return f"<mgrec.plan of {name_of(self._arguments[0])}: {self._plans}>"

    def __enter__(self) -> ComposedPlan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @accepts_expressions
    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Solve once more, and wait for the results: see :meth:`Plan.__call__`."""
        return _wait(self._start(operands, options))

    @accepts_expressions
    def submit(self, *operands: Any, **options: Any) -> Any:
        """Start one more solve, and return its results before they are computed.

        As :meth:`Plan.submit`, for functions whose results are those of their recurrences, such as
        :func:`mgrec.signal.sosfiltfilt` and :func:`mgrec.statespace.kalman_filter`. Others raise
        TypeError: operations of Dask wait.
        """
        result = self._start(operands, options)
        if not all(isinstance(array, SolvedArray) for array in _arrays_of(result)):
            raise TypeError(
                f"submit needs a function whose results are those of its recurrences; {self!r} "
                f"computes more of them by a graph: call the plan, or use its map"
            )
        return result

    def map(self, operands: Iterable[Any], *, in_flight: int | None = None) -> Iterator[Any]:
        """Solve for many operands, and return the results one by one, as :meth:`Plan.map`."""
        check_in_flight(in_flight)
        started = deque[Any]()
        for arguments in operands:
            arguments = arguments if isinstance(arguments, tuple) else (arguments,)
            started.append(self._start(arguments, {}))
            most = in_flight or self._plans[-1].in_flight
            while len(started) >= most or (started and _has_ended(started[0])):
                yield _wait(started.popleft())
        while started:
            yield _wait(started.popleft())

    def _start(self, operands: Any, options: Any) -> Any:
        """Return the result of the function, whose last solve may be unfinished."""
        recurrence, first, first_options = self._arguments
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the plan is closed")
            solves = _Solves(self._plans, self.client, self._limits)
            token = SOLVER.set(solves)
            try:
                result = recurrence(*(operands or first), **{**first_options, **options})
            finally:
                SOLVER.reset(token)
            if not self._plans:
                raise TypeError(
                    f"recurrence must be a function that solves recurrences over the chunks of "
                    f"Dask arrays; {name_of(recurrence)} solved none: persist what it returns. "
                    f"Filters in both directions, such as sosfiltfilt, need a signal of integers "
                    f"or assume_finite=True, and chunks of at least half the length of their "
                    f"response"
                )
            is_planned = all(isinstance(array, SolvedArray) for array in _arrays_of(result))
            return result if is_planned else _in_memory(result, self.client)

    def close(self) -> None:
        """Release the operands of all plans; results stay."""
        self._is_closed = True
        for plan in self._plans:
            plan.close()
        # The list is also that of _Solves, which stays in the context of tasks of the event loop.
        self._plans.clear()


class _Solves:
    """Solves of a call by plans in their order; missing ones are built."""

    def __init__(self, plans: list[Plan], client: Client, limits: tuple[Any, Any]) -> None:
        self._plans, self._client, self._limits, self._count = plans, client, limits, 0

    def __call__(self, problem: Problem) -> Solved | None:
        """Return the results of a problem; None if only a graph can solve it."""
        recurrence = problem.recurrence
        has_lazy_states = getattr(recurrence, "returns_final_state", False) or any(
            isinstance(state, da.Array) for state in problem.initial
        )
        if has_lazy_states or isinstance(recurrence, (Swept, Traceback)):
            return None
        self._count += 1
        if self._count > len(self._plans):
            arguments: Any = recurrence.family, (), {}
            self._plans.append(Plan(problem, arguments, self._client, *self._limits).hold())
        return self._plans[self._count - 1].solve(problem)


def _persisted(client: Client, array: da.Array) -> da.Array:
    return array if is_persisted(array) else client.persist(array)


def _arrays_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _has_ended(result: Any) -> bool:
    solutions = map(solution_of, _arrays_of(result))
    return all(solution is None or solution.request.done.done() for solution in solutions)


def _wait(result: Any) -> Any:
    """Wait for the solves of a result; raise their errors."""
    for array in _arrays_of(result):
        if (solution := solution_of(array)) is not None:
            solution.wait()
    return result


def _in_memory(result: Any, client: Client) -> Any:
    """Compute the Dask arrays of a result in the memory of the workers; raise their errors."""
    arrays, repack = unpack_collections(result)
    persisted = client.persist(arrays)
    wait_for(client, futures_of(persisted))
    return repack(persisted)[0]
