"""Scans of maps of four states in one pass over memory: see ``single_pass.cuh``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ....engines.cuda.device import Device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, LaunchByAddress, PreparedLaunches, Slot
from .segments import Operand, Solver

_STATES = 4
_MAP = (_STATES + 1) * _STATES + _STATES + 1
"""Numbers of a map."""
_SEGMENTS, _NEIGHBOURS = 32, 16
_LENGTH, _RING, _SPINES, _BLOCKS = 12, 4, 2, 1
"""Steps of a segment, tiles in progress, warps that resolve tiles in turn, and blocks of a
multiprocessor: 10^7 steps took 1.36 ms on an H100, with a ring of 3 1.56, with segments of 10 steps
1.44, and with two blocks of segments of 6 steps 1.67."""
_FEWEST = 2048
"""Steps of a row: 4,000 of them took 1.17 ms, and in two passes 1.38."""
_THREADS = 32 * (_STATES + 1) + 64 + 32 + 32 * _SPINES


def applies(solver: Solver, operands: Sequence[Operand], states: Any) -> bool:
    """Return whether the kernel can solve general maps: rows are contiguous, and long."""
    (matrices, _), (vectors, _), _, (marks, _) = operands
    (_, steps, inner), device = solver.shape, Device.current()
    return (
        states.shape[-1] == _STATES
        and states.dtype == np.float64
        and marks is None
        and inner == 1
        and steps >= _FEWEST
        and matrices.strides[1] == 8 * _STATES**2
        and vectors.strides[1] == 8 * _STATES
        and all(
            number % 16 == 0
            for array in (matrices, vectors)
            for number in (array.data.ptr, array.strides[0])
        )
        and states.data.ptr % 16 == 0
        and device.capability >= 90
        and _BLOCKS * (_shared_bytes() + 1024) <= device.shared_bytes + 1024
    )


def constants() -> dict[str, int]:
    """Return the constants of the program."""
    return {
        "SEGMENTS": _SEGMENTS, "LENGTH": _LENGTH, "NEIGHBOURS": _NEIGHBOURS, "RING": _RING,
        "SPINES": _SPINES, "BLOCKS": _BLOCKS, "STAGES": 1, "MEMORY": _shared_bytes(),
    }  # fmt: skip


def solve(solver: Solver, text: str, operands: Sequence[Operand], states: Any) -> None:
    """Launch the program."""
    import cupy

    words = solver.words(operands, [states, None], (1, solver.shape[1]))
    _prepare(text, len(words), solver.shape, cupy.cuda.runtime.getDevice())([words])


@lru_cache(maxsize=256)
def _prepare(text: str, words: int, shape: tuple[int, int, int], device: int) -> LaunchByAddress:
    rows, steps, _ = shape
    row_tiles = -(-steps // (_SEGMENTS * _LENGTH))
    groups = row_tiles // _NEIGHBOURS + 1
    published = _MAP * (row_tiles + groups) + _STATES * (groups // _NEIGHBOURS + 1)
    launch = Launch(
        text,
        "single_pass_kernel",
        min(rows * row_tiles, _BLOCKS * Device.current().multiprocessors),
        _THREADS,
        (Slot(0, (words,), np.dtype(np.int64), None), SPACE, EPOCH),
        _shared_bytes(),
        is_cooperative=True,
    )
    return LaunchByAddress(PreparedLaunches(launch, units=2 * rows * published))


def _shared_bytes() -> int:
    """Return the bytes of ``struct Memory``."""
    operands = _SEGMENTS * (_LENGTH * _STATES * (_STATES + 1) + 4)
    spine = (2 * _NEIGHBOURS + 5) * _MAP + _STATES
    maps = _RING * ((_SEGMENTS + 11) * _MAP + _STATES)
    return 8 * (_SEGMENTS * _LENGTH * _STATES + 2 * operands + maps + _SPINES * spine)
