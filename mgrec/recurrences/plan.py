"""Repeated solves of one shape on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def plan(
    recurrence: Callable[..., Any],
    *operands: Any,
    client: Any = None,
    timeout: float = 10.0,
    in_flight: int = 2,
    **options: Any,
) -> Any:
    """Prepare a recurrence over Dask arrays for repeated solves of one shape.

    A solve by graph takes three rounds of the scheduler, 20 to 30 ms whatever its size. A plan is
    built once; after that a solve is one message to each worker, and workers send each other the
    summaries of their chunks. It pays in time stepping, and over grids, of which a graph has a
    round for every antidiagonal of chunks.

    Parameters
    ----------
    recurrence : callable
        :func:`mgrec.linear_recurrence`, :func:`mgrec.rational_recurrence`,
        :func:`mgrec.scan`, :func:`mgrec.solve_tridiagonal`, :func:`mgrec.signal.lfilter`,
        :func:`mgrec.signal.sosfilt`, :func:`mgrec.summed_area_table` over two axes,
        :func:`mgrec.wavefront`, or :func:`mgrec.smith_waterman` for a score or the matrix.
    *operands, **options
        As of the recurrence; at least one operand is a Dask array. They are persisted, and held
        until the plan is closed.
    client : distributed.Client, optional
        The default client when not given.
    timeout : float, optional
        Seconds after which a worker that does not answer is lost. A worker that answers, but
        computes, has ten times as long as the plan's fastest solve, and at least this; thirty
        times this in the first solve, which may compile.
    in_flight : int, optional
        How many solves of `submit` may be unfinished at once. Workers need the memory of so many
        results beside those to which the program refers.

    Returns
    -------
    Plan
        Call it to solve: without arguments for the operands that it was built with, or with
        others of the same shapes, chunks and dtypes, and any ``initial=`` or ``zi=``. It
        returns what the recurrence does, as Dask arrays that are in the memory of the workers
        already. The states after the last sample, `zf` of a filter, come as a NumPy array,
        which the next solve takes as its `zi`; the score and the ends of an alignment come as
        numbers. Its method ``submit`` does the same without waiting for the results, such that
        solves are queued; ``map`` solves for many operands. ``close()`` it, or use it in a
        ``with`` statement.

    Raises
    ------
    TypeError
        The recurrence is another function, no operand is a Dask array, or `initial` or `zi`
        is one.
    ValueError
        Sizes of chunks are unknown.
    mgrec.dask.WorkerLostError
        One of its workers is lost, while it is built or in a solve: a RuntimeError, raised by
        every later call, too. Results of a plan are not computed again when their worker is
        lost: build a new plan.
    RuntimeError
        The plan or its client is closed.

    Notes
    -----
    Every worker folds the summaries of all chunks before its own in the order of the
    recurrence: results have the same bits as those of the graph, on any number of workers.

    Of a grid every worker has the tiles most of whose operands it holds: of an alignment those in
    the row or the column of the longer chunk. Workers send each other the edges of tiles. Where
    another worker waits for a tile it is cut into parts, unless its bits would change, and so
    results have the bits of the graph.

    Each solve fetches chunks of operands that do not lie where the plan's do. Results of a GPU are
    queued on its stream when a solve returns, as those of Dask tasks are.

    Messages go over Dask's own connections, from the client to the workers and from one worker to
    another, by way of the scheduler where the client cannot connect to a worker. Workers handle
    the solves of one client in the order of its calls; those of several clients run side by side.

    A result is freed as soon as the program no longer refers to it, before the next solve
    allocates its own. The scheduler hears of results that are used outside of the plan, or that
    the program keeps for more than a quarter of a second.

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

    Steps of time are queued: a result is the operand of the next solve before it is computed.

    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     u = da.ones(1000, chunks=100)
    ...     with mgrec.plan(mgrec.linear_recurrence, 0.5, u) as step:
    ...         for _ in range(10):
    ...             u = step.submit(0.5, u)
    ...         float(u[-1].compute())
    1024.0

    A signal that comes in parts goes through a filter, which keeps its states:

    >>> from mgrec.signal import lfilter
    >>> b, a, state = [0.5], [1.0, -0.5], [0.0]
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     x = da.ones(4, chunks=2)
    ...     with mgrec.plan(lfilter, b, a, x, zi=state) as solve:
    ...         for _ in range(2):
    ...             y, state = solve(b, a, x, zi=state)
    ...         y.compute(), state
    (array([0.96875   , 0.984375  , 0.9921875 , 0.99609375]), array([0.49804688]))
    """
    from ..placement.dask.plan.plans import Plan

    return Plan(recurrence, operands, options, client, timeout, in_flight).hold()
