"""The client's lines to the offices of its workers."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

from distributed import Client
from distributed.protocol.pickle import dumps, loads

from .lines import Door, Line, Lost, ready
from .office import answer, open_office

# Seconds between two checks that workers without a word are still there.
WATCH = 1.0
# Seconds between two looks whether the client is closed.
CLOSING = 0.5
# Seconds that others are waited for when a worker is lost: they hear of it themselves.
GRACE = 10.0

Errors = dict[str, BaseException]

_posts: weakref.WeakKeyDictionary[Client, Post] = weakref.WeakKeyDictionary()
_finding = threading.Lock()


def post_of(client: Client) -> Post:
    """The post of a client: it lives as long as the client does."""
    with _finding:
        post = _posts.get(client)
        if post is None:
            post = _posts[client] = Post()
            threading.Thread(
                target=_close_with, args=(weakref.ref(client), post), daemon=True
            ).start()
        return post


def _close_with(client: Callable[[], Client | None], post: Post) -> None:
    """Close the lines of a client when it is closed: workers release what they hold for it."""
    while (own := client()) is not None and own.status != "closed":
        del own
        time.sleep(CLOSING)
    post.close()


class Post:
    """Lines to workers, by their addresses; one solve at a time.

    One after the other, since workers solve in the order in which they are asked: two solves
    asked for in different orders would wait for each other.
    """

    def __init__(self) -> None:
        self.client = uuid4().hex
        self._numbers = count(1)
        self._lines: dict[str, Line] = {}
        self._doors: dict[str, Door] = {}
        self._is_direct = True
        self._solving = threading.Lock()
        self._forgotten: deque[tuple[str, list[str]]] = deque()

    def reach(self, client: Client, addresses: Iterable[str]) -> dict[str, Door]:
        """The doors of workers, with lines there where the network allows them.

        Raises
        ------
        Lost
            A worker is gone.
        """
        addresses = list(addresses)
        with self._solving:
            gone = [a for a in addresses if a not in self._lines or self._lines[a].has_ended()]
            missing = [a for a in gone if self._is_direct or a not in self._doors]
            found = client.run(open_office, workers=missing, on_error="return") if missing else {}
            for address in missing:
                door = found.get(address, Lost(address))
                if not isinstance(door, Door):
                    raise Lost(address) if isinstance(door, OSError) else door
                self._doors[address] = door
            for address in missing if self._is_direct else []:
                self._connect(client, self._doors[address])
        return {address: self._doors[address] for address in addresses}

    def _connect(self, client: Client, door: Door) -> None:
        context = client.security.get_connection_args("client")["ssl_context"]
        try:
            line = Line.to(door, context)
            line.write(dumps((True, self.client)))
        except Lost:
            if door.worker not in client.nthreads(workers=[door.worker]):
                raise Lost(door.worker) from None
            self._is_direct = False
        else:
            self._lines[door.worker] = line

    @property
    def is_direct(self) -> bool:
        """Whether there are lines, and workers may hold something for a client."""
        return self._is_direct

    def lost(self, addresses: Iterable[str]) -> Errors:
        """The workers among these whose line has ended."""
        own = {address: self._lines.get(address) for address in addresses}
        return {a: Lost(a) for a, line in own.items() if line is not None and line.has_ended()}

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    def forget(self, plan: str, addresses: list[str]) -> None:
        """Let workers release what they hold for a plan, now or after the solve that runs."""
        self._forgotten.append((plan, addresses))
        if self._solving.acquire(blocking=False):
            self._release()

    def _release(self) -> None:
        """End a solve: others may begin."""
        while self._forgotten:
            plan, addresses = self._forgotten.popleft()
            for address in addresses:
                with suppress(Lost, KeyError):
                    self._lines[address].write(dumps((0, plan, None)))
        self._solving.release()

    def ask(
        self,
        client: Client,
        name: str,
        messages: Mapping[str, bytes],
        meanwhile: Callable[[], Any] = lambda: None,
        held: list[Any] | None = None,
    ) -> tuple[dict[str, Any], Errors]:
        """Ask the shares of several workers, and wait for all of them.

        Parameters
        ----------
        client : distributed.Client
        name : str
            Of the solve's results, or of a plan.
        messages : dict, address -> bytes
        meanwhile : callable
            Called while they work.
        held : list, optional
            What is in it is not let go of before all have answered, whatever is raised here.

        Returns
        -------
        answers, errors : dict
            By address.
        """
        self._solving.acquire()
        call = _Call(self, client, name, next(self._numbers), messages)
        try:
            call.begin()
            meanwhile()
            call.wait()
        except BaseException:
            # Results that are stored when nobody holds them would stay for good.
            threading.Thread(
                target=self._drain, args=(call, [] if held is None else held), daemon=True
            ).start()
            raise
        self._release()
        return call.answers, call.errors

    def _drain(self, call: _Call, held: list[Any]) -> None:
        try:
            call.wait()
        finally:
            held.clear()
            self._release()


class _Call:
    """One solve of a post."""

    def __init__(
        self, post: Post, client: Client, name: str, number: int, messages: Mapping[str, bytes]
    ) -> None:
        self.post, self.client, self.name = post, client, name
        self.number, self.messages = number, messages
        self.answers: dict[str, Any] = {}
        self.errors: Errors = {}
        self.waiting: dict[Line, str] = {}

    def begin(self) -> None:
        """Ask, where there are lines to ask on."""
        for address, message in self.messages.items() if self.post.is_direct else ():
            line = self.post._lines.get(address)
            try:
                if line is None or line.is_lost:
                    raise Lost
                line.write(dumps((self.number, self.name, message)))
                self.waiting[line] = address
            except Lost:
                self.errors[address] = Lost(address)

    def wait(self) -> None:
        """Wait until all have answered."""
        if not self.post.is_direct:
            self._ask_scheduler()
            return
        checked, deadline = time.monotonic(), float("inf")
        while self.waiting:
            found = ready(self.waiting, WATCH)
            for line in found:
                self._take(line)
            now = time.monotonic()
            if not found or now - checked > WATCH:
                self._check()
                checked = now
            if any(isinstance(error, Lost) for error in self.errors.values()):
                deadline = min(deadline, now + GRACE)
            if now > deadline:
                for line in self.waiting:
                    line.close()

    def _take(self, line: Line) -> None:
        """Take an answer, or the end of a line."""
        address = self.waiting[line]
        try:
            number, answer = loads(line.read())
        except Lost:
            self.errors[address] = Lost(address)
        else:
            if number != self.number:
                return
            self._put(address, answer)
        del self.waiting[line]

    def _put(self, address: str, answer: bytes) -> None:
        try:
            is_solved, found = loads(answer)
        except Exception as error:
            is_solved, found = False, error
        (self.answers if is_solved else self.errors)[address] = found

    def _check(self) -> None:
        """Close lines to workers that the scheduler does not know any more."""
        is_running = self.client.status == "running"
        there = self.client.nthreads(workers=list(self.waiting.values())) if is_running else {}
        for line, address in self.waiting.items():
            if address not in there:
                line.close()

    def _ask_scheduler(self) -> None:
        """Ask by way of the scheduler, which asks all workers at once."""
        given = (self.post.client, self.number), self.name, dict(self.messages)
        found = self.client.run(answer, *given, workers=list(self.messages), on_error="return")
        for address in self.messages:
            answered = found.get(address, Lost(address))
            if isinstance(answered, bytes):
                self._put(address, answered)
            elif isinstance(answered, OSError):
                self.errors[address] = Lost(address)
            else:
                self.errors[address] = answered
