"""Factored tridiagonal matrices that are whole in their chunks: a task factors those of a chunk."""

from __future__ import annotations

from typing import Any

import dask.array.core as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize

from ..core.contract.problem import Problem
from ..core.contract.recurrence import ChunkInputs
from ..distributed.graph.aligned import align_problem
from ..distributed.graph.packed import blockwise_arguments
from ..distributed.tasks.phases import chunk_of, inputs_of_blocks
from .factors import Factors, factor_chunk, solve_chunk


def factor_whole(problem: Problem) -> da.Array | None:
    """A Dask array of the factors of every chunk; None where systems are cut into chunks."""
    own = align_problem(problem)
    if own.count != 1 or own.has_unknown_sizes:
        return None
    token = tokenize(own.recurrence, [block.name for block in own.blocks], own.chunks, "factor")
    return da.blockwise(
        factor_block,
        tuple(range(len(own.chunks))),
        *blockwise_arguments(own, own.blocks),
        name=f"factor-{token}",
        meta=np.empty((0,) * len(own.chunks), object),
        align_arrays=False,
        adjust_chunks=dict(enumerate(own.chunks)),
        recurrence=own.recurrence,
        count=len(own.blocks),
    )


def solve_factored(factors: da.Array, problem: Problem) -> da.Array | None:
    """The lazy x of a problem; None where its chunks are not those of the factors."""
    own, rhs_axis = align_problem(problem), problem.recurrence.rhs_axis
    index = tuple(range(len(own.chunks)))
    others = tuple(k for k in index if k != rhs_axis)
    of = others[len(others) - factors.ndim :]
    for axis, lengths in zip(of, factors.chunks, strict=True):
        if lengths != own.chunks[axis] and lengths != (1,):
            return None
    b, like = own.blocks[3], own.blocks[3]._meta
    pairs = blockwise_arguments(own, [b])
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


def factor_block(*values: Any, recurrence: Any, count: int) -> Factors:
    """The factors of a chunk's matrices."""
    inputs = inputs_of_blocks(*values, recurrence=recurrence, count=count)
    with chunk_of("factor", recurrence, inputs) as (_, shape):
        return factor_chunk(recurrence, inputs, shape)


def determine_factored(factors: Factors, b: Any, *values: Any, recurrence: Any) -> Any:
    """The unknowns of a chunk, by its factors, or anew where these are of no use."""
    chunk_index, starts = tuple(p for p, _ in values), tuple(s for _, s in values)
    after = None if recurrence.rhs_axis is None else len(chunk_index) - 1 - recurrence.rhs_axis
    diagonals = (_widened(each, after) for each in factors.diagonals)
    inputs = ChunkInputs((*diagonals, b), chunk_index, starts)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        own = factors.shape
        if after is not None and after < len(own):
            own = (*own[: len(own) - after], 1, *own[len(own) - after :])
        of = (1,) * (len(shape) - len(own)) + own
        x = solve_chunk(factors, of, recurrence.axis, shape, b)
        return recurrence.determine(backend, inputs, shape, None)[0][0] if x is None else x


def _widened(diagonal: Any, after: int | None) -> Any:
    """A diagonal with an axis of length 1 ahead of its last `after` axes."""
    before = diagonal.ndim - (after or 0)
    if after is None or before <= 0:
        return diagonal
    return diagonal[(slice(None),) * before + (None,)]
