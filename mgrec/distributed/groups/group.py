"""What a program knows of the other processes: its rank, their number, and two exchanges."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

FRAME = 1024
"""Bytes that each rank sends in the first exchange of messages: most summaries are shorter, and
need no second exchange."""
_LENGTH = struct.Struct("<q")


class Group(ABC):
    """Processes that call the same functions in the same order, each with its part of the arrays.

    Attributes
    ----------
    rank : int
        Position of this process, from 0.
    size : int
        Number of processes.
    """

    rank: int
    size: int

    @abstractmethod
    def all_gather(self, array: Any) -> Any:
        """Return the arrays of all ranks, stacked along a new first axis.

        The arrays have the same shape and dtype on all ranks.
        """

    @abstractmethod
    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        """Send arrays to the neighbours; return those that the left and the right one sent.

        The first rank has no left neighbour, and the last no right one: that array is None. The
        arrays have the same shape and dtype on all ranks.
        """

    @abstractmethod
    def abort(self) -> None:
        """End the group, so that ranks that wait for this one raise an error."""

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        """Return the messages of all ranks, in their order."""
        framed = _LENGTH.pack(len(message)) + message
        rows = self._all_gather_padded(framed, FRAME)
        longest = _LENGTH.size + max(_LENGTH.unpack_from(row)[0] for row in rows)
        if longest > FRAME:
            rows = self._all_gather_padded(framed, longest)
        return [row[_LENGTH.size :][: _LENGTH.unpack_from(row)[0]] for row in rows]

    def _all_gather_padded(self, message: bytes, size: int) -> list[bytes]:
        row = np.frombuffer(message[:size].ljust(size, b"\0"), np.uint8)
        return [bytes(row) for row in self.all_gather(row)]
