"""Rows that are whole in their chunks: each chunk is solved on its own, in one task.

No summary and no carry-in: operands are read once, and the loads of a chunk fuse with its task.
"""

from __future__ import annotations

from typing import Any

import dask.array.core as da
from dask.array.utils import meta_from_array

from ..tasks.phases import determine_whole
from .cuts import Cut
from .packed import indexed
from .rows import component


def solve_whole(cut: Cut, token: str) -> tuple[da.Array, ...]:
    """The lazy results of a problem whose rows are cut nowhere and begin without states."""
    index, recurrence = tuple(range(len(cut.chunks))), cut.recurrence
    meta: Any = meta_from_array(cut.blocks[0]._meta, ndim=len(index), dtype=recurrence.result_dtype)
    solved = da.blockwise(
        determine_whole,
        index,
        *indexed(cut, cut.blocks),
        name=f"determine-{token}",
        meta=meta,
        align_arrays=False,
        adjust_chunks=dict(enumerate(cut.chunks)),
        recurrence=recurrence,
        count=len(cut.blocks),
    )
    if recurrence.results == 1:
        return (solved,)
    return tuple(
        component(solved.dask, solved.name, cut.chunks, number, meta)
        for number in range(recurrence.results)
    )
