"""Factored tridiagonal matrices that are whole in their chunks: a task factors those of a chunk."""

from __future__ import annotations

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize

from ....families.problem import Problem
from ..tasks.factored import determine_factored, factor_block
from .build import cut
from .packed import indexed


def factor_whole(problem: Problem) -> da.Array | None:
    """A Dask array of the factors of every chunk; None where systems are cut into chunks."""
    own = cut(problem)
    if own.count != 1 or own.has_unknown_sizes:
        return None
    token = tokenize(own.recurrence, [block.name for block in own.blocks], own.chunks, "factor")
    return da.blockwise(
        factor_block,
        tuple(range(len(own.chunks))),
        *indexed(own, own.blocks),
        name=f"factor-{token}",
        meta=np.empty((0,) * len(own.chunks), object),
        align_arrays=False,
        adjust_chunks=dict(enumerate(own.chunks)),
        recurrence=own.recurrence,
        count=len(own.blocks),
    )


def solve_factored(factors: da.Array, problem: Problem) -> da.Array | None:
    """The lazy x of a problem; None where its chunks are not those of the factors."""
    own, rhs_axis = cut(problem), problem.recurrence.rhs_axis
    index = tuple(range(len(own.chunks)))
    others = tuple(k for k in index if k != rhs_axis)
    of = others[len(others) - factors.ndim :]
    for axis, lengths in zip(of, factors.chunks, strict=True):
        if lengths != own.chunks[axis] and lengths != (1,):
            return None
    b, like = own.blocks[3], own.blocks[3]._meta
    pairs = indexed(own, [b])
    token = tokenize(own.recurrence, factors.name, b.name, own.chunks)
    return da.blockwise(
        determine_factored,
        index,
        factors,
        of,
        *pairs,
        name=f"determine-{token}",
        meta=meta_from_array(like, ndim=len(index), dtype=own.recurrence.result_dtype),
        align_arrays=False,
        adjust_chunks=dict(enumerate(own.chunks)),
        recurrence=own.recurrence,
    )
