"""Whole systems that need no pivoting and forget: one reading, one writing, one kernel.

Whether they do is measured by the kernel itself, which gives up where they do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from .memory import strides_of
from .program import prelude

_KERNEL = """
extern "C" __global__ void __launch_bounds__(THREADS) window_kernel(const Windows windows) {
  solve_windows(windows);
}
"""


@dataclass(frozen=True)
class WindowLayout:
    """Constants of the kernel.

    Attributes
    ----------
    dtype : numpy.dtype
    threads : int
        Of a block; each has a partition.
    rows : int
        Of a partition; odd, so that neighbouring threads' rows are in different banks.
    width : int
        Columns of a window; 1 where systems are contiguous.
    """

    dtype: np.dtype[np.generic]
    threads: int
    rows: int
    width: int

    @property
    def lanes(self) -> int:
        """Partitions of a window, of each of its columns."""
        return self.threads // self.width

    @property
    def shared_bytes(self) -> int:
        """Four operands, and results where they are put in order before they are written."""
        pack = max(1, 16 // self.dtype.itemsize)
        tile = (self.threads * self.rows + pack) * self.dtype.itemsize
        return (5 if self.width == 1 else 4) * tile

    @property
    def all_bytes(self) -> int:
        """Shared memory of a block, with what the kernel declares itself."""
        return self.shared_bytes + 8 * self.threads * self.dtype.itemsize

    def print(self) -> str:
        names = {"THREADS": self.threads, "ROWS": self.rows, "WIDTH": self.width}
        return "".join(f"constexpr int {name} = {value};\n" for name, value in names.items())


@cache
def print_windows(layout: WindowLayout) -> str:
    """The program that solves windows."""
    return prelude(layout.dtype) + layout.print() + kernel_text("tridiagonal/cuda/window") + _KERNEL


@dataclass(frozen=True)
class Windows:
    """The windows over chunks of one shape.

    Attributes
    ----------
    shape : (int, int, int)
        (outer, steps, inner).
    layout : WindowLayout
    halo : int
        Partitions on either side of a window that others write; 0 where lines are whole.
    """

    shape: tuple[int, int, int]
    layout: WindowLayout
    halo: int

    @property
    def parts(self) -> int:
        return -(-self.shape[1] // self.layout.rows)

    @property
    def column_groups(self) -> int:
        return -(-self.shape[2] // self.layout.width)

    @property
    def interior(self) -> int:
        """Partitions that a window writes."""
        lanes = self.layout.lanes
        return lanes - 2 * self.halo if self.halo else lanes // self.parts * self.parts

    @property
    def count(self) -> int:
        return -(-self.shape[0] * self.column_groups * self.parts // self.interior)

    def words(self) -> list[int]:
        """Sizes as the kernel takes them."""
        outer, steps, inner = self.shape
        sizes = [steps, inner, outer * self.column_groups]
        sizes += [*_divisor(self.column_groups), *_divisor(self.parts)]
        return [*sizes, self.count, self.interior, self.halo]

    def launch(self, device: Device) -> Launch:
        resident = max(1, device.shared_bytes // (self.layout.all_bytes + 1024))
        blocks = min(self.count, resident * device.multiprocessors)
        text, shared = print_windows(self.layout), self.layout.shared_bytes
        return Launch(text, "window_kernel", blocks, self.layout.threads, (Slot(0),), shared)


def _divisor(number: int) -> tuple[int, int, int]:
    """A number, and what divides by it by a product and a shift (Granlund and Montgomery)."""
    shift = (number - 1).bit_length()
    return number, (2**32 * (2**shift - number)) // number + 1, shift


Beside = tuple[int, int]
# Halos that are tried.
MOST_TRIES = 2
# Threads of a window by the bytes of a number, as fast as any on an H100.
_LONG = {4: 512, 8: 256, 16: 256}
# And rows, of columns.
_COLUMNS = {4: (512, 17), 8: (256, 21), 16: (128, 9)}
_ROWS, _FEW_ROWS = {4: 17, 8: 17, 16: 9}, 9


@lru_cache(maxsize=1024)
def windows_of(
    shape: tuple[int, int, int], dtype: np.dtype[Any], device: Device
) -> tuple[Windows, ...]:
    """Windows for chunks of a shape, to be tried one after the other.

    Later ones have longer halos. None where they do not fit a multiprocessor.
    """
    _, steps, inner = shape
    size = dtype.itemsize
    width = min(128 // size, 1 << (inner - 1).bit_length())
    if inner > 1:
        kinds = [(128, _FEW_ROWS), (128, _ROWS[size]), _COLUMNS[size]]
    else:
        kinds = [(128, _FEW_ROWS), (256, _ROWS[size]), (512, _ROWS[size] if size == 4 else 9)]
    layouts = [WindowLayout(dtype, threads, rows, width) for threads, rows in kinds]
    fitting = [layout for layout in layouts if layout.all_bytes <= device.shared_bytes]
    for layout in fitting:
        parts = -(-steps // layout.rows)
        # More rows a thread are faster, but for short lines.
        if parts <= (32 if layout is layouts[0] and inner == 1 else layout.lanes):
            return (Windows(shape, layout, 0),)
    fitting = [layout for layout in fitting if inner > 1 or layout.threads <= _LONG[size]]
    if not fitting:
        return ()
    layout = fitting[-1]
    halos = (4,) if layout.lanes >= 64 else (1 if size == 4 else 2, 4)
    tries = [Windows(shape, layout, halo) for halo in halos if 4 * halo <= layout.lanes]
    return tuple(tries[:MOST_TRIES])


class Try(NamedTuple):
    """Windows over arrays of a kind, compiled for a device.

    Attributes
    ----------
    words : array of int64
        What the kernel takes, the addresses of a call to be filled in.
    run : callable
    """

    words: np.ndarray
    run: RunLaunches

    def launch(self, addresses: list[int]) -> None:
        words = self.words.copy()
        words[_ADDRESSES] = addresses
        self.run((words.view(f"V{words.nbytes}"),))


# Among the words: of the operands, the result, unknowns beside it, and the flags of the try before
# and of this one.
_ADDRESSES = np.array([0, 4, 8, 12, 16, 17, 18, -2, -1])


def tries_of(chunk: Chunk) -> tuple[Try, ...]:
    """What is launched for chunks of the kind of this one, of operands on the device."""
    import cupy

    shapes = tuple([operand.shape for operand in chunk.operands])
    is_aligned = all(operand.data.ptr % 16 == 0 for operand in chunk.operands)
    device = cupy.cuda.runtime.getDevice()
    return _tries(chunk.shape, chunk.dtype, shapes, is_aligned, device)


@lru_cache(maxsize=1024)
def _tries(
    shape: tuple[int, int, int], dtype: np.dtype[Any], shapes: tuple[tuple[int, int, int], ...],
    is_aligned: bool, number: int,
) -> tuple[Try, ...]:  # fmt: skip
    device = Device.current()
    is_aligned &= shape[2] * dtype.itemsize % 16 == 0
    operands = [word for own in shapes for word in (0, *strides_of(own, shape))]
    found = []
    for windows in windows_of(shape, dtype, device):
        by_words = is_aligned and shape[2] % windows.layout.width == 0
        words = [*operands, 0, 0, 0, *windows.words(), by_words, 0, 0]
        found.append(Try(np.array(words, np.int64), PreparedLaunches(windows.launch(device))))
    return tuple(found)


def launch_tries(
    tries: tuple[Try, ...], operands: Sequence[int], result: int, flags: int,
    beside: Beside = (0, 0),
) -> None:  # fmt: skip
    """Solve lines, if they need no pivoting and forget.

    Parameters
    ----------
    tries : tuple of Try
    operands : sequence of int
        Addresses of dl, d, du and b.
    result : int
        Address of an array (outer, steps, inner), C-contiguous; written. Holds anything where
        windows fail.
    flags : int
        Address of :data:`MOST_TRIES` int64, none of them 0, that the device reaches. That of the
        last try is 0 once it has failed.
    beside : (int, int)
        Addresses of the unknowns before each line and after it, (outer, inner); 0 where a line
        begins or ends.
    """
    settled = 0
    for number, each in enumerate(tries):
        flag = flags + 8 * number
        each.launch([*operands, result, *beside, settled, flag])
        settled = flag


def windows_under_way(
    tries: tuple[Try, ...], operands: Sequence[int], result: int, beside: Beside = (0, 0)
) -> Callable[[], bool]:
    """Launch windows; the callable waits, and tells whether they have solved all."""
    import cupy

    # Given back once the device is done with them.
    kept: list[_Flags] = _local.__dict__.setdefault("flags", [])
    flags = kept.pop() if kept else _Flags.reserve()
    flags.array.fill(-1)
    launch_tries(tries, operands, result, flags.address, beside)

    def have_solved() -> bool:
        if not tries:
            return False
        cupy.cuda.get_current_stream().synchronize()
        is_solved = bool(flags.array[len(tries) - 1])
        kept.append(flags)
        return is_solved

    return have_solved


class _Flags(NamedTuple):
    """Of the tries of one call, in host memory that devices write to."""

    array: Any
    address: int

    @classmethod
    def reserve(cls) -> _Flags:
        import cupyx

        array = cupyx.empty_pinned(MOST_TRIES, np.int64)
        return cls(array, array.ctypes.data)


_local = threading.local()
