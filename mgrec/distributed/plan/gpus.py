"""Solves of plans on the GPUs of workers: one exchange between the GPUs, no message of the hosts.

The workers of a plan are the ranks of a group, and their chunks its shards, as those of prepared
calls on groups. One thread of a worker solves all shards of a client, in the order of its requests,
since all ranks must exchange messages in the same order. It launches a solve before it waits for
the one before, unless that computes an operand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from ...core.backends import Backend, backend_of, common_backend
from ...core.contract.kernels import CacheMiss, ShardMessages, ShardSolver, ShardSteps
from ...core.contract.recurrence import ChunkInputs, ChunkPosition
from ..groups.calls import PATIENCE
from ..groups.dask import DaskGroup
from ..groups.mailbox import GroupsPlugin
from ..groups.start import start_group
from ..programs.assignment import Request
from .program import Operands, Results, Solve, StoredPlan

LARGE, INTERVAL, LONGEST = 1 << 26, 5e-5, 0.5
"""Bytes of operands of a large solve; seconds between two looks at it, and of looking at it."""
UNTIL_NEXT_TRY = 64
"""Solves by the host if GPUs are not connected: trying takes a message."""


class GPUThread:
    """The thread of a session, and its communicators by the addresses of their workers.

    One client at a time has the right to exchange messages between the GPUs of a worker: see
    :class:`~mgrec.distributed.groups.mailbox.ExchangeRight`. Without it, the host solves.

    `complete`, ``(solve)``: ends a solve that is launched.
    `solve_on_host`: starts a solve without messages between GPUs.
    """

    def __init__(
        self, plugin: GroupsPlugin, complete: Callable[[Solve], None], solve_on_host: Callable[[Solve], None]
    ) -> None:
        self._plugin, self._complete, self._solve_on_host = plugin, complete, solve_on_host
        # A group, or how many solves are left to the host until the workers try again to connect.
        self._groups: dict[tuple[str, ...], Any] = {}
        self._owner, self._launches = uuid4().hex, 0
        self._requests = SimpleQueue[Any]()
        # The last solve that is launched, and an event of CuPy after its work if it is large.
        self._last: Solve | None = None
        self._end: Any = None
        self.thread = threading.Thread(target=self._work, name="mgrec-gpu", daemon=True)
        self.thread.start()

    def solve(self, solve: Solve) -> None:
        """Solve when all earlier solves are launched."""
        self._requests.put(partial(self._launch_next, solve))

    def release(self, call: Callable[[], None]) -> None:
        """Leave the GPUs to others when all earlier solves have ended, and call a function."""
        self._requests.put(partial(self._end_groups, call))

    def close(self) -> None:
        """End when all solves have ended."""
        self.release(partial(self._requests.put, None))

    def _work(self) -> None:
        for request in iter(self._requests.get, None):
            request()
            del request

    def _end_groups(self, call: Callable[[], None]) -> None:
        """Leave the GPUs to others, which may use the communicators again."""
        self._complete_last()
        for group in self._groups.values():
            if not isinstance(group, int):
                if not group.has_ended:
                    group.retain()
                group.close()
        self._groups.clear()
        self._plugin.right.release(self._owner)
        call()

    def _launch_next(self, solve: Solve) -> None:
        """Launch a solve, and complete the one before."""
        if solve.awaited():
            self._complete_last()
        plan, end = solve.plan, None
        assert plan is not None
        try:
            group = self._group_of(plan, solve.number)
            if isinstance(group, int) or plan.has_failed_often(PATIENCE):
                self._solve_on_host(solve)
                return
            end = self._launch(group, solve, plan)
        except BaseException as error:
            solve.launched = partial(_fail, error)
        self._complete_last()
        self._last, self._end = solve, end
        # Behind the requests that have come: one of them may launch the next solve first.
        self._requests.put(partial(self._complete_unless_followed, self._launches))

    def _complete_unless_followed(self, launches: int) -> None:
        """Complete the last solve, when it has ended, unless the next one is launched before."""
        # The wait for the results would notice a worker that is lost.
        deadline = time.monotonic() + LONGEST
        while self._last is not None and self._launches == launches:
            is_running = self._end is not None and not self._end.done
            if is_running and time.monotonic() < deadline:
                with suppress(Empty):
                    self._requests.get(timeout=INTERVAL)()
            else:
                self._complete_last()

    def _complete_last(self) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        if last.is_left_to_host():
            # Another rank may have launched the next solve, whose exchange keeps its GPU from the
            # kernels of this one until this thread has launched it too.
            threading.Thread(target=self._complete, args=(last,), name="mgrec-plan", daemon=True).start()
        else:
            self._complete(last)

    def _launch(self, group: Any, solve: Solve, plan: StoredPlan) -> Any:
        """Launch the shards of a rank, whose results are then in the order of the default stream.

        All errors are those of `solve.launched`. Return an event after the work of a large solve, or
        None.
        """
        from ..groups.device import digest_of, start_shards

        positions, operands = dict(plan.shard.shard.chunks), Operands()
        try:
            operands = solve.take_operands()
            shards = [
                partial(_steps, plan, solve.request, (index, positions[index]), blocks)
                for index, blocks in operands.items()
            ]
        except Exception as error:  # of the solve that computes one
            shards = [partial(_fail, error)] * len(positions)
        self._launches += 1
        plan.launches += 1
        digest, indices = digest_of(plan.mailbox.name), [*operands]
        check, end = partial(plan.mailbox.check, solve.number), group.gpus.new_event()
        complete: Callable[[], list[Any]]
        group.check_with(check)
        try:
            with group.gpus.on_stream():
                complete = start_shards(group, digest, shards, True, self._launches % 2)
                end.record()
        except Exception as error:
            complete = partial(_fail, error)

        def wait() -> Results | None:
            group.check_with(check)
            is_solved = False
            try:
                with group.gpus.on_stream():
                    results = complete()
                group.gpus.join(end)
                is_solved = True
                return dict(zip(indices, results, strict=True))
            except CacheMiss:
                return None
            except BaseException as error:
                if group.has_ended:
                    group.abort(error)
                raise
            finally:
                plan.outcomes.append(is_solved)

        solve.launched = wait
        size = sum(x.nbytes for blocks in operands.values() for x in blocks)
        return end if size >= LARGE else None

    def _group_of(self, plan: StoredPlan, number: int) -> Any:
        """Return the group of a plan's workers for a solve; a number if the host solves."""
        addresses = plan.shard.addresses
        group = self._groups.get(addresses, 0)
        if isinstance(group, int):
            is_missing, self._groups[addresses] = not group, group - 1
        elif (is_missing := group.has_ended) and group is plan.group:
            group.host.check(0)
        if is_missing:
            self._groups[addresses], box = UNTIL_NEXT_TRY, plan.mailbox
            name, ranks = f"{box.name}-{number}", box.addresses
            group = start_group(self._plugin, name, box.rank, ranks, box.timeout, self._owner)
            if isinstance(group, DaskGroup):  # nothing connects their GPUs now
                group.close()
            else:
                plan.group = self._groups[addresses] = group
        return self._groups[addresses]


