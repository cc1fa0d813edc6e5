"""The program of a recurrence along an axis that is divided among the ranks of a group."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from ...core.arrays.array_types import to_host
from ...core.backends import backend_of
from ...core.contract.grid import Grid
from ...core.contract.problem import Problem
from ...core.contract.recurrence import ChunkInputs
from ..speculation import PendingChunk, correct_block, launch_speculation, summarise_block
from ..tasks import propagate_group
from . import grids
from .calls import GroupCall


def solve(problem: Problem, call: GroupCall) -> Any:
    """Return what a public function returns for the part of this rank.

    The part is one chunk. Each rank summarises its chunk, gathers the summaries of all ranks, and
    determines its results.
    """
    _check(problem)
    if isinstance(problem.recurrence, Grid):
        return grids.solve(problem, call)
    group = call.group
    recurrence, inputs = _divided(problem, call)
    launched = launch_speculation(inputs, recurrence)
    chunk = launched() if launched else PendingChunk(inputs)
    ranks = range(group.size)[:: -1 if recurrence.reverse else 1]
    needs_last = recurrence.is_two_sided or recurrence.returns_final_state
    is_needed = needs_last or group.rank != ranks[-1]
    summary = summarise_block(chunk, recurrence) if is_needed else None
    initial = [*map(to_host, problem.initial)] if group.rank == ranks[0] else None
    messages = call.all_gather("the summaries", _options(problem), (summary, initial))

    ordered = [messages[rank] for rank in ranks]
    summaries = [summary for summary, _ in ordered if summary is not None]
    carry_ins = propagate_group(recurrence, summaries, ordered[0][1])
    result = correct_block(recurrence, chunk, carry_ins, ranks.index(group.rank))
    final_state = None
    if recurrence.returns_final_state:
        like = problem.operands[0]
        final_state = backend_of(like).from_host(carry_ins.final_state(recurrence), like)
    return problem.to_return_value(result if recurrence.results > 1 else (result,), final_state)


def _check(problem: Problem) -> None:
    """Raise unless a group can solve a problem."""
    if problem.is_lazy:
        raise TypeError("group must be None for Dask arrays: their chunks are on Dask's workers")
    if problem.out is not None:
        raise TypeError("out must be None with a group: results are new arrays")


def _divided(problem: Problem, call: GroupCall) -> tuple[Any, ChunkInputs]:
    """Return the recurrence of all ranks, and the part of this rank as a chunk of it."""
    recurrence, axis, shape = problem.recurrence, problem.recurrence.axis, problem.shape
    index, starts = [0] * len(shape), [0] * len(shape)
    index[axis] = call.group.rank
    if recurrence.indexed_by:
        lengths = call.all_gather("the lengths", {}, shape[axis], is_last=False)
        chunks = [(length,) for length in shape]
        chunks[axis] = tuple(lengths)
        recurrence.check_chunks(chunks)
        recurrence = recurrence.of_length(sum(lengths))
        starts[axis] = [0, *accumulate(lengths)][call.group.rank]
    return recurrence, ChunkInputs(problem.operands, tuple(index), tuple(starts), {})


def _options(problem: Problem) -> dict[str, Any]:
    """Return values that must be the same on all ranks, by names for messages."""
    recurrence, axis = problem.recurrence, problem.recurrence.axis
    return {
        "axis": axis,
        "reverse": recurrence.reverse,
        "method": recurrence.method,
        "the dtype of the result": recurrence.result_dtype.name,
        "the shape of the result without the axis": _without(problem.shape, axis),
        "the recurrence": f"{type(recurrence).__name__} of {recurrence.states} states",
        "whether the final states are returned": recurrence.returns_final_state,
    }


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return *shape[:axis], *shape[axis + 1 :]
