"""Programs of tridiagonal systems: printed for a layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.tracing.cpp import ctype

# Threads of a block that merges, solves and opens parts.
MERGERS = 32

_PARTITIONS = """
extern "C" __global__ void __launch_bounds__(THREADS) {name}_kernel(const System system) {{
  {name}_partitions(system);
}}
"""
_INTERFACE = """
extern "C" __global__ void merge_kernel(const T* cells, T* merged, long long parts,
                                        long long lines) {
  merge_parts(cells, merged, parts, lines);
}
extern "C" __global__ void open_kernel(const T* cells, T* cuts, const T* known, long long parts,
                                       long long lines) {
  open_parts(cells, cuts, known, parts, lines);
}
extern "C" __global__ void solve_kernel(const T* cells, T* cuts, long long parts, long long lines,
                                        unsigned long long* status) {
  solve_lines(cells, cuts, parts, lines, status);
}
"""


@dataclass(frozen=True)
class PartitionLayout:
    """Constants that the kernels over partitions are compiled with.

    Attributes
    ----------
    dtype : numpy.dtype
    threads : int
        Of a block; each has a partition.
    columns : bool
        Systems are columns: neighbouring threads have neighbouring ones.
    aligned : bool
        Rows begin at multiples of 16 bytes.
    """

    dtype: np.dtype[np.generic]
    threads: int
    columns: bool
    aligned: bool

    @property
    def rows(self) -> int:
        """Rows of a partition.

        Longer ones leave a multiprocessor fewer threads: 2^27 unknowns of float32 took 1,014
        and 1,278 microseconds to reduce and to substitute by 64 rows, 825 and 973 by 32.
        Shorter ones leave more interface rows.
        """
        return 16 if self.dtype.itemsize == 16 else 32

    @property
    def shared_bytes(self) -> int:
        pack = max(1, 16 // self.dtype.itemsize)
        return 4 * self.threads * (self.rows + pack) * self.dtype.itemsize

    def print(self) -> str:
        flags = {"COLUMNS": self.columns, "ALIGNED": self.aligned}
        lines = [f"constexpr int THREADS = {self.threads};", f"constexpr int ROWS = {self.rows};"]
        lines += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        return "\n".join(lines) + "\n"


def group_of(dtype: np.dtype[np.generic]) -> int:
    """Parts that one thread merges: as many as fit the shared memory of any GPU."""
    return 8 if dtype.itemsize == 16 else 16


def interface_bytes(dtype: np.dtype[np.generic]) -> int:
    """Shared memory of a block that merges, solves or opens parts."""
    return MERGERS * (10 * group_of(dtype) + 1) * dtype.itemsize


def prelude(dtype: np.dtype[np.generic], stages: int = 1) -> str:
    """What every program begins with."""
    numbers = f"constexpr int GROUP = {group_of(dtype)}, MERGERS = {MERGERS};\n"
    numbers += f"constexpr int STAGES = {stages};\n"
    text = "\n#define DEVICE __device__\n" + numbers + kernel_text("engines/cuda/scalar/numeric")
    return text + f"typedef {ctype(dtype)} T;\n"


@cache
def print_partitions(layout: PartitionLayout) -> str:
    """The program that reduces partitions, and substitutes into them."""
    text = prelude(layout.dtype) + layout.print()
    text += kernel_text("tridiagonal/cuda/reduce", "tridiagonal/cuda/substitute")
    return text + "".join(_PARTITIONS.format(name=name) for name in ("reduce", "substitute"))


@cache
def print_interface(dtype: np.dtype[np.generic]) -> str:
    """The program that solves the small system between partitions."""
    return prelude(dtype) + kernel_text("tridiagonal/cuda/interface") + _INTERFACE
