"""The shard of a rank: launches between which ranks exchange the states of their filters.

As a speculative chunk (:mod:`.phases`): the samples are filtered from states of 0, then the first
ones again from the states before them. The exchange runs on the device. The host waits once, at the
end, for the answer whether all states are finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...core.contract.kernels import HEADER, PreparedSolver, ShardMessages, ShardSolver, ShardSteps
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ..cascade import Cascade

STATE = 16
"""Bytes of a state in a message."""
_THREADS = 128
_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS) states_kernel(
    const double* after, long long stride, const double* before, int states, int inners,
    long long digest, char* message) {
  write_states(after, stride, before, states, inners, digest, Message<State>(message));
}
extern "C" __global__ void __launch_bounds__(THREADS) propagate_kernel(
    char* messages, long long stride, int rank, int size, long long digest, int count,
    double* carry_in, double* last, long long* status) {
  propagate(Messages<State>{messages, stride}, rank, size, digest, count, carry_in, last, status);
}
"""


@cache
def _launches(device: int) -> tuple[LaunchByAddress, LaunchByAddress]:
    header = kernel_text("engines/cuda/numeric")
    text = print_definitions(header, {"THREADS": _THREADS})
    text += kernel_text("filters/cuda/shard") + _KERNELS
    write = _slots("u8", "i8", "u8", "i4", "i4", "i8", "u8")
    propagate = _slots("u8", "i8", "i4", "i4", "i8", "i4", "u8", "u8", "u8")
    return (
        LaunchByAddress(PreparedLaunches(Launch(text, "states_kernel", 1, _THREADS, write))),
        LaunchByAddress(PreparedLaunches(Launch(text, "propagate_kernel", 1, _THREADS, propagate))),
    )


def _slots(*dtypes: str) -> tuple[Slot, ...]:
    return tuple(Slot(k, (), np.dtype(dtype), None) for k, dtype in enumerate(dtypes))


class FilterShardSolver(ShardSolver):
    """A solver of the parts of a signal (1, steps, inner), real and contiguous.

    `whole`, `first`: filter a part, and the first steps of one, from states on the device.
    `has_states`: whether the states before the first sample are an argument.
    """

    def __init__(
        self, cascade: Cascade, chunk: Chunk, whole: PreparedSolver, first: PreparedSolver, has_states: bool
    ) -> None:
        import cupy

        self._whole, self._first, self._has_states = whole, first, has_states
        self._states, self._inners = cascade.states, chunk.shape[2]
        self._count = self._states * self._inners
        self._shape = (self._states, 1, self._inners)
        self._zeros = cupy.zeros(self._shape, np.float64)
        self._write, self._propagate = _launches(cupy.cuda.runtime.getDevice())
        self.message_bytes = HEADER + STATE * self._count

    def __call__(self, arguments: Sequence[Any], targets: Sequence[int], shards: ShardMessages) -> ShardSteps:
        import cupy

        x, before = arguments[0], arguments[1] if self._has_states else 0
        after = self._whole([x, self._zeros.data.ptr], targets)
        sizes = self._states, self._inners
        self._write([after.data.ptr, after.strides[0] // 8, before, *sizes, shards.digest, shards.message])
        yield
        states = cupy.empty((2, *self._shape), np.float64)
        carry_in, last = states
        self._propagate([*shards.received, self._count, carry_in.data.ptr, last.data.ptr, shards.status])
        shards.mark()
        self._first([x, carry_in.data.ptr], targets)
        yield
        shards.wait()
        return last if self._has_states else None
