"""The shard of a rank: one exchange of interface rows, and one reading of the operands.

If rows are dominant, the ends of a shard decide its first and last unknowns. One kernel reduces the
ends to the message of this rank. From the messages of all ranks another one finds the unknowns at and
next to the ends, for the windows, which read the operands once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import HEADER, CacheMiss, ShardMessages, ShardSolver, ShardSteps
from ...engines.cuda.device import array_at, on_device
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..recurrence import Ends, decay_limits
from . import partitions
from .partitions import APART, CELL, print_program
from .windows import Try, prepare_tries, start_windows

_THREADS = 128

Signature = tuple[tuple[int, ...], np.dtype[Any]]
Check = Callable[[Sequence[Any]], None]


def prepare_shard(
    chunk: Chunk, result: Any, rows: int, signatures: Sequence[Signature], check: Check
) -> ShardSolver | None:
    """Return a solver for shards of the shape of a chunk; None if windows do not solve it.

    Complex numbers have none: the host divides them in another way. `rows` is the number of rows at
    each end. `check` raises an error for operands, of these shapes and dtypes, that contain nan or
    inf.
    """
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    tries = prepare_tries(on_gpu, apart=APART)
    if chunk.dtype.kind == "c" or not tries:
        return None
    allocate = {
        ends: partitions.allocator(Ends(*ends), on_gpu, result)
        for ends in ((False, False), (False, True), (True, False))
    }
    scalars, layout = partitions.copied_scalars(on_gpu, chunk), partitions.layout_of(on_gpu)
    are_joined = chunk.shape[2] >= partitions.MANY_COLUMNS
    message_bytes = HEADER + (2 if are_joined else CELL) * 2 * chunk.shape[2] * chunk.dtype.itemsize
    return _Shard(message_bytes, scalars, layout, are_joined, rows, tries, allocate, signatures, check)


@dataclass
class _Shard(ShardSolver):
    message_bytes: int
    scalars: list[Any]
    layout: partitions.Layout
    are_joined: bool
    rows: int
    tries: tuple[Try, ...]
    allocate: dict[tuple[bool, bool], Callable[..., partitions.LaunchMemory]]
    signatures: Sequence[Signature]
    check: Check
    may_exceed_frame = True

    def __call__(self, arguments: Sequence[Any], targets: Sequence[int], shards: ShardMessages) -> ShardSteps:
        import cupy

        ends = Ends(shards.rank == 0, shards.rank == shards.size - 1)
        addresses = partitions.addresses_with(self.scalars, arguments)
        cells = shards.message + HEADER
        if not partitions.reduce_ends(self.layout, ends, self.rows, addresses, cells, self.are_joined):
            raise CacheMiss
        shards.write_header()
        yield
        (_, _, columns), dtype, *_ = self.layout
        known = cupy.empty((columns, APART), dtype)
        propagate = _propagation(columns, self.are_joined, dtype, cupy.cuda.runtime.getDevice())
        propagate([*shards.received, known.data.ptr, shards.status])
        shards.mark()
        neighbours = partitions.neighbour_addresses(ends, known)
        wait = start_windows(self.tries, addresses, targets[0], neighbours)
        try:
            yield
            shards.wait()
        finally:  # windows write to memory of the host until they have ended
            is_solved = wait()
        if is_solved:
            return
        memory = self.allocate[ends[:2]](addresses, targets[0])
        if not memory.solve_chunk(known):
            self.check(self._blocks(arguments))

    def _blocks(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the operands: arrays at their addresses, and numbers."""
        triples = zip(arguments, self.scalars, self.signatures, strict=True)
        return [
            array_at(argument, *signature) if scalar is None else np.asarray(argument, signature[1])
            for argument, scalar, signature in triples
        ]


@lru_cache(maxsize=64)
def _propagation(columns: int, are_joined: bool, dtype: np.dtype[Any], device: int) -> LaunchByAddress:
    """Return the launch that finds the unknowns at and next to the ends of a shard."""

    def array(number: int, char: str) -> Slot:
        return Slot(number, (1,), np.dtype(char))

    stride, rank, *others = (Slot(k, (), np.dtype(char), None) for k, char in enumerate("qiiq", 1))
    limits = map(dtype.type, decay_limits(dtype))
    messages, known, status = array(0, "B"), array(5, dtype.char), array(6, "q")
    arguments = messages, stride, rank, *others, np.int64(columns), *limits, known, status
    text, blocks = print_program("shard", dtype, JOINED=are_joined), -(-columns // _THREADS)
    launches = [Launch(text, "propagate_kernel", blocks, _THREADS, arguments, is_fused=False)]
    if blocks > 1:
        launches.append(Launch(text, "report_kernel", 1, 1, (messages, stride, rank, status)))
    return LaunchByAddress(PreparedLaunches(*launches))
