"""Factors of Dask arrays: one task factors the systems, or the parts of systems, of a chunk."""

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
from ..distributed.tasks import chunk_of, inputs_of_blocks
from ..solve import solve
from .api import insert_axis
from .factors import FactoredSystem, Factors, check_in_host_memory, factor_chunk, solve_chunk


def factor_chunks(problem: Problem) -> da.Array | None:
    """Return a Dask array of the factors of every chunk; None if sizes of chunks are unknown."""
    aligned = align_problem(problem)
    if aligned.has_unknown_sizes:
        return None
    token = tokenize(aligned.recurrence, [block.name for block in aligned.blocks], aligned.chunks, "factor")
    return da.blockwise(
        factor_block,
        tuple(range(len(aligned.chunks))),
        *blockwise_arguments(aligned, aligned.blocks),
        name=f"factor-{token}",
        meta=np.empty((0,) * len(aligned.chunks), object),
        align_arrays=False,
        adjust_chunks=dict(enumerate(aligned.chunks)),
        recurrence=aligned.recurrence,
        count=len(aligned.blocks),
    )


def solve_factored(factors: da.Array, problem: Problem) -> da.Array | None:
    """Return the lazy x of a problem; None if the factors do not apply to its chunks."""
    aligned, rhs_axis = align_problem(problem), problem.recurrence.rhs_axis
    index = tuple(range(len(aligned.chunks)))
    others = tuple(k for k in index if k != rhs_axis)
    factor_index = others[len(others) - factors.ndim :]
    for axis, lengths in zip(factor_index, factors.chunks, strict=True):
        if lengths != aligned.chunks[axis] and lengths != (1,):
            return None
    b = aligned.blocks[3]
    if aligned.count > 1:
        if rhs_axis is not None:
            return None
        system = FactoredSystem.of(aligned.recurrence, b, factors, problem.shape)
        return solve(Problem(system, (b, factors), (), problem.shape, problem.memory))
    token = tokenize(aligned.recurrence, factors.name, b.name, aligned.chunks)
    return da.blockwise(
        determine_factored,
        index,
        factors,
        factor_index,
        *blockwise_arguments(aligned, [b]),
        name=f"determine-{token}",
        meta=meta_from_array(b._meta, ndim=len(index), dtype=aligned.recurrence.result_dtype),
        align_arrays=False,
        adjust_chunks=dict(enumerate(aligned.chunks)),
        recurrence=aligned.recurrence,
    )


def factor_block(*values: Any, recurrence: Any, count: int) -> Factors:
    """Return the factors of a chunk's matrices; one task of `factor_chunks`."""
    inputs = inputs_of_blocks(*values, recurrence=recurrence, count=count)
    with chunk_of("factor", recurrence, inputs) as (backend, shape):
        check_in_host_memory("dl, d and du", backend)
        return factor_chunk(recurrence, inputs, shape)


def determine_factored(factors: Factors, b: Any, *values: Any, recurrence: Any) -> Any:
    """Return the unknowns of a chunk by its factors, or without them if they do not apply."""
    chunk_index, starts = zip(*values, strict=True)
    diagonals = factors.diagonals
    if recurrence.rhs_axis is not None:
        axes_after = len(chunk_index) - 1 - recurrence.rhs_axis
        diagonals = tuple(insert_axis(diagonal, axes_after) for diagonal in diagonals)
    inputs = ChunkInputs((*diagonals, b), chunk_index, starts)
    with chunk_of("determine", recurrence, inputs) as (backend, shape):
        check_in_host_memory("b", backend)
        x = solve_chunk(factors, recurrence, shape, b)
        return recurrence.launch(backend, inputs, shape, None)()[0] if x is None else x
