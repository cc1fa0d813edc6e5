"""What the client of a plan and the shares on its workers tell each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....families.family import AlongAxis, Place, Where
from ....families.grid import Grid
from .grids import GridAssignment
from .lines import Door


@dataclass(frozen=True)
class Peer:
    """Another share, and the chunks whose summaries it waits for."""

    number: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Assignment:
    """What a share computes, and with whom it exchanges summaries.

    Attributes
    ----------
    number : int
        Of the share.
    chunks : tuple of (place, starts)
    count : int
        Chunks along the axis of the recurrence.
    peers : tuple of Peer
        The shares that it sends summaries to.
    senders : tuple of int
        The numbers of the shares that send it summaries.
    """

    number: int
    chunks: tuple[Where, ...]
    count: int
    peers: tuple[Peer, ...]
    senders: tuple[int, ...]

    @property
    def receivers(self) -> tuple[int, ...]:
        return tuple(peer.number for peer in self.peers)


@dataclass(frozen=True)
class Share:
    """What a worker must know of a plan.

    Attributes
    ----------
    assignment : Assignment or GridAssignment
    doors : dict, number -> Door
        Of the workers of all shares.
    keys : dict, place -> keys
        Of the operands.
    """

    assignment: Assignment | GridAssignment
    doors: Mapping[int, Door]
    keys: Mapping[Place, Sequence[Any]]


@dataclass(frozen=True)
class Request:
    """One solve, as the client asks a share for it.

    Attributes
    ----------
    recurrence : AlongAxis or Grid
    initial : dict, row of chunks -> list of arrays
    is_last_asked : bool
        The last chunk of a row is summarised, too.
    plan : str
        Whose operands a worker holds; "" where `share` tells all.
    share : Share, optional
        None for that of the plan.
    keys : dict, place -> keys of operands, optional
        None for those of the share.
    """

    recurrence: AlongAxis | Grid
    initial: Mapping[Place, list[Any]] = field(default_factory=dict)
    is_last_asked: bool = False
    plan: str = ""
    share: Share | None = None
    keys: Mapping[Place, Sequence[Any]] | None = None


def row_of(place: Place, axis: int) -> Place:
    """The row of chunks along the axis."""
    return place[:axis] + place[axis + 1 :]


def name_of(solve: str, number: int) -> str:
    """The name of a result of a solve, one a scalar of the state."""
    return f"{solve}-{number}"
