"""What public functions return on a rank of a group: the results of its part."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.arrays.array_types import to_host
from ...core.backends import backend_of, common_backend
from ...core.contract.grid import Grid, Swept, Traceback
from ...core.contract.problem import Problem
from ...core.contract.recurrence import AxisFilter, ChunkIndex, ChunkInputs, filter_chunk
from ..graph.aligned import AlignedProblem, chunk_indices_of, without_axis
from ..programs.chains import ChainProgram, Summaries
from ..programs.grids import Tiles, assign_tiles
from .arrays import send_arrays
from .calls import GroupCall


class GroupExchange:
    """The messages of one shard in one call on a group, which all ranks exchange in steps.

    `stage`: what messages contain, for errors.
    `ranks`: the ranks of the shards, by their numbers: those whose parts are not empty.
    """

    def __init__(self, call: GroupCall, stage: str, ranks: Sequence[int]) -> None:
        self._call, self._stage, self._ranks = call, stage, ranks
        self._sent: dict[tuple[int, Hashable], Any] = {}
        self._arrived: dict[tuple[int, Hashable], Any] = {}

    def send(self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()) -> None:
        self._sent[self._ranks[receiver], name] = content, list(arrays)

    def flush(self) -> None:
        self._step()

    def has(self, sender: int, name: Hashable) -> bool:
        return (self._ranks[sender], name) in self._arrived

    def take(self, sender: int, name: Hashable) -> Any:
        while not self.has(sender, name):
            self._step()
        return self._arrived.pop((self._ranks[sender], name))

    def wait(self, wait: Any) -> Any:
        return wait()

    def end(self, answer: Any) -> list[Any]:
        """Wait until all shards have ended; return the answers of all ranks."""
        while True:
            ended = self._step(answer=(answer,))
            if all(ended):
                return [answer for (answer,) in ended]

    def _step(self, answer: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Exchange messages once; return the answers of the ranks that have ended."""
        messages = self._call.all_gather(self._stage, {}, (self._sent, answer), bool(answer))
        self._sent = {}
        for rank, (sent, _) in enumerate(messages):
            for (receiver, name), message in sent.items():
                if receiver == self._call.group.rank:
                    self._arrived[rank, name] = message
        return [answer for _, answer in messages]


def solve_part(problem: Problem, call: GroupCall) -> Any:
    """Return what a public function returns for the part of this rank, which is one chunk."""
    _check(problem)
    if isinstance(problem.recurrence, Grid):
        return _solve_grid(problem, call)
    recurrence, inputs = _divided(problem, call)
    chain = ChainProgram(recurrence, call.group.size, is_known_to_all=True)
    first = call.group.size - 1 if recurrence.reverse else 0
    row = without_axis(inputs.chunk_index, recurrence.axis)

    def gather(summaries: Summaries) -> tuple[Summaries, Mapping[ChunkIndex, Any]]:
        initial = [*map(to_host, problem.initial)] if call.group.rank == first else None
        message = summaries, initial
        messages = call.all_gather("the summaries", options_of(problem), message)
        everything = {k: summary for own, _ in messages for k, summary in own.items()}
        return everything, {row: messages[first][1]}

    results, carry_ins = chain.solve({inputs.chunk_index: inputs}, gather)
    final_state = None
    if recurrence.returns_final_state:
        like = problem.operands[0]
        final_state = backend_of(like).from_host(chain.final_states(carry_ins)[row], like)
    return problem.to_return_value(results[inputs.chunk_index], final_state)


