"""The operands and results of a plan's calls: Dask arrays whose blocks workers store."""

from __future__ import annotations

import asyncio
import concurrent.futures
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from operator import getitem
from pickle import dumps
from time import sleep
from typing import Any

import dask.array.core as da
import numpy as np
from dask._task_spec import Alias
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future

from ...core.arrays.array_types import to_host
from ...core.arrays.elements import Part
from ...core.backends import common_backend
from ...core.contract.problem import Problem
from ...core.contract.recurrence import AlongAxis, ChunkIndex, Overlapping
from ..graph.aligned import AlignedProblem, chunk_indices_of, chunk_of_row, without_axis
from ..graph.along_axis import groups_of
from ..placement import persisted, wait_for
from ..programs.assignment import Request
from .internals import array_without_graph, fail, register
from .program import result_name
from .session import ClientSession, PendingRequest

# Seconds after a solve until results that the client still refers to are registered with the
# scheduler. Results that only their own plan uses until then, as in time stepping, cost it nothing.
REGISTERING = 0.25
# Seconds until the scheduler knows that a worker is lost, and notified clients that data are.
NOTIFICATION = 0.2


@dataclass(frozen=True)
class ResultLayout:
    """The chunks of the results of a plan's solves.

    `chunk_indices`: dict, address -> chunk indices.
    `meta`: an empty array of the type and dtype of each result.
    `parts`: the results of a solve, each of which may be a part of one with these chunks.
    """

    chunk_indices: Mapping[str, Sequence[ChunkIndex]]
    chunks: tuple[tuple[int, ...], ...]
    meta: Any
    parts: tuple[Part, ...]

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the results of a solve on each worker."""
        results = [(part, part.chunks(self.chunks), part.meta(self.meta).itemsize) for part in self.parts]
        return {
            address: sum(
                prod(map(getitem, chunks, part.chunk_index(index))) * itemsize
                for index in indices
                for part, chunks, itemsize in results
            )
            for address, indices in self.chunk_indices.items()
        }

    def keys(self, solve: str) -> list[Any]:
        """Return the keys of the results of a solve."""
        return [
            (result_name(solve, k), *part.chunk_index(index))
            for indices in self.chunk_indices.values()
            for index in indices
            for k, part in enumerate(self.parts)
        ]

    def arrays(self, solution: Solution) -> tuple[da.Array, ...]:
        """Return the results of a solve."""
        parts = enumerate(self.parts)
        return tuple(SolvedArray.of(solution, result_name(solution.name, k), p) for k, p in parts)


class Solution:
    """The results of one solve, which the workers free when the client no longer refers to them.

    The message that frees them is sent before those of later solves, on the same comm. Tasks may
    need results that the scheduler knows: Dask frees these.
    """

    def __init__(
        self, session: ClientSession, name: str, request: PendingRequest, layout: ResultLayout
    ) -> None:
        self.session, self.name, self.request, self.layout = session, name, request, layout
        self._futures: dict[Any, Future] = {}
        self._registration: asyncio.Task[None] | None = None
        arguments = request.streams, name, request.timeout, self._futures
        weakref.finalize(self, session.call, session.free, *arguments).atexit = False
        request.done.add_done_callback(partial(_register_later, weakref.ref(self)))

    def wait(self) -> dict[str, Any]:
        """Wait for the solve; return the answers of shards by address, or raise an error."""
        return self.session.wait(self.request)

    def futures(self) -> dict[Any, Future]:
        """Return the results as futures that the scheduler knows.

        On the client's event loop, where `distributed.wait` calls, nothing may wait: there the
        scheduler knows them when they are finished.
        """
        client = self.session.client
        if client.status == "closed":
            raise RuntimeError("the client of a plan's results is closed")
        self._create_futures()
        if not client.asynchronous:
            self.wait()
        registered = asyncio.run_coroutine_threadsafe(self.register(), client.loop.asyncio_loop)
        if not client.asynchronous:
            registered.result()
        return self._futures

    def _create_futures(self) -> None:
        if not self._futures:
            keys = self.layout.keys(self.name)
            self._futures |= {key: Future(key, self.session.client) for key in keys}

    async def register(self) -> None:
        """Register the results with the scheduler when the solve has ended, once in all calls."""
        self._registration = self._registration or asyncio.ensure_future(self._register())
        await self._registration

    async def _register(self) -> None:
        """Register the results, or set the error of their futures."""
        try:
            await asyncio.wrap_future(self.request.done)
            self._create_futures()
            streams = self.request.streams
            request = PendingRequest(streams, self.request.timeout)
            self.session.send(request, "register", dict.fromkeys(streams, (self.name,)))
            sizes = await asyncio.wrap_future(request.done)
            results = {k: (to, size) for to, keys in sizes.items() for k, size in keys.items()}
            await register(self.session.client, results)
        except Exception as error:
            fail(self._futures.values(), error)
            raise


def _register_later(solution: weakref.ref[Solution], done: concurrent.futures.Future[Any]) -> None:
    """Register the results of a solve in a while if the client still refers to them."""

    def register() -> None:
        alive = solution()
        if alive is not None and alive.session.client.status == "running":
            # Any use of the results raises its error.
            asyncio.run_coroutine_threadsafe(alive.register(), loop)

    if done.exception() is None:
        loop = asyncio.get_running_loop()
        loop.call_later(REGISTERING, register)


class SolvedArray(da.Array):  # type: ignore[misc]
    """A result of a plan: an array whose graph is available when its solve has ended.

    Any function of Dask reads the graph; it waits for the solve, and raises the solve's error.
    """

    __slots__ = ()

    @classmethod
    def of(cls, solution: Solution, name: str, part: Part) -> da.Array:
        chunks, meta = part.chunks(solution.layout.chunks), part.meta(solution.layout.meta)
        array = array_without_graph(cls, name, chunks, meta)
        array.solution, array.sum_of = solution, None
        if (axis := part.sum_axis) is None:
            return array
        # Dask adds the sums of chunks when the sum is used.
        chunks = (*chunks[:axis], *chunks[axis + 1 :])
        meta = np.empty_like(meta, shape=(0,) * len(chunks))
        total = array_without_graph(cls, f"sum-{name}", chunks, meta)
        total.solution, total.sum_of = solution, (array, axis)
        return total

    @property
    def dask(self) -> HighLevelGraph:
        futures = self.__dict__["solution"].futures()
        if "graph" not in self.__dict__:
            self.dask = self._graph_of(futures)
        return self.__dict__["graph"]

    @dask.setter
    def dask(self, graph: HighLevelGraph) -> None:
        self.__dict__["graph"] = graph

    def _graph_of(self, futures: Mapping[Any, Future]) -> HighLevelGraph:
        if (sum_of := self.__dict__["sum_of"]) is None:
            layer = {key: future for key, future in futures.items() if key[0] == self.name}
            return HighLevelGraph({self.name: layer}, {self.name: set()})
        total = sum_of[0].sum(axis=sum_of[1])
        keys = flatten(self.__dask_keys__())
        aliases = {key: Alias(key, (total.name, *key[1:])) for key in keys}
        return HighLevelGraph.from_collections(self.name, aliases, dependencies=[total])


def solution_of(array: object) -> Solution | None:
    """Return the solve of an array that is a plan's result."""
    return array.solution if isinstance(array, SolvedArray) else None


