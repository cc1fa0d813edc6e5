"""Plans of functions that solve several recurrences, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any

import dask.array.core as da
from dask.base import unpack_collections
from distributed import Client, futures_of

from ...core.contract.grid import Swept, Traceback
from ...core.contract.problem import Problem
from ..cluster.arguments import name_of
from ..expressions import accepts_expressions
from ..graph.build import SOLVER, Solved
from .calls import wait_for
from .plans import Arguments, Plan


class ComposedPlan:
    """The plans of the recurrences that a function solves, one after the other.

    They are built in the first call. What the function does besides is a graph of Dask.
    """

    def __init__(
        self, arguments: Arguments, client: Client, timeout: float, in_flight: int | None
    ) -> None:
        self._arguments, self.client = arguments, client
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
                    f"Dask arrays; {name_of(recurrence)} solved none: persist what it returns"
                )
            return _in_memory(result, self.client)

    def submit(self, *operands: Any, **options: Any) -> Any:
        """Raise TypeError: each recurrence waits for the one before it."""
        raise TypeError(f"submit needs a plan of one recurrence; got {self!r}: call it")

    def map(self, operands: Iterable[Any], *, in_flight: int | None = None) -> Iterator[Any]:
        """Solve for many operands, and return the results one by one, as :meth:`Plan.map`."""
        for arguments in operands:
            yield self(*(arguments if isinstance(arguments, tuple) else (arguments,)))

    def close(self) -> None:
        """Release the operands of all plans; results stay."""
        self._is_closed = True
        for plan in self._plans:
            plan.close()


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


def _in_memory(result: Any, client: Client) -> Any:
    """Compute the Dask arrays of a result in the memory of the workers; raise their errors."""
    arrays, repack = unpack_collections(result)
    persisted = client.persist(arrays)
    wait_for(client, futures_of(persisted))
    return repack(persisted)[0]
