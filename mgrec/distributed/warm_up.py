"""Compile the kernels of a recurrence on the workers of a cluster, before the first solve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from distributed import Client, Worker
from distributed.diagnostics.plugin import WorkerPlugin

from ..core.backends import backend_of
from ..core.contract.problem import Composed, Problem
from ..core.contract.recurrence import AlongAxis, ChunkInputs, Overlapping
from .arguments import client_of, name_of, problem_of
from .graph.aligned import AlignedProblem, align_problem, chunk_at, chunk_indices_of
from .graph.along_axis import ChunkGroup, groups_of
from .graph.build import SOLVER
from .speculation import determine_from_blocks
from .tasks import determine_block, precompute_block, propagate_group
from .versions import check_workers

# Most shapes of chunks: the first, the last, and those that a rechunk may leave between.
SHAPES = 4

# On a CPU no kernel depends on longer rows, or on more numbers of a chunk, than these.
LONGEST, LARGEST = 4096, 1 << 19
# Chunks of a filter on a CPU, so that some of them do not reach the ends.
INNER = 7

Shapes = tuple[tuple[int, ...], ...]


class OnEachWorker(WorkerPlugin):  # type: ignore[misc]
    """Calls ``run`` once on every worker, also on those that join later."""

    async def setup(self, worker: Worker) -> None:
        """Warm up on the thread of the tasks, so that the worker can answer messages."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(worker.executors["default"], self.run)

    def run(self) -> None:
        raise NotImplementedError


@dataclass
class WarmUp(OnEachWorker):
    """Runs the three phases.

    `shapes` has the shapes of the blocks of a chunk, for each shape of chunk; `metas` are empty
    arrays of the blocks' types and dtypes.
    """

    recurrence: AlongAxis
    shapes: tuple[Shapes, ...]
    metas: tuple[Any, ...]
    name: str

    def run(self) -> None:
        """Solve a chunk of each shape."""
        for shapes in self.shapes:
            ndim = max(len(shape) for shape in shapes)
            count = self.recurrence.number_axes
            rows = np.broadcast_shapes(*[shape[: len(shape) - count] for shape in shapes])
            most = longest(rows, self.recurrence.axis) + [LARGEST] * count
            blocks = tuple(
                _filled(meta, shape, self.recurrence.example_value(number), most[ndim - len(shape) :])
                for number, (meta, shape) in enumerate(zip(self.metas, shapes, strict=True))
            )
            self._solve(ChunkInputs(blocks, (0,) * ndim, (0,) * ndim))

    def _solve(self, inputs: ChunkInputs) -> None:
        """Solve a chunk with and without speculation."""
        recurrence = self.recurrence.for_warm_up()
        summary = precompute_block(inputs, recurrence)
        carry_ins = propagate_group(recurrence, [summary], recurrence.zero_state())
        determine_block(recurrence, inputs, carry_ins, 0)
        determine_from_blocks(recurrence, inputs, carry_ins, 0)


@dataclass
class WarmUpFilter(OnEachWorker):
    """Filters groups of chunks of ones, with parts of their neighbours.

    `lengths` are those of all chunks along the axis, and `shapes` has the shapes of rows of chunks;
    `meta` is an empty array of their type and dtype.
    """

    recurrence: Overlapping
    groups: list[ChunkGroup]
    lengths: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    meta: Any
    name: str

    def run(self) -> None:
        axis_filter, axis = self.recurrence.axis_filter, self.recurrence.axis
        for shape, group in product(self.shapes, self.groups):
            chunk = partial(self._chunk, shape)
            parts = [axis_filter.part(chunk(k), axis, part) for k, part in group.parts]
            members = [chunk(k) for k in group.chunks]
            members = members if group.is_joined else members[0]
            axis_filter.apply(members, axis, self.recurrence.dtype, group.recipe, parts)

    def _chunk(self, shape: tuple[int, ...], number: int) -> Any:
        shape = chunk_at(shape, self.recurrence.axis, self.lengths[number])
        return np.full_like(self.meta, 1, shape=shape)


