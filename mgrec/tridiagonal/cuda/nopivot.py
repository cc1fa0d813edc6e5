"""Whole systems without pivoting: Thomas's method, and cyclic reduction (SERICR and PARACR).

A plan lists the launches for one shape. Cyclic reduction runs on chip, in memory, or as in its
reference.

References
----------
X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

from ...core.arrays.chunk import Chunk
from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device, pack_words
from ...engines.cuda.launches import Launch, PreparedLaunches, RunLaunches, Slot
from ..errors import SingularSystemError
from .partitions import prelude, strides_of

Shape = tuple[int, int, int]
SYSTEMS = Slot(0)
"""The first argument of every kernel, by value: operands, result, memory and sizes."""
_NONE = -1
# Threads of a block of Thomas's method: one warp, so that few systems reach many multiprocessors.
THREADS = 32
# Tiles in shared memory at once: one is solved while the next is loaded.
STAGES = 2
# Largest number of threads of a block with one system, and threads of a block in which each has a
# row or a system.
MAX_THREADS, ROW_THREADS, SYSTEM_THREADS = 512, 256, 32
# Offset of a level whose rows are the operands.
_OPERANDS = -1

_THOMAS_KERNELS = """
extern "C" __global__ void __launch_bounds__(THREADS) tiles_kernel(const Systems all) {
  solve_in_tiles(all);
}
extern "C" __global__ void __launch_bounds__(THREADS) memory_kernel(const Systems all) {
  solve_in_memory(all);
}
"""
_REDUCTION_KERNELS = """
#define LONG long long
extern "C" __global__ void __launch_bounds__(MOST_THREADS) chip_kernel(
    const Systems all, LONG from, LONG count) { solve_on_chip(all, from, count); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) raise_kernel(
    const Systems all, LONG from, LONG count, LONG to) { raise_level(all, from, count, to); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) lower_kernel(
    const Systems all, LONG from, LONG count, LONG to) { lower_level(all, from, count, to); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) reduce_kernel(
    const Systems all, LONG from, LONG to, LONG distance) { reduce_all(all, from, to, distance); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) divide_kernel(
    const Systems all, LONG from) { divide_all(all, from); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) all_kernel(
    const Systems all) { solve_in_parallel<4>(all); }
extern "C" __global__ void __launch_bounds__(MOST_THREADS) part_kernel(
    const Systems all) { solve_in_parallel<2>(all); }
