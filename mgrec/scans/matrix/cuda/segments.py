"""Launches of recurrences whose maps have many numbers: see ``segments.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ....core.arrays.array_types import cast
from ....core.arrays.chunk import Chunk, canonical_shape, lay_out_array
from ....engines.cuda.compilation import kernel_text
from ....engines.cuda.cpp import print_definitions
from ....engines.cuda.device import SCRATCH_IS_SHARED, on_device, raise_if_capturing, scratch
from ....engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot

GROUP = 4
"""Neighbouring maps that a thread composes. Posteriors of 4 states, four chunks of 10^7 steps, took
16.6 ms on an H100, with 16 maps 18.9, and with 2 maps and twice as many launches 16.4."""
_SEGMENTS = 2**16
"""Threads that solve segments. The order of the arithmetic must not depend on the GPU."""
_SHORTEST = 32
"""Steps of a segment."""
_MOST_MEMORY = 2**28
"""Bytes of the maps of all segments."""
DIRECTIONS = "spread", "spread_back"
"""From before the first step on, and back from after the last."""
_KERNELS = """
extern "C" __global__ void __launch_bounds__(128) summarise_kernel(
    const Pass pass, double* maps, double*) {
  summarise<SKIPS_FIRST>(pass, pass.sizes, maps);
}
#define LEVEL const Pass pass, double *maps, double *states, long long from, long long to, \\
  long long rows, long long lower, long long upper
extern "C" __global__ void __launch_bounds__(128) join_kernel(LEVEL) {
  join(pass, maps + from, maps + to, rows, lower, upper);
}
#define SPREAD spread<BACK>(pass, maps + from, groups < 0 ? nullptr : states + groups, \\
  states + to, rows, lower, upper)
