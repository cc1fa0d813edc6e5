"""For users of a cluster: keep operands together, solve in stages."""

from __future__ import annotations

from typing import Any

import dask.array.core as da
import numpy as np
from dask import annotate
from dask.base import optimize, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, wait

from ...core.arrays.chunk import has_unknown_sizes
from ...core.arrays.validation import as_axis, as_integer
from ..cluster.door import check_dask_array, client_of
from ..expressions import keeps_kind
from ..tasks.keys import phase_of


@keeps_kind
def colocate(*arrays: da.Array, client: Client | None = None) -> tuple[da.Array, ...]:
    """Persist arrays so that chunks that belong together are on the same worker.

    Operands that were persisted one by one lie wherever they were computed, and every solve
    moves about half of their bytes. `colocate` moves them once.

    Parameters
    ----------
    *arrays : dask.array.Array
        Of the same shape, persisted or not. The last one stays where it is, or is persisted
        first; the others are rechunked like it and moved to it, chunk by chunk.
    client : distributed.Client, optional
        The default client when not given.

    Returns
    -------
    tuple of dask.array.Array
        The same arrays, in the memory of the workers.

    Raises
    ------
    TypeError
        No array, or one that is not Dask's.
    ValueError
        The shapes differ, or are unknown.

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=2, dashboard_address=None):
    ...     s, t = mgrec.dask.colocate(0.5 * da.ones(1000, chunks=100), da.ones(1000, chunks=100))
    ...     float(mgrec.linear_recurrence(s, t)[-1].compute())
    2.0
    """
    if not arrays:
        raise TypeError("colocate must be given arrays; got none")
    for number, array in enumerate(arrays):
        check_dask_array(f"array {number}", array)
    client = client_of(client)
    shapes = {array.shape for array in arrays}
    if has_unknown_sizes(shapes):
        raise ValueError(
            "colocate needs the sizes of all chunks: call compute_chunk_sizes() on the arrays"
        )
    if len(shapes) > 1:
        raise ValueError(f"arrays must have the same shape; got {sorted(shapes)}")
    last = client.persist(arrays[-1])
    wait(last)
    where = {key[1:]: workers for key, workers in client.who_has(last).items()}
    others = []
    for array in (each.rechunk(last.chunks) for each in arrays[:-1]):
        with annotate(workers=lambda key: list(where[key[1:]]), allow_other_workers=True):
            # Idle workers never steal tasks of this name; they steal others despite `workers`.
            name = f"rechunk-split-{tokenize('colocate', array, last)}"
            followed = array.map_blocks(_itself, name=name, meta=array._meta)
        # Fusion would drop the annotations.
        others.append(client.persist(followed, optimize_graph=False))
    return (*others, last)


def _itself(block: Any) -> Any:
    return block


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
        What a recurrence returned, or what was computed from it chunk by chunk.
    axis : int, optional
        The axis of the recurrence.
    chunks : int, optional
        Chunks along the axis in one stage.
    client : distributed.Client, optional
        The default client when not given.

    Returns
    -------
    dask.array.Array
        The same array, computing or in the memory of the workers.

    Raises
    ------
    TypeError
        `array` is not Dask's, or `axis` or `chunks` is no integer.
    ValueError
        `axis` is none of its axes, or `chunks` is below 1.

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
    # An optimized graph lacks what workers hold already.
    held = {k: v for k, v in dict(array.__dask_graph__()).items() if isinstance(v, Future)}
    graph = held | dict(optimize(array)[0].__dask_graph__())
    keys = list(flatten(array.__dask_keys__()))
    lines = np.moveaxis(np.arange(len(keys)).reshape(array.numblocks), axis, 0)
    lines = lines.reshape(len(lines), -1)
    if _count(graph, keys[lines[-1, 0]]) < _count(graph, keys[lines[0, 0]]):
        lines = lines[::-1]  # the recurrence runs from the end
    futures: dict[Any, Future] = {}
    for left in range(0, len(lines), chunks):
        wanted = [keys[k] for k in lines[left : left + chunks].ravel()]
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
    """The tasks behind some keys, down to the futures of earlier stages."""
    found: dict[Any, Any] = {}
    queue = list(wanted)
    while queue:
        key = queue.pop()
        if key not in found:
            found[key] = graph[key]
            queue += getattr(graph[key], "dependencies", ())
    return found


def _count(graph: dict[Any, Any], key: Any) -> int:
    return len(_needed(graph, [key]))
