"""One solve over arrays in the memory of workers, by a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed import Client

from .arguments import client_of
from .comms import WorkerLostError
from .plan.functions import plan

# As often as Dask retries a task whose workers die (distributed.scheduler.allowed-failures).
ATTEMPTS = 4


def solve(
    recurrence: Callable[..., Any], *operands: Any, client: Client | None = None, **options: Any
) -> Any:
    """Solve a recurrence over Dask arrays at once, without a graph.

    A graph costs the scheduler about half a millisecond a chunk, and three rounds. `solve` sends
    one message to each worker, and the workers send each other the summaries of their chunks. With
    many chunks it takes less time than a graph with one task a chunk, with few a third of the time
    of the recurrence's graph. For many solves of one shape :func:`mgrec.plan` saves 2 ms more.

    Parameters
    ----------
    recurrence : callable
        A function that :func:`mgrec.plan` takes: one that solves a recurrence, or one that calls
        such functions.
    *operands, **options
        Arguments of the recurrence; at least one operand is a Dask array. Operands are persisted
        first if they are not, and must fit into the memory of the workers together.
    client : distributed.Client, optional
        Default: the default client.

    Returns
    -------
    dask.array.Array, or tuple of these
        The return value of the recurrence, in the memory of the workers, with the bits that
        :func:`mgrec.plan` promises. The states after the last sample, `zf` of a filter, are a NumPy
        array, and the score and the ends of an alignment are numbers.

    Raises
    ------
    TypeError
        The function solves no recurrence over chunks, or sweeps a grid several times; no operand
        is a Dask array, or `initial` or `zi` is one.
    ValueError
        Sizes of chunks are unknown.
    RuntimeError
        A worker has no mgrec, or another version than the client.
    MemoryError
        Operands and results exceed the memory limit of a worker.
    mgrec.dask.WorkerLostError
        Workers were lost in four solves in a row.

    Notes
    -----
    If a worker is lost meanwhile, Dask computes its operands again and `solve` is repeated.
    Results of a worker that is lost later are gone, since no graph can compute them again.

    Examples
    --------
    >>> import dask.array as da, mgrec, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     t = da.ones(1000, chunks=10).persist()
    ...     w = mgrec.dask.solve(mgrec.linear_recurrence, 0.5, t)
    ...     float(w[-1].compute())
    2.0
    """
    client = client_of(client)

    def once() -> Any:
        with plan(recurrence, *operands, client=client, **options) as planned:
            return planned()

    for _ in range(ATTEMPTS - 1):
        with suppress(WorkerLostError):
            return once()
    return once()
