"""Messages between the client of plans and the shards on its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.contract.grid import Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex, ChunkPosition
from .grids import GridShard


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


class Abandoned(Exception):
    """The client has given a solve up: another shard failed, or its worker is lost."""


@dataclass(frozen=True)
class ChainShard:
    """Chunks along an axis that one worker solves, and with which shards it exchanges summaries.

    Attributes
    ----------
    number : int
        Of the shard.
    chunks : tuple of (place, starts)
    count : int
        Chunks along the axis of the recurrence.
    receivers : dict, number -> places
        The shards that need summaries of this one, and of which chunks.
    senders : tuple of int
        The shards whose summaries this one needs.
    """

    number: int
    chunks: tuple[ChunkPosition, ...]
    count: int
    receivers: Mapping[int, tuple[ChunkIndex, ...]]
    senders: tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """What the solves of a shard have in common, but for their operands.

    Attributes
    ----------
    recurrence : AlongAxis or Grid
    initial : dict, row of chunks -> list of arrays
    needs_last : bool
        The last chunk of a row is summarised, too.
    """

    recurrence: AlongAxis | Grid
    initial: Mapping[ChunkIndex, list[Any]] = field(default_factory=dict)
    needs_last: bool = False


@dataclass(frozen=True)
class PlanShard:
    """What a worker keeps of a plan.

    Attributes
    ----------
    shard : ChainShard or GridShard
    addresses : dict, number -> address
        Of the workers of all shards.
    keys : dict, place -> keys
        Of the operands.
    request : Request
        Of the solves that come without one of their own.
    in_flight : int
        How many solves may be in progress at once.
    """

    shard: ChainShard | GridShard
    addresses: Mapping[int, str]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    request: Request
    in_flight: int


def row_of(chunk_index: ChunkIndex, axis: int) -> ChunkIndex:
    """The row of chunks along the axis."""
    return chunk_index[:axis] + chunk_index[axis + 1 :]


def name_of(solve: str, number: int) -> str:
    """The name of a result of a solve, one a scalar of the state."""
    return f"{solve}-{number}"
