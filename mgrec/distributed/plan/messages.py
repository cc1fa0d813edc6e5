"""Messages of plans: what a client sends to a shard, and shards send to each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from distributed.protocol.pickle import dumps, loads

from ...core.contract.grid import Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex
from .assignment import ChainShard, GridShard

Result = TypeVar("Result")
Program = Generator[Collection[Hashable], None, Result]
"""Yields names of messages; the worker resumes it when all of them have arrived."""
Post = Callable[[str, Hashable, bytes], None]
"""``(address, name, message)``: sends a message to a worker; on any thread."""


class WorkerLostError(RuntimeError):
    """A worker of a plan is lost, with the operands and results in its memory.

    Every later call of the plan raises it again: build a new plan.
    """

    @classmethod
    def of(cls, address: Any) -> WorkerLostError:
        return cls(
            f"the plan lost its worker {address}, with the operands and results in its memory. "
            f"Build a new plan with mgrec.plan, from operands that are still in memory or can "
            f"be computed again"
        )


class Abandoned(Exception):
    """The client abandons a solve: another shard failed, or its worker is lost."""


@dataclass(frozen=True)
class Request:
    """The arguments of a solve of a shard, except for its operands.

    Attributes
    ----------
    recurrence : AlongAxis or Grid
    initial : dict, row of chunks -> list of arrays
    needs_last_summary : bool
        Whether the last chunk of a row is summarised, too.
    """

    recurrence: AlongAxis | Grid
    initial: Mapping[ChunkIndex, list[Any]] = field(default_factory=dict)
    needs_last_summary: bool = False


@dataclass(frozen=True)
class PlanShard:
    """What a worker stores of a plan.

    Attributes
    ----------
    shard : ChainShard or GridShard
    addresses : dict, number of a shard -> address of its worker
    keys : dict, chunk index -> keys of the operands
    request : Request
        For solves that come without one.
    in_flight : int
        How many solves may be in progress at once.
    """

    shard: ChainShard | GridShard
    addresses: Mapping[int, str]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    request: Request
    in_flight: int


class Exchange:
    """The messages of one shard in one solve, from worker to worker by Dask's comms.

    A shard is the part of a solve that one worker computes. Its program is a generator
    (``shards.py``, ``tiles.py``), which a worker steps on a thread. No thread waits: a program
    that needs messages yields their names, and the worker resumes it when they have arrived. The
    worker puts messages into `arrived`, by their names.

    Along an axis a program calls `publish` once, with the summaries of all its chunks, and
    `collect` once for those of other shards. Over a grid it calls `send` and `receive` for the
    edges of single tiles.
    """

    def __init__(self, addresses: Mapping[int, str], post: Post) -> None:
        self._addresses, self._post = addresses, post
        self.arrived: dict[Hashable, bytes] = {}

    def publish(self, shard: ChainShard, summaries: Mapping[ChunkIndex, Any]) -> None:
        """Send the summaries of a shard's chunks to the shards that need them."""
        for receiver, chunk_indices in shard.receivers.items():
            self.send(receiver, shard.number, {index: summaries[index] for index in chunk_indices})

    def collect(self, shard: ChainShard) -> Program[dict[ChunkIndex, Any]]:
        """Return the summaries of other shards that a shard needs, by their chunks."""
        summaries: dict[ChunkIndex, Any] = {}
        if shard.senders:
            yield shard.senders
        for sender in shard.senders:
            summaries |= loads(self.arrived.pop(sender))
        return summaries

    def send(self, receiver: int, name: Hashable, content: Any) -> None:
        """Send a message to the shard with a number."""
        self._post(self._addresses[receiver], name, dumps(content))

    def has(self, name: Hashable) -> bool:
        """Return whether a message has arrived."""
        return name in self.arrived

    def receive(self, name: Hashable) -> Program[Any]:
        """Return the content of a message, once."""
        if name not in self.arrived:
            yield (name,)
        return loads(self.arrived.pop(name))


def result_name(solve: str, number: int) -> str:
    """Return the name of a result of a solve, one for each scalar of the state."""
    return f"{solve}-{number}"
