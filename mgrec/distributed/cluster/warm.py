"""Warm up the workers of a cluster for a recurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.base import tokenize
from distributed import Client

from ..graph.build import cut
from ..graph.rows import rows_of
from .door import client_of, problem_of
from .warm_up import WarmUp

# Shapes of chunks: the first, the last, and those that a rechunk may leave between.
KINDS = 4


def warm_up(
    recurrence: Callable[..., Any], *operands: Any, client: Client | None = None, **options: Any
) -> None:
    """Compile and load what a recurrence needs, on every worker of a cluster.

    The first solve on a worker compiles its kernels, or loads them from disk, and takes memory
    from the system: seconds where the second one takes milliseconds. Workers that join later
    warm up as they start.

    Parameters
    ----------
    recurrence : callable
        :func:`mgrec.linear_recurrence`, :func:`mgrec.rational_recurrence`,
        :func:`mgrec.scan`, :func:`mgrec.solve_tridiagonal`, :func:`mgrec.signal.lfilter` or
        :func:`mgrec.signal.sosfilt`.
    *operands, **options
        As of the recurrence; at least one operand is a Dask array. It is not computed: shapes of
        chunks, dtypes and kinds of arrays are used.
    client : distributed.Client, optional
        The default client when not given.

    Raises
    ------
    TypeError
        Another function, or no Dask array.
    ValueError
        Chunks of unknown sizes.

    Notes
    -----
    On a GPU the phases run over chunks of the true shapes, since kernels are chosen by them:
    memory for operands and result of a chunk must be free, and stays in the pool.

    Examples
    --------
    >>> import dask.array as da, mgrec, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     t = da.ones(1000, chunks=100)
    ...     mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, t)
    ...     float(mgrec.linear_recurrence(0.5, t)[-1].compute())
    2.0
    """
    problem = problem_of(recurrence, operands, options)
    client = client_of(client)
    own = cut(problem)
    if own.has_unknown_sizes:
        raise ValueError(
            "warm_up needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
        )
    kinds: dict[Any, None] = {}
    for place in rows_of(own.chunks):
        if all(lengths[k] for lengths, k in zip(own.chunks, place, strict=True)):
            kinds.setdefault(own.shapes(place))
    shapes, metas = tuple(kinds)[:KINDS], tuple(block._meta for block in own.blocks)
    name = f"mgrec-warm-up-{tokenize(own.recurrence, shapes, [str(type(meta)) for meta in metas])}"
    client.register_plugin(WarmUp(own.recurrence, shapes, metas, name))
