"""The group of workers that :func:`mgrec.dask.run` starts: messages by Dask's comms.

Each rank is a task of Dask on a thread of its own. It pushes its messages to the other ranks.
The receiver requests a message that does not come, since its connection was reset or the receiver
had not started: each rank keeps what others may still need. A rank that answers such requests is
alive, however long it computes. So computations have no time limit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from distributed import Worker, WorkerPlugin
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from ...core.backends import backend_of
from ..plan.internals import free
from ..plan.messages import Calls, Sender, WorkerLostError
from .group import Group

NAME = "mgrec-groups"
# Seconds after which a rank requests a message: the first one of a rank that may not have started,
# and others, which are lost only with a connection. Then twice as long, up to the longest.
FIRST, PATIENCE, LONGEST = 0.01, 0.5, 1.0
# A multiple of the timeout in which all ranks must start: their workers may be busy.
STARTING = 30.0
RETURN = "nothing, since its function has returned"
# How many groups that have ended a worker can still answer for.
REMEMBERED = 64


async def install(dask_worker: Worker) -> None:
    """Install the plugin on a worker that does not have it."""
    if NAME not in dask_worker.plugins:
        await dask_worker.plugin_add(GroupsPlugin(), NAME, catch_errors=False)


def end_group(name: str, dask_worker: Worker) -> None:
    """End a group whose client no longer waits for it, and free its results."""
    error = RuntimeError("the client of the group no longer waits for it")
    dask_worker.plugins[NAME].end(name, dumps(error))
    results = [key for key in dask_worker.data if isinstance(key, tuple) and name in str(key[0])]
    free(dask_worker, results)


class GroupsPlugin(WorkerPlugin):  # type: ignore[misc]
    """The ranks on a worker, and the handlers that take messages for them."""

    name = NAME

    def setup(self, worker: Worker) -> None:
        self.worker, self.loop = worker, asyncio.get_running_loop()
        self.calls = Calls(self.loop)
        # In the order of their start. Errors of groups that had not started here come first.
        self.groups: dict[str, DaskGroup] = {}
        self.errors: dict[str, bytes] = {}
        self.peers: dict[str, Sender] = {}
        worker.handlers["mgrec_group_put"] = self.put
        worker.handlers["mgrec_group_get"] = self.get
        worker.handlers["mgrec_group_end"] = self.end

    def teardown(self, worker: Worker) -> None:
        for group in self.groups.values():
            group.fail(dumps(WorkerLostError(f"worker {worker.address} has closed")))

    def start(self, name: str, rank: int, addresses: list[str], timeout: float) -> DaskGroup:
        """Return the group of a rank that starts here; raise the error of one that has ended."""
        return asyncio.run_coroutine_threadsafe(
            self._start(name, rank, addresses, timeout), self.loop
        ).result()

    async def _start(self, *arguments: Any) -> DaskGroup:
        name = arguments[0]
        if name in self.errors:
            raise loads(self.errors.pop(name))
        ended = [name for name, group in self.groups.items() if group.has_ended]
        for other in ended[:-REMEMBERED]:
            del self.groups[other]
        self.groups[name] = DaskGroup(self, *arguments)
        return self.groups[name]

    def store(self, results: Mapping[Any, Any]) -> None:
        """Add results to the worker's state, before the scheduler knows them."""
        asyncio.run_coroutine_threadsafe(self._store(results), self.loop).result()

    async def _store(self, results: Mapping[Any, Any]) -> None:
        self.worker.update_data(dict(results))

    def put(self, messages: list[Any]) -> None:
        """Take messages (group, sender, number, message) for ranks that have started."""
        for name, *message in messages:
            if name in self.groups:
                self.groups[name].take(*message)

    def get(self, name: str, receiver: int, number: int) -> tuple[str, Any]:
        """Return a message to a rank that requests it, or what keeps it from coming."""
        group = self.groups.get(name)
        if group is None:
            return ("ended", self.errors[name]) if name in self.errors else ("unknown", None)
        return group.answer(receiver, number)

    def end(self, name: str, error: bytes) -> None:
        """Make a rank of a group raise an error."""
        if name in self.groups:
            self.groups[name].fail(error)
        else:
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

            self.peers[address] = Sender(write, lambda messages: None)
        self.peers[address].send(*message)

    async def request(self, address: str, timeout: float, op: str, **message: Any) -> Any:
        """Return the answer of another worker; raise OSError without one."""
        async with asyncio.timeout(timeout):
            return await getattr(self.worker.rpc(address), op)(**message)


