"""Whole systems without pivoting: Thomas's method and cyclic reduction (SERICR, PARACR).

A plan lists the launches for one shape. Cyclic reduction runs on chip or in memory.

References
----------
X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ..systems import strides_of
from .partitions import NONE, print_program

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
UNCAPTURED = "a tridiagonal system", "the host waits to see whether it is solved"


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
        words += [operand.data.ptr, *strides_of(operand, chunk.shape)]
    words += [result.data.ptr, scratch.data.ptr, status.data.ptr]
    prepared((pack_words([*words, *chunk.shape]),))
    return status


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
    sizes = [4 * outer * count * inner for count in counts[1:]]
    starts = [_OPERANDS, *accumulate(sizes, initial=0)]
    levels = [tuple(map(np.int64, level)) for level in zip(starts, counts, starts[1:], strict=False)]
    rows = [outer * inner * ((count + 1) // 2) for count in counts]
    up, down = (
        [_over_rows(name, size, dtype, *level) for size, level in zip(rows, levels, strict=True)]
        for name in ("raise", "lower")
    )
    if _is_on_chip(counts[-1], inner, dtype, device) or steps == 1:
        shared = _chip_bytes(counts[-1], dtype)
        down[-1] = _over_systems("chip", shape, counts[-1], dtype, shared, *levels[-1][:2])
    return LaunchPlan((*up[:-1], *reversed(down)), starts[-1])


def pcr(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan:
    """Plan PARACR with as many arrays in shared memory as fit, if systems are contiguous."""
    if shape[2] == 1:
        for plan in (pcr_all, pcr_part):
            if fitting := plan(shape, dtype, device):
                return fitting
    return pcr_none(shape, dtype, device)


def _pcr_on_chip(arrays: int, shape: Shape, dtype: np.dtype[np.generic], device: Device) -> LaunchPlan | None:
    """Plan PARACR of a system a block, with two levels of so many arrays in shared memory.

    None if they do not fit. Other arrays are in memory.
    """
    outer, steps, inner = shape
    shared = 2 * arrays * steps * dtype.itemsize
    if shared > device.shared_bytes:
        return None
    launch = _over_systems("all" if arrays == 4 else "part", shape, steps, dtype, shared)
    return LaunchPlan((launch,), 2 * (4 - arrays) * outer * steps * inner)


# With all arrays in shared memory, and with the diagonal and the right-hand side.
pcr_all, pcr_part = partial(_pcr_on_chip, 4), partial(_pcr_on_chip, 2)


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
    text = print_program("reduction", dtype, MOST_THREADS=MAX_THREADS)
    return Launch(text, f"{name}_kernel", blocks, ROW_THREADS, (SYSTEMS, *arguments))


def _over_systems(
    name: str, shape: Shape, count: int, dtype: np.dtype[Any], shared: int, *arguments: Any
) -> Launch:
    launch = _over_rows(name, count, dtype, *arguments)
    threads = min(MAX_THREADS, -(-count // 32) * 32)
    return replace(launch, blocks=shape[0] * shape[2], threads=threads, shared_bytes=shared)
