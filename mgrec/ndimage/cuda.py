"""Filters of rows of CuPy arrays: sums of exponentials, and averages over windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..engines.cuda.compilation import kernel_text
from ..engines.cuda.cpp import print_definitions
from ..engines.cuda.device import Device, pack_words, scratch
from ..engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from .kernels import (
    FIRST,
    FIRST_ALONE,
    FIRST_INNER,
    LAST,
    LAST_ALONE,
    LAST_INNER,
    NEGLIGIBLE,
    ExponentialSum,
    powers_of,
    state_after,
    state_before,
)

LEAST_ROW = 128
"""Steps of a contiguous line that neighbouring threads filter; shorter lines are as columns."""
BATCH = 16
"""Samples of a thread."""
WARPS = 8
"""Warps of a block."""
_PROPAGATION_THREADS = 128
# The struct of pointers that kernels take.
_ARRAYS = Slot(0, (5,), np.dtype(np.int64), None)
_KERNELS = """
extern "C" __global__ void __launch_bounds__(32 * WARPS, {blocks}) summarize_kernel(
    const Arrays arrays, const Shape shape, const Weights with) {{
  filter_{layout}<false>(arrays, shape, with);
}}
extern "C" __global__ void __launch_bounds__(32 * WARPS, {blocks}) filter_kernel(
    const Arrays arrays, const Shape shape, const Weights with) {{
  filter_{layout}<true>(arrays, shape, with);
}}
extern "C" __global__ void __launch_bounds__({threads}) propagate_kernel(
    const Arrays arrays, const Shape shape, const Borders borders) {{
  propagate(arrays, shape, borders);
}}
"""
MOST_BATCH = 16
"""Results of a thread."""
ROW_THREADS, COLUMN_THREADS = 128, 256
MOST_THREADS, MOST_THREADS_OF_SHORT = 1280, 1024
"""Threads of a multiprocessor for which registers are limited: of float32, and of other dtypes up
to 4 bytes. Limits save 9 and 25 percent of the time."""
MODES = ("nearest", "reflect", "mirror", "wrap", "constant")
_WINDOW_ARRAYS = Slot(0, (2,), np.dtype(np.int64), None)
_WINDOW_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS, {blocks}) average_kernel(
    const Arrays arrays, const Shape shape, const Window window) {{
  average(arrays, shape, window);
}}
"""


