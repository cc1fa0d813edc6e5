"""The method of L. H. Thomas: a system a thread, its rows through shared memory."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch
from .program import prelude
from .whole import SYSTEMS, Plan, Shape

# Of a block: one warp, so that few systems reach many multiprocessors.
THREADS = 32
# Tiles in shared memory at once: one is solved while the next is under way.
STAGES = 2

_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS) tiles_kernel(const Systems all) {
  solve_in_tiles(all);
}
extern "C" __global__ void __launch_bounds__(THREADS) memory_kernel(const Systems all) {
  solve_in_memory(all);
}
"""


def thomas(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """Rows of 128 bytes a system in shared memory, and p of every row in memory: 9 words."""
    rows, groups = 128 // dtype.itemsize, -(-shape[0] * shape[2] // THREADS)
    shared = STAGES * 4 * THREADS * (rows + 1) * dtype.itemsize
    text = print_thomas(dtype, shape[2] > 1)
    launch = Launch(text, "tiles_kernel", groups, THREADS, (SYSTEMS,), shared)
    return Plan((launch,), groups * THREADS * shape[1])


def thomas_in_memory(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """The same without shared memory, for a study: neighbouring threads read far apart."""
    systems, text = shape[0] * shape[2], print_thomas(dtype, shape[2] > 1)
    launch = Launch(text, "memory_kernel", -(-systems // THREADS), THREADS, (SYSTEMS,))
    return Plan((launch,), systems * shape[1])


@cache
def print_thomas(dtype: np.dtype[np.generic], columns: bool) -> str:
    """The program; `columns` where systems are side by side in memory."""
    numbers = {"THREADS": THREADS, "ROWS": 128 // dtype.itemsize}
    text = prelude(dtype, STAGES)
    text += "".join(f"constexpr int {name} = {value};\n" for name, value in numbers.items())
    text += f"constexpr bool COLUMNS = {str(columns).lower()};\n"
    return text + kernel_text("tridiagonal/cuda/thomas") + _KERNELS
