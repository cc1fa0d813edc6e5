"""Programs, launches and memory of the partitions of a chunk and of the reduced systems above."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ...engines.cuda.tracing.cpp import ctype
from ..interface import Ends

# Threads of a block that merges, solves and opens parts.
MERGERS = 32
# Numbers of a cell, which has the two interface rows of a part, and of a cut between parts.
CELL, CUT = 10, 2
STATUS = 2
"""Numbers of a status."""
_SYSTEM = Slot(0)
_STATUS = Slot(1)
_NONE = -1

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
    """Constants with which the kernels over partitions are compiled.

    Attributes
    ----------
    dtype : numpy.dtype
    threads : int
        Threads of a block; each has a partition.
    columns : bool
        Whether systems are columns: neighbouring threads have neighbouring columns.
    aligned : bool
        Whether rows start at multiples of 16 bytes.
    """

    dtype: np.dtype[np.generic]
    threads: int
    columns: bool
    aligned: bool

    @property
    def rows(self) -> int:
        """Rows of a partition.

        Longer partitions leave a multiprocessor fewer threads: 2^27 unknowns of float32 took 1,014
        and 1,278 microseconds to reduce and to substitute by 64 rows, 825 and 973 by 32.
        Shorter partitions leave more interface rows.
        """
        return 16 if self.dtype.itemsize == 16 else 32

    @property
    def shared_bytes(self) -> int:
        word = max(1, 16 // self.dtype.itemsize)
        return 4 * self.threads * (self.rows + word) * self.dtype.itemsize

    def print(self) -> str:
        flags = {"COLUMNS": self.columns, "ALIGNED": self.aligned}
        declarations = [
            f"constexpr int THREADS = {self.threads};",
            f"constexpr int ROWS = {self.rows};",
        ]
        declarations += [f"constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()]
        return "\n".join(declarations) + "\n"


def group_of(dtype: np.dtype[np.generic]) -> int:
    """Return how many parts one thread merges: as many as fit the shared memory of any GPU."""
    return 8 if dtype.itemsize == 16 else 16


def interface_bytes(dtype: np.dtype[np.generic]) -> int:
    """Return the shared memory of a block that merges, solves or opens parts."""
    return MERGERS * (10 * group_of(dtype) + 1) * dtype.itemsize


def prelude(dtype: np.dtype[np.generic], stages: int = 1) -> str:
    """Return the start of every program of tridiagonal systems."""
    numbers = f"constexpr int GROUP = {group_of(dtype)}, MERGERS = {MERGERS};\n"
    numbers += f"constexpr int STAGES = {stages};\n"
    text = "\n#define DEVICE __device__\n" + numbers + kernel_text("engines/cuda/scalar/numeric")
    return text + f"typedef {ctype(dtype)} T;\n"


@cache
def print_partitions(layout: PartitionLayout) -> str:
    """Return the program that reduces partitions, and substitutes into them."""
    text = prelude(layout.dtype) + layout.print() + kernel_text("tridiagonal/cuda/partitions")
    return text + "".join(_PARTITIONS.format(name=name) for name in ("reduce", "substitute"))


@cache
def print_interface(dtype: np.dtype[np.generic]) -> str:
    """Return the program that solves the reduced systems between partitions."""
    return prelude(dtype) + kernel_text("tridiagonal/cuda/interface") + _INTERFACE


@dataclass(frozen=True)
class PartitionPlan:
    """The partitions of chunks of one shape, and the launches over them.

    Runs of partitions are merged to parts, level by level, until a system is one part.

    Attributes
    ----------
    shape : (int, int, int)
        (outer, steps, inner).
    layout : PartitionLayout
    """

    shape: tuple[int, int, int]
    layout: PartitionLayout

    @property
    def systems(self) -> int:
        return self.shape[0] * self.shape[2]

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Parts of a system on every level, from the partitions to one part."""
        counts = [-(-self.shape[1] // self.layout.rows)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // group_of(self.layout.dtype)))
        return tuple(counts)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets in memory of the cells of every level, then of the cuts, and the end."""
        cells = [CELL * self.systems * parts for parts in self.parts]
        cuts = [CUT * self.systems * (parts + 1) for parts in self.parts]
        size = self.layout.dtype.itemsize
        return tuple(accumulate((size * count for count in cells + cuts), initial=0))

    @cached_property
    def top(self) -> int:
        """The level on which a system is one part."""
        return len(self.parts) - 1

    @cached_property
    def solve_level(self) -> int:
        """The level on which whole systems are solved."""
        return max(0, self.top - 1)

    def cells(self, level: int) -> Slot:
        """Return the slot of a level's cells, after system and status."""
        return Slot(2 + level)

    def cuts(self, level: int) -> Slot:
        """Return the slot of a level's cuts."""
        return Slot(2 + len(self.parts) + level)

    def reduce(self, top: int) -> Iterator[Launch]:
        """Yield the launches that write the interface rows of all parts up to a level."""
        yield self._over_partitions("reduce")
        for level in range(top):
            arguments = (self.cells(level), self.cells(level + 1), *self._sizes(level))
            yield self._over_parts("merge", self.parts[level + 1], arguments)

    def solve(self, level: int) -> Launch:
        """Return the launch that writes all cuts of a level of whole systems."""
        arguments = (self.cells(level), self.cuts(level), *self._sizes(level), _STATUS)
        return self._over_parts("solve", 1, arguments)

    def substitute(self, top: int) -> Iterator[Launch]:
        """Yield the launches that write the cuts below a level with known cuts, and unknowns."""
        for level in reversed(range(top)):
            arguments = (self.cells(level), self.cuts(level), self.cuts(level + 1))
            groups = self.parts[level + 1]
            yield self._over_parts("open", groups, (*arguments, *self._sizes(level)))
        yield self._over_partitions("substitute")

    def _sizes(self, level: int) -> tuple[np.int64, np.int64]:
        return np.int64(self.parts[level]), np.int64(self.systems)

    def _over_partitions(self, name: str) -> Launch:
        blocks = -(-self.systems * self.parts[0] // self.layout.threads)
        text, shared = print_partitions(self.layout), self.layout.shared_bytes
        return Launch(text, f"{name}_kernel", blocks, self.layout.threads, (_SYSTEM,), shared)

    def _over_parts(self, name: str, groups: int, arguments: tuple[Any, ...]) -> Launch:
        blocks = -(-self.systems * groups // MERGERS)
        text = print_interface(self.layout.dtype)
        shared = interface_bytes(self.layout.dtype)
        return Launch(text, f"{name}_kernel", blocks, MERGERS, arguments, shared)


@lru_cache(maxsize=1024)
def prepared_launches(plan: PartitionPlan, device: int) -> dict[str, RunLaunches]:
    """Return the launches over a chunk, compiled for a device.

    ``reduce`` writes the interface rows of a chunk. ``substitute`` follows once the cuts of the top
    level are known. ``solve`` writes the cuts of whole systems, and ``substitute_whole`` follows.
    """
    top, solve_level = plan.top, plan.solve_level
    return {
        "reduce": PreparedLaunches(*plan.reduce(top)),
        "substitute": PreparedLaunches(*plan.substitute(top)),
        "solve": PreparedLaunches(*plan.reduce(solve_level), plan.solve(solve_level)),
        "substitute_whole": PreparedLaunches(*plan.substitute(solve_level)),
    }


@lru_cache(maxsize=1024)
def plan_partitions(
    shape: tuple[int, int, int], dtype: np.dtype[Any], is_aligned: bool, device: Device
) -> PartitionPlan:
    """Return the partitions of chunks of one shape.

    `is_aligned` states whether arrays that vary along the steps start at multiples of 16 bytes.
    """
    outer, steps, inner = shape
    columns = inner > 1
    is_aligned &= not columns and (outer == 1 or steps * dtype.itemsize % 16 == 0)
    threads = 128 if dtype.itemsize == 4 else 32  # three, or six, such blocks fit a multiprocessor
    layout = PartitionLayout(dtype, threads, columns, is_aligned)
    if layout.shared_bytes > device.shared_bytes:
        layout = PartitionLayout(dtype, threads // 2, columns, is_aligned)
    return PartitionPlan(shape, layout)


@dataclass(frozen=True)
class Status:
    """The outcome of the solution of whole systems.

    Attributes
    ----------
    array : CuPy array of int64
        The first singular system, and the first that contains nan or inf. Without one, the largest
        unsigned number.
    """

    array: Any

    @classmethod
    def at_end(cls, buffer: Any) -> Status:
        """Return a status in the last bytes of a buffer."""
        array = buffer[-8 * STATUS :].view(np.int64)
        array.fill(_NONE)
        return cls(array)

    def copy(self) -> Callable[[], tuple[int | None, ...]]:
        """Start a copy to the host after the queued launches; the callable waits for it alone."""
        import cupy
        import cupyx

        stream = cupy.cuda.get_current_stream()
        on_host = cupyx.empty_pinned(STATUS, np.int64)
        self.array.data.copy_to_host_async(on_host.ctypes.data, on_host.nbytes, stream)
        copied = stream.record()

        def status() -> tuple[int | None, ...]:
            copied.synchronize()
            return tuple(None if number == _NONE else int(number) for number in on_host)

        return status


@dataclass(frozen=True)
class Memory:
    """Memory of the launches over one chunk.

    Attributes
    ----------
    plan : PartitionPlan
    buffer : CuPy array of uint8
        Cells and cuts of all levels, and the status.
    status : Status
    system : array of one struct
        Operands, their strides and sizes, which kernels take by value.
    """

    plan: PartitionPlan
    buffer: Any
    status: Status
    system: np.ndarray

    @classmethod
    def allocate(
        cls, plan: PartitionPlan, ends: Ends, shapes: Sequence[tuple[int, int, int]],
        addresses: Sequence[int], result: int,
    ) -> Memory:  # fmt: skip
        """Allocate memory for operands of these shapes and addresses; `result` 0 for none."""
        import cupy

        buffer = cupy.empty(plan.offsets[-1] + 8 * STATUS, np.uint8)
        words: list[int] = []
        for shape, address in zip(shapes, addresses, strict=True):
            words += [address, *strides_of(shape, plan.shape)]
        levels = len(plan.parts)
        base = buffer.data.ptr
        words += [result, base + plan.offsets[0], base + plan.offsets[levels]]
        words += [*plan.shape, plan.parts[0], ends.has_first, ends.has_last]
        return cls(plan, buffer, Status.at_end(buffer), pack_words(words))

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments for the slots of the launches."""
        base = self.buffer.data.ptr
        return (
            self.system,
            self.status.array,
            *(np.uint64(base + k) for k in self.plan.offsets[:-1]),
        )

    def run(self, name: str) -> None:
        """Run the launches that :func:`prepared_launches` has under a name."""
        import cupy

        prepared_launches(self.plan, cupy.cuda.runtime.getDevice())[name](self.arguments)

    def cells(self, level: int) -> Any:
        """Return the cells of a level."""
        return self._slice(level)

    def cuts(self, level: int) -> Any:
        """Return the cuts of a level."""
        return self._slice(len(self.plan.parts) + level)

    def _slice(self, number: int) -> Any:
        start, stop = self.plan.offsets[number : number + 2]
        return self.buffer[start:stop].view(self.plan.layout.dtype)


def strides_of(array_shape: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Return the strides of a contiguous array, in numbers; 0 along a broadcast axis."""
    strides = array_shape[1] * array_shape[2], array_shape[2], 1
    varies = (size == full for size, full in zip(array_shape, shape, strict=True))
    return [stride if is_varying else 0 for stride, is_varying in zip(strides, varies, strict=True)]
