"""Graphs of filters along an axis, each chunk of which needs parts of other chunks.

::

    chunk j ── part ──┐
    chunk k ─────── apply k

A part is a few numbers for each row, or the samples next to a chunk. Chunks beyond the reach of
the filter do not depend on each other, so that results stream while chunks are still to be loaded.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import List, Task, TaskRef


def filter_chunks(
    axis_filter: Any, x: Any, axis: int, dtype: np.dtype[Any], counts: tuple[int, ...] | None = None
) -> Any:
    """Return the lazy results of a filter, such as those of ``mgrec.ndimage``, in x's chunks.

    `counts` are the numbers of results of the chunks along the axis, if they are not those of x.
    """
    token = tokenize(axis_filter, x, axis, dtype)
    part_name, name = f"part-{token}", f"filtered-{token}"
    parts: dict[Any, Any] = {}
    results: dict[Any, Any] = {}
    lengths = x.chunks[axis]
    plans = [axis_filter.plan(lengths, k) for k in range(len(lengths))]
    numbers: dict[Any, int] = {}
    for index in product(*(range(len(sizes)) for sizes in x.chunks)):
        wanted, recipe = plans[index[axis]]
        refs = []
        for source, part in wanted:
            source_index = (*index[:axis], source, *index[axis + 1 :])
            key = (part_name, *source_index, numbers.setdefault(part, len(numbers)))
            if key not in parts:
                block = TaskRef((x.name, *source_index))
                parts[key] = Task(key, axis_filter.part, block, axis, part)
            refs.append(TaskRef(key))
        key = (name, *index)
        results[key] = Task(
            key, axis_filter.apply, TaskRef((x.name, *index)), axis, dtype, recipe, List(*refs)
        )
    graph, sources = x.dask, {*x.__dask_layers__()}
    if parts:
        graph = HighLevelGraph.from_collections(part_name, parts, dependencies=[x])
        sources.add(part_name)
    graph = HighLevelGraph({**graph.layers, name: results}, {**graph.dependencies, name: sources})
    meta = meta_from_array(x._meta, dtype=dtype)
    chunks = x.chunks if counts is None else (*x.chunks[:axis], counts, *x.chunks[axis + 1 :])
    return da.Array(graph, name, chunks, meta=meta)
