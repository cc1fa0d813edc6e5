"""Whole systems without pivoting: Thomas's method, cyclic reduction (SERICR, PARACR) and windows.

A plan lists the launches for one shape. Cyclic reduction runs on chip or in memory. Windows are for
systems that need no pivoting: operands are read once, results written once. Their kernel itself
checks whether pivoting is needed, and whether far unknowns are negligible, and stops if a check
fails.

References
----------
X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, LaunchByAddress, PreparedLaunches, RunLaunches, Slot
from ..errors import SingularSystemError
from .partitions import NONE, print_program, strides_of

Shape = tuple[int, int, int]
SYSTEMS = Slot(0)
"""The first argument of every kernel, by value: operands, result, memory and sizes."""
# Threads of a block of Thomas's method: one warp, so that few systems reach many multiprocessors.
THREADS = 32
# Tiles in shared memory at once: one is solved while the next is loaded.
STAGES = 2
# Largest number of threads of a block with one system, and threads of a block in which each has a
# row.
MAX_THREADS, ROW_THREADS = 512, 256
# Offset of a level whose rows are the operands.
_OPERANDS = -1
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
# Positions among the words of the addresses of the operands, the result, the unknowns before and
# after it, and the flags of the try before and of this one.
_ADDRESSES = np.array([0, 4, 8, 12, 16, 17, 18, -2, -1])
_local = threading.local()


@dataclass(frozen=True)
class LaunchPlan:
    """The launches that solve systems of one shape; their first argument is :data:`SYSTEMS`."""

    launches: tuple[Launch, ...]
    scratch: int = 0  # numbers of memory that they share


Build = Callable[[Shape, np.dtype[Any], Device], LaunchPlan]


def launch_whole(build: Build, chunk: Chunk, result: Any) -> Any:
    """Launch the solution of whole systems; those that contain nan or inf become nan.

    Operands are on the device. Return an array of int64 on the device: the first system of which a
    pivot is 0 or overflows, or -1; whether all operands are finite; the same for each system.
    """
    import cupy

    device = cupy.cuda.runtime.getDevice()
    prepared, scratch_numbers = _prepare(build, chunk.shape, chunk.dtype, device)
    scratch = cupy.empty(scratch_numbers, chunk.dtype)
    status = cupy.empty(2 + chunk.shape[0] * chunk.shape[2], np.int64)
    status.fill(NONE)
    words: list[int] = []
    for operand in chunk.operands:
        words += [operand.data.ptr, *strides_of(operand.shape, chunk.shape)]
    words += [result.data.ptr, scratch.data.ptr, status.data.ptr]
    prepared((pack_words([*words, *chunk.shape]),))
    return status


def solve_whole(build: Build, chunk: Chunk, result: Any) -> bool:
    """Solve whole systems, and wait; return whether all operands are finite.

    Raise SingularSystemError if a pivot is 0, or overflows.
    """
    singular, are_finite = launch_whole(build, chunk, result)[:2].get()
    if singular != NONE:
        raise SingularSystemError(int(singular))
    return bool(are_finite)


@lru_cache(maxsize=1024)
def _prepare(build: Build, shape: Shape, dtype: np.dtype[Any], device: int) -> tuple[RunLaunches, int]:
    plan = build(shape, dtype, Device.current())
    return PreparedLaunches(*plan.launches), plan.scratch


def thomas(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan:
    """Plan Thomas's method with rows of 128 bytes a system in shared memory.

    p of every row is in memory: 9 words are transferred for each unknown.
    """
    rows, groups = 128 // dtype.itemsize, -(-shape[0] * shape[2] // THREADS)
    shared = STAGES * 4 * THREADS * (rows + 1) * dtype.itemsize
    text = print_program("thomas", dtype, STAGES=STAGES, THREADS=THREADS, ROWS=rows, COLUMNS=shape[2] > 1)
    launch = Launch(text, "tiles_kernel", groups, THREADS, (SYSTEMS,), shared)
    return LaunchPlan((launch,), groups * THREADS * shape[1])


def cyclic_reduction(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan:
    """Plan SERICR: levels in memory, each a launch, until a level of a system fits on chip."""
    outer, steps, inner = shape
    counts = [steps]
    while counts[-1] > 1 and not _is_on_chip(counts[-1], inner, dtype, device):
        counts.append(counts[-1] // 2)
    starts, scratch = [_OPERANDS], 0
    for count in counts[1:]:
        starts.append(scratch)
        scratch += 4 * outer * count * inner
    levels = [
        (np.int64(start), np.int64(count), np.int64(above))
        for start, count, above in zip(starts, counts, [*starts[1:], scratch], strict=True)
    ]
    rows = [outer * inner * ((count + 1) // 2) for count in counts]
    up, down = (
        [_over_rows(name, size, dtype, *level) for size, level in zip(rows, levels, strict=True)]
        for name in ("raise", "lower")
    )
    if _is_on_chip(counts[-1], inner, dtype, device) or steps == 1:
        down[-1] = _over_systems(
            "chip", shape, counts[-1], dtype, _chip_bytes(counts[-1], dtype), *levels[-1][:2]
        )
    return LaunchPlan((*up[:-1], *reversed(down)), scratch)


def pcr(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan:
    """Plan PARACR with as many arrays in shared memory as fit, if systems are contiguous."""
    if shape[2] == 1:
        for plan in (pcr_all, pcr_part):
            if fitting := plan(shape, dtype, device):
                return fitting
    return pcr_none(shape, dtype, device)


def pcr_all(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan | None:
    """Plan PARACR of a system a block, two levels in shared memory; None if they do not fit."""
    return _pcr_on_chip("all", 4, shape, dtype, device)


def pcr_part(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan | None:
    """Plan PARACR with the diagonal and the right-hand side in shared memory, others in memory."""
    return _pcr_on_chip("part", 2, shape, dtype, device)


def _pcr_on_chip(
    name: str, arrays: int, shape: Shape, dtype: np.dtype[np.generic], device: Device
) -> LaunchPlan | None:
    outer, steps, inner = shape
    shared = 2 * arrays * steps * dtype.itemsize
    if shared > device.shared_bytes:
        return None
    launch = _over_systems(name, shape, steps, dtype, shared)
    return LaunchPlan((launch,), 2 * (4 - arrays) * outer * steps * inner)


def pcr_none(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan:
    """Plan PARACR with a launch a level, two levels in memory."""
    outer, steps, inner = shape
    size, distance = outer * steps * inner, 1
    launches: list[Launch] = []
    source, target = _OPERANDS, 0
    while distance < steps or not launches:
        arguments = (np.int64(source), np.int64(target), np.int64(distance))
        launches.append(_over_rows("reduce", size, dtype, *arguments))
        source, target, distance = target, 4 * size - target, 2 * distance
    launches.append(_over_rows("divide", size, dtype, np.int64(source)))
    return LaunchPlan(tuple(launches), 8 * size)


def _is_on_chip(count: int, inner: int, dtype: np.dtype[Any], device: Device) -> bool:
    return inner == 1 and _chip_bytes(count, dtype) <= device.shared_bytes


def _chip_bytes(count: int, dtype: np.dtype[Any]) -> int:
    return 4 * (count + count // (128 // dtype.itemsize) + 1) * dtype.itemsize


def _over_rows(name: str, size: int, dtype: np.dtype[Any], *arguments: Any) -> Launch:
    blocks = min(2**30, -(-size // ROW_THREADS))
    return _launch(name, dtype, blocks, ROW_THREADS, arguments, 0)


def _over_systems(
    name: str, shape: Shape, count: int, dtype: np.dtype[Any], shared: int, *arguments: Any
) -> Launch:
    threads = min(MAX_THREADS, -(-count // 32) * 32)
    return _launch(name, dtype, shape[0] * shape[2], threads, arguments, shared)


def _launch(
    name: str, dtype: np.dtype[Any], blocks: int, threads: int, arguments: Any, shared: int
) -> Launch:
    text = print_program("reduction", dtype, MOST_THREADS=MAX_THREADS)
    return Launch(text, f"{name}_kernel", blocks, threads, (SYSTEMS, *arguments), shared)


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


@lru_cache(maxsize=1024)
def windows_of(shape: tuple[int, int, int], dtype: np.dtype[Any], device: Device) -> tuple[Windows, ...]:
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


def prepare_tries(chunk: Chunk) -> tuple[Try, ...]:
    """Return the tries for chunks as this one, whose operands are on the device."""
    import cupy

    shapes = tuple([operand.shape for operand in chunk.operands])
    is_aligned = all(operand.data.ptr % 16 == 0 for operand in chunk.operands)
    device = cupy.cuda.runtime.getDevice()
    return tries_of(chunk.shape, chunk.dtype, shapes, is_aligned, device)


@lru_cache(maxsize=1024)
def tries_of(
    shape: tuple[int, int, int],
    dtype: np.dtype[Any],
    shapes: tuple[tuple[int, int, int], ...],
    is_aligned: bool,
    number: int,
) -> tuple[Try, ...]:
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
    tries: tuple[Try, ...], operands: Sequence[int], result: int, flags: int, neighbours: Neighbours
) -> None:
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
