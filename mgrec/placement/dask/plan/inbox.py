"""What shares send each other in a solve."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from distributed.protocol.pickle import dumps

from .lines import Abandoned, Line, Lost

if TYPE_CHECKING:
    from .messages import Share
    from .office import Office

Solve = tuple[str, int]
"""The client, and the number of its solve: they only grow."""

# Seconds between two checks that somebody still waits for a solve.
WATCH = 5.0
_FAILED = "failed"


class Inbox:
    """What came for the solves of one worker, by solve and name, until it is taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._found: dict[Solve, dict[Hashable, Any]] = {}
        self._last: dict[str, int] = {}

    def put(self, solve: Solve, name: Hashable, value: Any) -> None:
        """Take something in; not for solves that are over."""
        client, number = solve
        with self._changed:
            if number > self._last.get(client, 0):
                self._found.setdefault(solve, {})[name] = value
                self._changed.notify_all()

    def wake(self) -> None:
        """Let those who wait look whether a line has ended."""
        with self._changed:
            self._changed.notify_all()

    def end(self, solve: Solve) -> None:
        """Forget a solve, and those before it of its client."""
        client, number = solve
        with self._changed:
            self._last[client] = max(number, self._last.get(client, 0))
            for each in [s for s in self._found if s[0] == client and s[1] <= number]:
                del self._found[each]

    def has_ended(self, solve: Solve) -> bool:
        client, number = solve
        return number <= self._last.get(client, 0)

    def has(self, solve: Solve, name: Hashable) -> bool:
        with self._changed:
            return name in self._found.get(solve, {})

    def take(self, solve: Solve, name: Hashable, check: Callable[[bool], None]) -> Any:
        """Wait for something; `check` raises where it will not come.

        It is asked whenever something has changed, and every now and then (True).
        """
        with self._changed:
            is_late = False
            while True:
                own = self._found.get(solve, {})
                if name in own:
                    return own.pop(name)
                if _FAILED in own:
                    raise Abandoned
                check(is_late)
                is_late = not self._changed.wait(WATCH)


class Mail:
    """Messages between the shares of one solve."""

    def __init__(self, office: Office, solve: Solve, share: Share, client: Line | None) -> None:
        self._office, self._solve, self._client = office, solve, client
        self._doors, self._assignment = share.doors, share.assignment
        self._lines: dict[int, Line] = {}

    def open(self) -> None:
        """Connect to those that send something, before anything is computed.

        Raises
        ------
        Lost
            One of them is gone.
        """
        for number in self._assignment.senders:
            self._lines[number] = self._line(number)

    def _line(self, number: int) -> Line:
        return self._office.line_to(self._doors[number])

    def send(self, number: int, name: Hashable, value: Any) -> None:
        """Send something to the share with a number, which looks for it by the name."""
        try:
            self._line(number).write(dumps((self._solve, name, value)))
        except Lost as error:
            raise Lost(self._doors[number].worker) from error

    def has(self, name: Hashable) -> bool:
        """Whether something is there."""
        return self._office.inbox.has(self._solve, name)

    def receive(self, name: Hashable) -> Any:
        """Wait for something.

        Raises
        ------
        Abandoned
            Another share failed, or nobody waits for the solve any more.
        Lost
            A worker whose share sends something is gone.
        """
        return self._office.inbox.take(self._solve, name, self._check)

    def _check(self, is_late: bool) -> None:
        for number, line in self._lines.items():
            if line.is_lost:
                raise Lost(self._doors[number].worker)
        if is_late and self._client is not None and self._client.has_ended():
            raise Abandoned

    def fail(self) -> None:
        """Tell those who wait for this share that it failed."""
        for number in self._assignment.receivers:
            try:
                self.send(number, _FAILED, None)
            except Lost:
                continue
