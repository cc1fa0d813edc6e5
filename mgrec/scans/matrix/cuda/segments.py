"""Launches of recurrences whose maps have many numbers: see ``segments.cuh``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....core.arrays.array_types import cast
from ....core.arrays.chunk import canonical_shape, lay_out_array
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.device import (
    SCRATCH_IS_SHARED,
    fetch,
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
    name: str = "Pass", kernels: str = _KERNELS,
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
        + kernels.replace("Pass", name)
    )


def segments_of(rows: int, steps: int, lanes: int, numbers: int) -> tuple[int, int]:
    """Return the number of segments of a row, and their steps."""
    rows = max(rows, 1)
    most = min(
        _SEGMENTS // (rows * lanes), _MOST_MEMORY // (8 * numbers * rows), steps // _SHORTEST
    )
    length = max(-(-steps // max(most, 1)), 1)
    return max(-(-steps // length), 1), length


@lru_cache(maxsize=256)
def _prepare(
    solved: Pass, words: int, shape: tuple[int, int, int], segments: tuple[int, int],
    continues: bool, summarises: bool, device: int,
) -> tuple[LaunchByAddress, int, int]:  # fmt: skip
    """Return the launches, the offset of the maps of rows or of the carry-in, and the doubles."""
    rows, counts = shape[0] * shape[2], [segments[0]]
    while counts[-1] > (1 if summarises else GROUP):
        counts.append(-(-counts[-1] // GROUP))
    maps = np.cumsum([0, *[rows * count * solved.numbers for count in counts]])
    offset = size = int(maps[-1])
    arguments = (Slot(0, (words,), np.dtype(np.int64), None), Slot(1))
    launches = []

    def launch(kernel: str, count: int, *numbers: int, threads: int = _THREADS) -> None:
        all_arguments = (*arguments, *map(np.int64, numbers))
        launches.append(
            Launch(solved.text, f"{kernel}_kernel", -(-count // threads), threads, all_arguments)
        )

    levels = list(zip(maps, maps[1:-1], counts, counts[1:], strict=False))
    if counts[0] > 1 or summarises:
        launch("summarise", rows * counts[0] * (solved.summary_lanes or solved.lanes))
    for lower, upper, count, groups in levels:
        launch("join", rows * groups * solved.lanes, lower, upper, rows, count, groups)
    if summarises:
        return LaunchByAddress(PreparedLaunches(*launches)), int(maps[-2]), size
    states = {}
    size += rows * solved.state_numbers
    for direction in solved.directions:
        groups, of_groups = 1, offset
        for maps_of_level, count in reversed(list(zip(maps, counts, strict=False))):
            if counts[0] > 1:
                before = of_groups if continues or groups > 1 else -1
                launch(direction, rows * groups, maps_of_level, size, rows, count, groups, before)
                groups, of_groups = count, size
                size += rows * count * solved.state_numbers
        states[direction] = of_groups
    if solved.repairs and counts[0] > 1:
        launch("repair", rows, maps[-2], counts[-1], states["spread"], threads=32)
    ends = [states.get(direction, 0) for direction in ("spread", "spread_back")]
    launch("determine", rows * counts[0], *ends, threads=32)
    return LaunchByAddress(PreparedLaunches(*launches)), offset, size


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
        """Return an operand, whose last axes are those of the numbers of a step."""
        import cupy

        if array is None:
            return self.laid_out(None)
        placed = cast(on_device(array), np.dtype(dtype))
        laid_out = lay_out_array(placed, self.full_shape, self.axis, self.shape, numbers)
        return self.laid_out(cupy.asarray(laid_out))

    def laid_out(self, array: Any) -> Operand:
        """Return an array (outer, steps, inner, ...) on a GPU as an operand.

        Strides count numbers, along the first three axes. The address is 0 without an array.
        """
        if array is None:
            return None, [0, 0, 0, 0]
        strides = [
            stride // array.itemsize if length > 1 else 0
            for stride, length in zip(array.strides[:3], array.shape, strict=False)
        ]
        first = array.data.ptr
        if self.reverse:
            first += (array.shape[1] - 1) * strides[1] * array.itemsize
            strides[1] *= -1
        return array, [first, *strides]

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
        self, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any], sums: bool = False,
        carry_in: Any = None,
    ) -> Any:  # fmt: skip
        """Launch a pass, whose struct has the operands, the arrays, which may be None, and sizes.

        With `sums` an array (rows, segments) comes before the others, and its sums are returned.
        `carry_in` (rows, state_numbers) are the states before the first steps, or after the last.
        """
        import cupy

        steps, segments = self.shape[1], self._segments(solved)
        count = segments[0] if steps else 0
        of_segments = [cupy.empty((self.rows, count), np.float64)] if sums else []
        if self.rows * steps:
            self._launch(solved, operands, [*of_segments, *arrays], segments, carry_in)
        rows_shape = self.full_shape[: self.axis] + self.full_shape[self.axis + 1 :]
        return of_segments[0].sum(1).reshape(rows_shape) if sums else None

    def summarise(
        self, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any],
        continues: bool = True,
    ) -> Callable[[], np.ndarray]:  # fmt: skip
        """Launch the maps (rows, numbers) of whole rows; the returned function waits for them."""
        import cupy

        maps = cupy.empty((self.rows, solved.numbers), np.float64)
        if self.rows:
            memory, offset = self._launch(
                solved, operands, arrays, self._segments(solved), continues or None, True
            )
            # The next call on this stream takes the memory.
            maps.reshape(-1)[...] = memory[8 * offset :][: maps.nbytes].view(np.float64)
        return fetch(maps)

    def words(
        self, operands: Sequence[Operand], arrays: Sequence[Any], segments: tuple[int, int],
        continues: bool = False,
    ) -> list[int]:  # fmt: skip
        """Return the struct of a pass, as words of 64 bits."""
        words = [word for _, of_operand in operands for word in of_operand]
        words += [0 if array is None else array.data.ptr for array in arrays]
        return [*words, *self.shape, *segments, int(continues)]

    @property
    def rows(self) -> int:
        return self.shape[0] * self.shape[2]

    def _segments(self, solved: Pass) -> tuple[int, int]:
        lanes = solved.summary_lanes or solved.lanes
        return segments_of(self.rows, self.shape[1], lanes, solved.numbers)

    def _launch(
        self, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any],
        segments: tuple[int, int], carry_in: Any, summarises: bool = False,
    ) -> tuple[Any, int]:  # fmt: skip
        """Launch the kernels of a pass; return their memory, and an offset in it."""
        import cupy

        raise_if_capturing("a scan of matrices, or of hidden states,", SCRATCH_IS_SHARED)
        continues = carry_in is not None
        words = self.words(operands, arrays, segments, continues)
        device = cupy.cuda.runtime.getDevice()
        launch, offset, size = _prepare(
            solved, len(words), self.shape, segments, continues, summarises, device
        )
        memory = scratch(8 * size)
        if continues and not summarises:
            states = cupy.asarray(np.ascontiguousarray(carry_in)).reshape(-1)
            memory[8 * offset :][: states.nbytes].view(np.float64)[...] = states
        launch([words, memory.data.ptr])
        return memory, offset
