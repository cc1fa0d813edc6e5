"""Windows over systems of few diagonals that need no pivoting: operands are read once, results written once.

The kernel itself checks whether pivoting is needed, and whether far unknowns are negligible, and stops
if a check fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, Slot
from .partitions import layout_of, print_program

Shape = tuple[int, int, int]
Neighbours = tuple[int, int]
# Rows of a partition by the bytes of a number; rows and steps of the halo of systems that are longer than
# a window; and most partitions of those that are not split.
_ROWS, _HALO_ROWS, _HALO_STEPS, _MOST_PARTS = {4: 16, 8: 16, 16: 8}, 64, 32, 32
# Shared memory of a block: three of them, or two, on a multiprocessor hide the latency of each other.
_THREE_BLOCKS, _TWO_BLOCKS = 75_000, 113_000
# Threads and rows of windows over columns: of whole systems from short ones to long ones, and of others
# with their halos in the order of tries.
_WHOLE_COLUMNS = (64, 128, 256, 512)
_LONG_COLUMNS = {4: (256, 24, (1, 2)), 8: (256, 21, (2, 4)), 16: (256, 8, (4, 8))}
_local = threading.local()
_launches = count(1)


class Widths(NamedTuple):
    """Diagonals below and above the main one, or the size of the blocks of three diagonals."""

    lower: int
    upper: int
    block: int = 0

    @property
    def span(self) -> int:
        """Unknowns of a step."""
        return self.block or max(self.lower, self.upper, 1)

    @property
    def around(self) -> int:
        """Unknowns of its neighbours that a step depends on."""
        return 2 * self.block or max(self.lower, 1) + max(self.upper, 1)

    @property
    def numbers(self) -> list[int]:
        """Numbers of each operand in a row."""
        return [self.block] * 3 + [1] if self.block else [1] * (self.lower + self.upper + 2)


TRIDIAGONAL = Widths(1, 1)


@dataclass(frozen=True)
class Windows:
    """The windows over chunks of one shape (outer, rows, inner).

    Each thread of a block has a partition. Other windows write the `halo` partitions on either side
    of a window; it is 0 if systems are whole.
    """

    shape: Shape
    dtype: np.dtype[np.generic]
    widths: Widths
    threads: int
    steps: int  # of a partition
    width: int  # columns of a window; 1 if systems are contiguous
    halo: int = 0

    @property
    def rows(self) -> int:
        """Rows of a partition."""
        return self.steps * self.widths.span

    @property
    def lanes(self) -> int:
        """Partitions of each column of a window."""
        return self.threads // self.width

    @property
    def shared_bytes(self) -> int:
        """Operands, and twice the steps that threads exchange."""
        pitches = [self.rows * count | (self.width == 1) for count in self.widths.numbers]
        exchanged = 2 * self.widths.span * (self.widths.around + 1)
        return (sum(pitches) + exchanged) * self.threads * self.dtype.itemsize

    @property
    def all_bytes(self) -> int:
        """Shared memory of a block, with the array that the kernel declares."""
        return self.shared_bytes + 2 * self.threads * self.dtype.itemsize

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
        outer, rows, inner = self.shape
        sizes = [rows, inner, outer * self.column_groups]
        sizes += [*_divisor(self.column_groups), *_divisor(self.parts)]
        return [*sizes, self.interior, self.halo]

    def launch(self, words: int, has_gaps: bool) -> Launch:
        """Return the launch of all windows, by a struct of so many words.

        `has_gaps`: whether the contiguous systems of an operand may be apart in memory.
        """
        constants = {"THREADS": self.threads, "STEPS": self.steps, "WIDTH": self.width, "HAS_GAPS": has_gaps}
        lower, upper, block = self.widths
        text = print_program("window", self.dtype, LOWER=lower, UPPER=upper, BLOCK=block, **constants)
        struct = Slot(0, (words,), np.dtype(np.int64), None)
        return Launch(text, "window_kernel", self.count, self.threads, (struct,), self.shared_bytes)


def _divisor(number: int) -> tuple[int, int, int]:
    """Return a number, and a factor and a shift that divide by it (Granlund and Montgomery)."""
    shift = (number - 1).bit_length()
    return number, (2**32 * (2**shift - number)) // number + 1, shift


@lru_cache(maxsize=1024)
def windows_of(
    shape: Shape, dtype: np.dtype[Any], device: Device, widths: Widths = TRIDIAGONAL
) -> tuple[Windows, ...]:
    """Return windows for chunks of a shape, to be tried one after the other.

    Later ones have longer halos. Empty if none fits a multiprocessor.
    """
    inner, size = shape[2], dtype.itemsize
    if inner > 1:
        return _windows_of_columns(shape, dtype, device, widths)
    is_wide = widths.span > 2
    steps = max((1 + is_wide) * _ROWS[size] // widths.span, 2)
    sizes = [Windows(shape, dtype, widths, threads, steps, 1) for threads in (32, 64, 128, 256, 512)]
    sizes = [windows for windows in sizes if windows.all_bytes <= device.shared_bytes]
    most_bytes = _TWO_BLOCKS if is_wide or size == 16 else _THREE_BLOCKS
    small = [windows for windows in sizes[:3] if windows.all_bytes <= most_bytes] or sizes[:1]
    if not small:
        return ()
    windows = small[-1]
    whole = [w for w in sizes if w.threads >= windows.threads and w.parts <= w.lanes][:1]
    if whole and (whole[0].parts <= _MOST_PARTS or whole[0].count <= device.multiprocessors):
        return (whole[0],)
    halo = -(-max(_HALO_ROWS, _HALO_STEPS * widths.span) // windows.rows)
    long = replace(windows, halo=halo)
    if widths != TRIDIAGONAL and not whole:
        # Pivoting takes many times as long.
        whole = [replace(windows, halo=3 * halo)]
    return tuple([w for w in (long, *whole) if w.interior > 0])


def _windows_of_columns(
    shape: Shape, dtype: np.dtype[Any], device: Device, widths: Widths
) -> tuple[Windows, ...]:
    size, inner = dtype.itemsize, shape[2]
    width = min(128 // size, 1 << (inner - 1).bit_length())

    def of(threads: int, rows: int) -> Windows:
        return Windows(shape, dtype, widths, threads, max(rows // widths.span, 2), width)

    for threads in _WHOLE_COLUMNS:
        windows = of(threads, _ROWS[size])
        if windows.parts <= windows.lanes and windows.all_bytes <= device.shared_bytes:
            return (windows,)
    threads, rows, halos = _LONG_COLUMNS[size]
    windows = of(threads, rows)
    while windows.all_bytes > device.shared_bytes and windows.lanes > 4:
        windows = replace(windows, threads=windows.threads // 2)
    if windows.all_bytes > device.shared_bytes:
        return ()
    # Few columns leave lanes for the long halo alone.
    tried = halos[-1:] if windows.lanes >= 64 else [halo for halo in halos if 4 * halo <= windows.lanes]
    return tuple([replace(windows, halo=halo) for halo in tried])


class Try(NamedTuple):
    """Windows over arrays of the same shapes and dtype, compiled for a device."""

    words: np.ndarray  # the kernel's struct; each call fills in its addresses
    addresses: np.ndarray  # positions of operands, result, neighbours, failed launches, this one, and a flag
    launch: LaunchByAddress


def prepare_tries(chunk: Chunk, widths: Widths = TRIDIAGONAL, apart: int = 1) -> tuple[Try, ...]:
    """Return the tries for chunks as this one, whose operands are on the device.

    `apart` is the number of numbers between the known neighbours of two systems.
    """
    import cupy

    return tries_of(*layout_of(chunk), cupy.cuda.runtime.getDevice(), widths, apart)


@lru_cache(maxsize=1024)
def tries_of(
    shape: Shape,
    dtype: np.dtype[Any],
    strides: tuple[Shape, ...],
    is_aligned: bool,
    number: int,
    widths: Widths = TRIDIAGONAL,
    apart: int = 1,
) -> tuple[Try, ...]:
    """Return the tries for operands of these strides on the device `number`."""
    device = Device.current()
    is_aligned &= shape[2] * dtype.itemsize % 16 == 0
    operands = [word for of_operand in strides for word in (0, *of_operand)]
    has_gaps = shape[2] == 1 and any(outer not in (0, shape[1]) for outer, *_ in strides)
    shape = shape[0], shape[1] * max(widths.block, 1), shape[2]
    first = len(operands)
    addresses = np.array([*range(0, first, 4), *range(first, first + 3), *range(-3, 0)])
    tries = []
    for windows in windows_of(shape, dtype, device, widths):
        words = np.array([*operands, 0, 0, 0, apart, *windows.words(), is_aligned, 0, 0, 0], np.int64)
        launch = LaunchByAddress(PreparedLaunches(windows.launch(words.size, has_gaps)))
        tries.append(Try(words, addresses, launch))
    return tuple(tries)


def start_windows(
    tries: tuple[Try, ...],
    operands: Sequence[int],
    result: int,
    neighbours: Neighbours = (0, 0),
    launch_next: Callable[[], None] = lambda: None,
) -> Callable[[], bool]:
    """Launch the first windows; the callable waits, and launches the next ones if these have failed.

    It returns whether one of them has solved all systems. Arguments are addresses, of arrays that live
    until then: of the operands; of the result, which is undefined if all fail; and of the unknowns before
    and after each system, 0 where a system starts or ends. `launch_next` launches kernels that read the
    result.
    """
    if not tries:
        return lambda: False
    import cupy

    # A flag in host memory that devices can access, the last launch that failed, and the event after
    # which no window writes them. With a new event in every call, calls took 20 to 30 microseconds
    # longer on an H100.
    unused: dict[int, list[Any]] = _local.__dict__.setdefault("flags", {})
    available = unused.setdefault(cupy.cuda.runtime.getDevice(), [])
    if not available:
        import cupyx

        flag, failed = cupyx.empty_pinned(1, np.int64), cupy.zeros(1, np.int64)
        available.append((flag, failed, cupy.cuda.Event(disable_timing=True)))
    flag, failed, written = available.pop()
    stream = cupy.cuda.get_current_stream()

    def launch(windows: Try) -> None:
        flag[0] = -1
        words = windows.words.copy()
        addresses = failed.data.ptr, next(_launches), flag.ctypes.data
        words[windows.addresses] = [*operands, result, *neighbours, *addresses]
        windows.launch([words])
        written.record()
        launch_next()

    def wait() -> bool:
        written.synchronize()
        for windows in tries[1:]:
            if flag[0]:
                break
            with stream:
                launch(windows)
            written.synchronize()
        is_solved = bool(flag[0])
        available.append((flag, failed, written))
        return is_solved

    launch(tries[0])
    return wait
