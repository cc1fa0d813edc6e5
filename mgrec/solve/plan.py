"""Repeated solves of one shape on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
        Seconds after which a worker that does not answer is lost. A worker that answers, but still
        computes, is lost after ten times the duration of the plan's fastest solve, and not before
        `timeout`. The first solve, which may compile, has thirty times `timeout`.
    in_flight : int, optional
        Number of solves of `submit` and `map` that may be unfinished at the same time. Workers need
        memory for this number of results in addition to those that the program refers to. The
        default is 2, or up to 64 if their results take at most 4 MiB of a worker's memory together,
        or 2 GiB of a GPU's.

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
        If a worker is lost while the plan is built or in a solve. It is a RuntimeError, and each
        later call raises it too. Results of a lost worker are not computed again: build a new plan.
    RuntimeError
        If the plan or its client is closed.

    Notes
    -----
    Results have the same bits as those of the graph, on any number of workers; those of zero-phase
    filters and ``decimate`` on GPUs are equal but for rounding. :doc:`/how/plans` explains this,
    and which worker computes which tile of a grid. :doc:`/clusters/index` compares plans with
    graphs, and describes queued solves, messages and lost workers.

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
    from ..distributed.plan.functions import build_plan

    return build_plan(recurrence, operands, options, client, timeout, in_flight)
