"""Whole systems that need no pivoting, by windows: operands are read once, results written once.

The kernel itself checks whether pivoting is needed, and whether far unknowns are negligible. It
stops if a check fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from .partitions import print_program, strides_of


@dataclass(frozen=True)
class Windows:
    """The windows over chunks of one shape (outer, steps, inner).

    Each thread of a block has a partition. Other windows write the `halo` partitions on either side
    of a window; it is 0 if systems are whole.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[np.generic]
    threads: int
    rows: int  # of a partition; odd: rows of neighbouring threads are in different banks
    width: int  # columns of a window; 1 if systems are contiguous
    halo: int = 0

    @property
    def lanes(self) -> int:
        """Partitions of each column of a window."""
        return self.threads // self.width

    @property
    def shared_bytes(self) -> int:
        """Four operands; and results, if they are reordered before they are written."""
        word = max(1, 16 // self.dtype.itemsize)
        tile = (self.threads * self.rows + word) * self.dtype.itemsize
        return (5 if self.width == 1 else 4) * tile

    @property
    def all_bytes(self) -> int:
        """Shared memory of a block, with the arrays that the kernel declares."""
        return self.shared_bytes + 8 * self.threads * self.dtype.itemsize

    @property
    def parts(self) -> int:
        return -(-self.shape[1] // self.rows)

    @property
    def column_groups(self) -> int:
        return -(-self.shape[2] // self.width)

    @property
    def interior(self) -> int:
        """Partitions that a window writes."""
        lanes = self.lanes
        return lanes - 2 * self.halo if self.halo else lanes // self.parts * self.parts

    @property
    def count(self) -> int:
        return -(-self.shape[0] * self.column_groups * self.parts // self.interior)

    def words(self) -> list[int]:
        """Return the sizes in the order of the kernel's struct."""
        outer, steps, inner = self.shape
        sizes = [steps, inner, outer * self.column_groups]
        sizes += [*_divisor(self.column_groups), *_divisor(self.parts)]
        return [*sizes, self.count, self.interior, self.halo]

    def launch(self, device: Device) -> Launch:
        """Return the launch of all windows."""
        resident = max(1, device.shared_bytes // (self.all_bytes + 1024))
        blocks = min(self.count, resident * device.multiprocessors)
        constants = {"THREADS": self.threads, "ROWS": self.rows, "WIDTH": self.width}
        text = print_program("window", self.dtype, **constants)
        return Launch(text, "window_kernel", blocks, self.threads, (_STRUCT,), self.shared_bytes)


def _divisor(number: int) -> tuple[int, int, int]:
    """Return a number, and a factor and a shift that divide by it (Granlund and Montgomery)."""
    shift = (number - 1).bit_length()
    return number, (2**32 * (2**shift - number)) // number + 1, shift


# The kernel's struct.
_STRUCT = Slot(0, (34,), np.dtype(np.int64), None)
Neighbours = tuple[int, int]
MAX_TRIES = 2
UNCAPTURED = "a tridiagonal system", "the host waits to see whether it is solved"
# Threads, rows and halo of windows over long systems, by the bytes of a number. One of 2^25 float32
# took 0.247 ms; with 512 threads, 17 rows and a halo of 4 it took 0.253 ms.
_LONG = {4: (256, 23, 3), 8: (256, 17, 4), 16: (256, 9, 4)}
# Threads and rows of windows over columns.
_COLUMNS = {4: (512, 17), 8: (256, 21), 16: (128, 9)}
_ROWS, _FEW_ROWS = {4: 17, 8: 17, 16: 9}, 9


@lru_cache(maxsize=1024)
def windows_of(
    shape: tuple[int, int, int], dtype: np.dtype[Any], device: Device
) -> tuple[Windows, ...]:
    """Return windows for chunks of a shape, to be tried one after the other.

    Later ones have longer halos. Empty if none fits a multiprocessor.
    """
    inner, size = shape[2], dtype.itemsize
    width = min(128 // size, 1 << (inner - 1).bit_length())
    if inner > 1:
        sizes = [(128, _FEW_ROWS), (128, _ROWS[size]), _COLUMNS[size]]
    else:
        sizes = [(128, _FEW_ROWS), (256, _ROWS[size]), (512, _ROWS[size] if size == 4 else 9)]
    candidates = [Windows(shape, dtype, threads, rows, width) for threads, rows in sizes]
    fitting = [windows for windows in candidates if windows.all_bytes <= device.shared_bytes]
    for windows in fitting:
        # More rows a thread are faster, except for short systems.
        is_first = windows is candidates[0] and inner == 1
        if windows.parts <= (32 if is_first else windows.lanes):
            return (windows,)
    if inner == 1:
        threads, rows, halo = _LONG[size]
        long = Windows(shape, dtype, threads, rows, width, halo), replace(candidates[0], halo=4)
        return tuple([w for w in long if w.all_bytes <= device.shared_bytes][:1])
    if not fitting:
        return ()
    windows = fitting[-1]
    halos = (4,) if windows.lanes >= 64 else (1 if size == 4 else 2, 4)
    return tuple(replace(windows, halo=halo) for halo in halos if 4 * halo <= windows.lanes)


class Try(NamedTuple):
    """Windows over arrays of the same shapes and dtype, compiled for a device."""

    words: np.ndarray  # the kernel's struct; each call fills in its addresses
    launch: LaunchByAddress


# Positions among the words of the addresses of the operands, the result, the unknowns before and
# after it, and the flags of the try before and of this one.
_ADDRESSES = np.array([0, 4, 8, 12, 16, 17, 18, -2, -1])


def prepare_tries(chunk: Chunk) -> tuple[Try, ...]:
    """Return the tries for chunks as this one, whose operands are on the device."""
    import cupy

    shapes = tuple([operand.shape for operand in chunk.operands])
    is_aligned = all(operand.data.ptr % 16 == 0 for operand in chunk.operands)
    device = cupy.cuda.runtime.getDevice()
    return tries_of(chunk.shape, chunk.dtype, shapes, is_aligned, device)


@lru_cache(maxsize=1024)
def tries_of(
    shape: tuple[int, int, int], dtype: np.dtype[Any], shapes: tuple[tuple[int, int, int], ...],
    is_aligned: bool, number: int,
) -> tuple[Try, ...]:  # fmt: skip
    """Return the tries for operands of these shapes on the current device, `number`."""
    device = Device.current()
    is_aligned &= shape[2] * dtype.itemsize % 16 == 0
    operands = [word for operand_shape in shapes for word in (0, *strides_of(operand_shape, shape))]
    tries = []
    for windows in windows_of(shape, dtype, device):
        by_words = is_aligned and shape[2] % windows.width == 0
        words = [*operands, 0, 0, 0, *windows.words(), by_words, 0, 0]
        launch = LaunchByAddress(PreparedLaunches(windows.launch(device)))
        tries.append(Try(np.array(words, np.int64), launch))
    return tuple(tries)


def launch_tries(
    tries: tuple[Try, ...], operands: Sequence[int], result: int, flags: int,
    neighbours: Neighbours,
) -> None:  # fmt: skip
    """Launch all tries; a later one stops if an earlier one has solved all systems.

    Arguments are addresses: of dl, d, du and b; of the result, which is undefined if windows fail;
    of :data:`MAX_TRIES` int64, none of them 0, which the device can access; and of the unknowns
    (outer, inner) before and after each system, 0 where a system starts or ends. The flag of the
    last try is 0 once it has failed.
    """
    previous_flag = 0
    for number, windows in enumerate(tries):
        flag = flags + 8 * number
        words = windows.words.copy()
        words[_ADDRESSES] = [*operands, result, *neighbours, previous_flag, flag]
        windows.launch([words])
        previous_flag = flag


def start_windows(
    tries: tuple[Try, ...], operands: Sequence[int], result: int, neighbours: Neighbours = (0, 0)
) -> Callable[[], bool]:
    """Launch windows; the callable waits, and returns whether they have solved all systems."""
    if not tries:
        return lambda: False
    import cupy

    # Flags in host memory that devices can access, and the event after which none writes them. With
    # a new event in every call, calls took 20 to 30 microseconds longer on an H100.
    unused: dict[int, list[Any]] = _local.__dict__.setdefault("flags", {})
    available = unused.setdefault(cupy.cuda.runtime.getDevice(), [])
    if not available:
        import cupyx

        array = cupyx.empty_pinned(MAX_TRIES, np.int64)
        available.append((array, array.ctypes.data, cupy.cuda.Event(disable_timing=True)))
    flags, address, written = available.pop()
    flags.fill(-1)
    launch_tries(tries, operands, result, address, neighbours)
    written.record()

    def wait() -> bool:
        written.synchronize()
        is_solved = bool(flags[len(tries) - 1])
        available.append((flags, address, written))
        return is_solved

    return wait


_local = threading.local()