class PlanCall:
    """One call of a recurrence: blocks in the memory of workers, states in that of the client.

    `aligned`: the problem's recurrence and operands; those of the plan's problem if a call differs
      from it only in Dask arrays.
    `solutions`: the solves whose results are operands, and may be unfinished: those that are
      accepted.
    """

    def __init__(
        self,
        problem: Problem,
        aligned: AlignedProblem,
        client: Client,
        accepts: Callable[[Solution], bool] = lambda solution: False,
        known: Sequence[da.Array] = (),
    ) -> None:
        self.problem = problem
        if aligned.has_unknown_sizes:
            raise ValueError("a plan needs the sizes of all chunks: call compute_chunk_sizes() on the arrays")
        if any(isinstance(state, da.Array) for state in aligned.initial):
            raise TypeError("initial of a plan must be in host memory, and so must zi; got a Dask array")
        self.solutions: list[Solution] = []
        blocks, futures, by_name = [], [], {array.name: array for array in known}
        for block in aligned.blocks:
            solution = solution_of(block)
            # Workers do not have sums.
            if solution is not None and block.sum_of is None and accepts(solution):
                self.solutions.append(solution)
            elif block.name in by_name:
                # A constant has a new array in each call: persisting six of them took 14 ms.
                block = by_name[block.name]
            else:
                block = persisted(client, block)
                futures += block.dask.layers[block.name].values()
            blocks.append(block)
        self.aligned = replace(aligned, blocks=tuple(blocks))
        if any(future.status != "finished" for future in futures):
            wait_for(client, futures)

    def locate(self, client: Client) -> dict[Any, tuple[str, ...]]:
        """Return the workers that store each block."""
        futures = self.aligned.futures()
        where: dict[Any, tuple[str, ...]] = client.who_has(futures)
        if not all(where.values()):
            # A worker was just lost: Dask computes its blocks again.
            sleep(NOTIFICATION)
            wait_for(client, futures)
            where = client.who_has(futures)
        return where

    def request(self) -> Request:
        """Return the arguments of the call except for its operands."""
        recurrence = self.aligned.recurrence
        if not isinstance(recurrence, AlongAxis):
            return Request(recurrence)
        states = list(map(to_host, self.aligned.initial))
        initial = {
            row: [_states_of(state, self._slices_of(row)) for state in states]
            for row in chunk_indices_of(self.aligned.rows)
        }
        return Request(recurrence, initial, self.problem.parts)

    @property
    def returns_arrays(self) -> bool:
        """Whether the function returns Dask arrays and nothing else."""
        recurrence = self.aligned.recurrence
        return bool(recurrence.results) and not getattr(recurrence, "returns_final_state", False)

    def final(self, answers: Mapping[str, Any]) -> Any:
        """Return the final states, or the result of a grid without an array, or None."""
        recurrence = self.aligned.recurrence
        present = [answer for answer in answers.values() if answer is not None]
        if not isinstance(recurrence, AlongAxis):
            return next(iter(present), None)
        if not recurrence.returns_final_state:
            return None
        rows = map(sum, self.aligned.rows)
        whole = np.empty((*recurrence.state_shape, *rows), recurrence.dtype)
        for row, state in (item for answer in present for item in answer.items()):
            index: Any = (..., *self._slices_of(row))
            whole[index] = state
        return whole

    def _slices_of(self, row: ChunkIndex) -> list[slice]:
        """Return the part of the axes of rows that belongs to a row of chunks."""
        axis = self.aligned.recurrence.axis
        _, starts = self.aligned.position(chunk_of_row(row, axis, 0))
        pairs = zip(without_axis(starts, axis), map(getitem, self.aligned.rows, row), strict=True)
        return [slice(start, start + length) for start, length in pairs]

    def with_operands(self, first: Sequence[Any], operands: Sequence[Any]) -> AlignedProblem | None:
        """Return the aligned problem of a call that differs from this one only in Dask arrays.

        None if it differs otherwise, or may do so. `first` are the operands of this call,
        `operands` those of the other one.
        """
        if len(operands) != len(first) or not all(map(_are_interchangeable, first, operands)):
            return None
        pairs = zip(first, operands, strict=True)
        others = [(array.name, other) for array, other in pairs if isinstance(array, da.Array)]
        by_name = dict(others)
        blocks = self.aligned.blocks
        if len(by_name) < len(others) or by_name.keys() != {block.name for block in blocks}:
            return None
        return replace(self.aligned, blocks=tuple(by_name[block.name] for block in blocks))

    def check_like(self, first: PlanCall) -> None:
        """Raise ValueError unless a plan that was built for `first` can solve this call."""
        wanted, problem = first.aligned, self.aligned
        form = _form_of(problem)
        for name, want in _form_of(wanted).items():
            if want != form[name]:
                raise ValueError(
                    f"{name} of a plan's solve must be {want}, as it was built; got {form[name]}"
                )
        if isinstance(wanted.recurrence, Overlapping) and not _have_same_parts(wanted, problem):
            raise ValueError(
                "a filter of a plan's solve must need as many samples of neighbouring chunks as "
                "that with which it was built: build a plan with this one"
            )