def _solve_grid(problem: Problem, call: GroupCall) -> Any:
    """Return what a public function returns for the rows of this rank.

    The columns are cut into parts: a rank computes a part while the next rank computes the part
    before it.
    """
    recurrence, shape = problem.recurrence, problem.shape
    if isinstance(recurrence, (Swept, Traceback)):
        raise NotImplementedError("group must be None for grids that are swept or traced back")
    down, _ = recurrence.axes
    options = {
        "the dtype of the result": recurrence.result_dtype.name,
        "the shape of the grid without its rows": without_axis(shape, down),
        "the grid": type(recurrence).__name__,
    }
    lengths = call.all_gather("the lengths", options, shape[down], is_last=False)
    # Ranks without rows have no tiles. If no rank has rows, the first one determines the grid.
    ranks = [rank for rank, length in enumerate(lengths) if length] or [0]
    exchange, answer = GroupExchange(call, "the edges", ranks), None
    results: Mapping[ChunkIndex, Any] = {}
    if call.group.rank in ranks:
        chunks = [(length,) for length in shape]
        chunks[down] = tuple(lengths[rank] for rank in ranks)
        aligned = AlignedProblem(recurrence, problem.operands, tuple(chunks), ())
        owners = dict(zip(chunk_indices_of(chunks), ranks, strict=True))
        shard = assign_tiles(aligned, owners)[call.group.rank]
        inputs = {at[0]: ChunkInputs(problem.operands, *at, {}) for at in shard.chunks}
        results, answer = Tiles(recurrence, shard, inputs, exchange).solve()
    answers = exchange.end(answer)
    if not recurrence.results:
        return problem.to_return_value((), answers[ranks[-1]])
    if results:
        return problem.to_return_value(tuple(results.values()), None)
    backend = common_backend(problem.operands, recurrence.method)
    return problem.to_return_value((backend.empty(shape, recurrence.result_dtype),), None)


def gather_signal(
    call: GroupCall, x: Any, axis: int, dtype: np.dtype[Any], is_finite: bool = False
) -> tuple[list[int], bool]:
    """Return the lengths of the parts of a signal, and whether those of all ranks are finite."""
    options = {
        "axis": axis,
        "the dtype of the signal": x.dtype.name,
        "the shape of the signal without the axis": without_axis(x.shape, axis),
        "the dtype of the result": dtype.name,
    }
    parts = call.all_gather("the lengths", options, (x.shape[axis], is_finite), is_last=False)
    return [length for length, _ in parts], all(finite for _, finite in parts)


def filter_part(
    call: GroupCall,
    axis_filter: AxisFilter,
    x: Any,
    axis: int,
    dtype: np.dtype[Any],
    lengths: Sequence[int] | None = None,
) -> Any:
    """Return the results of a filter along an axis for the part of this rank.

    `lengths`: results of :func:`gather_signal`, which is called by default.
    """
    lengths, rank = lengths or gather_signal(call, x, axis, dtype)[0], call.group.rank
    # A filter plans for parts that have samples.
    ranks = [other for other, length in enumerate(lengths) if length]
    of_ranks = [lengths[other] for other in ranks]
    plans = {other: axis_filter.plan(of_ranks, number) for number, other in enumerate(ranks)}
    sent: dict[int, list[Any]] = {}
    backend = backend_of(x)
    with backend.device_of((x,)):
        computed: dict[Any, Any] = {}
        for receiver, (needed, _) in plans.items():
            parts = [part for number, part in needed if ranks[number] == rank]
            computed |= {part: axis_filter.part(x, axis, part) for part in parts if part not in computed}
            if parts and receiver != rank:
                sent[receiver] = [computed[part] for part in parts]
        options = {"the filter": type(axis_filter).__name__}
        arrays = send_arrays(call, "samples of neighbours", options, sent, x)
        arrived = {sender: iter(of_sender) for sender, of_sender in arrays.items()}
        if rank not in plans:
            return backend.empty(x.shape, dtype)
        needed, recipe = plans[rank]
        parts = [
            computed[part] if ranks[number] == rank else next(arrived[ranks[number]])
            for number, part in needed
        ]
        return filter_chunk(axis_filter, x, axis, dtype, recipe, parts)


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


def options_of(problem: Problem) -> dict[str, Any]:
    """Return values that must be the same on all ranks, by names for messages."""
    recurrence, axis = problem.recurrence, problem.recurrence.axis
    return {
        "axis": axis,
        "reverse": recurrence.reverse,
        "method": recurrence.method,
        "the dtype of the result": recurrence.result_dtype.name,
        "the shape of the result without the axis": without_axis(problem.shape, axis),
        "the recurrence": f"{type(recurrence).__name__} of {recurrence.states} states",
        "whether the final states are returned": recurrence.returns_final_state,
    }
