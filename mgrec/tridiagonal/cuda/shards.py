"""The shard of a rank: one exchange of interface rows, and one reading of the operands.

If rows are dominant, the ends of a shard decide its first and last unknowns (`summarise_ends`). One
kernel reduces the ends to the message of this rank. From the messages of all ranks the host finds
the unknowns at and next to the ends, and launches the windows, which read the operands once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.backends import CPU
from ...core.contract.kernels import HEADER, CacheMiss, ShardMessages, ShardSolver, ShardSteps
from ...engines.cuda.device import array_at, on_device, pack_words
from ..recurrence import Ends, InterfaceRows, join_interface_rows
from . import chunks
from .nopivot import prepare_tries, start_windows
from .partitions import ADDRESSES, CELL

Signature = tuple[tuple[int, ...], np.dtype[Any]]
Check = Callable[[Sequence[Any]], None]


def prepare_shard(
    chunk: Chunk, result: Any, rows: int, signatures: Sequence[Signature], check: Check
) -> ShardSolver | None:
    """Return a solver for shards of the shape of a chunk; None if windows do not solve it.

    `rows` is the number of rows at each end. `check` raises an error for operands, of these shapes
    and dtypes, that contain nan or inf.
    """
    on_gpu = chunk.map_arrays(on_device, chunk.shape)
    if not prepare_tries(on_gpu):
        return None
    return _Shard(chunk, on_gpu, result, rows, signatures, check)


class _Shard:
    def __init__(
        self, chunk: Chunk, on_gpu: Chunk, result: Any, rows: int, signatures: Sequence[Signature],
        check: Check,
    ) -> None:  # fmt: skip
        self._shape, self._dtype, self._rows = chunk.shape, chunk.dtype, rows
        self._shapes = tuple([operand.shape for operand in on_gpu.operands])
        self._is_aligned = chunks.are_aligned(on_gpu.operands)
        self._check, self._signatures = check, signatures
        self._known_before = list[Any]()
        self._tries = prepare_tries(on_gpu)
        self._allocate = {
            ends: chunks.allocator(Ends(*ends), on_gpu, result)
            for ends in ((False, False), (False, True), (True, False))
        }
        # Copies of scalars on the device; no reference to the caller's arrays is retained.
        pairs = zip(on_gpu.operands, chunk.operands, strict=True)
        self._scalars = [None if here is operand else here for here, operand in pairs]
        numbers = CELL * 2 * chunk.shape[2]
        self.message_bytes = HEADER + numbers * chunk.dtype.itemsize

    def __call__(
        self, arguments: Sequence[Any], targets: Sequence[int], shards: ShardMessages
    ) -> ShardSteps:
        ends = Ends(shards.rank == 0, shards.rank == shards.size - 1)
        addresses = [
            address if scalar is None else scalar.data.ptr
            for scalar, address in zip(self._scalars, arguments, strict=True)
        ]
        self._reduce_ends(ends, addresses, shards.message + HEADER)
        shards.write_header()
        yield
        known = self._known(shards)
        neighbours = chunks.neighbour_addresses(ends, known)
        wait = start_windows(self._tries, addresses, targets[0], neighbours)
        yield
        if wait():
            return
        memory = self._allocate[ends[:2]](addresses, targets[0])
        is_solved = chunks.solve_chunk(memory, known)
        shards.synchronize()
        if not is_solved:
            self._check(self._blocks(arguments))

    def _blocks(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the operands: arrays at their addresses, and numbers."""
        triples = zip(arguments, self._scalars, self._signatures, strict=True)
        return [
            array_at(argument, *signature) if scalar is None else np.asarray(argument, signature[1])
            for argument, scalar, signature in triples
        ]

    def _reduce_ends(self, ends: Ends, addresses: Sequence[int], message: int) -> None:
        import cupy

        layout = self._shape, self._dtype, self._shapes, self._is_aligned
        device = cupy.cuda.runtime.getDevice()
        words, launch = chunks.launch_of_ends(*layout, ends[:2], self._rows, device)
        if launch is None:
            raise CacheMiss
        words = words.copy()
        words[ADDRESSES] = [*addresses, 0, message, 0]
        launch((pack_words(words),))

    def _known(self, shards: ShardMessages) -> Any:
        """Return the unknowns at and next to the ends of this rank, for kernels."""
        known = shards.once(lambda: self._propagate(shards.fetch()))[shards.rank]
        if known.size > chunks.IN_HOST_MEMORY:
            return chunks.readable(known, self._dtype)
        if len(self._known_before) < 2:
            self._known_before.append(chunks.readable(known, self._dtype))
        # The windows of all calls but the one before have ended.
        self._known_before.reverse()
        self._known_before[0][...] = known
        return self._known_before[0]

    def _propagate(self, messages: Sequence[np.ndarray]) -> Sequence[Any]:
        """Return the unknowns at and next to the ends of each shard."""
        size, summaries = self.message_bytes - HEADER, []
        for message in messages:
            cells = message[:size].view(self._dtype).reshape(2, self._shape[2], 2, CELL // 2)
            first, last = _ends_of(cells)
            rows = join_interface_rows(first, last)
            if rows is None:
                raise CacheMiss
            summaries.append(InterfaceRows(rows))
        return CPU.kernels("tridiagonal").propagate(summaries, False)


def _ends_of(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the interface rows (2, 5, 1, inner) of the first and of the last rows."""
    rows = np.ascontiguousarray(cells.transpose(2, 3, 0, 1))
    return rows[:, :, :1], rows[:, :, 1:]
