"""Results of a solve: Dask arrays whose blocks workers hold, or will hold."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from typing import Any

import dask.array.core as da
from dask.array.utils import meta_from_array
from dask.highlevelgraph import HighLevelGraph
from distributed import Future

from .internals import fail, future_of, register
from .messages import PeerLost
from .session import Ask, Session

# Seconds after a solve until the scheduler hears of results that the client still refers to.
# Results that their own plan alone uses until then, as in time stepping, cost it nothing.
REGISTERING = 0.25


class WorkerLostError(RuntimeError):
    """A worker of a plan is lost, with the operands and results in its memory.

    Every later call of the plan raises it again: build a new plan.
    """

    @classmethod
    def of(cls, address: Any) -> WorkerLostError:
        return cls(
            f"the plan lost its worker {address}, with the operands and results in its memory. "
            f"Build the plan anew with mgrec.plan, from operands that are still in memory or can "
            f"be computed again"
        )


class Solution:
    """The results of one solve, which the workers free when the client no longer refers to them.

    The message that frees them goes before those of later solves, on the same comm. Results that
    were used outside of the plan may be needed by tasks: Dask frees these.

    Parameters
    ----------
    sizes : dict, address -> key -> bytes
    """

    def __init__(
        self, session: Session, name: str, ask: Ask, sizes: Mapping[str, Mapping[Any, int]]
    ) -> None:
        self.session, self.name, self.ask, self.sizes = session, name, ask, sizes
        self._streams = {address: session.streams.get(address) for address in sizes}
        self._futures: dict[Any, Future] = {}
        self._registered: asyncio.Task[None] | None = None
        self._use = {"outside": False}
        arguments = session, name, [*sizes], self._use
        weakref.finalize(self, session.call, _free, *arguments).atexit = False
        reference = weakref.ref(self)
        ask.done.add_done_callback(lambda done: session.call(_register_later, done, reference))

    def wait(self) -> dict[str, Any]:
        """Wait for the solve; return what the shards answer besides their results.

        Raises
        ------
        WorkerLostError
        Exception
            What a chunk raised.
        """
        try:
            return self.session.wait(self.ask)
        except PeerLost as error:
            raise WorkerLostError.of(error.args[0]) from error

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
            keys = [key for sizes in self.sizes.values() for key in sizes]
            self._futures = {key: future_of(self.session.client, key) for key in keys}

    async def _settle(self) -> None:
        """Finish the futures with the solve, or let them fail."""
        try:
            await asyncio.wrap_future(self.ask.done)
            await self.register()
        except Exception as error:
            is_lost = isinstance(error, PeerLost)
            fail(self._futures.values(), WorkerLostError.of(error.args[0]) if is_lost else error)

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
        for address, stream in self._streams.items():
            if session.streams.get(address) is not stream:
                raise WorkerLostError.of(address)
        who_has = {key: address for address, sizes in self.sizes.items() for key in sizes}
        nbytes = {key: size for sizes in self.sizes.values() for key, size in sizes.items()}
        self._create_futures()
        ask = Ask(self.sizes, self.ask.timeout, self.ask.limit)
        session.send(ask, "register", self.name, dict.fromkeys(self.sizes, b""))
        try:
            await asyncio.wrap_future(ask.done)
        except PeerLost as error:
            raise WorkerLostError.of(error.args[0]) from error
        lost = await register(client, who_has, nbytes)
        if lost:
            raise WorkerLostError.of(lost[0])


def _free(session: Session, name: str, addresses: list[str], use: dict[str, bool]) -> None:
    session.tell(addresses, "free", name, use["outside"])


def _register_later(done: Any, reference: weakref.ref[Solution]) -> None:
    if done.exception() is None:
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
    def of(cls, solution: Solution, name: str, chunks: Any, meta: Any) -> da.Array:
        array = cls(HighLevelGraph({name: {}}, {name: set()}), name, chunks, meta=meta)
        array.solution = solution
        return array

    @property
    def dask(self) -> HighLevelGraph:
        if (solution := self.__dict__.get("solution")) is not None:
            futures = solution.futures()
            if not self.__dict__["graph"].layers[self.name]:
                layer = {key: future for key, future in futures.items() if key[0] == self.name}
                self.dask = HighLevelGraph({self.name: layer}, {self.name: set()})
        return self.__dict__["graph"]

    @dask.setter
    def dask(self, graph: HighLevelGraph) -> None:
        self.__dict__["graph"] = graph


def array_of(solution: Solution, name: str, chunks: Any, like: Any, dtype: Any) -> da.Array:
    """An array of a solve's results, of the type of another."""
    meta = meta_from_array(like, ndim=len(chunks), dtype=dtype)
    return SolvedArray.of(solution, name, chunks, meta)


def solution_of(array: Any) -> Solution | None:
    """The solve of a plan's result that no graph has used."""
    return array.solution if isinstance(array, SolvedArray) else None