@dataclass(frozen=True)
class Program:
    """What the kernels are compiled for.

    `are_rows`: whether lines are contiguous and long.
    `blocks`: blocks of a multiprocessor for which registers are limited.
    """

    poles: int
    is_complex: bool
    is_odd: bool
    are_rows: bool
    inputs: np.dtype[Any]
    results: np.dtype[Any]
    blocks: int

    def warps(self, steps: int) -> int:
        """Return the warps of a block of lines of some steps."""
        return WARPS if self.are_rows else min(WARPS, -(-steps // BATCH))

    def length(self, steps: int) -> int:
        """Return the samples of a segment."""
        return BATCH * (32 if self.are_rows else self.warps(steps))


@cache
def print_program(program: Program) -> str:
    """Return the text of a program."""
    numbers = {
        "POLES": program.poles,
        "BATCH": BATCH,
        "WARPS": WARPS,
        "ODD": program.is_odd,
        "IS_SPLIT": program.is_complex,
    }
    states = np.dtype(np.complex128 if program.is_complex else np.float64)
    numeric = kernel_text("engines/cuda/numeric")
    text = print_definitions(numeric, numbers, X=program.inputs, E=program.results, S=states)
    kernels = _KERNELS.format(
        layout="rows" if program.are_rows else "columns", threads=_PROPAGATION_THREADS, blocks=program.blocks
    )
    return text + kernel_text("ndimage/exponentials") + kernels


def filter_rows(
    kernel: ExponentialSum,
    mode: str,
    constants: tuple[float, float],
    x: Any,
    dtype: Any,
    left: Any = None,
    right: Any = None,
) -> Any:
    """Return filtered rows (outer, steps, inner) of a CuPy array in a real dtype.

    The states beyond the ends of the rows are `left` and `right`, (outer, poles, inner) of
    complex128, or those of a mode. `constants` are those of even and odd rows.
    """
    import cupy

    result = cupy.empty(x.shape, dtype)
    signature = (kernel, mode, constants, x.shape, x.dtype, result.dtype)
    launch, size = _prepare(*signature, cupy.cuda.runtime.getDevice())
    memory = scratch(size)
    addresses = [array.data.ptr for array in (x, result, memory)]
    if left is None:
        launch([(*addresses, 0, 0)])
        return result
    # They stay in memory until the launch.
    states = [cupy.ascontiguousarray(state) for state in (left, right)]
    launch([(*addresses, *[state.data.ptr for state in states])])
    return result


@lru_cache(maxsize=256)
def _prepare(
    kernel: ExponentialSum,
    mode: str,
    constants: tuple[float, float],
    shape: tuple[int, int, int],
    inputs: Any,
    results: Any,
    device: int,
) -> tuple[LaunchByAddress, int]:
    """Return the launches over rows (outer, steps, inner), and the memory of their states."""
    outer, steps, inner = shape
    is_complex, are_rows = any(pole.imag for pole in kernel.poles), inner == 1 and steps >= LEAST_ROW
    # Registers for 3 blocks: 0.69 ms instead of 0.80 for a spline of rows, 1.2 instead of 1.4 for a
    # Gaussian of columns. Those of a Gaussian of rows do not suffice: 3.0 ms instead of 1.9.
    registers = 2 if are_rows and is_complex else 3
    poles = len(kernel.poles)
    program = Program(poles, is_complex, kernel.is_odd, are_rows, inputs, results, registers)
    row_count, segments = outer * inner, -(-steps // program.length(steps))
    sizes = pack_words([row_count, steps, inner, segments])
    warps = program.warps(steps)
    blocks, threads, shared_bytes = -(-row_count * segments // warps), 32 * warps, 0
    if not are_rows:
        blocks = -(-row_count // 32) * segments
        shared_bytes = 2 * poles * threads * (16 if is_complex else 8)
    text, arguments = print_program(program), (_ARRAYS, sizes, _weights(kernel, program))
    groups = -(-row_count * poles * 32 // _PROPAGATION_THREADS)
    borders = _ARRAYS, sizes, _borders(kernel, mode, constants, steps, program)
    launches = PreparedLaunches(
        Launch(text, "summarize_kernel", blocks, threads, arguments, shared_bytes),
        Launch(text, "propagate_kernel", groups, _PROPAGATION_THREADS, borders),
        Launch(text, "filter_kernel", blocks, threads, arguments, shared_bytes),
    )
    return LaunchByAddress(launches), row_count * segments * poles * (32 if is_complex else 16)


def _weights(kernel: ExponentialSum, program: Program) -> np.ndarray:
    """Return the struct of weights."""
    poles, half = np.array(kernel.poles), BATCH // 2
    powers = kernel.powers(BATCH + 1)
    weights = np.array(kernel.weights) * poles
    doubled = np.array([powers_of(pole, BATCH * 2 ** np.arange(5)) for pole in kernel.poles])
    # The last half of a batch backwards is the mirror image of the first.
    first, last = powers[:, :half], powers[:, :BATCH][:, : half - 1 : -1]
    taps = np.concatenate([[kernel.middle], (weights[:, None] * powers[:, : BATCH - 1]).sum(0).real])
    numbers = np.concatenate([[kernel.middle], taps / 2])
    states = (poles, weights, powers, (first + last) / 2, (first - last) / 2, doubled)
    return _struct(numbers, states, program)


def _borders(
    kernel: ExponentialSum, mode: str, constants: tuple[float, float], steps: int, program: Program
) -> np.ndarray:
    """Return the struct of states beyond the ends of a line."""
    length = program.length(steps)
    last = steps - (-(-steps // length) - 1) * length
    sides = [
        np.stack(_coefficients(kernel, *state(kernel, (steps,), 0, mode, 1.0)), 1)
        for state in (state_before, state_after)
    ]
    return _struct(constants, (kernel.power(length), kernel.power(last), *sides), program)


def _coefficients(kernel: ExponentialSum, weights: Any, constant: Any) -> tuple[np.ndarray, ...]:
    """Return the weights of the states of a line, of its end samples, and of the constant.

    The sum of p^j·x over all samples but the first is (Σ p^j·x − x[0])/p, to be weighted by p.
    """
    poles = np.array(kernel.poles)
    inverse = np.divide(1, poles, where=abs(poles) > NEGLIGIBLE, out=np.zeros_like(poles))
    after, before, first, last = np.zeros((4, poles.size), complex)
    for (_, part), factor in weights.items():
        if part in (FIRST, FIRST_INNER):
            after += factor if part == FIRST else factor * inverse
        if part in (LAST, LAST_INNER):
            before += factor if part == LAST else factor * inverse
        if part in (FIRST_INNER, FIRST_ALONE):
            first += factor if part == FIRST_ALONE else -factor * inverse
        if part in (LAST_INNER, LAST_ALONE):
            last += factor if part == LAST_ALONE else -factor * inverse
    return after, before, first, last, constant


def _struct(numbers: Any, states: Any, program: Program) -> np.ndarray:
    """Return doubles and states as one struct, aligned as in C."""
    values = np.concatenate([np.ravel(array) for array in states])
    doubles = values.view(np.float64) if program.is_complex else values.real
    pad = [0.0] if program.is_complex and len(numbers) % 2 else []
    words = np.concatenate([numbers, pad, doubles]).astype(np.float64)
    return words.view(f"V{words.nbytes}")


@dataclass(frozen=True)
class WindowProgram:
    """What the kernel is compiled for.

    `are_rows`: whether lines are contiguous and long.
    `blocks`: blocks of a multiprocessor for which registers are limited.
    """

    batch: int
    threads: int
    are_rows: bool
    mode: str
    inputs: np.dtype[Any]
    results: np.dtype[Any]
    blocks: int

    @property
    def samples(self) -> np.dtype[Any]:
        """Dtype of samples in shared memory: SciPy does not cast the constant to integers."""
        return np.dtype(np.float64) if self.mode == "constant" else self.inputs

    def shared_bytes(self, size: int) -> int:
        """Return the shared memory of a block, for windows of a size."""
        lanes = 1 if self.are_rows else 32
        batches = -(-(self.threads // lanes * self.batch + size - 1) // self.batch)
        samples = batches * (self.batch + 1 if self.are_rows else self.batch * lanes)
        needed = 8 * batches * lanes + samples * self.samples.itemsize
        if not self.are_rows:
            return needed
        return max(needed, self.threads * (self.batch + 1) * self.results.itemsize)


@cache
def print_windows(program: WindowProgram) -> str:
    """Return the text of a program."""
    numbers = {
        "BATCH": program.batch,
        "ROWS": program.are_rows,
        "MODE": MODES.index(program.mode),
        "THREADS": program.threads,
        "STAGES": 1,
        "IS_SAME": program.inputs == program.samples,
    }
    types = {"X": program.inputs, "E": program.results, "T": program.samples}
    text = print_definitions(kernel_text("engines/cuda/numeric"), numbers, **types)
    return text + kernel_text("ndimage/windows") + _WINDOW_KERNEL.format(blocks=program.blocks)


def average_rows(
    x: Any, size: int, before: int, mode: str, constants: tuple[float, float], dtype: Any
) -> Any:
    """Return averages of rows (outer, steps, inner) of a CuPy array; None for too wide windows.

    The mode extends the rows; it is "inside" if they have all steps of all windows.
    """
    import cupy

    outer, steps, inner = x.shape
    results = steps - size + 1 if mode == "inside" else steps
    arguments = (size, before, mode, constants, x.shape, results, x.dtype, np.dtype(dtype))
    launch = _prepare_windows(*arguments, cupy.cuda.runtime.getDevice())
    if launch is None:
        return None
    averages = cupy.empty((outer, results, inner), dtype)
    launch([(x.data.ptr, averages.data.ptr)])
    return averages


@lru_cache(maxsize=256)
def _prepare_windows(
    size: int,
    before: int,
    mode: str,
    constants: tuple[float, float],
    shape: Any,
    results: int,
    inputs: Any,
    dtype: Any,
    device: int,
) -> LaunchByAddress | None:
    """Return the launch over rows (outer, steps, inner), or None for too wide windows."""
    outer, steps, inner = shape
    batch, are_rows = min(MOST_BATCH, 1 << size.bit_length() - 1), inner == 1 and steps >= LEAST_ROW
    lanes, threads = (1 if are_rows else 32), 32
    while threads < (ROW_THREADS if are_rows else COLUMN_THREADS) and threads // lanes * batch < steps:
        threads *= 2
    most = MOST_THREADS if inputs == dtype == np.float32 else MOST_THREADS_OF_SHORT
    # The registers of float64 would not suffice for as many.
    is_short = max(inputs.itemsize, dtype.itemsize) <= 4 and mode != "constant"
    registers = min(most // threads, 16) if is_short else 1
    extension = "nearest" if mode == "inside" else mode
    program = WindowProgram(batch, threads, are_rows, extension, inputs, dtype, registers)
    if program.shared_bytes(size) > Device.current().shared_bytes:
        return None
    sizes = pack_words([outer * inner, steps, results, inner, before])
    window = np.array([*constants, 1 / size]).view(np.int64).tolist()
    blocks = -(-outer * inner // lanes) * -(-results // (batch * threads // lanes))
    arguments = _WINDOW_ARRAYS, sizes, pack_words([*window, size])
    shared_bytes = program.shared_bytes(size)
    launch = Launch(print_windows(program), "average_kernel", blocks, threads, arguments, shared_bytes)
    return LaunchByAddress(PreparedLaunches(launch))
