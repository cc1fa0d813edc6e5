"""Messages between the client of a plan and the shares on its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed.protocol import to_serialize

from ....families.family import AlongAxis, Place, Where


@dataclass(frozen=True)
class Peer:
    """Another share, and the chunks whose summaries it waits for."""

    address: str
    key: str
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


@dataclass(frozen=True)
class Request:
    """One solve, as the client asks a share for it.

    Attributes
    ----------
    number : int
        Of the solve.
    recurrence : AlongAxis
    initial : dict, row of chunks -> list of arrays
    names : tuple of str
        Of the results, one a scalar of the state.
    is_last_asked : bool
        The last chunk of a row is summarised, too.
    keys : dict, place -> keys of operands, optional
        None for the operands of the plan.
    """

    number: int
    recurrence: AlongAxis
    initial: Mapping[Place, list[Any]]
    names: tuple[str, ...]
    is_last_asked: bool
    keys: Mapping[Place, Sequence[Any]] | None = None


class Lost(Exception):
    """The worker at an address cannot be reached, or was replaced."""


class Abandoned(Exception):
    """Another share failed."""


def row_of(place: Place, axis: int) -> Place:
    """The row of chunks along the axis."""
    return place[:axis] + place[axis + 1 :]


async def call(rpc: Any, key: str, function: str, *arguments: Any) -> Any:
    """Call a coroutine of an actor, directly on its worker.

    Raises
    ------
    Lost
        The worker cannot be reached, or has no such actor.
    """
    given = [to_serialize(argument) for argument in arguments]
    try:
        answer = await rpc.actor_execute(function=function, actor=key, args=given, kwargs={})
    except (OSError, KeyError) as error:
        raise Lost from error
    if answer["status"] == "OK":
        return answer["result"]
    raise answer["exception"]
