"""Build the lazy results of a problem over Dask arrays.

Along an axis there are four graphs: two in packed.py, for operands that are yet to be loaded and
for those that the workers store, one task a chunk if every row is in one chunk, and along_axis.py
for filters whose chunks depend on their neighbours only. grids.py has the graphs of grids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np
from dask.base import tokenize

from ...core.algebra.fingerprint import stacklevel_of_caller
from ...core.arrays.elements import Part
from ...core.contract.grid import Grid, Swept, Traceback
from ...core.contract.problem import Problem
from ...core.contract.recurrence import Overlapping
from ..memory import check_chunks
from ..observability import log_solve
from .aligned import AlignedProblem, align_problem
from .along_axis import filter_chunks
from .chains import ChainLayers, group_size
from .grids import has_several_tiles, solve_sweeps, solve_tiles, solve_traceback
from .packed import PackedLayers, PersistedLayers, is_persisted, solve_whole

# Number of chunks from which Dask takes seconds to order a graph: the time grows with its square.
MANY_CHUNKS = 2000

Solved = tuple[tuple[Any, ...], Any]
"""The results, one array for each scalar of the state, and the carry-out or None."""
SOLVER: ContextVar[Callable[[Problem], Solved | None] | None] = ContextVar("solver", default=None)
"""Solves problems of this context in place of their graphs; None for problems that it cannot."""


def solve(problem: Problem) -> Solved:
    """Return the results of a problem, and its carry-out if the caller needs it; lazy ones."""
    return _solve_without_graph(problem) or _solve_by_graph(problem)


def _solve_without_graph(problem: Problem) -> Solved | None:
    solver = SOLVER.get()
    return None if solver is None else solver(problem)


def solve_parts(problem: Problem, parts: tuple[Part, ...]) -> list[Any]:
    """Return parts of the result of a problem; lazy ones."""
    recurrence = problem.recurrence.in_parts(parts)
    if solved := _solve_without_graph(replace(problem, recurrence=recurrence, parts=parts)):
        return list(solved[0])
    (result,), _ = _solve_by_graph(problem)
    return [part.of(result) for part in parts]


def solve_filter(
    axis_filter: Any, x: Any, axis: int, dtype: np.dtype[Any], counts: tuple[int, ...] | None = None
) -> Any:
    """Return the lazy results of a filter along an axis: see ``filter_chunks``."""
    recurrence = Overlapping.of(axis_filter, x, axis, dtype, counts)
    if solved := _solve_without_graph(Problem(recurrence, (x,), (), x.shape)):
        return solved[0][0]
    return filter_chunks(axis_filter, x, axis, dtype, counts)


def _solve_by_graph(problem: Problem) -> Solved:
    aligned = align_problem(problem)
    recurrence, blocks = aligned.recurrence, aligned.blocks
    if recurrence.results:
        check_chunks(blocks[0]._meta, aligned.chunks, recurrence.dtype)
    are_persisted = all(map(is_persisted, blocks))
    # A persisted array keeps its name, but its propagations are other tasks: a scheduler that
    # still knows those of a lazy solve would confuse them.
    names = [block.name for block in blocks]
    token = tokenize(recurrence, names, aligned.initial, aligned.chunks, problem.memory, are_persisted)
    if isinstance(recurrence, Swept) and has_several_tiles(aligned):
        solved: Solved = solve_sweeps(aligned, token), None
    elif isinstance(recurrence, Traceback):
        return (), solve_traceback(aligned, token)
    elif isinstance(recurrence, Grid):
        solved = solve_tiles(aligned, token)
    elif aligned.is_whole:
        solved = solve_whole(aligned, token), None
    elif not are_persisted and (axis_filter := _overlapped(aligned)) is not None:
        axis, dtype = recurrence.axis, recurrence.result_dtype
        solved = (filter_chunks(axis_filter, blocks[0], axis, dtype),), None
    else:
        _warn_of_many_chunks(aligned.count)
        layers: ChainLayers = (
            PersistedLayers(aligned, token) if are_persisted else PackedLayers(aligned, token, problem.memory)
        )
        solved = layers.solve(group_size(aligned.chunks, recurrence, are_persisted))
    results, carry_out = solved
    log_solve((*results, carry_out)[0])
    return solved


def _overlapped(aligned: AlignedProblem) -> Any:
    """Return the filter whose chunks take samples of their neighbours, or None."""
    if aligned.initial or aligned.recurrence.returns_final_state:
        return None
    return aligned.recurrence.overlapped(aligned.chunks[aligned.recurrence.axis])


def _warn_of_many_chunks(count: int) -> None:
    if count > MANY_CHUNKS:
        warnings.warn(
            f"the recurrence runs along {count} chunks: Dask needs seconds to minutes to order "
            f"such a graph before anything is computed. Use larger chunks along this axis "
            f"(array.rechunk), or mgrec.dask.persist_in_stages(result)",
            stacklevel=stacklevel_of_caller(),
        )
