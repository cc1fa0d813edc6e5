"""Results of a solve: Dask arrays whose blocks workers hold, or will hold."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import getitem
from typing import Any

import dask.array.core as da
from dask.highlevelgraph import HighLevelGraph
from distributed import Future

from ...core.contract.recurrence import ChunkIndex
from .internals import array_without_graph, fail, future_of, register
from .messages import WorkerLostError, name_of
from .session import Ask, Session

# Seconds after a solve until the scheduler hears of results that the client still refers to.
# Results that their own plan alone uses until then, as in time stepping, cost it nothing.
REGISTERING = 0.25


@dataclass(frozen=True)
class Layout:
    """What the results of a plan's solves have in common.

    Attributes
    ----------
    places : dict, address -> places of chunks
    chunks : tuple of tuple of int
    meta : array
        Of the type and dtype of each result.
    count : int
        Results of a solve.
    """

    chunk_indices: Mapping[str, Sequence[ChunkIndex]]
    chunks: tuple[tuple[int, ...], ...]
    meta: Any
    count: int

    @property
    def nbytes(self) -> int:
        """Of all results of a solve; of one, as large as the grid, where it has none."""
        return prod(map(sum, self.chunks)) * self.meta.itemsize * max(1, self.count)

    def names(self, solve: str) -> list[str]:
        return [name_of(solve, k) for k in range(self.count)]

    def where(self, solve: str) -> dict[Any, tuple[str, int]]:
        """The worker of each block of a solve, and its bytes, by keys."""
        return {
            (name, *chunk_index): (
                address,
                prod(map(getitem, self.chunks, chunk_index)) * self.meta.itemsize,
            )
            for address, chunk_indices in self.chunk_indices.items()
            for chunk_index in chunk_indices
            for name in self.names(solve)
        }


class Solution:
    """The results of one solve, which the workers free when the client no longer refers to them.

    The message that frees them goes before those of later solves, on the same comm. Results that
    were used outside of the plan may be needed by tasks: Dask frees these.
    """

    def __init__(self, session: Session, name: str, ask: Ask, layout: Layout) -> None:
        self.session, self.name, self.ask, self.layout = session, name, ask, layout
        self._streams = [
            (address, session.streams.get(address)) for address in layout.chunk_indices
        ]
        self._futures: dict[Any, Future] = {}
        self._registered: asyncio.Task[None] | None = None
        self._use = {"outside": False}
        arguments = session, name, [*layout.chunk_indices], self._use
        weakref.finalize(self, session.call, _free, *arguments).atexit = False

    def wait(self) -> dict[str, Any]:
        """Wait for the solve; return what the shards answer besides their results.

        Raises
        ------
        WorkerLostError
        Exception
            What a chunk raised.
        """
        return self.session.wait(self.ask)

    def futures(self) -> dict[Any, Future]:
        """The results as futures that the scheduler knows.

        On the client's event loop, where `distributed.wait` asks, nothing may wait: there the
        scheduler will know them when they are finished.
        """
        self._use["outside"] = True
        client = self.session.client
        if client.status == "closed":
            raise RuntimeError("the client of a plan's results is closed")
        self._create_futures()
        if client.asynchronous:
            self.session.start(self._settle())
        else:
            self.wait()
            asyncio.run_coroutine_threadsafe(self.register(), client.loop.asyncio_loop).result()
        return self._futures

    def _create_futures(self) -> None:
        if not self._futures:
            keys = self.layout.where(self.name)
            self._futures = {key: future_of(self.session.client, key) for key in keys}

    async def _settle(self) -> None:
        """Finish the futures with the solve, or let them fail."""
        try:
            await asyncio.wrap_future(self.ask.done)
            await self.register()
        except Exception as error:
            fail(self._futures.values(), error)

    @property
    def is_known(self) -> bool:
        """Whether the scheduler knows the results, or is about to."""
        return self._registered is not None

    async def register(self) -> None:
        """Make the scheduler know the results; once, whoever calls."""
        if self._registered is None:
            self.session.keep(self)
            self._registered = asyncio.ensure_future(self._register())
        await self._registered

    async def _register(self) -> None:
        session, client = self.session, self.session.client
        for address, stream in self._streams:
            if session.streams.get(address) is not stream:
                raise WorkerLostError.of(address)
        self._create_futures()
        addresses = self.layout.chunk_indices
        ask = Ask(addresses, self.ask.timeout, self.ask.limit)
        session.send(ask, "register", self.name, dict.fromkeys(addresses, ()))
        await asyncio.wrap_future(ask.done)
        lost = await register(client, self.layout.where(self.name))
        if lost:
            raise WorkerLostError.of(lost[0])


def _free(session: Session, name: str, addresses: list[str], use: dict[str, bool]) -> None:
    session.release(addresses, "free", name, use["outside"])


def register_later(reference: weakref.ref[Solution]) -> None:
    """Let the scheduler hear of results to which the client refers for a while."""
    asyncio.get_running_loop().call_later(REGISTERING, _register_if_needed, reference)


def _register_if_needed(reference: weakref.ref[Solution]) -> None:
    solution = reference()
    if solution is not None and solution.session.client.status == "running":
        task = asyncio.ensure_future(solution.register())
        # The error is that of whoever uses the results.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())


class SolvedArray(da.Array):  # type: ignore[misc]
    """A result of a plan: an array whose graph is read when its solve has ended.

    Reading it, as any function of Dask does, waits for the solve, and raises what the solve raised.
    """

    __slots__ = ()

    @classmethod
    def of(cls, solution: Solution, name: str) -> da.Array:
        array = array_without_graph(cls, name, solution.layout.chunks, solution.layout.meta)
        array.solution = solution
        return array

    @property
    def dask(self) -> HighLevelGraph:
        if (solution := self.__dict__.get("solution")) is not None:
            futures = solution.futures()
            if "graph" not in self.__dict__:
                layer = {key: future for key, future in futures.items() if key[0] == self.name}
                self.dask = HighLevelGraph({self.name: layer}, {self.name: set()})
        return self.__dict__["graph"]

    @dask.setter
    def dask(self, graph: HighLevelGraph) -> None:
        self.__dict__["graph"] = graph


def solution_of(array: Any) -> Solution | None:
    """The solve of a plan's result that no graph has used."""
    return array.solution if isinstance(array, SolvedArray) else None
