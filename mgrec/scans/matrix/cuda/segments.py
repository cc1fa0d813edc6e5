"""Launches of recurrences whose maps have many numbers: see ``segments.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....core.arrays.array_types import cast
from ....core.arrays.chunk import canonical_shape, lay_out_array
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import on_device, scratch
from ....engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from ....engines.cuda.tracing.cpp import print_definitions

GROUP = 16
"""Neighbouring maps that a thread composes."""
_SEGMENTS = 2**16
"""Threads that solve segments. The order of the arithmetic must not depend on the GPU."""
_SHORTEST = 32
"""Steps of a segment."""
_MOST_MEMORY = 2**28
"""Bytes of the maps of all segments."""
_THREADS = 128
_KERNELS = """
extern "C" __global__ void __launch_bounds__(128) summarise_kernel(
    const Pass pass, double* memory) {
  summarise(pass, pass.sizes, memory);
}
#define LEVEL const Pass pass, double *memory, long long from, long long to, long long rows, \\
  long long lower, long long upper
extern "C" __global__ void __launch_bounds__(128) join_kernel(LEVEL) {
  join(pass, memory + from, memory + to, rows, lower, upper);
}
#define SPREAD spread<BACK>(pass, memory + from, groups < 0 ? nullptr : memory + groups, \\
  memory + to, rows, lower, upper)
