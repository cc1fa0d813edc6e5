"""The launches of a filter over chunks of one signature, and the memory that they share.

A GPU divides rows into segments, which its lanes filter at the same time. Long rows are filtered in
one pass over memory, in tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import MULTIPROCESSORS, Device, pack_words
from ...engines.cuda.launches import EPOCH, SPACE, Launch, PreparedLaunches, Slot
from ..cascade import Cascade, doubled_powers, impulse_states, power, powers_of_lanes
from ..recurrence import is_safe
from .program import (
    POWERS,
    FilterLayout,
    coefficients,
    on_device,
    print_joins,
    print_propagation,
    print_repair,
    print_walk,
    propagation_threads,
)

# Shortest segment, and longest warm-up that is always taken if it fits.
SHORT, WARM = 64, 2048
# Propagated states are repaired only if they are nan or inf.
_TRUSTED = 1e30
# A state that is smaller than another by this factor is below all rounding errors.
NEGLIGIBLE = 2.0**-75
# The same if all outputs are rounded to 24 bits, and no segment is compared with others.
NEGLIGIBLE_IN_FLOAT32 = 2.0**-46
# The norm of A**n is computed every _STRIDE steps.
_STRIDE = 16


@dataclass(frozen=True)
class Decay:
    """How fast the states of a cascade decay, and how errors in them grow."""

    # Number of steps in which a state decays below `negligible` times its size; None for too many.
    steps: int | None
    # Sum of the errors that an error of 1 in the states of each step causes.
    noise: float
    # Largest error that an error of 1 in the states causes in any later step.
    growth: float = np.inf


@lru_cache(maxsize=1024)
def decay_within(cascade: Cascade, max_steps: int, negligible: float) -> Decay:
    """Return the decay of the norm of A**n, for at most `max_steps` steps.

    If poles lie close to each other, states grow before they decay. The norm shows that, the
    largest pole does not.
    """
    if cascade.is_feed_forward or not cascade.states:
        return Decay(cascade.states, float(cascade.states) + 1, 1.0)
    with np.errstate(all="ignore"):
        if not cascade.radius < 1 or np.log(negligible) / np.log(cascade.radius) > max_steps:
            return Decay(None, np.inf)
        step = power(cascade, 1)[0]
        stride, state = np.linalg.matrix_power(step, _STRIDE), np.eye(len(step))
        noise, growth = 0.0, 1.0
        for n in range(0, max_steps + _STRIDE, _STRIDE):
            norm = float(np.abs(state).sum(1).max())
            if norm <= negligible:
                return Decay(n, noise + 1, growth)
            noise, growth = noise + _STRIDE * norm, max(growth, norm)
            state = stride @ state
    return Decay(None, np.inf)


MOST_GROWTH = 125.0
"""Largest growth of errors with which each power of A and each state is rounded to float64.

