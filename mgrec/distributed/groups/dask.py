"""The group of workers that :func:`mgrec.dask.run` starts.

Each rank is a task of Dask on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import numpy as np
from distributed import Worker
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from ...core.backends import backend_of
from ..comms import WorkerLostError, call_on_loop
from ..plan.internals import free
from .group import Group
from .mailbox import NAME, GroupsPlugin, Mailbox, Tag

RETURN = "nothing, since its function has returned"


def end_group(name: str, dask_worker: Worker) -> None:
    """End a group whose client no longer waits for it, and free its results."""
    error = RuntimeError("the client of the group no longer waits for it")
    dask_worker.plugins[NAME].end(name, dumps(error))
    results = [key for key in dask_worker.data if isinstance(key, tuple) and name in str(key[0])]
    free(dask_worker, results)


class DaskGroup(Mailbox, Group):
    """Workers of Dask with a rank each; arrays pass through host memory, by Dask's comms."""

    def __init__(
        self, plugin: GroupsPlugin, name: str, rank: int, addresses: list[str], timeout: float
    ) -> None:
        super().__init__(plugin, name, rank, addresses, timeout)
        self.size, self._number = len(addresses), 0

    def check_ranks(self, are_connected: bool = True) -> None:
        """Raise unless all other ranks may still exchange arrays: this rank waits for its GPU."""
        number = self._number + 1
        for rank in self.others:
            self.check(number)
            if are_connected and self.has(rank, (number, "")):
                raise RuntimeError(
                    f"ranks must call the same functions in the same order: rank {self.rank} waits "
                    f"for rank {rank}, which has returned or calls another one"
                )
            state, content = self._request(rank, (number, ""))
            if state == "ended":
                raise loads(content)
            if state == "unknown":
                raise self._lost(rank, "has left the group")

    def on_stream(self) -> AbstractContextManager[None]:
        """Return the context of the computations of this rank: that of the caller."""
        return nullcontext()

    def store(self, results: Mapping[Any, Any]) -> None:
        """Add results to the worker's state, before the scheduler knows them."""
        call_on_loop(self.plugin.loop, self.plugin.worker.update_data, dict(results))

    def all_gather(self, array: Any) -> Any:
        backend = backend_of(array)
        # A copy: another rank may get it after the caller has written to the array.
        sent = np.array(backend.to_host(array), order="C")
        messages = dict.fromkeys(self.others, to_serialize(sent))
        arrays = self._swap("all_gather", messages) | {self.rank: sent}
        return backend.from_host(np.stack([arrays[rank] for rank in range(self.size)]), array)

    def exchange(self, to_left: Any, to_right: Any) -> tuple[Any, Any]:
        messages = {
            rank: to_serialize(np.array(backend_of(array).to_host(array), order="C"))
            for rank, array in ((self.rank - 1, to_left), (self.rank + 1, to_right))
            if rank in self.others
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
        messages = self._swap(call, dict.fromkeys(self.others, message)) | {self.rank: message}
        return [messages[rank] for rank in range(self.size)]

    def abort(self, error: BaseException | None = None) -> None:
        """End the group on all ranks, which raise the error."""
        error = error or WorkerLostError(f"rank {self.rank} has ended the group")
        for request in self.fail_everywhere(error):
            with suppress(OSError):
                request.result(2 * self.timeout)

    def take(self, sender: int, tag: Tag, message: Any) -> None:
        """Take a message of another rank, which has all messages of smaller numbers."""
        self.forget_sent(sender, tag[0])
        super().take(sender, tag, message)

    def _lost(self, rank: int, why: str) -> WorkerLostError:
        return WorkerLostError(f"rank {rank} of the group, on {self.addresses[rank]}, {why}")

    def _swap(self, call: str, messages: Mapping[int, Any]) -> dict[int, Any]:
        """Send a message to some ranks, and return what they send in their call of this number."""
        self._number += 1
        self.forget_received(self._number)
        tag = self._number, ""
        for rank, message in messages.items():
            self.post(rank, tag, [call, message])
        received = {rank: self.receive(rank, tag) for rank in messages}
        for rank, (other, _) in received.items():
            if other != call:
                raise RuntimeError(
                    f"ranks must call the same functions in the same order: rank {self.rank} calls "
                    f"{call}, rank {rank} {other}"
                )
        return {rank: message for rank, (_, message) in received.items()}
