"""Cyclic reduction: SERICR and PARACR, each on chip, in memory, or as its source has it.

References
----------
X. S. Pogorelskih, L. V. Loganova, "Research of parallel algorithms for solving three-diagonal
systems of linear algebraic equations on a graphical computing device using various types of
memory", ITNT 2019, CEUR 2416.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from ...engines.cuda.compilation import kernel_text
from ...engines.cuda.device import Device
from ...engines.cuda.launches import Launch
from .program import prelude
from .whole import SYSTEMS, Plan, Shape

# Most threads of a block that has a system, and threads where each has a row or a system.
MOST_THREADS, ROW_THREADS, SYSTEM_THREADS = 512, 256, 32
# Where a level's rows come from.
_OPERANDS = -1

_KERNELS = """
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
  solve_by_levels<{again}, {on_chip}>(all);
}}
"""


def cyclic_reduction(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan:
    """Levels in memory, each a launch, until a block has a system's level on chip."""
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
    """As many rows in shared memory as there is room for, where systems are contiguous."""
    if shape[2] == 1:
        for plan in (pcr_all, pcr_part):
            if found := plan(shape, dtype, device):
                return found
    return pcr_none(shape, dtype, device)


def pcr_all(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan | None:
    """A system a block, two levels in shared memory; None where they do not fit."""
    shared = 8 * shape[1] * dtype.itemsize
    if shared > device.shared_bytes:
        return None
    return Plan((_over_systems("all", shape, shape[1], dtype, shared),))


def pcr_part(shape: Shape, dtype: np.dtype[np.generic], device: Device) -> Plan | None:
    """The same with the diagonal and the right-hand side in shared memory, the rest in memory."""
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
    """A launch a level, two levels in memory.

    Parameters
    ----------
    shape, dtype, device
    blocks : int, optional
        Of each launch, so many threads that each has one row when not given.
    threads : int
        Of a block.
    """
    outer, steps, inner = shape
    size, distance = outer * steps * inner, 1
    launches: list[Launch] = []
    source, target = _OPERANDS, 0
    grid: dict[str, Any] = {"blocks": blocks, "threads": threads}
    while distance < steps or not launches:
        about = (np.int64(source), np.int64(target), np.int64(distance))
        launches.append(_over_rows("reduce", size, dtype, *about, **grid))
        source, target, distance = target, 4 * size - target, 2 * distance
    launches.append(_over_rows("divide", size, dtype, np.int64(source), **grid))
    return Plan(tuple(launches), 8 * size)


def _sericr(
    shape: Shape, dtype: np.dtype[np.generic], device: Device, *, again: bool, shared: bool
) -> Plan:
    """A system a thread, as in the source."""
    on_chip = 256 // dtype.itemsize if shared else 0
    systems, steps = shape[0] * shape[2], shape[1]
    text = print_by_levels(dtype, again, on_chip)
    size = 8 * on_chip * SYSTEM_THREADS * dtype.itemsize
    blocks = -(-systems // SYSTEM_THREADS)
    launch = Launch(text, "levels_kernel", blocks, SYSTEM_THREADS, (SYSTEMS,), size)
    return Plan((launch,), 4 * systems * (steps // 2 + steps // 4 if again else steps))


STORED = {shared: partial(_sericr, again=False, shared=shared) for shared in (False, True)}
"""SERICR with all levels stored, the small ones in shared memory or not."""
AGAIN = {shared: partial(_sericr, again=True, shared=shared) for shared in (False, True)}
"""SERICR with two levels stored and the others computed again."""


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
    text, most = print_reduction(dtype), -(-size // threads)
    return Launch(
        text, f"{name}_kernel", min(blocks or 2**30, most), threads, (SYSTEMS, *arguments)
    )


def _over_systems(
    name: str, shape: Shape, count: int, dtype: np.dtype[Any], shared: int, *arguments: Any
) -> Launch:
    threads = min(MOST_THREADS, -(-count // 32) * 32)
    blocks, text = shape[0] * shape[2], print_reduction(dtype)
    return Launch(text, f"{name}_kernel", blocks, threads, (SYSTEMS, *arguments), shared)


@cache
def print_reduction(dtype: np.dtype[np.generic]) -> str:
    """The program of reduction on chip and in memory."""
    text = prelude(dtype) + f"constexpr int MOST_THREADS = {MOST_THREADS};\n"
    return text + kernel_text("tridiagonal/cuda/reduction") + _KERNELS


@cache
def print_by_levels(dtype: np.dtype[np.generic], again: bool, on_chip: int) -> str:
    """The program of a system a thread."""
    constants = {"again": str(again).lower(), "on_chip": on_chip, "threads": SYSTEM_THREADS}
    kernel = _BY_LEVELS.format(name="levels", **constants)
    return prelude(dtype) + kernel_text("tridiagonal/cuda/reduction") + kernel
