"""Bring operands to equal chunks."""

from __future__ import annotations

from math import isnan
from typing import Any

import dask.array.core as da
import numpy as np
from dask._task_spec import Alias, convert_legacy_graph
from dask.base import clone_key, tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Future

from ...core.arrays.chunk import has_unknown_sizes
from ...core.contract.problem import Problem


def reference_chunks(problem: Problem) -> tuple[tuple[Any, ...], ...]:
    """The chunks of the result: those of the last operand that has each axis."""
    ndim = len(problem.shape)
    chunks: list[tuple[Any, ...] | None] = [None] * ndim
    for array in reversed(problem.operands):
        if not isinstance(array, da.Array):
            continue
        for k in range(-min(ndim, array.ndim), 0):
            if chunks[k] is None and (array.shape[k] != 1 or problem.shape[k] == 1):
                chunks[k] = array.chunks[k]
    return tuple(
        (int(length),) if own is None else own
        for own, length in zip(chunks, problem.shape, strict=True)
    )


def align(array: Any, chunks: Any, shape: tuple[Any, ...]) -> da.Array:
    """An operand in the chunks of the result; axes of length 1 stay whole."""
    offset = len(chunks) - array.ndim
    wanted = {
        k: chunks[offset + k]
        for k in range(array.ndim)
        if array.shape[k] != 1 or shape[offset + k] == 1
    }
    if not isinstance(array, da.Array):
        own = tuple(wanted.get(k, (1,)) for k in range(array.ndim))
        if has_unknown_sizes(own):
            raise ValueError(
                "a NumPy operand cannot be cut like a Dask array of unknown chunk sizes: call "
                "compute_chunk_sizes() on the Dask array first"
            )
        return da.from_array(array, chunks=own, name=f"operand-{tokenize(array, own)}")
    # An axis of length 1 may come in several chunks, all but one of them empty.
    differing: dict[int, Any] = {
        k: (1,) for k in range(array.ndim) if k not in wanted and len(array.chunks[k]) > 1
    }
    for k, lengths in wanted.items():
        own = array.chunks[k]
        if any(map(isnan, (*own, *lengths))):
            if len(own) != len(lengths):
                raise ValueError(
                    f"operands with unknown chunk sizes must have the same number of chunks "
                    f"along axis {offset + k}; got {len(own)} and {len(lengths)}"
                )
        elif own != lengths:
            differing[k] = lengths
    return _cut(array, differing) if differing else array


def _cut(array: da.Array, chunks: dict[int, Any]) -> da.Array:
    """An array in other chunks along some axes."""
    wanted = tuple(chunks.get(k, own) for k, own in enumerate(array.chunks))
    if array.ndim and not any(array.shape):
        # Dask (2026.7) does not rechunk an array whose axes are all empty.
        nothing = np.empty_like(array._meta, shape=array.shape)
        return da.from_array(nothing, chunks=wanted, name=f"operand-{tokenize(nothing, wanted)}")
    return array.rechunk(wanted)


def read_again(array: da.Array, seed: str) -> da.Array:
    """The same array under fresh keys, so that its tasks run a second time.

    Futures stay. ``dask.graph_manipulation.clone`` does not rename the targets of aliases (Dask
    2026.7): after a slice, a reshape or a rechunk its graph lacks keys.
    """
    graph = dict(array.__dask_graph__())
    held = {key: value for key, value in graph.items() if isinstance(value, Future)}
    own_tasks = {key: value for key, value in graph.items() if key not in held}
    tasks = convert_legacy_graph(own_tasks, set(graph))
    fresh = {key: clone_key(key, seed) for key in tasks}
    again = {fresh[key]: task.substitute(fresh, key=fresh[key]) for key, task in tasks.items()}
    own = flatten(array.__dask_keys__())
    again |= {clone_key(key, seed): Alias(clone_key(key, seed), key) for key in own if key in held}
    name = clone_key(array.name, seed)
    return da.Array(
        HighLevelGraph.from_collections(name, {**again, **held}),
        name,
        array.chunks,
        meta=array._meta,
    )
