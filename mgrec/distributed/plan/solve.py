"""A solve on a worker: a program on a thread, and its messages to the other shards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps, loads

from ...core.arrays.elements import Part
from ...core.backends import common_backend
from ...core.contract.recurrence import ChunkIndex
from ..comms import WorkerLostError
from ..groups.mailbox import Mailbox
from ..programs.assignment import solve_shard
from ..programs.shards import Threads
from .messages import PlanShard, result_name


class Turns:
    """Programs of several threads, one of which runs at a time: the first that does not wait."""

    def __init__(self) -> None:
        self._changed, self._ready = threading.Condition(), set[int]()
        self._is_running = False

    def announce(self, number: int) -> None:
        """Let a program run before those of larger numbers, though its thread has not started."""
        with self._changed:
            self._ready.add(number)

    def take(self, number: int) -> None:
        """Wait until the program with this number may run."""
        with self._changed:
            self._ready.add(number)
            self._changed.wait_for(lambda: not self._is_running and number == min(self._ready))
            self._ready.remove(number)
            self._is_running = True

    def release(self) -> None:
        """Let other programs run."""
        with self._changed:
            self._is_running = False
            self._changed.notify_all()


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """What a worker stores of a plan: its shard, its operands by keys, and its messages.

    `size` is that of operands in host memory, in bytes.
    """

    shard: PlanShard
    blocks: Mapping[Any, Any]
    size: int
    mailbox: Mailbox


class Solve:
    """One solve of a shard, from its request until the client no longer refers to its results.

    While it runs it is an :class:`~mgrec.distributed.programs.shards.Exchange`: a message is a
    pickle, and arrays that are sent without a copy. While it waits for a message, or for its
    device, other solves run.

    Attributes
    ----------
    number : int
    name : str
        The name of the results.
    plan : StoredPlan, optional
        None when the solve has ended.
    request : Request
    keys : dict, chunk index -> keys of the operands
    blocks : dict, key -> array, or outcome of an earlier solve
        The operands until the program starts.
    outcome : Future, optional
        The results by their keys, or the error. None: the worker's memory has the results.
    stored, size : list, int
        The keys of results in the worker's memory, and the bytes of those in host memory.
    is_registered : bool
        Whether the worker's state includes the results.
    is_freed : bool
        Whether the client no longer refers to the results.
    """

    def __init__(self, number: int, name: str, plan: StoredPlan, turns: Turns) -> None:
        self.number, self.name, self._turns = number, name, turns
        self.plan: StoredPlan | None = plan
        self.request, self.keys = plan.shard.request, plan.shard.keys
        self.blocks: dict[Any, Any] = {}
        self.outcome: Future[dict[Any, Any]] | None = Future()
        self.stored, self.size = list[Any](), 0
        self.is_registered = self.is_freed = self._is_asynchronous = False
        self._mailbox, self._shard = plan.mailbox, plan.shard.shard

    @property
    def has_ended(self) -> bool:
        return self.plan is None

    def awaited(self) -> set[Future[Any]]:
        """Return the outcomes of earlier solves that this one waits for."""
        return {block for block in list(self.blocks.values()) if isinstance(block, Future)}

    def run(self, threads: Threads) -> tuple[dict[Any, Any], Any]:
        """Return the results by their keys, and the answer to the client."""
        try:
            operands = self._take_operands()
            self._turns.take(self.number)
            try:
                self._mailbox.check(self.number)
                results, answer = solve_shard(self.request, self._shard, operands, self, threads)
            finally:
                self._turns.release()
        except BaseException as error:
            # The plan has ended with a worker; other errors end the solve.
            number = None if isinstance(error, WorkerLostError) else self.number
            self._mailbox.fail_everywhere(error, number)
            raise
        parts = self.request.parts or repeat(Part())
        return {
            (result_name(self.name, k), *part.chunk_index(index)): array
            for index, arrays in results.items()
            for k, (array, part) in enumerate(zip(arrays, parts, strict=False))
        }, answer

    def _take_operands(self) -> dict[ChunkIndex, list[Any]]:
        """Return the operands by chunks; wait for those that are results of earlier solves."""
        blocks = {
            key: block.result()[key] if isinstance(block, Future) else block
            for key, block in self.blocks.items()
        }
        self.blocks.clear()
        self._is_asynchronous = common_backend(blocks.values()).is_asynchronous
        return {index: [blocks[key] for key in own] for index, own in self.keys.items()}

    def send(
        self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()
    ) -> None:
        message = [dumps(content), *map(to_serialize, arrays)]
        self._mailbox.post(receiver, (self.number, name), message)

    def flush(self) -> None:
        pass

    def has(self, sender: int, name: Hashable) -> bool:
        return self._mailbox.has(sender, (self.number, name))

    def take(self, sender: int, name: Hashable) -> tuple[Any, list[np.ndarray]]:
        content, *arrays = self._mailbox.receive(sender, (self.number, name), self._released)
        return loads(content), arrays

    def wait(self, wait: Callable[[], Any]) -> Any:
        if not self._is_asynchronous:
            return wait()
        with self._released():
            return wait()

    def has_failed(self) -> bool:
        """Return whether another shard has failed, or the solve is abandoned."""
        return self._mailbox.has_failed(self.number)

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Let other programs run while this one waits."""
        self._turns.release()
        try:
            yield
        finally:
            self._turns.take(self.number)