Errors over white signals were 6 times those of SciPy's loop with a growth of 138 (Butterworth of order
2, 0.0005), 12 with 716 (0.0001), and 1e6 with 2e7 (order 4, 0.001). Powers and states that are rounded
once a segment had 0.01 to 1 times the errors of the loop."""


@lru_cache(maxsize=1024)
def error_growth(cascade: Cascade, doublings: int) -> float:
    """Return how much the error of a rounded state grows, next to those of the steps of a loop.

    That is the largest number of A**(2**k) in a section, since the next sections have states of the size
    of what they receive, times the size of the states next to the terms that a step adds up, for a white
    signal: those of a notch are small. Each number is the sum of as many products as there are states.
    """
    growth = 1.0
    for section, size in zip(cascade.sections, _sizes_of_states(cascade), strict=True):
        powers = np.abs(doubled_powers(Cascade((section,)), 1, 1, doublings)[0])
        largest = float(np.nan_to_num(powers, nan=np.inf, posinf=np.inf).max())
        factor = size if size < 1 else 1.0  # 1 for nan: a pole lies on the unit circle
        growth = max(growth, largest * factor * cascade.order / 2)
    return growth


@np.errstate(all="ignore")  # Poles may lie on the unit circle.
def _sizes_of_states(cascade: Cascade) -> list[float]:
    """Return the root mean square of a section's states over that of the terms of a step."""
    poles = np.concatenate([np.roots(section.a) for section in cascade.sections])
    distances = np.logspace(-12, 0.5, 600)
    distances = np.concatenate([-distances, [0.0], distances])
    angles = np.unique(np.add.outer(np.angle(poles), distances).clip(-np.pi, np.pi))
    z, sizes = np.exp(-1j * angles), []

    def size_of(response: Any) -> float:
        return float(np.sqrt(np.trapezoid(np.abs(response) ** 2, angles)))

    x = np.ones_like(z)
    for section in cascade.sections:
        y = x * np.polyval(section.b[::-1], z) / np.polyval(section.a[::-1], z)
        state, states, terms = np.zeros_like(z), [], []
        for c, d in zip(section.b[:0:-1], section.a[:0:-1], strict=True):
            state = z * (c * x - d * y + state)
            states.append(size_of(state))
            terms += [size_of(c * x), size_of(d * y)]
        sizes.append(float(np.max(states) / np.max(terms)))
        x = y
    return sizes


@dataclass(frozen=True)
class Segmentation:
    """The segments of each row."""

    segments: int
    length: int  # steps of each segment but the last
    # Number of steps before a segment that its lane filters first, from states of 0.
    warm_up: int = 0
    # Each segment is filtered twice instead, and its states come from all segments before it.
    is_propagated: bool = False
    # A segment is repaired if its states differ by more than `tolerance` times their size + `tiny`.
    tolerance: float = _TRUSTED
    tiny: float = 0.0
    # Only the first segment starts from its true states, and the others are repaired. SciPy's loop
    # filters a row that overflows again, from its first step.
    is_unstable: bool = False
    # Propagated states are rounded once a segment. Otherwise errors of rounding grow with powers of A.
    is_exact: bool = False


