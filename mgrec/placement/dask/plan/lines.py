"""Lines: sockets between the client of plans and its workers, and from worker to worker.

A message is one frame. Dask's own comms take 0.3 ms there and back on a quiet machine, and some
milliseconds where the event loops of both ends are busy; a thread that waits at a socket, 0.05.
"""

from __future__ import annotations

import hmac
import selectors
import socket
import ssl
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

# Seconds to connect.
REACH = 5.0
TOKEN = 32
_LENGTH = struct.Struct("<Q")
# Frames up to this size are copied behind their length, to be one packet.
_SMALL = 1 << 16


class Lost(Exception):
    """Who is at the other end of a line cannot be reached, or is gone."""


class Abandoned(Exception):
    """Another share failed, or nobody waits for this one any more."""


@dataclass(frozen=True)
class Door:
    """Where a worker answers, and what to say there.

    Attributes
    ----------
    worker : str
        Its address in the cluster.
    place : (str, int)
        Host and port.
    token : bytes
        The first bytes of every line: nothing is read of one that begins otherwise.
    is_encrypted : bool
        Lines are encrypted, by the certificates of the cluster.
    """

    worker: str
    place: tuple[str, int]
    token: bytes
    is_encrypted: bool = False


class Line:
    """One socket; frames of bytes in both directions. Several threads may write."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()
        self.is_lost = False
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @classmethod
    def to(cls, door: Door, context: ssl.SSLContext | None) -> Line:
        """Connect to a worker."""
        try:
            connection = socket.create_connection(door.place, timeout=REACH)
            if door.is_encrypted:
                assert context is not None
                connection = context.wrap_socket(connection, server_hostname=door.place[0])
            connection.sendall(door.token)
        except OSError as error:
            raise Lost(door.worker) from error
        return cls(connection)

    @classmethod
    def answer(
        cls, connection: socket.socket, token: bytes, context: ssl.SSLContext | None
    ) -> Line:
        """Take a connection that somebody made, if it says the right words."""
        try:
            connection.settimeout(REACH)
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            if not hmac.compare_digest(_read(connection, len(token)), token):
                raise Lost
        except (OSError, Lost) as error:
            connection.close()
            raise Lost from error
        return cls(connection)

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        return self._connection.fileno()

    def write(self, frame: bytes) -> None:
        """Send a frame; waits where the other end does not read."""
        head = _LENGTH.pack(len(frame))
        try:
            with self._writing:
                if len(frame) <= _SMALL:
                    self._connection.sendall(head + frame)
                else:
                    self._connection.sendall(head)
                    self._connection.sendall(frame)
        except OSError as error:
            self.close()
            raise Lost from error

    def read(self) -> bytearray:
        """The next frame; one thread at a time."""
        try:
            (size,) = _LENGTH.unpack(_read(self._connection, _LENGTH.size))
            return _read(self._connection, size)
        except (OSError, Lost) as error:
            self.close()
            raise Lost from error

    def has_ended(self) -> bool:
        """Whether the other end is known to be gone; asked by who reads, between two frames."""
        if not self.is_lost and ready([self], 0):
            try:
                # As it comes, also where it is encrypted.
                self.is_lost = not socket.socket.recv(self._connection, 1, socket.MSG_PEEK)
            except OSError:
                self.is_lost = True
        return self.is_lost

    def close(self) -> None:
        """Close it, and wake up who reads."""
        self.is_lost = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._connection.close()


def ready(lines: Iterable[Line], seconds: float) -> list[Line]:
    """Lines that have something to read, or have ended; waits for the first of them."""
    own = list(lines)
    ended = [line for line in own if line.is_lost]
    own = [line for line in own if not line.is_lost]
    waiting = [line for line in own if _pending(line)]
    if ended or waiting:
        return ended + waiting
    with selectors.DefaultSelector() as selector:
        for line in own:
            selector.register(line, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]  # type: ignore[misc]


def _pending(line: Line) -> bool:
    connection = line._connection
    return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0


def _read(connection: socket.socket, size: int) -> bytearray:
    found, at = bytearray(size), 0
    view = memoryview(found)
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            raise Lost
        at += count
    return found
