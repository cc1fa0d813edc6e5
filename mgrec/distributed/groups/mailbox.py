"""Messages between ranks on Dask's workers, by Dask's comms.

Each rank pushes its messages to the other ranks. The receiver requests a message that does not
come, since its connection was reset or the receiver had not started: each rank keeps what others
may still need. A rank that answers such requests is alive, however long it computes. So
computations have no time limit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

from distributed import Worker, WorkerPlugin
from distributed.comm import CommClosedError
from distributed.protocol.pickle import dumps, loads

from ..comms import Calls, Sender, WorkerLostError, picklable

NAME = "mgrec-groups"
# Seconds after which a rank requests a message: the first one of a rank that may not have started,
# and others, which are lost only with a connection. Then twice as long, up to the longest.
FIRST, PATIENCE, LONGEST = 0.01, 0.5, 1.0
# A multiple of the timeout in which all ranks must start: their workers may be busy.
STARTING = 30.0
# How often a rank asks again if a connection ends before the answer: others to the same worker may
# have been reset with it.
ATTEMPTS = 8
# How many groups that have ended a worker can still answer for.
REMEMBERED = 64

Tag = tuple[int, Hashable]
"""The number of a step of the program, and the name of a message in it."""


async def install(dask_worker: Worker) -> None:
    """Install the plugin on a worker that does not have it."""
    if NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(GroupsPlugin(), NAME, catch_errors=False)


class ExchangeRight:
    """Whose groups may exchange messages between GPUs on this worker: those of one owner at a time.

    The kernel of an exchange runs until those of all ranks have started. A kernel whose blocks wait
    for each other starts when there is room for all of them, and may need the whole GPU: not while
    an exchange runs. If two programs were in another order on each GPU, the kernel of either one
    would wait for the exchange of the other one, which waits for its kernel on the other GPU.
    """

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), ""

    def acquire(self, owner: str) -> bool:
        """Return whether the owner has the right, or gets it because it is free."""
        with self._lock:
            self._owner = self._owner or owner
            return self._owner == owner

    def is_of(self, owner: str) -> bool:
        return self._owner == owner

    def release(self, owner: str) -> None:
        """Release the right, if it is the owner's."""
        with self._lock:
            if self._owner == owner:
                self._owner = ""


class GroupsPlugin(WorkerPlugin):  # type: ignore[misc]
    """The ranks on a worker, and the handlers that take messages for them."""

    name = NAME

    def setup(self, worker: Worker) -> None:
        self.worker, self.loop = worker, asyncio.get_running_loop()
        self.calls, self.right = Calls(self.loop), ExchangeRight()
        # In the order of their start. Errors of groups that had not started here come first.
        self.groups: dict[str, Mailbox] = {}
        self.errors: dict[str, bytes] = {}
        self.peers: dict[str, Sender] = {}
        worker.handlers["mgrec_group_put"] = self.put
        worker.handlers["mgrec_group_get"] = self.get
        worker.handlers["mgrec_group_end"] = self.end

    def teardown(self, worker: Worker) -> None:
        for group in self.groups.values():
            group.fail(dumps(WorkerLostError(f"worker {worker.address} has closed")))

    def add(self, name: str, mailbox: Mailbox) -> None:
        """Add a rank, on the event loop; raise the error of a group that has ended."""
        if name in self.errors:
            raise loads(self.errors.pop(name))
        ended = [name for name, group in self.groups.items() if group.has_ended]
        for other in ended[:-REMEMBERED]:
            del self.groups[other]
        self.groups[name] = mailbox

    def put(self, messages: list[Any]) -> None:
        """Take messages (group, sender, number, name, message) for ranks that have started."""
        for group, sender, number, name, message in messages:
            if group in self.groups:
                self.groups[group].take(sender, (number, name), message)

    def get(self, name: str, receiver: int, tag: tuple[int, Any]) -> list[Any]:
        """Return a message to a rank that requests it, or what keeps it from coming.

        In a list, as all that contains arrays: see `send`.
        """
        group = self.groups.get(name)
        if group is None:
            return ["ended", self.errors[name]] if name in self.errors else ["unknown", None]
        return [*group.answer(receiver, tuple(tag))]

    def end(self, name: str, error: bytes, number: int | None = None) -> None:
        """Make a rank of a group raise an error, in one step or in all."""
        if name in self.groups:
            self.groups[name].fail(error, number)
        elif number is None:
            self.errors[name] = error
            for other in [*self.errors][:-REMEMBERED]:
                del self.errors[other]

    def send(self, address: str, *message: Any) -> None:
        """Send a message; its receiver requests one that is lost."""
        if address not in self.peers:
            rpc = self.worker.rpc(address)

            def write(messages: list[Any]) -> Any:
                # Lists: Dask looks for arrays in no tuples.
                return rpc.mgrec_group_put(messages=list(map(list, messages)), reply=False)

            self.peers[address] = Sender(write)
        self.peers[address].send(*message)


