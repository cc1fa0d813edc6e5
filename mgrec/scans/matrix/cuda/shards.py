"""The shard of a rank: it is solved speculatively, and the exchange on the device repairs its first steps.

As :mod:`..speculation`, without a wait of the host between the launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import HEADER, ShardMessages, ShardSolver, ShardSteps
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.cpp import print_definitions
from ....engines.cuda.device import on_device
from ....engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..recurrence import MatrixRecurrence
from ..speculation import VANISHED, first_steps
from .one_pass import prepare_pass

_FEWEST = 1 << 16
"""Steps of a shard whose first ones may be enough for the product of their matrices to vanish."""
_ITEMSIZE = 8
_THREADS = {2: 512, 4: 256}
"""Threads that multiply the matrices of the first steps, by the number of states."""


def prepare_shard(recurrence: MatrixRecurrence, chunk: Chunk, initial: Any) -> ShardSolver | None:
    """Return a solver for shards of one sequence of the shape of a chunk, or None for others.

    `initial` (n,) is the state of a call that has none among its arguments.
    """
    if chunk.row_shape != (1, 1) or chunk.steps < _FEWEST:
        return None
    first = chunk.between(*first_steps(chunk))
    passes = prepare_pass(recurrence, chunk), prepare_pass(recurrence, first)
    return _Shard(recurrence, chunk, passes, on_device(initial)) if all(passes) else None


class _Shard(ShardSolver):
    def __init__(
        self, recurrence: MatrixRecurrence, chunk: Chunk, passes: Sequence[Any], initial: Any
    ) -> None:
        n = recurrence.state_numbers
        (start, stop), self._reverse = first_steps(chunk), chunk.reverse
        self._numbers, self._initial, self._zero = n, initial, on_device(np.zeros(n))
        self._solve, self._correct = passes
        self._first = stop - start
        # Bytes from the start of M, b and the states to those of the first steps, and to the last state.
        self._offsets = [start * count * _ITEMSIZE for count in (n * n, n, n)]
        self._last = 0 if chunk.reverse else (chunk.steps - 1) * n * _ITEMSIZE
        self.message_bytes = HEADER + (n + 1) * _ITEMSIZE

    def __call__(self, arguments: Sequence[Any], targets: Sequence[int], shards: ShardMessages) -> ShardSteps:
        import cupy

        M, b, initial = arguments if len(arguments) > 2 else (*arguments, self._initial.data.ptr)
        of_M, of_b, of_states = self._offsets
        write, propagate = _launches(self._numbers, self._reverse, cupy.cuda.runtime.getDevice())
        self._solve(M, b, self._zero.data.ptr, targets[0])
        is_first = shards.rank == (shards.size - 1 if self._reverse else 0)
        first, known = targets[0] + of_states, initial if is_first else 0
        write([M + of_M, first, self._first, targets[0] + self._last, known, shards.digest, shards.message])
        yield
        before = cupy.empty(self._numbers, np.float64)
        propagate([*shards.received, initial, before.data.ptr, shards.status])
        shards.mark()
        self._correct(M + of_M, b + of_b, before.data.ptr, first)
        yield
        shards.wait()


@lru_cache(maxsize=64)
def _launches(n: int, reverse: bool, device: int) -> tuple[LaunchByAddress, LaunchByAddress]:
    """Return the launches that write a message, and that read those of all shards."""
    constants = {"N": n, "VANISHED": VANISHED, "REVERSE": reverse, "THREADS": _THREADS[n]}
    text = print_definitions(kernel_text("engines/cuda/numeric"), constants)
    text += kernel_text("scans/matrix/cuda/shard")

    def launch(name: str, threads: int, *chars: str) -> LaunchByAddress:
        slots = [Slot(k, (), np.dtype(c), None) if c else Slot(k) for k, c in enumerate(chars)]
        return LaunchByAddress(PreparedLaunches(Launch(text, name, 1, threads, tuple(slots), is_fused=False)))

    write = launch("message_kernel", _THREADS[n], "", "", "q", "", "", "q", "")
    return write, launch("propagate_kernel", 32, "", "q", "i", "i", "q", "", "", "")