"""
_BY_LEVELS = """
extern "C" __global__ void __launch_bounds__({threads}) {name}_kernel(const Systems all) {{
  solve_by_levels<{recompute}, {on_chip}>(all);
}}
"""


@dataclass(frozen=True)
class Plan:
    """The launches that solve systems of one shape.

    Attributes
    ----------
    launches : tuple of Launch
        Their first argument is :data:`SYSTEMS`.
    scratch : int
        Numbers of memory that they share.
    """

    launches: tuple[Launch, ...]
    scratch: int = 0


Build = Callable[[Shape, np.dtype[Any], Device], Plan]


def launch_whole(build: Build, chunk: Chunk, result: Any) -> Any:
    """Launch the solution of whole systems; those that contain nan or inf become nan.

    Parameters
    ----------
    build : callable, ``(shape, dtype, device) -> Plan``
    chunk : Chunk
        Its operands are on the device.
    result : array (outer, steps, inner), C-contiguous
        Written.

    Returns
    -------
    array of int64
        On the device: the first system of which a pivot is 0 or overflows, or -1; whether all
        operands are finite; the same for each system.
    """
    import cupy

    device = cupy.cuda.runtime.getDevice()
    run, scratch_numbers = _prepare(build, chunk.shape, chunk.dtype, device)
    scratch = cupy.empty(scratch_numbers, chunk.dtype)
    status = cupy.empty(2 + chunk.shape[0] * chunk.shape[2], np.int64)
    status.fill(_NONE)
    words: list[int] = []
    for operand in chunk.operands:
        words += [operand.data.ptr, *strides_of(operand.shape, chunk.shape)]
    words += [result.data.ptr, scratch.data.ptr, status.data.ptr]
    run((pack_words([*words, *chunk.shape]),))
    return status


def solve_whole(build: Build, chunk: Chunk, result: Any) -> bool:
    """Solve whole systems, and wait; return whether all operands are finite.

    Raise SingularSystemError if a pivot is 0, or overflows.
    """
    singular, are_finite = launch_whole(build, chunk, result)[:2].get()
    if singular != _NONE:
        raise SingularSystemError(int(singular))
    return bool(are_finite)


@lru_cache(maxsize=1024)
def _prepare(
    build: Build, shape: Shape, dtype: np.dtype[Any], device: int
) -> tuple[RunLaunches, int]:
    plan = build(shape, dtype, Device.current())
    return PreparedLaunches(*plan.launches), plan.scratch


def thomas(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """Plan Thomas's method with rows of 128 bytes a system in shared memory.

    p of every row is in memory: 9 words are transferred for each unknown.
    """
    rows, groups = 128 // dtype.itemsize, -(-shape[0] * shape[2] // THREADS)
    shared = STAGES * 4 * THREADS * (rows + 1) * dtype.itemsize
    text = print_thomas(dtype, shape[2] > 1)
    launch = Launch(text, "tiles_kernel", groups, THREADS, (SYSTEMS,), shared)
    return Plan((launch,), groups * THREADS * shape[1])


def thomas_in_memory(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """Plan Thomas's method without shared memory, for a study; loads are not coalesced."""
    systems, text = shape[0] * shape[2], print_thomas(dtype, shape[2] > 1)
    launch = Launch(text, "memory_kernel", -(-systems // THREADS), THREADS, (SYSTEMS,))
    return Plan((launch,), systems * shape[1])


@cache
def print_thomas(dtype: np.dtype[np.generic], columns: bool) -> str:
    """Return the program; `columns` states whether systems are side by side in memory."""
    numbers = {"THREADS": THREADS, "ROWS": 128 // dtype.itemsize}
    text = prelude(dtype, STAGES)
    text += "".join(f"constexpr int {name} = {value};\n" for name, value in numbers.items())
    text += f"constexpr bool COLUMNS = {str(columns).lower()};\n"
    return text + kernel_text("tridiagonal/cuda/thomas") + _THOMAS_KERNELS


def cyclic_reduction(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
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
    up = [
        _over_rows("raise", size, dtype, *level)
        for size, level in zip(rows[:-1], levels[:-1], strict=True)
    ]
    down = [
        _over_rows("lower", size, dtype, *level) for size, level in zip(rows, levels, strict=True)
    ]
    if _is_on_chip(counts[-1], inner, dtype, device) or steps == 1:
        down[-1] = _over_systems(
            "chip", shape, counts[-1], dtype, _chip_bytes(counts[-1], dtype), *levels[-1][:2]
        )
    return Plan((*up, *reversed(down)), scratch)


def pcr(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """Plan PARACR with as many arrays in shared memory as fit, if systems are contiguous."""
    if shape[2] == 1:
        for plan in (pcr_all, pcr_part):
            if fitting := plan(shape, dtype, device):
                return fitting
    return pcr_none(shape, dtype, device)


def pcr_all(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan | None:
    """Plan PARACR of a system a block, two levels in shared memory; None if they do not fit."""
    shared = 8 * shape[1] * dtype.itemsize
    if shared > device.shared_bytes:
        return None
    return Plan((_over_systems("all", shape, shape[1], dtype, shared),))


def pcr_part(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan | None:
    """Plan PARACR with the diagonal and the right-hand side in shared memory, others in memory."""
    shared = 4 * shape[1] * dtype.itemsize
    if shared > device.shared_bytes:
        return None
    launch = _over_systems("part", shape, shape[1], dtype, shared)
    return Plan((launch,), 4 * shape[0] * shape[1] * shape[2])


def pcr_none(
    shape: Shape,
    dtype: np.dtype[np.generic],
    device: Device,
    blocks: int | None = None,
    threads: int = ROW_THREADS,
) -> Plan:
    """Plan PARACR with a launch a level, two levels in memory.

    By default each thread of a launch has one row; fewer `blocks` give it more rows.
    """
    outer, steps, inner = shape
    size, distance = outer * steps * inner, 1
    launches: list[Launch] = []
    source, target = _OPERANDS, 0
    grid: dict[str, Any] = {"blocks": blocks, "threads": threads}
    while distance < steps or not launches:
        arguments = (np.int64(source), np.int64(target), np.int64(distance))
        launches.append(_over_rows("reduce", size, dtype, *arguments, **grid))
        source, target, distance = target, 4 * size - target, 2 * distance
    launches.append(_over_rows("divide", size, dtype, np.int64(source), **grid))
    return Plan(tuple(launches), 8 * size)


def _sericr(
    shape: Shape, dtype: np.dtype[np.generic], device: Device, *, recompute: bool, shared: bool
) -> Plan:
    """Plan SERICR of a system a thread, as in the reference."""
    on_chip = 256 // dtype.itemsize if shared else 0
    systems, steps = shape[0] * shape[2], shape[1]
    text = print_by_levels(dtype, recompute, on_chip)
    size = 8 * on_chip * SYSTEM_THREADS * dtype.itemsize
    blocks = -(-systems // SYSTEM_THREADS)
    launch = Launch(text, "levels_kernel", blocks, SYSTEM_THREADS, (SYSTEMS,), size)
    return Plan((launch,), 4 * systems * (steps // 2 + steps // 4 if recompute else steps))


STORED = {shared: partial(_sericr, recompute=False, shared=shared) for shared in (False, True)}
"""SERICR with all levels stored, the small ones in shared memory or not."""
RECOMPUTED = {shared: partial(_sericr, recompute=True, shared=shared) for shared in (False, True)}
"""SERICR with two levels stored and the others recomputed."""


def _is_on_chip(count: int, inner: int, dtype: np.dtype[Any], device: Device) -> bool:
    return inner == 1 and _chip_bytes(count, dtype) <= device.shared_bytes


def _chip_bytes(count: int, dtype: np.dtype[Any]) -> int:
    return 4 * (count + count // (128 // dtype.itemsize) + 1) * dtype.itemsize


def _over_rows(
    name: str,
    size: int,
    dtype: np.dtype[Any],
    *arguments: Any,
    blocks: int | None = None,
    threads: int = ROW_THREADS,
) -> Launch:
    text, blocks = print_reduction(dtype), min(blocks or 2**30, -(-size // threads))
    return Launch(text, f"{name}_kernel", blocks, threads, (SYSTEMS, *arguments))


def _over_systems(
    name: str, shape: Shape, count: int, dtype: np.dtype[Any], shared: int, *arguments: Any
) -> Launch:
    threads = min(MAX_THREADS, -(-count // 32) * 32)
    blocks, text = shape[0] * shape[2], print_reduction(dtype)
    return Launch(text, f"{name}_kernel", blocks, threads, (SYSTEMS, *arguments), shared)


@cache
def print_reduction(dtype: np.dtype[np.generic]) -> str:
    """Return the program of cyclic reduction on chip and in memory."""
    text = prelude(dtype) + f"constexpr int MOST_THREADS = {MAX_THREADS};\n"
    return text + kernel_text("tridiagonal/cuda/reduction") + _REDUCTION_KERNELS


@cache
def print_by_levels(dtype: np.dtype[np.generic], recompute: bool, on_chip: int) -> str:
    """Return the program of cyclic reduction of a system a thread."""
    constants = {
        "recompute": str(recompute).lower(),
        "on_chip": on_chip,
        "threads": SYSTEM_THREADS,
    }
    kernel = _BY_LEVELS.format(name="levels", **constants)
    return prelude(dtype) + kernel_text("tridiagonal/cuda/reduction") + kernel
