"""Graphs of filters along an axis, each chunk of which needs parts of other chunks.

::

    chunk j ── part ──┐
    chunk k ─────── apply k

A part is a few numbers for each row, or the samples next to a chunk. Chunks beyond the reach of
the filter do not depend on each other, so that results stream while chunks are still to be loaded.
"""

from __future__ import annotations

from itertools import accumulate, product
from math import isnan, prod
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef

from ...core.arrays.chunk import as_contiguous
from ...core.backends import backend_of

TOGETHER = 1 << 28
"""Most samples that a task of a GPU filters, of several chunks together. A band-pass of 5 sections,
in both directions over chunks of 30,000 steps of 384 columns, took 314 us a chunk alone on an H100,
174 for 11 chunks together and 144 for 23, with 14 bytes of memory a sample."""
LEAST_TASKS = 4
"""Fewest such tasks along the axis."""


def chunks_of_a_task(x: Any, axis: int) -> int:
    """Return how many consecutive chunks a task filters, if the filter takes lists of chunks.

    Tasks of small chunks on a GPU take longer than their kernels.
    """
    size, most = prod(x.chunksize), x.numblocks[axis] // LEAST_TASKS
    if backend_of(x).is_host or most < 2 or isnan(size):
        return 1
    return min(most, max(1, TOGETHER // max(1, size)))


def filter_chunks(
    axis_filter: Any,
    x: Any,
    axis: int,
    dtype: np.dtype[Any],
    counts: tuple[int, ...] | None = None,
) -> Any:
    """Return the lazy results of a filter, such as those of ``mgrec.ndimage``, in x's chunks.

    `counts` are the numbers of results of the chunks along the axis, if they are not those of x.
    """
    token = tokenize(axis_filter, x, axis, dtype)
    part_name, name = f"part-{token}", f"filtered-{token}"
    parts: dict[Any, Any] = {}
    results: dict[Any, Any] = {}
    lengths = x.chunks[axis]
    together = chunks_of_a_task(x, axis) if getattr(axis_filter, "joins_chunks", False) else 1
    chunks = x.chunks if counts is None else (*x.chunks[:axis], counts, *x.chunks[axis + 1 :])
    firsts, last = range(0, len(lengths), together), len(lengths)
    more = [(min(together, last - k),) if together > 1 else () for k in firsts]
    plans = [axis_filter.plan(lengths, k, *count) for k, count in zip(firsts, more, strict=True)]
    numbers: dict[Any, int] = {}
    ranges = [range(len(sizes)) for sizes in x.chunks]
    ranges[axis] = firsts
    for index in product(*ranges):
        first = index[axis]
        wanted, recipe = plans[first // together]
        refs = []
        for source, part in wanted:
            source_index = (*index[:axis], source, *index[axis + 1 :])
            key = (part_name, *source_index, numbers.setdefault(part, len(numbers)))
            if key not in parts:
                block = TaskRef((x.name, *source_index))
                parts[key] = Task(key, axis_filter.part, block, axis, part)
            refs.append(TaskRef(key))
        group = range(first, min(first + together, last))
        members = [(*index[:axis], k, *index[axis + 1 :]) for k in group]
        blocks = [TaskRef((x.name, *member)) for member in members]
        key = (name, *index) if together == 1 else (f"together-{token}", *index)
        block = blocks[0] if together == 1 else List(*blocks)
        results[key] = Task(key, axis_filter.apply, block, axis, dtype, recipe, List(*refs))
        if together > 1:
            stops = accumulate(chunks[axis][k] for k in group)
            for k, member, stop in zip(group, members, stops, strict=True):
                result_key, kept = (name, *member), slice(stop - chunks[axis][k], stop)
                results[result_key] = Task(result_key, _part_of, TaskRef(key), axis, kept)
    graph, sources = x.dask, {*x.__dask_layers__()}
    if parts:
        graph = HighLevelGraph.from_collections(part_name, parts, dependencies=[x])
        sources.add(part_name)
    graph = HighLevelGraph({**graph.layers, name: results}, {**graph.dependencies, name: sources})
    meta = meta_from_array(x._meta, dtype=dtype)
    return da.Array(graph, name, chunks, meta=meta)


def _part_of(results: Any, axis: int, kept: slice) -> Any:
    """Return some results along an axis, as a view where that is contiguous."""
    return as_contiguous(results[(slice(None),) * axis + (kept,)])