extern "C" __global__ void __launch_bounds__(128) spread_kernel(LEVEL, long long groups) {
  constexpr bool BACK = false;
  SPREAD;
}
extern "C" __global__ void __launch_bounds__(128) spread_back_kernel(LEVEL, long long groups) {
  constexpr bool BACK = true;
  SPREAD;
}
extern "C" __global__ void __launch_bounds__(32) determine_kernel(
    const Pass pass, double*, double* states, long long before, long long after) {
  determine(pass, pass.sizes, states, before, after);
}
"""
_ENTER = """
extern "C" __global__ void enter_kernel(const Pass pass, double*, double* states, long long side,
                                        long long to) {
  enter(pass, pass.sizes, states + side, states + to);
}
"""
_FIRST_STEP = """
extern "C" __global__ void first_step_kernel(const Pass pass, double* maps, double*) {
  summarise_first_step(pass, pass.sizes, maps);
}
"""
_REPAIR = """
extern "C" __global__ void repair_kernel(const Pass pass, double* levels, double* states, long long top,
                                         long long groups, long long first) {
  pass.repair(levels, top, groups, states + first);
}
"""


@dataclass(frozen=True)
class Pass:
    """A ``struct Pass``, and the numbers of its maps and states.

    `numbers`, `state_numbers`: doubles of a map, and of a state.
    `summary_lanes`: threads that summarise a segment; 0 for `lanes`.
    `directions`, tuple of {"spread", "spread_back"}: directions in which states are needed.
    `enters`, {"spread", "spread_back"}: direction in which the state of a chunk changes before the
      map of its first segment takes it: see ``enter`` of ``segments.cuh``.
    `repair_lanes`: threads of a row in the kernel that replaces states after maps that lose digits; 0 if
      the program has none.
    """

    text: str
    numbers: int
    state_numbers: int
    lanes: int = 1
    directions: tuple[str, ...] = ("spread",)
    summary_lanes: int = 0
    enters: str = ""
    repair_lanes: int = 0


@dataclass(frozen=True)
class Maps:
    """The maps of the segments of a chunk, of groups of them, and of its rows.

    `memory`, array of float64: the maps level by level.
    `of_rows`, array (rows, numbers): the last level.
    """

    memory: Any
    of_rows: Any


@cache
def print_pass(
    file: str,
    n: int,
    unrolled: int,
    constants: tuple[tuple[str, int], ...],
    *types: Any,
    name: str = "Pass",
    kernels: str = _KERNELS,
    enters: bool = False,
    skips_first: bool = False,
) -> str:
    """Return the program of a pass over maps of n states, a struct of a file.

    Loops over at most `unrolled` states are unrolled, so that arrays stay in registers. `types` are
    the dtypes E and S of results. If the maps of a chunk lead from the state after its first step,
    the pass `skips_first`.
    """
    numbers = {
        "N": n,
        "GROUP": GROUP,
        "UNROLL": 64 if n <= unrolled else 1,
        "SUMMARY_LANES": 0,
        "MEASURES": 0,
    }
    numbers |= {"SKIPS_FIRST": int(skips_first)} | dict(constants)
    numeric = kernel_text("engines/cuda/numeric")
    dtypes = dict(zip("ES", types, strict=False))
    kernels += _ENTER if enters or skips_first else ""
    kernels += _FIRST_STEP if skips_first else ""
    kernels += _REPAIR if numbers["MEASURES"] else ""
    return print_definitions(numeric, numbers, **dtypes) + kernel_text(file) + kernels.replace("Pass", name)


def segments_of(rows: int, steps: int, lanes: int, numbers: int) -> tuple[int, int]:
    """Return the number of segments of a row, and their steps."""
    rows = max(rows, 1)
    most = min(_SEGMENTS // (rows * lanes), _MOST_MEMORY // (8 * numbers * rows), steps // _SHORTEST)
    length = max(-(-steps // max(most, 1)), 1)
    return max(-(-steps // length), 1), length


class _Levels:
    """The levels of a row: segments, groups of them, and so on up to the row.

    `counts`: number of maps of a row on each level.
    `maps`: offset of the maps of each level; the last one is their number of doubles.
    `top`: the first level of at most GROUP maps.
    """

    def __init__(self, solved: Pass, rows: int, segments: int) -> None:
        self.solved, self.rows, self.counts = solved, rows, [segments]
        while self.counts[-1] > 1:
            self.counts.append(-(-self.counts[-1] // GROUP))
        self.maps = [
            int(offset) for offset in np.cumsum([0, *[rows * n * solved.numbers for n in self.counts]])
        ]
        self.top = next(k for k, count in enumerate(self.counts) if count <= GROUP)
        self.launches: list[Launch] = []

    def launch(self, words: int, kernel: str, count: int, *numbers: int, block: int = 128) -> None:
        """Add a launch of `count` threads."""
        arguments = (Slot(0, (words,), np.dtype(np.int64), None), Slot(1), Slot(2), *map(np.int64, numbers))
        text, blocks = self.solved.text, -(-count // block)
        self.launches.append(Launch(text, f"{kernel}_kernel", blocks, block, arguments))

    def prepared(self) -> LaunchByAddress:
        return LaunchByAddress(PreparedLaunches(*self.launches))


def _add_maps(levels: _Levels, words: int, last: int) -> None:
    """Add the launches of the maps of all levels up to the `last` one."""
    solved, rows, counts, maps = levels.solved, levels.rows, levels.counts, levels.maps
    levels.launch(words, "summarise", rows * counts[0] * (solved.summary_lanes or solved.lanes))
    for k in range(last):
        lower, upper = counts[k : k + 2]
        levels.launch(words, "join", rows * upper * solved.lanes, maps[k], maps[k + 1], rows, lower, upper)


@lru_cache(maxsize=256)
def _prepare_maps(
    solved: Pass, words: int, rows: int, segments: int, device: int
) -> tuple[LaunchByAddress, tuple[int, ...]]:
    """Return the launches of the maps of a chunk, and the offsets of the levels."""
    levels = _Levels(solved, rows, segments)
    _add_maps(levels, words, len(levels.counts) - 1)
    return levels.prepared(), tuple(levels.maps)


@lru_cache(maxsize=256)
def _prepare(
    solved: Pass, words: int, rows: int, segments: int, sides: tuple[bool, bool], has_maps: bool, device: int
) -> tuple[LaunchByAddress, int, int]:
    """Return the launches of a solve, and the doubles of its maps and of its states.

    States begin with those before the rows, and those after them; `sides` says which are given.
    """
    levels = _Levels(solved, rows, segments)
    of_rows, is_one = rows * solved.state_numbers, levels.counts[0] == 1
    size, ends = 2 * of_rows, []
    if not (has_maps or is_one):
        _add_maps(levels, words, levels.top)
    for side, (direction, has_side) in enumerate(zip(DIRECTIONS, sides, strict=True)):
        groups, of_groups = 1, side * of_rows if has_side else -1
        if direction in solved.directions and not is_one:
            if has_maps and direction == solved.enters:
                levels.launch(words, "enter", rows, side * of_rows, size, block=32)
                of_groups, size = size, size + of_rows
            for k in range(levels.top, -1, -1):
                count, numbers = levels.counts[k], (rows, levels.counts[k], groups, of_groups)
                levels.launch(words, direction, rows * groups, levels.maps[k], size, *numbers)
                groups, of_groups, size = count, size, size + of_rows * count
        ends.append(max(of_groups, 0))
    if solved.repair_lanes and not is_one:
        top = levels.maps[levels.top], levels.counts[levels.top]
        levels.launch(words, "repair", rows * solved.repair_lanes, *top, ends[0], block=32)
    levels.launch(words, "determine", rows * levels.counts[0], *ends, block=32)
    return levels.prepared(), levels.maps[-1], size


@lru_cache(maxsize=256)
def _prepare_first_steps(solved: Pass, words: int, rows: int, device: int) -> LaunchByAddress:
    """Return the launches that join maps of first steps, and the maps (2·rows, 2) after them."""
    levels, pairs = _Levels(solved, 2 * rows, 2), 4 * rows * solved.numbers
    levels.launch(words, "first_step", 2 * rows * solved.lanes)
    levels.launch(words, "join", 2 * rows * solved.lanes, 0, pairs, 2 * rows, 2, 1)
    return levels.prepared()


Operand = tuple[Any, list[int]]
"""An array, and its address and strides."""


class Solver:
    """The operands of a model in the layout of kernels, and the launches of its passes.

    `reverse`: whether operands begin with the last step.
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
        self,
        solved: Pass,
        operands: Sequence[Operand],
        arrays: Sequence[Any],
        sums: bool = False,
        before: Any = None,
        after: Any = None,
        maps: Maps | None = None,
    ) -> Any:
        """Launch a pass, whose struct has the operands, the arrays, which may be None, and sizes.

        With `sums` an array (rows, segments) comes before the others, and its sums are returned.
        `before` and `after` (rows, state_numbers) are the states before the first steps and after
        the last. `maps` are those of a chunk.
        """
        import cupy

        raise_if_capturing("a scan of matrices, or of hidden states,", SCRATCH_IS_SHARED)
        steps, segments = self.shape[1], self._segments(solved)
        count = segments[0] if steps else 0
        of_segments = [cupy.empty((self.rows, count), np.float64)] if sums else []
        if self.rows * steps:
            sides, device = (before is not None, after is not None), cupy.cuda.runtime.getDevice()
            words = self.words(operands, [*of_segments, *arrays], segments, sides)
            launch, of_maps, of_states = _prepare(
                solved, len(words), self.rows, segments[0], sides, maps is not None, device
            )
            memory = scratch(8 * (of_states + (0 if maps else of_maps)))
            for number, states in enumerate((before, after)):
                if states is not None:
                    copied = cupy.asarray(np.ascontiguousarray(states)).reshape(-1)
                    part = memory[8 * number * copied.size :][: copied.nbytes]
                    part.view(np.float64)[...] = copied
            of_maps_at = maps.memory.data.ptr if maps else memory.data.ptr + 8 * of_states
            launch([words, of_maps_at, memory.data.ptr])
        rows_shape = self.full_shape[: self.axis] + self.full_shape[self.axis + 1 :]
        return of_segments[0].sum(1).reshape(rows_shape) if sums else None

    def maps(
        self,
        solved: Pass,
        operands: Sequence[Operand],
        arrays: Sequence[Any],
        kept: dict[str, Any] | None = None,
    ) -> Maps:
        """Launch the maps of a chunk, before the states at its ends are known.

        They are kept for its `determine` if they are smaller than the operands.
        """
        import cupy

        raise_if_capturing("a scan of matrices, or of hidden states,", SCRATCH_IS_SHARED)
        segments = self._segments(solved)
        words = self.words(operands, arrays, segments, (True, True))
        device = cupy.cuda.runtime.getDevice()
        launch, offsets = _prepare_maps(solved, len(words), self.rows, segments[0], device)
        memory = cupy.empty(offsets[-1], np.float64)
        if self.rows:
            launch([words, memory.data.ptr, 0])
        maps = Maps(memory, memory[offsets[-2] :].reshape(self.rows, solved.numbers))
        size = sum(array.nbytes for array, _ in operands if array is not None)
        if kept is not None and memory.nbytes <= size:
            kept["maps"] = maps
        return maps

    def maps_of(
        self, chunk: Chunk, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any]
    ) -> Maps | None:
        """Return the maps of a chunk that its summary has kept, or launch them.

        None if they are not needed, since each row is one segment.
        """
        if chunk.kept:
            return chunk.kept.pop("maps")
        return None if self._segments(solved)[0] == 1 else self.maps(solved, operands, arrays)

    def with_first_steps(
        self, solved: Pass, operands: Sequence[Operand], arrays: Sequence[Any], maps: Any
    ) -> Any:
        """Return maps (rows, 2, numbers) of rows, from those without the first step.

        The first of a row leads from the state before the first step; in the second a sequence
        starts there.
        """
        import cupy

        words = self.words(operands, arrays, self._segments(solved), (True, True))
        memory = cupy.empty((6 * self.rows, solved.numbers), np.float64)
        if self.rows:
            pairs = memory[: 4 * self.rows].reshape(self.rows, 2, 2, solved.numbers)
            pairs[:, :, 1] = maps[:, None]
            device = cupy.cuda.runtime.getDevice()
            launch = _prepare_first_steps(solved, len(words), self.rows, device)
            launch([words, memory.data.ptr, 0])
        return memory[4 * self.rows :].reshape(self.rows, 2, solved.numbers)

    def words(
        self,
        operands: Sequence[Operand],
        arrays: Sequence[Any],
        segments: tuple[int, int],
        sides: tuple[bool, bool] = (False, False),
    ) -> list[int]:
        """Return the struct of a pass, as words of 64 bits."""
        words = [word for _, of_operand in operands for word in of_operand]
        words += [0 if array is None else array.data.ptr for array in arrays]
        return [*words, *self.shape, *segments, *map(int, sides)]

    @property
    def rows(self) -> int:
        return self.shape[0] * self.shape[2]

    def _segments(self, solved: Pass) -> tuple[int, int]:
        lanes = solved.summary_lanes or solved.lanes
        return segments_of(self.rows, self.shape[1], lanes, solved.numbers)