extern "C" __global__ void __launch_bounds__(128) spread_kernel(LEVEL, long long groups) {
  constexpr bool BACK = false;
  SPREAD;
}
extern "C" __global__ void __launch_bounds__(128) spread_back_kernel(LEVEL, long long groups) {
  constexpr bool BACK = true;
  SPREAD;
}
extern "C" __global__ void __launch_bounds__(32) determine_kernel(
    const Pass pass, double* memory, long long before, long long after) {
  determine(pass, pass.sizes, memory + before, memory + after);
}
"""


@dataclass(frozen=True)
class Pass:
    """A ``struct Pass``, and the numbers of its maps and states.

    Attributes
    ----------
    text : str
        Program.
    words : int
        Words of 64 bits of the struct, the sizes included.
    numbers, state_numbers : int
        Doubles of a map, and of a state.
    lanes : int
        Threads of a map.
    summary_lanes : int
        Threads that summarise a segment; 0 for `lanes`.
    directions : tuple of {"spread", "spread_back"}
        Directions in which states are needed.
    """

    text: str
    words: int
    numbers: int
    state_numbers: int
    lanes: int = 1
    directions: tuple[str, ...] = ("spread",)
    summary_lanes: int = 0


@cache
def print_pass(
    file: str, n: int, unrolled: int, constants: tuple[tuple[str, int], ...], *types: Any,
    name: str = "Pass",
) -> str:  # fmt: skip
    """Return the program of a pass over maps of n states, a struct of a file.

    Loops over at most `unrolled` states are unrolled, so that arrays stay in registers. `types` are
    the dtypes E and S of results.
    """
    numbers = {"N": n, "GROUP": GROUP, "UNROLL": 64 if n <= unrolled else 1, "SUMMARY_LANES": 0}
    numbers |= dict(constants)
    numeric = kernel_text("engines/cuda/scalar/numeric")
    dtypes = dict(zip("ES", types, strict=False))
    return (
        print_definitions(numeric, numbers, **dtypes)
        + kernel_text(file)
        + _KERNELS.replace("Pass", name)
    )


def segments_of(rows: int, steps: int, lanes: int, numbers: int) -> tuple[int, int]:
    """Return the number of segments of a row, and their steps."""
    rows = max(rows, 1)
    most = min(
        _SEGMENTS // (rows * lanes), _MOST_MEMORY // (8 * numbers * rows), steps // _SHORTEST
    )
    length = max(-(-steps // max(most, 1)), 1)
    return -(-steps // length), length


def solve_in_segments(
    solved: Pass, shape: tuple[int, int, int], words: Sequence[int], segments: Any = None
) -> None:
    """Launch a pass over rows (outer, steps, inner); `words` are those before the sizes.

    `segments` are those of :func:`segments_of`.
    """
    import cupy

    if not np.prod(shape):
        return
    rows = shape[0] * shape[2]
    segments = segments or segments_of(
        rows, shape[1], solved.summary_lanes or solved.lanes, solved.numbers
    )
    launch, size = _prepare(solved, shape, segments, cupy.cuda.runtime.getDevice())
    memory = scratch(8 * size)
    launch([[*words, *shape, *segments], memory.data.ptr])


@lru_cache(maxsize=256)
def _prepare(
    solved: Pass, shape: tuple[int, int, int], segments: tuple[int, int], device: int
) -> tuple[LaunchByAddress, int]:
    """Return the launches, and the doubles of their memory."""
    rows, counts = shape[0] * shape[2], [segments[0]]
    while counts[-1] > GROUP:
        counts.append(-(-counts[-1] // GROUP))
    maps = np.cumsum([0, *[rows * count * solved.numbers for count in counts]])
    size = int(maps[-1])
    arguments = (Slot(0, (solved.words,), np.dtype(np.int64), None), Slot(1))
    launches = []

    def launch(kernel: str, count: int, *numbers: int, threads: int = _THREADS) -> None:
        given = (*arguments, *map(np.int64, numbers))
        launches.append(
            Launch(solved.text, f"{kernel}_kernel", -(-count // threads), threads, given)
        )

    levels = list(zip(maps, maps[1:-1], counts, counts[1:], strict=False))
    if counts[0] > 1:
        launch("summarise", rows * counts[0] * (solved.summary_lanes or solved.lanes))
    for lower, upper, count, groups in levels:
        launch("join", rows * groups * solved.lanes, lower, upper, rows, count, groups)
    states = {}
    for direction in solved.directions:
        groups, of_groups = 1, -1
        for maps_of_level, count in reversed(list(zip(maps, counts, strict=False))):
            if counts[0] > 1:
                launch(
                    direction, rows * groups, maps_of_level, size, rows, count, groups, of_groups
                )
            groups, of_groups = count, size
            size += rows * count * solved.state_numbers
        states[direction] = of_groups
    ends = [states.get(direction, 0) for direction in ("spread", "spread_back")]
    launch("determine", rows * counts[0], *ends, threads=32)
    return LaunchByAddress(PreparedLaunches(*launches)), size


def words_of_operand(
    array: Any, numbers: tuple[int, ...], shape: tuple[int, ...], axis: int,
    dtype: Any = np.float64, reverse: bool = False,
) -> tuple[Any, list[int]]:  # fmt: skip
    """Return an operand in the layout of kernels, and its address and its strides.

    The address is 0 without an array. Strides count numbers, along (outer, steps, inner). In
    reverse they begin with the last step.
    """
    import cupy

    if array is None:
        return None, [0, 0, 0, 0]
    placed = cast(on_device(array), np.dtype(dtype))
    full, size = (*shape, *numbers), int(np.prod(numbers))
    laid_out = cupy.asarray(lay_out_array(placed, full, axis, canonical_shape(full, axis)))
    outer, steps, width = laid_out.shape
    strides = [
        steps * width if outer > 1 else 0, width if steps > 1 else 0, size if width > size else 0
    ]  # fmt: skip
    first = laid_out.data.ptr
    if reverse:
        first += (steps - 1) * strides[1] * laid_out.itemsize
        strides[1] *= -1
    return laid_out, [first, *strides]


def along_steps(array: Any, ndim: int, shape: tuple[int, ...], axis: int) -> Any:
    """Return an array of rows, with numbers of `ndim` axes, as an operand of one step."""
    missing = len(shape) - 1 - (array.ndim - ndim)
    full = array.reshape((1,) * missing + array.shape)
    return full[(slice(None),) * axis + (None,)]
