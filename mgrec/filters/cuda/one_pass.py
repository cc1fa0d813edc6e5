"""Filters of long rows in one pass over memory: their tiles, and the launch."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import MULTIPROCESSORS, Device
from ...engines.cuda.launches import EPOCH, SPACE, Launch
from ..cascade import Cascade
from ..power import doubled_powers, impulse_states, powers_of_lanes
from .coefficients import coefficients, on_device
from .partition import Partition
from .program import FilterLayout

THREADS, LENGTH_BYTES, STAGES, DEPTH = 448, 144, 3, 1
"""Threads of a block that filter, bytes of the samples of each, tiles in shared memory, and those
of them whose states are published ahead.

On an H100, filters of order 4 ran at 0.74 of the floor on float32, with 480 threads at 0.71, with
384 threads and 176 bytes at 0.72, with 320 and 208 at 0.61, with responses of 12 samples at a time
instead of all 36 at 0.71, and at 0.66 if tiles were found by divisions of 32 bits and copied
without comparisons. Filters of order 2 ran, before other changes, at 0.82, with 256 threads and
208 bytes, 4 and 2 tiles, at 0.67, and with 960 threads and 64 bytes, 2 tiles and 1, at 0.64.
"""
RUN = 2
"""Tiles that a lane joins: a constant, so that results are the same on all devices. Their states
are in registers: filters of order 3 run at 0.83 of the floor with 2, at 0.81 with 4 and at 0.65
with 8; those of order 6 at 0.49 with 2 and at 0.43 with 1."""
MOST_STATES = 6
"""Most states of such a filter, whose constants take the 4 KB that a launch passes by value. On
float32 and float64, filters of order 2 to 6 run at 0.90 and 0.95, 0.83 and 0.89, 0.75 and 0.76,
0.59 and 0.67, and 0.49 and 0.55 of the floor; in two walks at 0.54, 0.50, 0.47, 0.44 and 0.41.
Those of order 8 gain nothing: 0.33 and 0.42, in two walks 0.34 and 0.37."""
LEAST_TILES = 8 * MULTIPROCESSORS
"""Fewest tiles of a launch: blocks wait for the first ones."""
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS + 32, 1) tiles_kernel(
    const Arrays arrays, const Coefficients with, const Steps steps, const S* lanes, const S* warps,
    const S* tiles, Unit* descriptors, const Shape shape, unsigned epoch) {
  filter_tiles(arrays, with, steps, {lanes, warps, tiles}, descriptors, shape, epoch * 16);
}
"""


def one_pass(
    partition: Partition, layout: FilterLayout, shape: tuple[int, int, int]
) -> Partition | None:
    """Return the tiles of rows whose states are propagated; None if one pass does not apply."""
    outer, steps, inner = shape
    tile = THREADS * LENGTH_BYTES // layout.dtype.itemsize
    tiles = -(-steps // tile)
    is_real = layout.states == np.float64 and layout.inputs is None
    applies = partition.is_propagated and is_real and layout.bulk and inner == 1
    is_small = 0 < layout.order * layout.sections <= MOST_STATES
    if not (applies and is_small) or outer * tiles < LEAST_TILES or not _has_memory():
        return None
    return replace(partition, segments=tiles, length=tile)


def _shared_bytes() -> int:
    vectors = LENGTH_BYTES // 16
    return STAGES * THREADS * 16 * (vectors + 1 - vectors % 2)


def _has_memory() -> bool:
    return Device.current().shared_bytes >= _shared_bytes() + 8192


def units(layout: FilterLayout, tiles: int) -> int:
    """Return the number of 64-bit words that blocks publish."""
    return 2 * layout.order * layout.sections * tiles


@lru_cache(maxsize=64)
def _steps(cascade: Cascade, length: int) -> np.ndarray:
    """Return the kernel's struct of constants: responses of the states, and powers of A."""
    joins = doubled_powers(cascade, length, 1, 5)[1:]
    both = np.concatenate([impulse_states(cascade, length)[::-1].ravel(), joins.ravel()])
    return both.view(f"V{both.nbytes}")


@cache
def _print_program(layout: FilterLayout) -> str:
    layout = replace(layout, stages=STAGES, direct=False)
    length = LENGTH_BYTES // layout.dtype.itemsize
    constants = f"constexpr int LENGTH = {length}, DEPTH = {DEPTH}, RUN = {RUN};\n"
    constants = layout.print(True, True, threads=THREADS) + constants
    return constants + kernel_text("filters/cuda/one_pass") + _KERNEL


def launch_tiles(
    cascade: Cascade, layout: FilterLayout, arrays: Any, shape: tuple[int, int, int], sizes: Any
) -> Launch:
    """Return the launch. `arrays` is the slot of pointers, `sizes` the struct of the shape."""
    length = LENGTH_BYTES // layout.dtype.itemsize
    tile = THREADS * length
    tiles = shape[0] * -(-shape[1] // tile)
    arguments = (
        arrays,
        coefficients(cascade, replace(layout, direct=False)),
        _steps(cascade, length),
        partial(on_device, powers_of_lanes, cascade, length),
        partial(on_device, powers_of_lanes, cascade, 32 * length),
        partial(on_device, doubled_powers, cascade, tile, RUN, 5),
        SPACE,
        sizes,
        EPOCH,
    )
    return Launch(
        _print_program(layout), "tiles_kernel",
        min(tiles, Device.current().multiprocessors), THREADS + 32, arguments,
        _shared_bytes(), is_cooperative=True,
    )  # fmt: skip
