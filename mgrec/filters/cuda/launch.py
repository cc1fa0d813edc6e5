"""The launches of a filter over chunks of one signature, and the memory that they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ...engines.cuda.device import pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, Slot
from ..cascade import Cascade
from .coefficients import coefficients, powers
from .one_pass import launch_tiles, units
from .partition import Partition
from .program import (
    FilterLayout,
    print_propagation,
    print_repair,
    print_walk,
    propagation_threads,
)

# Blocks of the repair kernel, of one warp each: most launches have nothing to repair.
REPAIR_BLOCKS = 1024
_CHECK_THREADS = 128
# Segments of a row whose states are propagated one after the other: 88 segments of 384 rows with 10
# states took 18 µs, and 198 µs in blocks.
FEW_SEGMENTS = 160
# The struct of pointers that kernels take.
_ARRAYS = Slot(0, (8,), np.dtype(np.int64), None)


@dataclass(frozen=True)
class FilterLaunches:
    """The launches of a filter over chunks of one signature."""

    cascade: Cascade
    # Shape of x. With real coefficients, complex numbers count as two real columns.
    shape: tuple[int, int, int]
    halves: int  # 2 for complex numbers with real coefficients, otherwise 1
    partition: Partition
    layout: FilterLayout  # of the kernels that filter segments
    repair_layout: FilterLayout  # of those that repair them
    writes: bool  # whether results are written; the summary of a chunk has none
    is_one_pass: bool = False
    is_bounded: bool = False  # whether no segment has to be repaired

    def __call__(self, x: Any, carry_in: Any, result: Any) -> Any:
        """Launch all kernels, and return their memory, an array of uint8.

        It is one array, because each allocation delays the first kernel. It has the states before
        and after each segment, (2, states, lanes); for each row, the number of segments from the
        first one to repair, int32; for each lane two bytes: whether outputs came near overflow, and
        whether to repair the segment.
        """
        import cupy

        memory = cupy.empty(self.offsets[-1], np.uint8)
        addresses = [0 if array is None else array.data.ptr for array in (x, carry_in, result)]
        words = pack_words(self.pointers(memory.data.ptr, *addresses))
        self.prepared((words,))
        return memory

    @cached_property
    def prepared(self) -> PreparedLaunches:
        """The launches, compiled for the current device."""
        published = units(self.layout, self.lanes) if self.is_one_pass else 0
        return PreparedLaunches(*self.launches, units=published)

    def carry_out(self, memory: Any) -> Any:
        """Return the states after the chunk, (states, outer, inner), maybe as a view."""
        import cupy

        outer, _, inner = self.shape
        states = memory[self.offsets[1] : self.offsets[2]].view(self.layout.states)
        carry_out = states.reshape(-1, outer, self.partition.segments, inner)[:, :, -1]
        return carry_out if self.halves == 1 else cupy.ascontiguousarray(carry_out).view(complex)

    def is_near_overflow(self, memory: Any) -> Any:
        """Return whether any outputs came near overflow, on the device."""
        return memory[self.offsets[3] : self.offsets[4]].any()

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches in their order."""
        if self.is_one_pass:
            tiles = launch_tiles(self.cascade, self.layout, _ARRAYS, self.shape, self._sizes())
            return tiles, *self._repair()
        repair = [] if self.is_bounded else self._repair()
        if not self.partition.is_propagated:
            return self._walk(self.writes, False), *repair
        # The states after the last segment come from the second walk, also if it writes no outputs.
        last = self._walk(self.writes, True)
        return self._walk(False, False), self._propagate(), last, *repair

    @cached_property
    def lanes(self) -> int:
        outer, _, inner = self.shape
        return outer * self.partition.segments * inner

    @cached_property
    def offsets(self) -> list[int]:
        """Offsets of the arrays in the memory, and its size."""
        outer, _, inner = self.shape
        states = self.layout.order * self.layout.sections
        state_bytes = states * self.lanes * self.layout.states.itemsize
        sizes = [state_bytes, state_bytes, 4 * outer * inner, self.lanes, self.lanes]
        return [sum(sizes[:count]) for count in range(len(sizes) + 1)]

    def pointers(self, base: int, x: int, carry_in: int, result: int) -> list[int]:
        """Return the kernels' struct of pointers, from addresses; 0 means no array."""
        assumed, carry_outs, failures, tops, marks, _ = self.offsets
        return [
            x, result, carry_in, base + assumed, base + carry_outs, base + tops, base + failures,
            base + marks,
        ]  # fmt: skip

    def _sizes(self, halves: int = 1) -> np.ndarray:
        outer, steps, inner = self.shape
        partition = self.partition
        segments = [partition.segments, partition.length, partition.warm_up]
        return pack_words([outer, steps, inner // halves, *segments])

    def _walk(self, write: bool, has_states: bool) -> Launch:
        outer, _, inner = self.shape
        blocks = -(-self.lanes // 32)
        if self.layout.inner:
            blocks = -(-outer * self.partition.segments // (32 // inner))
        # Propagated states are those of the transposed form.
        layout = replace(self.layout, direct=False) if has_states else self.layout
        arguments = (_ARRAYS, coefficients(self.cascade, layout), self._sizes())
        text = print_walk(layout, write, has_states)
        return Launch(text, "filter_kernel", blocks, 32, arguments)

    def _propagate(self) -> Launch:
        (outer, _, inner), segments = self.shape, self.partition.segments
        states = self.layout.order * self.layout.sections
        in_order = segments <= FEW_SEGMENTS and states <= 32
        threads = 32 if in_order else propagation_threads(self.layout)
        blocks = -(-outer * inner // (32 // states)) if in_order else outer * inner
        chunk = -(-segments // threads)
        matrices = partial(powers, self.cascade, self.partition.length, chunk)
        arguments = (_ARRAYS, matrices, np.int64(chunk), self._sizes())
        text = print_propagation(self.layout, in_order)
        return Launch(text, "propagate_kernel", blocks, threads, arguments)

    def _repair(self) -> list[Launch]:
        text = print_repair(self.repair_layout, self.writes, self.halves)
        limits = np.array([self.partition.tolerance, self.partition.tiny]).view(np.int64)
        arguments = (
            _ARRAYS, coefficients(self.cascade, self.repair_layout),
            self._sizes(self.halves), pack_words([*limits, self.partition.is_unstable]),
        )  # fmt: skip
        rows = self.shape[0] * self.shape[2] // self.halves
        repair = Launch(text, "repair_kernel", min(-(-rows // 32), REPAIR_BLOCKS), 32, arguments)
        if self.partition.segments == 1:
            return [repair]
        blocks = -(-self.lanes // self.halves // _CHECK_THREADS)
        return [Launch(text, "check_kernel", blocks, _CHECK_THREADS, arguments), repair]