def _form_of(aligned: AlignedProblem) -> dict[str, Any]:
    """Return what the solves of a plan have in common, by names for messages."""
    recurrence, shape = aligned.recurrence, tuple(map(max, aligned.chunks))
    form = {
        "chunks": aligned.chunks,
        "chunks of operands": [block.chunks for block in aligned.blocks],
        "dtype": recurrence.dtype,
        "states": recurrence.results,
    }
    if isinstance(recurrence, (AlongAxis, Overlapping)):
        return form | {"axis": recurrence.axis, "reverse": recurrence.reverse}
    backend = common_backend(aligned.blocks)
    parts = [recurrence.part(backend, shape, axis) for axis in recurrence.axes]
    return form | {"axes": recurrence.axes, "parts of tiles": parts}


def _have_same_parts(first: AlignedProblem, other: AlignedProblem) -> bool:
    """Return whether the chunks of two filters need the same parts of each other."""
    if other.recurrence.is_same(first.recurrence):
        return True
    first_groups, groups = (
        groups_of(aligned.recurrence.axis_filter, aligned.blocks[0], aligned.recurrence.axis)
        for aligned in (first, other)
    )
    return [(group.parts, dumps(group.recipe)) for group in first_groups] == [
        (group.parts, dumps(group.recipe)) for group in groups
    ]


def _are_interchangeable(first: object, other: object) -> bool:
    """Return whether operands are equal, or Dask arrays that differ only in their values."""
    if isinstance(first, da.Array):
        return (
            isinstance(other, da.Array)
            and first.chunks == other.chunks
            and first.dtype == other.dtype
            and type(first._meta) is type(other._meta)
        )
    if isinstance(first, (int, float, complex, np.generic)):
        return type(first) is type(other) and repr(first) == repr(other)
    return first is other and (first is None or callable(first) or isinstance(first, str))


def _states_of(state: Any, rows: list[slice]) -> Any:
    """Return the states of some rows, from states (..., rows) whose axes may have length 1."""
    leading = [slice(None)] * (state.ndim - len(rows))
    parts = zip((*leading, *rows[max(0, len(rows) - state.ndim) :]), state.shape, strict=True)
    return state[tuple(slice(None) if length == 1 else part for part, length in parts)]
