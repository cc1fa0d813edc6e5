"""What a program knows of the other processes: its rank, their number, and two exchanges."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

FRAME = 1024
"""Bytes that each rank sends in the first exchange of messages: most summaries are shorter, and
need no second exchange."""
DEVICE_FRAME = 20 << 10
"""The same between GPUs, where it has the summaries of some hundred rows."""
_LENGTH = struct.Struct("<q")
GUESS = -1
"""The first number of a message in the memory of a GPU, in place of its length."""


class Group(ABC):
    """Processes that call the same functions in the same order, each with its part of the arrays.

    Attributes
    ----------
    rank : int
        Position of this process, from 0.
    size : int
        Number of processes.
    frame : int
        Bytes that each rank sends in the first exchange of messages.
    is_asynchronous : bool
        Whether `all_gather` of CuPy arrays is queued on the current stream, without a wait of the
        host. Such a group has a method ``wait_for(event)``, which raises an error in place of
        waiting for ranks that are lost.
    """

    rank: int
    size: int
    frame = FRAME
    is_asynchronous = False

    @cached_property
    def prepared(self) -> dict[Any, Any]:
        """Prepared calls on this group, by their signatures."""
        return {}

    @abstractmethod
    def all_gather(self, array: Any) -> Any:
        """Return the arrays of all ranks, stacked along a new first axis.

        The arrays have the same shape and dtype on all ranks.
        """

    def all_gather_into(self, received: Any, sent: Any) -> None:
        """Write the arrays of all ranks to an array."""
        received[...] = self.all_gather(sent)

    @abstractmethod
    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        """Send arrays to the neighbours; return those that the left and the right one sent.

        The first rank has no left neighbour, and the last no right one: that array is None. The
        arrays have the same shape and dtype on all ranks.
        """

    @abstractmethod
    def abort(self) -> None:
        """End the group, so that ranks that wait for this one raise an error."""

    def wait_for(self, event: Any) -> None:
        """Wait for an event of CuPy."""
        event.synchronize()

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        """Return the messages of all ranks, in their order."""
        framed = _LENGTH.pack(len(message)) + message
        lengths = [GUESS]
        # A rank with a guess sees that others have messages, and then sends one, too.
        while GUESS in lengths:
            rows = self._all_gather_padded(framed, self.frame)
            lengths = [_LENGTH.unpack_from(row)[0] for row in rows]
        longest = _LENGTH.size + max(lengths)
        if longest > self.frame:
            rows = self._all_gather_padded(framed, longest)
        return [row[_LENGTH.size :][: _LENGTH.unpack_from(row)[0]] for row in rows]

    def _all_gather_padded(self, message: bytes, size: int) -> list[bytes]:
        row = np.frombuffer(message[:size].ljust(size, b"\0"), np.uint8)
        return [bytes(row) for row in self.all_gather(row)]
