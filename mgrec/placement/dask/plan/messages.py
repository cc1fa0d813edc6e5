"""Messages between the client of plans and the shards on its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....families.family import AlongAxis, Place, Where
from ....families.grid import Grid
from .grids import GridShard


class PeerLost(Exception):
    """A worker cannot be reached, or is gone; the argument is its address."""


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
    chunks: tuple[Where, ...]
    count: int
    receivers: Mapping[int, tuple[Place, ...]]
    senders: tuple[int, ...]


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
    """

    shard: ChainShard | GridShard
    addresses: Mapping[int, str]
    keys: Mapping[Place, Sequence[Any]]


@dataclass(frozen=True)
class Request:
    """One solve of a shard.

    Attributes
    ----------
    plan : str
        The name by which the worker keeps the plan's shard.
    recurrence : AlongAxis or Grid
    initial : dict, row of chunks -> list of arrays
    needs_last : bool
        The last chunk of a row is summarised, too.
    keys : dict, place -> keys of operands, optional
        None for those of the plan.
    """

    plan: str
    recurrence: AlongAxis | Grid
    initial: Mapping[Place, list[Any]] = field(default_factory=dict)
    needs_last: bool = False
    keys: Mapping[Place, Sequence[Any]] | None = None


def row_of(place: Place, axis: int) -> Place:
    """The row of chunks along the axis."""
    return place[:axis] + place[axis + 1 :]


def name_of(solve: str, number: int) -> str:
    """The name of a result of a solve, one a scalar of the state."""
    return f"{solve}-{number}"
