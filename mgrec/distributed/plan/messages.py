"""What a plan's clients and workers send each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from ...core.arrays.elements import Part
from ...core.contract.grid import Grid
from ...core.contract.recurrence import AlongAxis, ChunkIndex, Overlapping
from ..groups.mailbox import Mailbox
from ..programs.bands import BandShard
from ..programs.chains import ChainShard
from ..programs.grids import GridShard
from ..programs.halos import FilterShard

Shard = ChainShard | GridShard | BandShard | FilterShard


@dataclass(frozen=True)
class Request:
    """The arguments of a solve of a shard, except for its operands.

    Attributes
    ----------
    recurrence : AlongAxis, Overlapping or Grid
    initial : dict, row of chunks -> list of arrays
    needs_last_summary : bool
        Whether the last chunk of a row is summarised, too.
    parts : tuple of Part
        What becomes of each result along an axis; empty for the result itself.
    """

    recurrence: AlongAxis | Overlapping | Grid
    initial: Mapping[ChunkIndex, list[Any]] = field(default_factory=dict)
    needs_last_summary: bool = False
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class PlanShard:
    """What a worker stores of a plan.

    Attributes
    ----------
    shard : Shard
    addresses : list of str
        The workers of all shards, by their numbers.
    keys : dict, chunk index -> keys of the operands
    request : Request
        For solves that come without one.
    timeout : float
        Seconds after which a worker that does not answer is lost.
    """

    shard: Shard
    addresses: list[str]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    request: Request
    timeout: float


class PlanExchange:
    """The messages of one shard in one solve of a plan.

    A message is a pickle, and arrays that are sent without a copy. While a program waits for a
    message, or for its device, programs of other solves run.
    """

    def __init__(
        self, mailbox: Mailbox, number: int, released: Callable[[], Any], is_asynchronous: bool
    ) -> None:
        self._mailbox, self._number, self._released = mailbox, number, released
        self._is_asynchronous = is_asynchronous

    def send(
        self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()
    ) -> None:
        message = [dumps(content), *map(to_serialize, arrays)]
        self._mailbox.post(receiver, (self._number, name), message)

    def flush(self) -> None:
        pass

    def has(self, sender: int, name: Hashable) -> bool:
        return self._mailbox.has(sender, (self._number, name))

    def take(self, sender: int, name: Hashable) -> tuple[Any, list[np.ndarray]]:
        content, *arrays = self._mailbox.receive(sender, (self._number, name), self._released)
        return loads(content), arrays

    def wait(self, wait: Callable[[], Any]) -> Any:
        if not self._is_asynchronous:
            return wait()
        with self._released():
            return wait()

    def has_failed(self) -> bool:
        """Return whether another shard has failed, or the client has abandoned the solve."""
        return self._mailbox.has_failed(self._number)


def result_name(solve: str, number: int) -> str:
    """Return the name of a result of a solve, one for each scalar of the state."""
    return f"{solve}-{number}"
