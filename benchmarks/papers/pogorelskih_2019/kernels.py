"""The paper's kernels of a system a thread: Thomas's method in memory, and SERICR by levels."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from mgrec.engines.cuda.device import Device
from mgrec.engines.cuda.launches import Launch
from mgrec.tridiagonal.cuda.nopivot import MAX_THREADS, STAGES, SYSTEMS, LaunchPlan, Shape
from mgrec.tridiagonal.cuda.partitions import print_program

THREADS = 32


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.cuh").read_text()


def thomas_in_memory(shape: Shape, dtype: np.dtype[Any], device: Device) -> LaunchPlan:
    """Plan Thomas's method without shared memory; loads are not coalesced."""
    systems, rows = shape[0] * shape[2], 128 // dtype.itemsize
    text = print_program("thomas", dtype, STAGES=STAGES, THREADS=THREADS, ROWS=rows, COLUMNS=shape[2] > 1)
    text += _text("thomas_in_memory")
    launch = Launch(text, "memory_kernel", -(-systems // THREADS), THREADS, (SYSTEMS,))
    return LaunchPlan((launch,), systems * shape[1])


def _sericr(
    shape: Shape, dtype: np.dtype[Any], device: Device, *, recompute: bool, shared: bool
) -> LaunchPlan:
    on_chip = 256 // dtype.itemsize if shared else 0
    systems, steps = shape[0] * shape[2], shape[1]
    text = print_program(
        "reduction", dtype, MOST_THREADS=MAX_THREADS, THREADS=THREADS, AGAIN=recompute, ON_CHIP=on_chip
    )
    text += _text("levels")
    size = 8 * on_chip * THREADS * dtype.itemsize
    launch = Launch(text, "levels_kernel", -(-systems // THREADS), THREADS, (SYSTEMS,), size)
    return LaunchPlan((launch,), 4 * systems * (steps // 2 + steps // 4 if recompute else steps))


STORED = {shared: partial(_sericr, recompute=False, shared=shared) for shared in (False, True)}
"""SERICR with all levels stored, the small ones in shared memory or not."""
RECOMPUTED = {shared: partial(_sericr, recompute=True, shared=shared) for shared in (False, True)}
"""SERICR with two levels stored and the others recomputed."""
