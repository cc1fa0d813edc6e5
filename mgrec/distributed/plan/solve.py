"""One solve at once: a plan that is built and called."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed import Client

from ..cluster.door import client_of
from .messages import WorkerLostError
from .plans import Plan

# As often as Dask retries a task whose workers die (distributed.scheduler.allowed-failures).
ATTEMPTS = 4


def solve(
    recurrence: Callable[..., Any], *operands: Any, client: Client | None = None, **options: Any
) -> Any:
    """Solve a recurrence over Dask arrays at once, without a graph.

    A graph costs the scheduler about half a millisecond a chunk, and three rounds. `solve` sends
    one message to each worker, and the workers send each other the summaries of their chunks. For
    many chunks it takes less time than a graph with one task a chunk, for few a third of the time
    of the recurrence's graph. For many solves of one shape :func:`mgrec.plan` saves 2 ms more.

    Parameters
    ----------
    recurrence : callable
        :func:`mgrec.linear_recurrence`, :func:`mgrec.rational_recurrence`,
        :func:`mgrec.scan`, :func:`mgrec.solve_tridiagonal`, :func:`mgrec.signal.lfilter`,
        :func:`mgrec.signal.sosfilt`, :func:`mgrec.summed_area_table` over two axes,
        :func:`mgrec.wavefront`, or :func:`mgrec.smith_waterman` for a score or the matrix.
    *operands, **options
        As of the recurrence; at least one operand is a Dask array. Those that are not persisted
        are persisted first, and must fit into the memory of the workers together.
    client : distributed.Client, optional
        The default client when not given.

    Returns
    -------
    dask.array.Array, or tuple of these
        What the recurrence returns, with the same bits, in the memory of the workers. The states
        after the last sample, `zf` of a filter, come as a NumPy array, and the score and the ends
        of an alignment as numbers.

    Raises
    ------
    TypeError
        The recurrence is another function, no operand is a Dask array, or `initial` or `zi`
        is one.
    ValueError
        Sizes of chunks are unknown.
    mgrec.dask.WorkerLostError
        Workers were lost in four solves in a row.

    Notes
    -----
    If a worker is lost meanwhile, its operands are computed again and the solve is repeated.
    Results of a worker that is lost later are gone, since no graph says how to compute them.

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
        with Plan(recurrence, operands, options, client) as plan:
            return plan()

    for _ in range(ATTEMPTS - 1):
        with suppress(WorkerLostError):
            return once()
    return once()
