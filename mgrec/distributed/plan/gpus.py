"""Solves of plans on the GPUs of workers, by one exchange between these and no message of the host.

The workers of a plan are the ranks of a group, and their chunks its shards: those of prepared calls
on groups. One thread of a worker solves all shards of a client, in the order of its requests, since
all ranks must exchange messages in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ...core.backends import Backend, backend_of, common_backend
from ...core.contract.kernels import CacheMiss, ShardMessages, ShardSolver, ShardSteps
from ...core.contract.recurrence import ChunkIndex, ChunkInputs, ChunkPosition
from ..groups.dask import DaskGroup
from ..groups.mailbox import GroupsPlugin
from ..programs.assignment import Request
from .program import Solve, StoredPlan

PATIENCE = 4
"""Consecutive solves whose messages do not suffice, after which a plan exchanges none on GPUs."""
Results = dict[ChunkIndex, Sequence[Any]]


class GPUThread:
    """The thread of a session, and its communicators by the addresses of their workers."""

    def __init__(self, plugin: GroupsPlugin) -> None:
        self.pool, self._plugin = ThreadPoolExecutor(1, "mgrec-gpu"), plugin
        self._groups: dict[tuple[str, ...], Any] = {}

    def solve(self, solve: Solve, operands: Mapping[ChunkIndex, list[Any]]) -> Results | None:
        """Return the results of a shard's chunks; None, on all workers, if the host has to solve.

        The results are in the order of the default stream.
        """
        plan, request = solve.plan, solve.request
        assert plan is not None
        group = self._group_of(plan)
        if group is None or plan.failures == PATIENCE:
            return None
        from ..groups.device import digest_of, solve_shards

        positions = dict(plan.shard.shard.chunks)
        shards = [
            partial(_steps, plan, request, (index, positions[index]), blocks)
            for index, blocks in operands.items()
        ]
        digest = digest_of(plan.mailbox.name) + solve.number
        try:
            with group.on_stream(False, lambda: plan.mailbox.check(solve.number)):
                results = solve_shards(group, digest, shards, sends_always=True)
        except CacheMiss:
            plan.failures += 1
            return None
        except BaseException as error:
            if group.has_ended:
                group.abort(error)
            raise
        plan.failures = 0
        return dict(zip(operands, results, strict=True))

    def _group_of(self, plan: StoredPlan) -> Any:
        """Return the group of a plan's workers; None if nothing connects their GPUs."""
        if not plan.has_group:
            addresses = tuple(plan.shard.addresses)
            group = self._groups.get(addresses)
            if addresses not in self._groups or (group is not None and group.has_ended):
                group = self._groups[addresses] = None
                group = self._groups[addresses] = self._connect(plan)
            plan.has_group, plan.group = True, group
        if plan.group is not None and plan.group.has_ended:
            plan.group.host.check(0)
        return plan.group

    def _connect(self, plan: StoredPlan) -> Any:
        shard = plan.shard
        name = f"{plan.mailbox.name}-gpus"
        host = DaskGroup(self._plugin, name, shard.shard.number, shard.addresses, shard.timeout)
        host.start()
        try:
            from ..groups.dask_gpus import connect

            group = connect(host)
        except ImportError:  # CuPy without NCCL
            group = None
        except BaseException as error:
            host.abort(error)
            raise
        if group is None:
            host.close()
        return group

    def close(self) -> None:
        """End when the solves have ended; communicators are kept for other clients."""
        self.pool.submit(self._release)
        self.pool.shutdown(wait=False)

    def _release(self) -> None:
        for group in self._groups.values():
            if group is not None and not group.has_ended:
                group.keep()
                group.host.close()


def _steps(
    plan: StoredPlan, request: Request, position: ChunkPosition, blocks: Sequence[Any],
    messages: ShardMessages,
) -> ShardSteps:  # fmt: skip
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
        yield from solver(addresses, [*map(backend.address, results)], messages)
    return results


def _solver_of(
    plan: StoredPlan, recurrence: Any, backend: Backend, inputs: ChunkInputs,
    initial: Sequence[Any], results: Sequence[Any],
) -> ShardSolver | None:  # fmt: skip
    """Return the solver of a chunk, prepared once for arrays of these shapes and alignments."""
    arrays = *inputs.blocks, *initial, *results
    form = (
        inputs.chunk_index,
        *(
            x.dtype
            if backend_of(x).is_host
            else (x.shape, x.strides, x.dtype, backend.address(x) % 16)
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
