"""Plans of functions, also of those that solve several recurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from threading import Lock
from typing import Any

import dask.array.core as da
from dask.base import unpack_collections
from distributed import Client, futures_of

from ...core.contract.grid import Swept, Traceback
from ...core.contract.problem import Composed, Problem
from ..arguments import as_in_flight, as_timeout, client_of, name_of, problem_of
from ..expressions import mapped
from ..graph.build import SOLVER, Solved
from ..placement import persisted, wait_for
from .calls import solution_of
from .plans import Plan, Started
from .recurrences import Arguments, RecurrencePlan
from .session import session_of


class ComposedPlan(Plan):
    """The plans of the recurrences that a function solves, one after the other.

    They are built in the first call. What the function does besides is a graph of Dask, but for the
    parts of results that it asks for by :func:`mgrec.solve.solve_parts`.
    """

    def __init__(self, arguments: Arguments, client: Client, timeout: float, in_flight: int | None) -> None:
        # Each call reads the operands in the memory of the workers.
        self._arguments: Arguments | None = mapped(arguments, da.Array, partial(persisted, client))
        self.client, self._function = client, name_of(arguments[0])
        self._limits, self._plans = (timeout, in_flight), list[RecurrencePlan]()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<mgrec.plan of {self._function}: {self._plans}>"

    def _start(self, operands: Any, options: Any, is_queued: bool = False) -> Started:
        with self._lock:
            if self._arguments is None:
                raise RuntimeError("the plan is closed")
            recurrence, first, first_options = self._arguments
            token = SOLVER.set(partial(_solve, self._plans, count(), self.client, self._limits))
            try:
                result = recurrence(*(operands or first), **{**first_options, **options})
            finally:
                SOLVER.reset(token)
            if not self._plans:
                raise TypeError(
                    f"recurrence must be a function that solves recurrences over the chunks of "
                    f"Dask arrays; {self._function} solved none: persist what it returns. "
                    f"Filters in both directions, such as sosfiltfilt, need a signal of integers "
                    f"or assume_finite=True, and chunks of at least half the length of their "
                    f"response"
                )
            self._in_flight = self._plans[-1].in_flight
            arrays = result if isinstance(result, tuple) else (result,)
            solutions = [solution for array in arrays if (solution := solution_of(array))]
            if len(solutions) == len(arrays):
                return Started(solutions, lambda _: result)
            if is_queued:
                raise TypeError(
                    f"submit needs a function whose results are those of its recurrences; "
                    f"{self!r} computes more of them by a graph: call the plan, or use its map"
                )
            in_memory = self._in_memory(result)
            return Started([], lambda _: in_memory)

    def _in_memory(self, result: Any) -> Any:
        """Compute the Dask arrays of a result in the memory of the workers; raise their errors."""
        arrays, repack = unpack_collections(result)
        in_memory = self.client.persist(arrays)
        wait_for(self.client, futures_of(in_memory))
        return repack(in_memory)[0]

    def close(self) -> None:
        self._arguments = None
        for plan in self._plans:
            plan.close()
        # The list is also in the context of tasks of the event loop.
        self._plans.clear()


def _solve(
    plans: list[RecurrencePlan],
    numbers: Iterator[int],
    client: Client,
    limits: tuple[Any, Any],
    problem: Problem,
) -> Solved | None:
    """Return the results of the next problem of a call by its plan; build a missing plan.

    None if only a graph can solve the problem.
    """
    recurrence = problem.recurrence
    has_lazy_states = getattr(recurrence, "returns_final_state", False) or any(
        isinstance(state, da.Array) for state in problem.initial
    )
    if has_lazy_states or isinstance(recurrence, (Swept, Traceback)):
        return None
    if (number := next(numbers)) == len(plans):
        plans.append(RecurrencePlan(problem, (type(recurrence), (), {}), client, *limits))
    return plans[number].solve(problem)


def plan(
    recurrence: Callable[..., Any],
    *operands: Any,
    client: Any = None,
    timeout: float = 10.0,
    in_flight: int | None = None,
    **options: Any,
) -> Any:
    """Prepare a recurrence over Dask arrays for repeated solves of the same shape.

    A plan is built once. Each solve is then one message to each worker instead of a graph, which
    takes three rounds of the scheduler, 20 to 30 ms for any size. Plans are useful in time
    stepping, and over grids, where a graph has a round for each antidiagonal of chunks.

    Parameters
    ----------
    recurrence : callable
        A function that solves one recurrence: :func:`mgrec.linear_recurrence`,
        :func:`mgrec.rational_recurrence`, :func:`mgrec.scan`, :func:`mgrec.solve_tridiagonal`,
        :func:`mgrec.solve_banded`, :func:`mgrec.solve_block_tridiagonal`,
        :func:`mgrec.signal.lfilter`, :func:`mgrec.signal.sosfilt`, :func:`mgrec.summed_area_table`
        over two axes, :func:`mgrec.wavefront`, or :func:`mgrec.smith_waterman` for a score or the
        matrix. Or any function that calls such functions, as :func:`mgrec.signal.ewm` and those of
        :mod:`mgrec.hmm` and :mod:`mgrec.statespace` do, or one of your own: each recurrence has a
        plan, and the operations between them are a graph of Dask. Or a filter whose chunks need
        their neighbours: :func:`mgrec.signal.sosfiltfilt`, :func:`mgrec.signal.filtfilt` and
        :func:`mgrec.signal.decimate` of integers or with ``assume_finite=True``, and those of
        :mod:`mgrec.ndimage`.
    *operands, **options
        Arguments of the recurrence. At least one operand is a Dask array. Operands are persisted,
        and kept until the plan is closed.
    client : distributed.Client, optional
        Client of the cluster. The default is Dask's default client.
    timeout : float, optional
        Seconds after which a worker that does not answer is lost. A worker that computes answers.
    in_flight : int, optional
        Number of solves of `submit` and `map` that may be unfinished at the same time. Workers need
        memory for this number of results in addition to those that the program refers to. The
        default is 2, or up to 64 if their results take at most 4 MiB of a worker's memory together,
        or 2 GiB of a GPU's; on GPUs up to 4 whose results take half of the memory that is left.

    Returns
    -------
    Plan
        Call it to solve: without arguments for the operands that it was built with, or with others
        of the same shapes, chunks and dtypes and any ``initial=`` or ``zi=``. It returns what the
        recurrence returns, as Dask arrays that are already in the memory of the workers. The final
        states `zf` of a filter are a NumPy array, which the next solve takes as `zi`. The score and
        the ends of an alignment are numbers. The method ``submit`` queues a solve and returns at
        once; ``map`` solves for many operands. In a plan of several recurrences ``submit`` waits
        for the operations of Dask, and recurrences must give the results. The log-likelihoods of
        :mod:`mgrec.hmm` and :mod:`mgrec.statespace` are added up from those of chunks when they are
        used, and keep the other results of their call in memory. Call ``close()`` at the end, or
        use the plan in a ``with`` statement.

    Raises
    ------
    TypeError
        If no operand is a Dask array, `initial` or `zi` is one, or the function sweeps a grid
        several times. In the first call, if the function solves no recurrence over chunks.
    ValueError
        If the sizes of chunks are unknown.
    mgrec.dask.WorkerLostError
        If a worker is lost. It is a RuntimeError, and each later call raises it too.
        Results of a lost worker are not computed again: build a new plan.
    MemoryError
        If operands and results exceed the memory limit of a worker.
    RuntimeError
        If the plan or its client is closed, or a worker has another version of mgrec, or none.

    Notes
    -----
    Results have the same bits as those of the graph, on any number of workers. On GPUs those of
    zero-phase filters, of ``decimate``, and of large columns with contractive coefficients are
    equal but for rounding: see :doc:`/how/plans`.
    :doc:`/clusters/index` describes queued solves, messages, memory and lost workers.

    Examples
    --------
    >>> import dask.array as da, mgrec
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     t = da.ones(1000, chunks=100)
    ...     with mgrec.plan(mgrec.linear_recurrence, 0.5, t) as solve:
    ...         w = solve()
    ...         w = solve(0.5, w, initial=1.0)
    ...         float(w[-1].compute())
    4.0

    In time stepping, queue the solves. A result may be an operand before it is computed:

    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     u = da.ones(1000, chunks=100)
    ...     with mgrec.plan(mgrec.linear_recurrence, 0.5, u) as step:
    ...         for _ in range(10):
    ...             u = step.submit(0.5, u)
    ...         float(u[-1].compute())
    1024.0
    """
    timeout, in_flight = as_timeout(timeout), as_in_flight(in_flight)
    problem = problem_of(recurrence, operands, options)
    client = client_of(client)
    if client.asynchronous:
        raise TypeError("a plan needs a client that waits; got an asynchronous one")
    session_of(client)  # workers without mgrec are an error before operands are persisted
    call = recurrence, operands, options
    if isinstance(problem, Composed):
        return ComposedPlan(call, client, timeout, in_flight)
    return RecurrencePlan(problem, call, client, timeout, in_flight)
