"""Launches of averages over windows along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.cpp import print_definitions
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot

LEAST_ROW = 128
"""Steps of a contiguous line from which neighbouring threads average it; shorter lines are averaged
side by side."""
MOST_RUN = 16
"""Results of a thread."""
ROW_THREADS, COLUMN_THREADS = 128, 256
MOST_THREADS, MOST_THREADS_OF_SHORT = 1280, 1024
"""Threads of a multiprocessor for which registers are limited: of float32, and of other dtypes up
to 4 bytes. Limits save 9 and 25 percent of the time."""
MODES = ("nearest", "reflect", "mirror", "wrap", "constant")
_ARRAYS = Slot(0, (2,), np.dtype(np.int64), None)
_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS, {blocks}) average_kernel(
    const Arrays arrays, const Shape shape, const Window window) {{
  average(arrays, shape, window);
}}
"""


@dataclass(frozen=True)
class Program:
    """What the kernel is compiled for.

    Attributes
    ----------
    run : int
        Results of a thread.
    threads : int
        Threads of a block.
    are_rows : bool
        Whether lines are contiguous and long.
    blocks : int
        Blocks of a multiprocessor for which registers are limited.
    """

    run: int
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
        runs = -(-(self.threads // (1 if self.are_rows else 32) * self.run + size - 1) // self.run)
        samples = runs * (self.run + 1 if self.are_rows else self.run * lanes)
        needed = 8 * runs * lanes + samples * self.samples.itemsize
        if not self.are_rows:
            return needed
        return max(needed, self.threads * (self.run + 1) * self.results.itemsize)


@cache
def print_program(program: Program) -> str:
    """Return the text of a program."""
    numbers = {
        "RUN": program.run, "ROWS": program.are_rows, "MODE": MODES.index(program.mode),
        "THREADS": program.threads, "STAGES": 1, "IS_SAME": program.inputs == program.samples,
    }  # fmt: skip
    types = {"X": program.inputs, "E": program.results, "T": program.samples}
    text = print_definitions(kernel_text("engines/cuda/scalar/numeric"), numbers, **types)
    return text + kernel_text("ndimage/cuda/windows") + _KERNEL.format(blocks=program.blocks)


def choose_program(
    size: int, mode: str, shape: tuple[int, int, int], inputs: Any, results: Any
) -> Program:
    """Return the program of windows over rows (outer, steps, inner)."""
    inputs, results = np.dtype(inputs), np.dtype(results)
    run = min(MOST_RUN, 1 << size.bit_length() - 1)
    are_rows = shape[2] == 1 and shape[1] >= LEAST_ROW
    runs = -(-shape[1] // run)
    threads = 32
    while threads < (ROW_THREADS if are_rows else COLUMN_THREADS):
        if threads // (1 if are_rows else 32) >= runs:
            break
        threads *= 2
    most = MOST_THREADS if inputs == results == np.float32 else MOST_THREADS_OF_SHORT
    # The registers of float64 would not suffice for as many.
    is_short = max(inputs.itemsize, results.itemsize) <= 4 and mode != "constant"
    blocks = min(most // threads, 16) if is_short else 1
    return Program(run, threads, are_rows, mode, inputs, results, blocks)


def build_launch(
    program: Program, size: int, before: int, constants: tuple[float, float],
    shape: tuple[int, int, int], results: int,
) -> Launch:  # fmt: skip
    """Return the launch over rows of a shape; the first window begins `before` steps before it."""
    outer, steps, inner = shape
    lines = outer * inner
    length = program.run * program.threads // (1 if program.are_rows else 32)
    groups = lines if program.are_rows else -(-lines // 32)
    sizes = pack_words([lines, steps, results, inner, before])
    window = np.array([*constants, 1 / size]).view(np.int64).tolist()
    return Launch(
        print_program(program), "average_kernel", groups * -(-results // length), program.threads,
        (_ARRAYS, sizes, pack_words([*window, size])), program.shared_bytes(size),
    )  # fmt: skip


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
    launch = _prepare(*arguments, cupy.cuda.runtime.getDevice())
    if launch is None:
        return None
    averages = cupy.empty((outer, results, inner), dtype)
    launch([(x.data.ptr, averages.data.ptr)])
    return averages


@lru_cache(maxsize=256)
def _prepare(
    size: int, before: int, mode: str, constants: tuple[float, float], shape: Any, results: int,
    inputs: Any, dtype: Any, device: int,
) -> LaunchByAddress | None:  # fmt: skip
    program = choose_program(size, "nearest" if mode == "inside" else mode, shape, inputs, dtype)
    if program.shared_bytes(size) > Device.current().shared_bytes:
        return None
    launch = build_launch(program, size, before, constants, shape, results)
    return LaunchByAddress(PreparedLaunches(launch))