class Mailbox:
    """The messages of a rank to and from the others.

    `timeout`: seconds after which a worker that does not answer is lost.
    """

    def __init__(
        self, plugin: GroupsPlugin, name: str, rank: int, addresses: list[str], timeout: float
    ) -> None:
        self.plugin, self.name, self.addresses = plugin, name, addresses
        self.rank, self.timeout, self.has_ended, self._since = rank, timeout, False, time.monotonic()
        self._oldest = 0
        # By None, all steps, or by the number of one.
        self._errors: dict[int | None, bytes] = {}
        # By sender and tag, and by receiver and tag.
        self._arrived: dict[tuple[int, Tag], Any] = {}
        self._kept: dict[int, dict[Tag, Any]] = defaultdict(dict)
        self._heard = set[int]()
        self._changed = threading.Condition()

    @property
    def others(self) -> list[int]:
        return [rank for rank in range(len(self.addresses)) if rank != self.rank]

    def post(self, receiver: int, tag: Tag, message: Any) -> None:
        """Send a message to a rank. Do not write to its arrays afterwards."""
        with self._changed:
            self._kept[receiver][tag] = message
        self.plugin.calls.add(self.plugin.send, self.addresses[receiver], self.name, self.rank, *tag, message)

    def has(self, sender: int, tag: Tag) -> bool:
        """Return whether a message has arrived."""
        with self._changed:
            return (sender, tag) in self._arrived

    def receive(self, sender: int, tag: Tag, released: Callable[[], Any] = nullcontext) -> Any:
        """Wait for a message of a rank, and return it.

        `released`: returns a context manager, in which the rank waits.
        """
        key = sender, tag
        with self._changed:
            if key in self._arrived and not self._error_in(tag[0]):
                return self._arrived.pop(key)
        with released():
            return self._wait_for(sender, tag)

    def forget(self, oldest: int) -> None:
        """Forget the steps before this number, which no rank needs any more."""
        for receiver in self.others:
            self.forget_sent(receiver, oldest)
        self.forget_received(oldest)

    def forget_sent(self, receiver: int, oldest: int) -> None:
        """Forget what a rank was sent in the steps before this number: it has all of it."""
        with self._changed:
            kept = self._kept[receiver]
            _drop(kept, [tag for tag in kept if tag[0] < oldest])

    def forget_received(self, oldest: int) -> None:
        """Forget what came for the steps before this number, and what may still come."""
        with self._changed:
            self._oldest = max(self._oldest, oldest)
            _drop(self._arrived, [key for key in self._arrived if key[1][0] < oldest])
            _drop(self._errors, [k for k in self._errors if k is not None and k < oldest])
            self._changed.notify_all()

    def fail(self, error: bytes, number: int | None = None) -> None:
        """Make the rank raise an error, in one step or in all, unless it has ended."""
        with self._changed:
            self._errors.setdefault(number, error)
            self._changed.notify_all()

    def fail_everywhere(self, error: BaseException, number: int | None = None) -> list[Any]:
        """Make all ranks raise an error, in one step or in all; return the requests.

        A rank that a request does not reach asks for a message, and gets the error then.
        """
        message = _pickled(error, f"raised by rank {self.rank} of the group")
        self.fail(message, number)
        content = {"error": message, "number": number}
        return [self.start_request(rank, "mgrec_group_end", **content) for rank in self.others]

    def close(self) -> None:
        """End the rank: it still answers for its last messages."""
        with self._changed:
            self.has_ended = True
            self._arrived.clear()

    def take(self, sender: int, tag: Tag, message: Any) -> None:
        """Take a message of another rank."""
        with self._changed:
            self._heard.add(sender)
            if tag[0] >= self._oldest and not self.has_ended:
                self._arrived[sender, tag] = message
                self._changed.notify_all()

    def answer(self, receiver: int, tag: Tag) -> tuple[str, Any]:
        """Return the message that another rank requests, or what keeps it from coming."""
        with self._changed:
            if tag in self._kept[receiver]:
                return "message", self._kept[receiver][tag]
            error = self._error_in(tag[0])
            if error is None and not self.has_ended:
                return "waiting", None
            return "ended", error or dumps(RuntimeError("the program has ended"))

    def has_failed(self, number: int) -> bool:
        """Return whether the rank raises an error in a step."""
        with self._changed:
            return self._error_in(number) is not None

    def check(self, number: int) -> None:
        """Raise the error that the rank raises in a step."""
        with self._changed:
            error = self._error_in(number)
        if error is not None:
            raise loads(error)

    def _error_in(self, number: int) -> bytes | None:
        return self._errors.get(None) or self._errors.get(number)

    def _wait_for(self, sender: int, tag: Tag) -> Any:
        key = sender, tag
        patience = PATIENCE if sender in self._heard else FIRST
        while True:
            with self._changed:
                self._changed.wait_for(lambda: key in self._arrived or self._error_in(tag[0]), patience)
                if (error := self._error_in(tag[0])) is not None:
                    raise loads(error)
                if key in self._arrived:
                    return self._arrived.pop(key)
            patience = min(LONGEST, 2 * patience)
            # The rank may start, and its message arrive, before this rank reads the answer.
            has_started = sender in self._heard
            state, content = self._request(sender, tag)
            if state == "message":
                self.take(sender, tag, content)
            elif state == "ended":
                raise loads(content)
            elif state == "unknown":
                self._check_start(sender, has_started)

    def _request(self, rank: int, tag: Tag) -> Any:
        """Return what a rank's worker answers for a message; raise WorkerLostError without that."""
        attempts = 0
        while True:
            attempts += 1
            try:
                request = self.start_request(rank, "mgrec_group_get", receiver=self.rank, tag=tag)
                return request.result(2 * self.timeout)
            except CommClosedError as error:
                if attempts == ATTEMPTS:
                    raise self._lost(rank, f"closes its connections: {error}") from error
            except OSError as error:  # A timeout is one.
                raise self._lost(rank, f"does not answer within {self.timeout:g} s") from error

    def start_request(self, rank: int, op: str, **message: Any) -> Any:
        """Return the future answer of a rank's worker, which raises OSError without one."""

        async def request() -> Any:
            async with asyncio.timeout(self.timeout):
                rpc = self.plugin.worker.rpc(self.addresses[rank])
                return await getattr(rpc, op)(name=self.name, **message)

        return asyncio.run_coroutine_threadsafe(request(), self.plugin.loop)

    def _check_start(self, sender: int, has_started: bool) -> None:
        """Raise if a rank that its worker does not know has started, or is late to start."""
        limit = STARTING * self.timeout
        if has_started:
            raise self._lost(sender, "has left the group")
        if time.monotonic() - self._since > limit:
            raise self._lost(sender, f"has not started within {limit:g} s")

    def _lost(self, rank: int, why: str) -> WorkerLostError:
        return WorkerLostError.of(self.addresses[rank], f"it {why}")


def _drop(entries: dict[Any, Any], keys: list[Any]) -> None:
    for key in keys:
        del entries[key]


def _pickled(error: BaseException, note: str) -> bytes:
    """Return an error for other ranks."""
    copy = loads(dumps(picklable(error)))
    if note not in getattr(copy, "__notes__", ()):
        copy.add_note(note)
    return dumps(copy)
