"""Persist the result of a recurrence over very many chunks, stage by stage."""

from __future__ import annotations

from typing import Any

import dask.array.core as da
import numpy as np
from dask.base import optimize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future

from ...core.arrays.arguments import as_axis, as_integer
from ..expressions import keeps_kind
from ..observability import phase_of
from .arguments import check_dask_array, client_of


@keeps_kind
def persist_in_stages(
    array: da.Array, axis: int = -1, chunks: int = 1000, client: Client | None = None
) -> da.Array:
    """Persist the result of a recurrence over very many chunks, stage by stage.

    Dask orders a whole graph before it computes anything. For any recurrence this takes time that
    grows with the square of the chunks: minutes for 20,000. In stages of 1,000 chunks it takes
    seconds, and the workers compute one stage while the next is ordered.

    Parameters
    ----------
    array : dask.array.Array
        The result of a recurrence, or of chunk-wise functions of it.
    axis : int, optional
        The axis of the recurrence.
    chunks : int, optional
        Chunks along the axis in one stage.
    client : distributed.Client, optional
        Default: the default client.

    Returns
    -------
    dask.array.Array
        The same array, computing or in the memory of the workers.

    Raises
    ------
    TypeError
        `array` is not a Dask array, or `axis` or `chunks` is not an integer.
    ValueError
        `axis` is out of range, or `chunks` is below 1.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     w = mgrec.linear_recurrence(1.0, da.ones(300, chunks=1))
    ...     float(mgrec.dask.persist_in_stages(w, chunks=100)[-1].compute())
    300.0
    """
    check_dask_array("array", array)
    axis, chunks = as_axis(axis, array.shape), as_integer("chunks", chunks)
    if chunks < 1:
        raise ValueError(f"chunks must be at least 1; got {chunks}")
    client = client_of(client)
    # An optimized graph lacks the futures of persisted operands.
    persisted = {k: v for k, v in dict(array.__dask_graph__()).items() if isinstance(v, Future)}
    graph = persisted | dict(optimize(array)[0].__dask_graph__())
    keys = list(flatten(array.__dask_keys__()))
    numbers = np.moveaxis(np.arange(len(keys)).reshape(array.numblocks), axis, 0)
    numbers = numbers.reshape(len(numbers), -1)
    first, last = (len(_needed(graph, [keys[numbers[k, 0]]])) for k in (0, -1))
    if last < first:
        numbers = numbers[::-1]  # the recurrence runs from the end
    futures: dict[Any, Future] = {}
    for left in range(0, len(numbers), chunks):
        wanted = [keys[k] for k in numbers[left : left + chunks].ravel()]
        stage = _needed(graph, wanted)
        # The next stage starts from these.
        links = [key for key in stage if phase_of(key) == "propagate" and key not in futures]
        computing = client.get(stage, [*wanted, *links], sync=False)
        for key, future in zip((*wanted, *links), computing, strict=True):
            graph[key] = futures[key] = future
    layer = {key: futures[key] for key in keys}
    return da.Array(
        HighLevelGraph({array.name: layer}, {array.name: set()}),
        array.name,
        array.chunks,
        meta=array._meta,
    )


def _needed(graph: dict[Any, Any], wanted: list[Any]) -> dict[Any, Any]:
    """Return the tasks on which keys depend, down to the futures of earlier stages."""
    tasks: dict[Any, Any] = {}
    queue = list(wanted)
    while queue:
        key = queue.pop()
        if key not in tasks:
            tasks[key] = graph[key]
            queue += getattr(graph[key], "dependencies", ())
    return tasks
