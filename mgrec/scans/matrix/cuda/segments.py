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
from ....engines.cuda.device import (
    SCRATCH_IS_SHARED,
    on_device,
    raise_if_capturing,
    scratch,
)
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
    numbers, state_numbers : int
        Doubles of a map, and of a state.
    lanes : int
        Threads of a map.
    summary_lanes : int
        Threads that summarise a segment; 0 for `lanes`.
    directions : tuple of {"spread", "spread_back"}
        Directions in which states are needed.
    repairs : bool
        Whether the program has a kernel that replaces states after maps that lose digits.
    """

    text: str
    numbers: int
    state_numbers: int
    lanes: int = 1
    directions: tuple[str, ...] = ("spread",)
    summary_lanes: int = 0
    repairs: bool = False


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


@lru_cache(maxsize=256)
def _prepare(
    solved: Pass, words: int, shape: tuple[int, int, int], segments: tuple[int, int], device: int
) -> tuple[LaunchByAddress, int]:
    """Return the launches, and the doubles of their memory."""
    rows, counts = shape[0] * shape[2], [segments[0]]
    while counts[-1] > GROUP:
        counts.append(-(-counts[-1] // GROUP))
    maps = np.cumsum([0, *[rows * count * solved.numbers for count in counts]])
    size = int(maps[-1])
    arguments = (Slot(0, (words,), np.dtype(np.int64), None), Slot(1))
    launches = []

    def launch(kernel: str, count: int, *numbers: int, threads: int = _THREADS) -> None:
        all_arguments = (*arguments, *map(np.int64, numbers))
        launches.append(
            Launch(solved.text, f"{kernel}_kernel", -(-count // threads), threads, all_arguments)
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
    if solved.repairs and counts[0] > 1:
        launch("repair", rows, maps[-2], counts[-1], states["spread"], threads=32)
    ends = [states.get(direction, 0) for direction in ("spread", "spread_back")]
    launch("determine", rows * counts[0], *ends, threads=32)
    return LaunchByAddress(PreparedLaunches(*launches)), size


Operand = tuple[Any, list[int]]
"""An array, and its address and strides."""


class Solver:
    """The operands of a model in the layout of kernels, and the launches of its passes.

    Parameters
    ----------
    shape : tuple of int
        Steps and rows.
    axis : int
        Axis of the steps.
    reverse : bool, optional
        Whether operands begin with the last step.
    """

    def __init__(self, shape: tuple[int, ...], axis: int, reverse: bool = False) -> None:
        self.full_shape, self.axis, self.reverse = shape, axis, reverse
        self.shape = canonical_shape(shape, axis)

    def operand(self, array: Any, numbers: tuple[int, ...], dtype: Any = np.float64) -> Operand:
        """Return an operand, whose last axes are those of the numbers of a step.

        The address is 0 without an array. Strides count numbers, along (outer, steps, inner).
        """
        import cupy

        if array is None:
            return None, [0, 0, 0, 0]
        placed = cast(on_device(array), np.dtype(dtype))
        full, size = (*self.full_shape, *numbers), int(np.prod(numbers))
        layout = canonical_shape(full, self.axis)
        laid_out = cupy.asarray(lay_out_array(placed, full, self.axis, layout))
        outer, steps, width = laid_out.shape
        strides = [
            steps * width if outer > 1 else 0,
            width if steps > 1 else 0,
            size if width > size else 0,
        ]
        first = laid_out.data.ptr
        if self.reverse:
            first += (steps - 1) * strides[1] * laid_out.itemsize
            strides[1] *= -1
        return laid_out, [first, *strides]

    def state(self, array: Any, ndim: int) -> Operand:
        """Return an array of rows, with numbers of `ndim` axes, as an operand of one step."""
        missing = len(self.full_shape) - 1 - (array.ndim - ndim)
        full = array.reshape((1,) * missing + array.shape)
        return self.operand(full[(slice(None),) * self.axis + (None,)], array.shape[-ndim:])

    def empty(self, dtype: Any, *numbers: int) -> Any:
        """Return an array for the results of all steps."""
        import cupy

        return cupy.empty((*self.full_shape, *numbers), dtype)

    def solve(
        self, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any], sums: bool = False
    ) -> Any:
        """Launch a pass, whose struct has the operands, the arrays, which may be None, and sizes.

        With `sums` an array (rows, segments) comes before the others, and its sums are returned.
        """
        import cupy

        raise_if_capturing("a scan of matrices, or of hidden states,", SCRATCH_IS_SHARED)
        outer, steps, inner = self.shape
        rows, lanes = outer * inner, solved.summary_lanes or solved.lanes
        segments = segments_of(rows, steps, lanes, solved.numbers)
        of_segments = [cupy.empty((rows, segments[0]), np.float64)] if sums else []
        words = [word for _, of_operand in operands for word in of_operand]
        words += [0 if array is None else array.data.ptr for array in (*of_segments, *arrays)]
        words += [*self.shape, *segments]
        if rows * steps:
            device = cupy.cuda.runtime.getDevice()
            launch, size = _prepare(solved, len(words), self.shape, segments, device)
            launch([words, scratch(8 * size).data.ptr])
        rows_shape = self.full_shape[: self.axis] + self.full_shape[self.axis + 1 :]
        return of_segments[0].sum(1).reshape(rows_shape) if sums else None