def _fail(error: BaseException, messages: ShardMessages | None = None) -> Any:
    raise error


def _steps(
    plan: StoredPlan,
    request: Request,
    position: ChunkPosition,
    blocks: Sequence[Any],
    messages: ShardMessages,
) -> ShardSteps:
    """Solve a chunk; return its results."""
    recurrence: Any = request.recurrence
    inputs, (initial,) = ChunkInputs(tuple(blocks), *position, {}), request.initial.values()
    recurrence.check(inputs)
    backend = common_backend(blocks, recurrence.method)
    initial = [x if x.ndim == 0 else backend.from_host(x, blocks[0]) for x in initial]
    with backend.device_of(blocks):
        results = tuple(
            backend.empty(recurrence.shape(inputs), recurrence.result_dtype)
            for _ in range(recurrence.results)
        )
        solver = _solver_of(plan, recurrence, backend, inputs, initial, results)
        if solver is None or solver.message_bytes > messages.stride:
            raise CacheMiss
        arguments = recurrence.solver_arguments(inputs.blocks, initial)
        addresses = [x if backend_of(x).is_host else backend.address(x) for x in arguments]
    # Outside of the block: another thread may release a solve that was not completed.
    yield from solver(addresses, [*map(backend.address, results)], messages)
    return results


def _solver_of(
    plan: StoredPlan,
    recurrence: Any,
    backend: Backend,
    inputs: ChunkInputs,
    initial: Sequence[Any],
    results: Sequence[Any],
) -> ShardSolver | None:
    """Return the solver of a chunk, prepared once for arrays of these shapes and alignments."""
    arrays = *inputs.blocks, *initial, *results
    form = (
        inputs.chunk_index,
        *(
            x.dtype if backend_of(x).is_host else (x.shape, x.strides, x.dtype, backend.address(x) % 16)
            for x in arrays
        ),
    )
    first, solver = plan.solvers.get(form, (None, None))
    if first is None or not recurrence.is_same(first):
        is_laid_out = all(x.flags.c_contiguous and x.size for x in inputs.blocks)
        if is_laid_out and recurrence.written_dtype(backend) == recurrence.result_dtype:
            shape = recurrence.shape(inputs)
            solver = recurrence.prepare_shard(backend, inputs, shape, tuple(initial), results)
        plan.solvers[form] = recurrence, solver
    return solver
