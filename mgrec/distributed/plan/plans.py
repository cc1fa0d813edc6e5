"""Repeated solves of one shape: one message to each worker, and no graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..arguments import as_in_flight
from ..expressions import accepts_expressions
from .calls import Solution


@dataclass(frozen=True)
class Started:
    """A call that has started.

    `value`: takes the answers of the workers to each solve, or an empty list while it is
      unfinished; returns the value of the function.
    """

    solutions: list[Solution]
    value: Callable[[list[Mapping[str, Any]]], Any]

    @property
    def is_done(self) -> bool:
        return all(solution.request.done.done() for solution in self.solutions)

    def result(self) -> Any:
        """Wait, and return the value of the function."""
        return self.value([solution.wait() for solution in self.solutions])


class Plan(ABC):
    """A function over arrays of one shape, ready on the workers: see :func:`mgrec.plan`."""

    _in_flight = 1

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled: it belongs to the client of this process. Pass its "
            f"results, which are Dask arrays; a task may build a plan itself, with "
            f"distributed.get_client()"
        )

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @accepts_expressions
    def __call__(self, *operands: Any, **options: Any) -> Any:
        """Solve once more, and wait for the results.

        Parameters
        ----------
        *operands
            Operands with the shapes, chunks and dtypes of the plan's. Default: the plan's.
        **options
            Options such as ``initial=``. Default: the plan's.

        Returns
        -------
        dask.array.Array, or tuple of these
            Arrays in the memory of the workers.

        Raises
        ------
        mgrec.dask.WorkerLostError
            A worker is lost, in this solve or in one before it.
        RuntimeError
            The plan or its client is closed.
        ValueError
            Operands have another shape, other chunks or another dtype.
        """
        return self._start(operands, options).result()

    @accepts_expressions
    def submit(self, *operands: Any, **options: Any) -> Any:
        """Start one more solve, and return its results before they are computed.

        Workers start solves in the order of the calls. A result may be an operand of the next solve
        at once; any other use waits for it. If `in_flight` solves are unfinished, the call waits
        for one of them, which bounds the memory of the workers.

        Parameters
        ----------
        *operands, **options
            As in a call of the plan.

        Returns
        -------
        dask.array.Array, or tuple of these
            Any use of a result raises the error of its solve, also as operand of a later solve.

        Raises
        ------
        TypeError
            The function returns more than Dask arrays, such as final states or a score, or
            computes a result by operations of Dask, which wait.
        mgrec.dask.WorkerLostError, RuntimeError, ValueError
            As a call of the plan raises them.

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
        return self._start(operands, options, is_queued=True).value([])

    def map(self, operands: Iterable[Any], *, in_flight: int | None = None) -> Iterator[Any]:
        """Solve for many operands, and return the results one by one.

        Parameters
        ----------
        operands : iterable
            The operands of each solve: a tuple, or one array.
        in_flight : int, optional
            How many solves are unfinished at once. Default: that of the plan.

        Yields
        ------
        dask.array.Array, or what else the function returns
            The results in order, each when it is computed. An error of a solve is raised instead
            of its results.
        """
        in_flight, started = as_in_flight(in_flight), deque[Started]()
        for arguments in operands:
            # Half of the solves start in one moment, so that their requests are sent together.
            limit = in_flight or self.in_flight
            most = limit // 2 if len(started) >= limit else limit
            while started and (len(started) > most or started[0].is_done):
                yield self._result(started.popleft())
            arguments = arguments if isinstance(arguments, tuple) else (arguments,)
            started.append(self._start(arguments, {}))
        while started:
            yield self._result(started.popleft())

    @accepts_expressions
    def _result(self, started: Started) -> Any:
        return started.result()

    @abstractmethod
    def close(self) -> None:
        """Release the plan's operands; its results stay.

        Solves that have not ended are abandoned if the program does not refer to their results.
        """

    @property
    def in_flight(self) -> int:
        """How many solves may be unfinished at once."""
        return self._in_flight

    @abstractmethod
    def _start(self, operands: Any, options: Any, is_queued: bool = False) -> Started:
        """Start a solve; one that is queued waits until less than `in_flight` are unfinished."""
