"""Results of a solve: Dask arrays whose blocks workers store, or will store."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from operator import getitem
from typing import Any

import dask.array.core as da
import numpy as np
from dask._task_spec import Alias
from dask.highlevelgraph import HighLevelGraph
from distributed import Future

from ...core.arrays.elements import Part
from ...core.contract.recurrence import ChunkIndex
from .internals import array_without_graph, fail, register
from .messages import WorkerLostError, result_name
from .session import PendingRequest, Session

# Seconds after a solve until results that the client still refers to are registered with the
# scheduler. Results that only their own plan uses until then, as in time stepping, cost it nothing.
REGISTERING = 0.25


@dataclass(frozen=True)
class Layout:
    """The chunks of the results of a plan's solves.

    Attributes
    ----------
    chunk_indices : dict, address -> chunk indices
    chunks : tuple of tuple of int
    meta : array
        An empty array of the type and dtype of each result.
    parts : tuple of Part
        The results of a solve, each of which may be a part of one with these chunks.
    """

    chunk_indices: Mapping[str, Sequence[ChunkIndex]]
    chunks: tuple[tuple[int, ...], ...]
    meta: Any
    parts: tuple[Part, ...]

    @cached_property
    def owners(self) -> Mapping[ChunkIndex, str]:
        """The worker of each chunk."""
        pairs = self.chunk_indices.items()
        return {index: address for address, indices in pairs for index in indices}

    @property
    def largest(self) -> int:
        """The most bytes that a worker stores of a solve."""
        if not self.parts:
            return self.meta.itemsize * prod(map(sum, self.chunks))
        sizes = dict.fromkeys(self.chunk_indices, 0)
        for address, size in self.locate("").values():
            sizes[address] += size
        return max(sizes.values(), default=0)

    def names(self, solve: str) -> list[str]:
        return [result_name(solve, k) for k in range(len(self.parts))]

    def locate(self, solve: str) -> dict[Any, tuple[str, int]]:
        """Return the worker and the bytes of each block of a solve, by keys."""
        results = [
            (name, part, part.chunks(self.chunks), part.meta(self.meta).itemsize)
            for name, part in zip(self.names(solve), self.parts, strict=True)
        ]
        return {
            (name, *part.chunk_index(index)): (
                address,
                prod(map(getitem, chunks, part.chunk_index(index))) * itemsize,
            )
            for address, chunk_indices in self.chunk_indices.items()
            for index in chunk_indices
            for name, part, chunks, itemsize in results
        }


class Solution:
    """The results of one solve, which the workers free when the client no longer refers to them.

    The message that frees them is sent before those of later solves, on the same comm. Tasks may
    need results that were used outside of the plan: Dask frees these.
    """

    def __init__(
        self, session: Session, name: str, request: PendingRequest, layout: Layout
    ) -> None:
        self.session, self.name, self.request, self.layout = session, name, request, layout
        self._streams = {to: session.streams.get(to) for to in layout.chunk_indices}
        self._futures: dict[Any, Future] = {}
        self._registration: asyncio.Task[None] | None = None
        self._use = {"outside": False}
        arguments = session, name, [*layout.chunk_indices], self._use
        weakref.finalize(self, session.call, _free, *arguments).atexit = False

    def wait(self) -> dict[str, Any]:
        """Wait for the solve; return the answers of shards by address, or raise an error."""
        return self.session.wait(self.request)

    def futures(self) -> dict[Any, Future]:
        """Return the results as futures that the scheduler knows.

        On the client's event loop, where `distributed.wait` calls, nothing may wait: there the
        scheduler knows them when they are finished.
        """
        self._use["outside"] = True
        client = self.session.client
        if client.status == "closed":
            raise RuntimeError("the client of a plan's results is closed")
        self._create_futures()
        if client.asynchronous:
            self.session.start(self._finish_futures())
        else:
            self.wait()
            asyncio.run_coroutine_threadsafe(self.register(), client.loop.asyncio_loop).result()
        return self._futures

    def _create_futures(self) -> None:
        if not self._futures:
            keys = self.layout.locate(self.name)
            self._futures = {key: Future(key, self.session.client) for key in keys}

    async def _finish_futures(self) -> None:
        """Finish the futures when the solve ends, or set its error."""
        try:
            await asyncio.wrap_future(self.request.done)
            await self.register()
        except Exception as error:
            fail(self._futures.values(), error)

    @property
    def is_registered(self) -> bool:
        """Whether the scheduler knows the results, or is about to."""
        return self._registration is not None

    async def register(self) -> None:
        """Register the results with the scheduler, once in all calls."""
        if self._registration is None:
            self.session.retain(self)
            self._registration = asyncio.ensure_future(self._register())
        await self._registration

    async def _register(self) -> None:
        session = self.session
        for address, stream in self._streams.items():
            if session.streams.get(address) is not stream:
                raise WorkerLostError.of(address)
        self._create_futures()
        request = PendingRequest(self._streams, self.request.timeout, self.request.limit)
        session.send(request, "register", self.name, dict.fromkeys(self._streams, ()))
        await asyncio.wrap_future(request.done)
        if lost := await register(session.client, self.layout.locate(self.name)):
            raise WorkerLostError.of(lost[0])


def _free(session: Session, name: str, addresses: list[str], use: dict[str, bool]) -> None:
    session.send_later(addresses, "free", name, use["outside"])


def register_if_alive(reference: weakref.ref[Solution]) -> None:
    """Register results with the scheduler if the client still refers to them."""
    solution = reference()
    if solution is not None and solution.session.client.status == "running":
        task = asyncio.ensure_future(solution.register())
        # Any use of the results raises the error.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())


class SolvedArray(da.Array):  # type: ignore[misc]
    """A result of a plan: an array whose graph is available when its solve has ended.

    Any function of Dask reads the graph; it waits for the solve, and raises the solve's error.
    """

    __slots__ = ()

    @classmethod
    def of(cls, solution: Solution, name: str, part: Part) -> da.Array:
        chunks, meta = part.chunks(solution.layout.chunks), part.meta(solution.layout.meta)
        array = array_without_graph(cls, name, chunks, meta)
        array.solution = solution
        return array if part.sum_axis is None else SolvedSum.of_chunks(array, part.sum_axis)

    @property
    def dask(self) -> HighLevelGraph:
        if (solution := self.__dict__.get("solution")) is not None:
            futures = solution.futures()
            if "graph" not in self.__dict__:
                self.dask = self._graph_of(futures)
        return self.__dict__["graph"]

    @dask.setter
    def dask(self, graph: HighLevelGraph) -> None:
        self.__dict__["graph"] = graph

    def _graph_of(self, futures: Mapping[Any, Future]) -> HighLevelGraph:
        layer = {key: future for key, future in futures.items() if key[0] == self.name}
        return HighLevelGraph({self.name: layer}, {self.name: set()})


class SolvedSum(SolvedArray):
    """The sum of a result of a plan along an axis; Dask adds the sums of chunks when it is used."""

    __slots__ = ()

    @classmethod
    def of_chunks(cls, sums: Any, axis: int) -> da.Array:
        """Return the sum of an array, which has the sums of chunks along an axis."""
        chunks = (*sums.chunks[:axis], *sums.chunks[axis + 1 :])
        meta = np.empty_like(sums._meta, shape=(0,) * len(chunks))
        array = array_without_graph(cls, f"sum-{sums.name}", chunks, meta)
        array.solution, array.sums, array.axis = sums.solution, sums, axis
        return array

    def _graph_of(self, futures: Mapping[Any, Future]) -> HighLevelGraph:
        sums, axis = self.__dict__["sums"], self.__dict__["axis"]
        total = sums.sum(axis=axis)
        indices = product(*map(range, map(len, self.chunks)))
        layer = {
            (self.name, *index): Alias((self.name, *index), (total.name, *index))
            for index in indices
        }
        return HighLevelGraph.from_collections(self.name, layer, dependencies=[total])


def solution_of(array: object) -> Solution | None:
    """Return the solve of an array that is a plan's result."""
    return array.solution if isinstance(array, SolvedArray) else None