def longest(shape: tuple[int, ...], axis: int) -> list[int]:
    """Return the largest shape of a chunk that is worth filling."""
    most = [LONGEST] * len(shape)
    rows = prod(map(min, shape[:axis] + shape[axis + 1 :], most))
    most[axis] = max(LONGEST, -(-LARGEST // max(1, rows)))
    return most


def _filled(meta: Any, shape: tuple[int, ...], value: float, most: Sequence[int]) -> Any:
    """Return a block like `meta`, on a CPU of at most the lengths in `most`."""
    if not backend_of(meta).compiles_shapes:
        shape = tuple(map(min, shape, most))
    return np.full_like(meta, 1 if meta.dtype.kind in "iub" else value, shape=shape)


def warm_up(
    recurrence: Callable[..., Any], *operands: Any, client: Client | None = None, **options: Any
) -> None:
    """Compile and load what a recurrence needs, on every worker of a cluster.

    The first solve on a worker compiles its kernels, or loads them from disk, and takes memory
    from the system: seconds where the second one takes milliseconds. Workers that join later
    warm up as they start.

    Parameters
    ----------
    recurrence : callable
        A function that solves recurrences along an axis, such as :func:`mgrec.linear_recurrence`
        and :func:`mgrec.signal.sosfiltfilt`, or one that calls such functions:
        ``lambda x: 1 + mgrec.signal.ewm(x, span=30)``.
    *operands, **options
        Arguments of the recurrence; at least one operand is a Dask array. It is not computed:
        only its chunks, dtype and type of array are used.
    client : distributed.Client, optional
        Default: the default client.

    Raises
    ------
    TypeError
        No recurrence along an axis is solved, or no operand is a Dask array.
    ValueError
        Sizes of chunks are unknown.
    RuntimeError
        A worker has no mgrec, or another version than the client.

    Notes
    -----
    On a GPU the phases run over chunks of the true shapes, since shapes select kernels. The memory
    for operands and result of a chunk must be free, and stays in the pool.

    Examples
    --------
    >>> import dask.array as da, mgrec, mgrec.dask
    >>> from distributed import Client
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     t = da.ones(1000, chunks=100)
    ...     mgrec.dask.warm_up(mgrec.linear_recurrence, 0.5, t)
    ...     float(mgrec.linear_recurrence(0.5, t)[-1].compute())
    2.0
    """
    problems = _along_axis(problem_of(recurrence, operands, options))
    if not problems:
        raise TypeError(
            f"recurrence must be a function that solves recurrences along an axis, such as "
            f"linear_recurrence, scan or lfilter; got {name_of(recurrence)}"
        )
    client = client_of(client)
    client.sync(check_workers, client)
    for problem in problems:
        _warm_up(client, align_problem(problem))


def _along_axis(problem: Problem | Composed) -> list[Problem]:
    """Return the problems along an axis that a call solves, without computing anything."""
    problems = list[Problem]()
    if isinstance(problem, Problem):
        problems.append(problem)
    else:
        token = SOLVER.set(problems.append)
        try:
            problem.solve()
        finally:
            SOLVER.reset(token)
    topologies = AlongAxis, Overlapping
    return [problem for problem in problems if isinstance(problem.recurrence, topologies)]


def _warm_up(client: Client, aligned: AlignedProblem) -> None:
    if aligned.has_unknown_sizes:
        raise ValueError("warm_up needs the sizes of all chunks: call compute_chunk_sizes() on the arrays")
    if isinstance(aligned.recurrence, Overlapping):
        plugin = _plugin_of_filter(aligned.recurrence, aligned.blocks[0])
    else:
        plugin = _plugin_of_phases(aligned)
    client.register_plugin(plugin)


def _plugin_of_filter(recurrence: Overlapping, x: da.Array) -> WarmUpFilter:
    axis, chunks = recurrence.axis, list(x.chunks)
    if not backend_of(x).compiles_shapes:
        for k, limit in enumerate(longest(x.chunksize, axis)):
            chunks[k] = tuple([min(length, limit) for length in chunks[k]])
        # As many as an extension at the ends may need, and inner ones.
        needed = INNER + int(np.searchsorted(np.cumsum(chunks[axis]), LONGEST))
        chunks[axis] = chunks[axis][:needed]
    short = da.empty([sum(lengths) for lengths in chunks], chunks=tuple(chunks), meta=x._meta)
    groups = groups_of(recurrence.axis_filter, short, axis) if x.size else []
    chosen = groups[:1] + groups[len(groups) // 2 :][:1] + groups[-1:]
    lengths, chunks[axis] = chunks[axis], (1,)
    unique = [dict.fromkeys(length for length in each if length) for each in chunks]
    shapes = tuple(islice(product(*unique), SHAPES))
    token = tokenize(recurrence, lengths, shapes, str(type(x._meta)))
    name = f"mgrec-warm-up-{token}"
    return WarmUpFilter(recurrence, chosen, lengths, shapes, x._meta, name)


def _plugin_of_phases(aligned: AlignedProblem) -> WarmUp:
    unique: dict[Any, None] = {}
    for chunk_index in chunk_indices_of(aligned.chunks):
        if all(lengths[k] for lengths, k in zip(aligned.chunks, chunk_index, strict=True)):
            unique.setdefault(aligned.shapes(chunk_index))
    shapes, metas = tuple(unique)[:SHAPES], tuple(block._meta for block in aligned.blocks)
    solved = aligned.recurrence
    token = tokenize(solved, shapes, [str(type(meta)) for meta in metas])
    return WarmUp(solved, shapes, metas, f"mgrec-warm-up-{token}")