class DaskGroup(Group):
    """Workers of Dask with a rank each. Arrays on a GPU pass through host memory."""

    def __init__(
        self, plugin: GroupsPlugin, name: str, rank: int, addresses: list[str], timeout: float
    ) -> None:
        self.plugin, self.name, self.addresses = plugin, name, addresses
        self.rank, self.size, self.timeout = rank, len(addresses), timeout
        self.has_ended, self._number, self._since = False, 0, time.monotonic()
        self._error: bytes | None = None
        # By sender and number, and by receiver and number: until that one sends a later message.
        self._arrived: dict[tuple[int, int], Any] = {}
        self._kept: dict[int, dict[int, Any]] = defaultdict(dict)
        self._changed = threading.Condition()

    def all_gather(self, array: Any) -> Any:
        backend = backend_of(array)
        # A copy: another rank may get it after the caller has written to the array.
        sent = np.array(backend.to_host(array), order="C")
        messages = dict.fromkeys(self._others, to_serialize(sent))
        arrays = self._swap("all_gather", messages) | {self.rank: sent}
        return backend.from_host(np.stack([arrays[rank] for rank in range(self.size)]), array)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        messages = {
            rank: to_serialize(np.array(backend_of(array).to_host(array), order="C"))
            for rank, array in ((self.rank - 1, to_left), (self.rank + 1, to_right))
            if rank in self._others
        }
        received = self._swap("exchange", messages)
        neighbours = (received.get(self.rank + step) for step in (-1, 1))
        like = backend_of(to_left)
        left, right = (None if x is None else like.from_host(x, to_left) for x in neighbours)
        return left, right

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        return self._all_gather_bytes("all_gather_bytes", message)

    def wait_for_return(self) -> None:
        """Wait until the functions of all ranks have returned: no rank needs earlier messages."""
        self._all_gather_bytes(RETURN, b"")

    def _all_gather_bytes(self, call: str, message: bytes) -> list[bytes]:
        messages = self._swap(call, dict.fromkeys(self._others, message)) | {self.rank: message}
        return [messages[rank] for rank in range(self.size)]

    def abort(self, error: BaseException | None = None) -> None:
        """End the group on all ranks, which raise the error."""
        error = error or WorkerLostError(f"rank {self.rank} has ended the group")
        message = _pickled(error, f"raised by rank {self.rank} of the group")
        self.fail(message)
        requests = [self._start_request(k, "mgrec_group_end", error=message) for k in self._others]
        for request in requests:
            with suppress(OSError):
                request.result(2 * self.timeout)

    def close(self) -> None:
        """End the rank: it still answers for its last messages."""
        with self._changed:
            self.has_ended = True
            self._arrived.clear()

    def fail(self, error: bytes) -> None:
        """Make the rank raise an error, unless it has ended."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def take(self, sender: int, number: int, message: Any) -> None:
        """Take a message of another rank, which has all messages of smaller numbers."""
        with self._changed:
            kept = self._kept[sender]
            for earlier in [k for k in kept if k < number]:
                del kept[earlier]
            if number >= self._number and not self.has_ended:
                self._arrived[sender, number] = message
                self._changed.notify_all()

    def answer(self, receiver: int, number: int) -> tuple[str, Any]:
        """Return the message that another rank requests, or what keeps it from coming."""
        with self._changed:
            if number in self._kept[receiver]:
                return "message", self._kept[receiver][number]
            if self._error is None and not self.has_ended:
                return "waiting", None
            return "ended", self._error or dumps(RuntimeError("the program has ended"))

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _swap(self, call: str, messages: Mapping[int, Any]) -> dict[int, Any]:
        """Send a message to some ranks, and return what they send in their call of this number."""
        messages = {rank: [call, message] for rank, message in messages.items()}
        with self._changed:
            self._number += 1
            number = self._number
            for rank, message in messages.items():
                self._kept[rank][number] = message
            # Those that were both pushed and requested.
            for stale in [key for key in self._arrived if key[1] < number]:
                del self._arrived[stale]
        for rank, message in messages.items():
            content = self.name, self.rank, number, message
            self.plugin.calls.add(self.plugin.send, self.addresses[rank], *content)
        received = {rank: self._wait_for(rank, number) for rank in messages}
        for rank, (other, _) in received.items():
            if other != call:
                raise RuntimeError(
                    f"ranks must call the same functions in the same order: rank {self.rank} calls "
                    f"{call}, rank {rank} {other}"
                )
        return {rank: message for rank, (_, message) in received.items()}

    def _wait_for(self, sender: int, number: int) -> Any:
        patience, key = FIRST if number == 1 else PATIENCE, (sender, number)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: key in self._arrived or self._error, patience)
                if self._error is not None:
                    raise loads(self._error)
                if key in self._arrived:
                    return self._arrived.pop(key)
            patience = min(LONGEST, 2 * patience)
            state, content = self._request(
                sender, "mgrec_group_get", receiver=self.rank, number=number
            )
            if state == "message":
                self.take(sender, number, content)
            elif state == "ended":
                raise loads(content)
            elif state == "unknown":
                self._check_start(sender, number)

    def _request(self, rank: int, op: str, **message: Any) -> Any:
        """Return the answer of a rank's worker; raise WorkerLostError without one."""
        try:
            return self._start_request(rank, op, **message).result(2 * self.timeout)
        except OSError as error:  # A timeout is one.
            raise self._lost(rank, f"does not answer within {self.timeout:g} s") from error

    def _start_request(self, rank: int, op: str, **message: Any) -> Any:
        address = self.addresses[rank]
        request = self.plugin.request(address, self.timeout, op, name=self.name, **message)
        return asyncio.run_coroutine_threadsafe(request, self.plugin.loop)

    def _check_start(self, sender: int, number: int) -> None:
        limit = STARTING * self.timeout
        if number > 1:
            raise self._lost(sender, "has left the group")
        if time.monotonic() - self._since > limit:
            raise self._lost(sender, f"has not started within {limit:g} s")

    def _lost(self, rank: int, why: str) -> WorkerLostError:
        return WorkerLostError(f"rank {rank} of the group, on {self.addresses[rank]}, {why}")


def _pickled(error: BaseException, note: str) -> bytes:
    """Return an error for other ranks; a RuntimeError if it cannot be pickled."""
    try:
        copy: BaseException = loads(dumps(error))
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    if note not in getattr(copy, "__notes__", ()):
        copy.add_note(note)
    return dumps(copy)
