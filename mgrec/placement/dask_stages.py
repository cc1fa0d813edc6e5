"""What users of a cluster do beside solving: keep operands together, solve in stages."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.base import optimize, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, default_client


def colocate(*arrays: da.Array) -> tuple[da.Array, ...]:
    """Bring the chunks of several arrays that belong together to the same worker.

    Operands that were persisted apart lie wherever they were computed, so that a recurrence
    over them moves about half of their bytes. Arrays persisted through `colocate` do not.

    Parameters
    ----------
    *arrays : dask.array.Array
        Of the same shape. Those chunked unlike the last one are rechunked.

    Returns
    -------
    tuple of dask.array.Array
        The same arrays, lazy: persist them together.

    Raises
    ------
    ValueError
        The shapes differ.

    Examples
    --------
    >>> import dask, dask.array as da, mgrec.dask
    >>> s, t = da.random.random((2, 1000), chunks=(1, 100))
    >>> s, t = dask.persist(*mgrec.dask.colocate(s, t), scheduler="threads")
    >>> float(mgrec.linear_recurrence(s, 0 * t).sum().compute())
    0.0
    """
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(f"arrays must have the same shape; got {sorted(shapes)}")
    index = tuple(range(arrays[0].ndim))
    aligned = [array.rechunk(arrays[-1].chunks) for array in arrays]
    pairs = [value for array in aligned for value in (array, index)]
    together = da.blockwise(
        _together,
        index,
        *pairs,
        name=f"colocate-{tokenize(*arrays)}",
        meta=np.empty((0,) * len(index), object),
        align_arrays=False,
    )
    return tuple(
        da.blockwise(_one_of, index, together, index, number=k, meta=array._meta)
        for k, array in enumerate(aligned)
    )


def _together(*blocks: Any) -> tuple[Any, ...]:
    return blocks


def _one_of(blocks: tuple[Any, ...], number: int) -> Any:
    return blocks[number]


def persist_in_stages(
    array: da.Array, axis: int = -1, chunks: int = 1000, client: Client | None = None
) -> da.Array:
    """Persist the result of a recurrence over very many chunks, stage by stage.

    Before anything is computed Dask orders the whole graph, which for any recurrence takes
    time that grows with the square of the chunks: minutes for 20,000. In stages of 1,000
    chunks it takes seconds, and the workers compute one stage while the next is ordered.

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

    Examples
    --------
    >>> import dask.array as da, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     w = mgrec.linear_recurrence(1.0, da.ones(300, chunks=1))
    ...     float(mgrec.dask.persist_in_stages(w, chunks=100)[-1].compute())
    300.0
    """
    client = client or default_client()
    graph = dict(optimize(array)[0].__dask_graph__())
    keys = list(flatten(array.__dask_keys__()))
    lines = np.moveaxis(np.arange(len(keys)).reshape(array.numblocks), axis, 0)
    lines = lines.reshape(len(lines), -1)
    if _count(graph, keys[lines[-1, 0]]) < _count(graph, keys[lines[0, 0]]):
        lines = lines[::-1]  # the recurrence runs from the end
    futures: dict[Any, Future] = {}
    for left in range(0, len(lines), chunks):
        wanted = [keys[k] for k in lines[left : left + chunks].ravel()]
        stage = _needed(graph, wanted)
        links = [key for key in stage if _is_link(key) and key not in futures]
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


def _is_link(key: Any) -> bool:
    """A propagation: what the next stage starts from."""
    return isinstance(key, tuple) and str(key[0]).startswith("propagate-")


def _needed(graph: dict[Any, Any], wanted: list[Any]) -> dict[Any, Any]:
    """The tasks behind some keys, down to what earlier stages have in futures."""
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
