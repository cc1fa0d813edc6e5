"""A solve on a worker: a program on a thread, and its messages to the other shards."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from ..programs.assignment import Request, solve_shard
from ..programs.shards import Shard, Threads, Turns


@dataclass(frozen=True)
class PlanShard:
    """What the client sends a worker of a plan.

    `addresses`: the workers of all shards, by their numbers.
    `keys`: dict, chunk index -> keys of the operands.
    `result_size`: bytes of the results of a solve in the worker's host memory.
    `request`: for solves that come without one.
    `timeout`: seconds after which a worker that does not answer is lost.
    `is_on_gpus`: whether the GPUs of the workers may exchange messages: see :mod:`.gpus`.
    """

    shard: Shard
    addresses: tuple[str, ...]
    keys: Mapping[ChunkIndex, Sequence[Any]]
    result_size: int
    request: Request
    timeout: float
    is_on_gpus: bool


Operands = dict[ChunkIndex, list[Any]]
Results = Mapping[ChunkIndex, Sequence[Any]]


def result_name(solve: str, number: int) -> str:
    """Return the name of a result of a solve, one for each scalar of the state."""
    return f"{solve}-{number}"


@dataclass(eq=False)
class StoredPlan:
    """What a worker stores of a plan: its shard, its operands by keys, and its messages.

    `group`: of the GPUs of the plan's workers, when it has started or a solve of the plan has found
      it.
    `launches`: number of solves that exchange messages between GPUs.
    `outcomes`: whether these messages sufficed.
    `solvers`: recurrences and prepared solvers, by the forms of their operands.
    """

    shard: PlanShard
    blocks: Mapping[Any, Any]
    mailbox: Mailbox
    group: Any = None
    launches: int = 0
    outcomes: list[bool] = field(default_factory=list)
    solvers: dict[Any, Any] = field(default_factory=dict)

    def has_failed_often(self, count: int) -> bool:
        """Return whether so many solves in a row have failed, before the last two.

        A worker may launch a solve before it knows the outcomes of these: all must agree.
        """
        known = self.outcomes[: max(0, self.launches - 2)][-count:]
        return len(known) == count and not any(known)


class Solve:
    """One solve of a shard, from its request until the client no longer refers to its results.

    While it runs it is an :class:`~mgrec.distributed.programs.shards.Exchange`: a message is a
    pickle, and arrays that are sent without a copy. While it waits for a message, or for its
    device, other solves run.

    `plan`: none when the solve has ended.
    `keys`: dict, chunk index -> keys of the operands.
    `blocks`, dict, key -> array, or outcome of an earlier solve: the operands until they are taken.
    `launched`: waits for the results of GPUs that solve; None, on all workers, if the host has to
      solve.
    `outcome`: the results by their keys, or the error. None: the worker's memory has the results.
    `stored`, `size`: the keys of results in the worker's memory, and the bytes of those in host
      memory.
    `is_registered`: whether the worker's state includes the results.
    `is_freed`: whether the client no longer refers to the results.
    """

    def __init__(self, number: int, name: str, plan: StoredPlan, turns: Turns) -> None:
        self.number, self.name, self._turns = number, name, turns
        self.plan: StoredPlan | None = plan
        self.request, self.keys = plan.shard.request, plan.shard.keys
        self.blocks: dict[Any, Any] = {}
        self.launched: Callable[[], Results | None] | None = None
        self._operands: Operands | None = None
        self.outcome: Any = Future()
        self.stored, self.size = list[Any](), 0
        self.is_registered = self.is_freed = self._is_asynchronous = False
        self._mailbox, self._shard = plan.mailbox, plan.shard.shard

    def awaited(self) -> set[Future[Any]]:
        """Return the outcomes of earlier solves that this one waits for."""
        return {block for block in list(self.blocks.values()) if isinstance(block, Future)}

    def run(self, threads: Threads) -> tuple[dict[Any, Any], Any]:
        """Return the results by their keys, and the answer to the client."""
        try:
            for outcome in self.awaited():
                outcome.result()
            answer, results = None, self.launched and self.launched()
            if results is None:
                self._turns.take(self.number)
                try:
                    operands = self.take_operands()
                    self._mailbox.check(self.number)
                    results, answer = solve_shard(self.request, self._shard, operands, self, threads)
                finally:
                    self._turns.release()
        except BaseException as error:
            # The plan has ended with a worker; other errors end the solve.
            number = None if isinstance(error, WorkerLostError) else self.number
            self._mailbox.fail_everywhere(error, number)
            raise
        finally:
            self.launched = self._operands = None
        parts = self.request.parts or repeat(Part())
        return {
            (result_name(self.name, k), *part.chunk_index(index)): array
            for index, arrays in results.items()
            for k, (array, part) in enumerate(zip(arrays, parts, strict=False))
        }, answer

    def is_left_to_host(self) -> bool:
        """Wait for the results of GPUs; return whether there are none, and no error."""
        assert self.launched is not None
        solved = Future[Any]()
        try:
            solved.set_result(self.launched())
        except BaseException as error:
            solved.set_exception(error)
        self.launched = solved.result
        return not solved.exception() and solved.result() is None

    def take_operands(self) -> Operands:
        """Return the operands of each chunk, once the earlier solves that compute some have ended."""
        if self._operands is not None:
            return self._operands
        blocks = {
            key: block.result()[key] if isinstance(block, Future) else block
            for key, block in self.blocks.items()
        }
        self.blocks.clear()
        self._mailbox.check(self.number)
        self._is_asynchronous = common_backend(blocks.values()).is_asynchronous
        self._operands = {index: [blocks[key] for key in keys] for index, keys in self.keys.items()}
        return self._operands

    def send(self, receiver: int, name: Hashable, content: Any, arrays: Iterable[np.ndarray] = ()) -> None:
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

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Let other programs run while this one waits."""
        self._turns.release()
        try:
            yield
        finally:
            self._turns.take(self.number)