def partition_rows(
    cascade: Cascade,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    items: int,
    lanes: int,
    negligible: float,
) -> Segmentation:
    """Return the partition of a chunk's rows, a function of shape, dtype and filter only.

    Segments and warm-ups are multiples of `items` steps. There are about `lanes` segments in all.
    """
    outer, steps, inner = shape

    def rounded_up(length: int) -> int:
        return -(-length // items) * items

    segment = -(-steps // max(1, lanes // (outer * inner)))
    if segment >= steps:
        return Segmentation(1, max(steps, 1), is_unstable=not cascade.radius <= 1)
    decay = decay_within(cascade, max(segment, WARM), negligible)
    if decay.steps is not None:
        warm_up = rounded_up(decay.steps)
        length = rounded_up(max(segment, warm_up, SHORT))
        # float32 results do not show such states. Those of float64 may be amplified.
        tiny = 2.0**-200 if dtype.char in "fF" else 0.0
        tolerance = _tolerance(cascade, decay, dtype)
        return Segmentation(-(-steps // length), length, warm_up, False, tolerance, tiny)
    length = rounded_up(max(segment, SHORT))
    segments = -(-steps // length)
    if is_safe(cascade, length * segments):
        is_exact = error_growth(cascade, (length * segments).bit_length()) > MOST_GROWTH
        return Segmentation(segments, length, is_propagated=True, is_exact=is_exact)
    return Segmentation(segments, length, tolerance=2.0**-48, is_unstable=True)


def _tolerance(cascade: Cascade, decay: Decay, dtype: np.dtype[Any]) -> float:
    """Return the relative difference of states that no output shows.

    That is the rounding errors of float64, relative to states that may be small by chance. For
    outputs of 24 bits it is also 2**-30 of the next outputs: states are at most Σ|a| times as large
    as these, and errors grow at most by ``decay.growth``.
    """
    tolerance = 2.0**-48 * decay.noise
    if dtype.char in "fF":
        largest = max(float(np.abs(section.a).sum()) for section in cascade.sections)
        tolerance = max(tolerance, 2.0**-30 / (decay.growth * largest))
    return min(2.0**-20, tolerance)


THREADS, LENGTH_BYTES, STAGES, DEPTH = 448, 144, 3, 1
"""Threads of a block that filter, bytes of the samples of each, tiles in shared memory, and those
of them whose states are published ahead.

On an H100, filters of order 4 ran at 0.74 of the floor on float32, with 480 threads at 0.71, with
384 threads and 176 bytes at 0.72, with 320 and 208 at 0.61, with responses of 12 samples at a time
instead of all 36 at 0.71, and at 0.66 if tiles were found by divisions of 32 bits and copied
without comparisons. Filters of order 2 ran, before other changes, at 0.82, with 256 threads and
208 bytes, 4 and 2 tiles, at 0.67, and with 960 threads and 64 bytes, 2 tiles and 1, at 0.64.
"""
LANE_TILES = 2
"""Tiles that a lane joins: a constant, so that results are the same on all devices. Their states
are in registers: filters of order 3 run at 0.83 of the floor with 2, at 0.81 with 4 and at 0.65
with 8; those of order 6 at 0.49 with 2 and at 0.43 with 1."""
MOST_STATES = 6
"""Most states of such a filter, whose constants take the 4 KB that a launch passes by value. On
float32 and float64, filters of order 2 to 6 run at 0.90 and 0.95, 0.83 and 0.89, 0.75 and 0.76,
0.59 and 0.67, and 0.49 and 0.55 of the floor; in two walks at 0.54, 0.50, 0.47, 0.44 and 0.41.
Those of order 8 gain nothing: 0.33 and 0.42, in two walks 0.34 and 0.37."""
_VECTORS = LENGTH_BYTES // 16
_SHARED_BYTES = STAGES * THREADS * 16 * (_VECTORS + 1 - _VECTORS % 2)
LONGEST_WARM, LEAST_FILLED = 32, 0.95
"""Most threads of a tile whose samples are those before it, if states decay that soon, and the least
part of such tiles that is filled.

On an H200, float32 of orders 1, 2, 3 and 4 ran at 0.90, 0.89, 0.70 and 0.63 of the floor, in segments
at 0.85, 0.84, 0.80 and 0.77, and float64 of order 2 at 0.76 and 0.88."""
LEAST_TILES = 8 * MULTIPROCESSORS
"""Fewest tiles of a launch: blocks wait for the first ones."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) tiles_kernel(
    const Arrays arrays, const Coefficients with, const Steps steps, const S* lanes, const S* warps,
    const S* tiles, Unit* descriptors, const Shape shape, unsigned epoch) {
  filter_tiles(arrays, with, steps, {lanes, warps, tiles}, descriptors, shape, tag_of(epoch));
}
"""


def one_pass(
    cascade: Cascade, partition: Segmentation, layout: FilterLayout, shape: tuple[int, int, int]
) -> Segmentation | None:
    """Return the tiles of rows whose states are propagated, or decay soon; None if there are none.

    The states before a tile come from the tiles before it, or from the last samples before it.
    """
    outer, steps, inner = shape
    length = LENGTH_BYTES // layout.dtype.itemsize
    warm = -(-partition.warm_up // length) * length
    tile = THREADS * length - warm
    tiles = -(-steps // tile)
    states = layout.order * layout.sections
    is_real = layout.states == np.float64 and layout.inputs is None
    applies = is_real and layout.aligned_results and inner == 1 and outer * tiles >= LEAST_TILES
    if partition.is_propagated:
        pays = 0 < states <= MOST_STATES and not partition.is_exact
    else:
        is_full = steps >= LEAST_FILLED * tiles * tile
        pays = is_full and 0 < warm <= LONGEST_WARM * length and layout.dtype == np.float32 and states <= 2
        pays = pays and error_growth(cascade, tile.bit_length()) <= MOST_GROWTH
    if not (applies and pays):
        return None
    if Device.current().shared_bytes < _SHARED_BYTES + 8192:
        return None
    return replace(partition, segments=tiles, length=tile, warm_up=warm)


@lru_cache(maxsize=64)
def _steps(cascade: Cascade, length: int) -> np.ndarray:
    """Return the kernel's struct of constants: responses of the states, and powers of A."""
    joins = doubled_powers(cascade, length, 1, 5)[0, 1:]
    both = np.concatenate([impulse_states(cascade, length)[::-1].ravel(), joins.ravel()])
    return both.view(f"V{both.nbytes}")


@cache
def _print_program(layout: FilterLayout, length: int, warms: bool) -> str:
    constants = f"constexpr int LENGTH = {length}, DEPTH = {DEPTH}, LANE_TILES = {LANE_TILES};\n"
    constants += f"constexpr bool BULK = {str(layout.bulk_results).lower()}, WARMS = {str(warms).lower()};\n"
    constants = layout.print(True, True, threads=THREADS) + print_joins(False) + constants
    return constants + kernel_text("filters/cuda/one_pass") + _KERNEL


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
    partition: Segmentation
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
        # The 64-bit words that blocks publish.
        published = 2 * self.layout.order * self.layout.sections * self.lanes if self.is_one_pass else 0
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
            return self._filter_tiles(), *self._repair()
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
        offsets = assumed, carry_outs, tops, failures, marks
        return [x, result, carry_in, *[base + offset for offset in offsets]]

    def _sizes(self, halves: int = 1) -> np.ndarray:
        outer, steps, inner = self.shape
        partition = self.partition
        segments = [partition.segments, partition.length, partition.warm_up]
        return pack_words([outer, steps, inner // halves, *segments])

    def _filter_tiles(self) -> Launch:
        length, layout = LENGTH_BYTES // self.layout.dtype.itemsize, self.layout
        bulk = Device.current().has_bulk_copies
        layout = replace(layout, stages=STAGES, direct=False, bulk_results=bulk)
        arguments = (
            _ARRAYS,
            coefficients(self.cascade, layout),
            _steps(self.cascade, length),
            partial(on_device, powers_of_lanes, self.cascade, length),
            partial(on_device, powers_of_lanes, self.cascade, 32 * length),
            partial(on_device, doubled_powers, self.cascade, THREADS * length, LANE_TILES, 5),
            SPACE,
            self._sizes(),
            EPOCH,
        )
        text = _print_program(layout, length, self.partition.warm_up > 0)
        blocks = min(self.lanes, Device.current().multiprocessors)
        sizes = blocks, THREADS + 32, arguments, _SHARED_BYTES
        return Launch(text, "tiles_kernel", *sizes, is_cooperative=True)

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
        # The powers of A with which a block scans the segments of a row.
        matrices = partial(on_device, doubled_powers, self.cascade, self.partition.length, chunk, POWERS - 1)
        arguments = (_ARRAYS, matrices, np.int64(chunk), self._sizes())
        text = print_propagation(self.layout, in_order, self.partition.is_exact)
        return Launch(text, "propagate_kernel", blocks, threads, arguments)

    def _repair(self) -> list[Launch]:
        text = print_repair(self.repair_layout, self.writes, self.halves)
        limits = np.array([self.partition.tolerance, self.partition.tiny]).view(np.int64)
        arguments = (
            _ARRAYS,
            coefficients(self.cascade, self.repair_layout),
            self._sizes(self.halves),
            pack_words([*limits, self.partition.is_unstable]),
        )
        rows = self.shape[0] * self.shape[2] // self.halves
        repair = Launch(text, "repair_kernel", min(-(-rows // 32), REPAIR_BLOCKS), 32, arguments)
        if self.partition.segments == 1:
            return [repair]
        blocks = -(-self.lanes // self.halves // _CHECK_THREADS)
        return [Launch(text, "check_kernel", blocks, _CHECK_THREADS, arguments), repair]
