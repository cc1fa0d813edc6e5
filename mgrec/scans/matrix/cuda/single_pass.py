"""Scans of matrix maps in one pass over memory, of four states and of two.

Maps of four states have a kernel of their own, ``single_pass.cuh``. Those of two states run in the
kernel of contiguous rows: matrices and vectors are streams of the kernel as they are, and its tiles
have all numbers of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....engines.cuda.device import MULTIPROCESSORS, Device
from ....engines.cuda.launches import EPOCH, SPACE, Launch, LaunchByAddress, PreparedLaunches, Slot
from ...cuda.determine import launch_single_pass
from ...cuda.layouts import choose_layout
from ...cuda.program import Source
from ..maps import MatrixMap
from ..recurrence import has_scalar_map, scalar_map
from .segments import Operand, Solver

_FLOAT64 = np.dtype(np.float64)
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


_LARGE_THREADS, _ITEMS = 224, 10
"""Sizes of large tiles: 3·10^7 steps ran at 0.66 of the floor on an H100, and with 6 items and two
stages at 0.61."""
_LARGE = 4 * MULTIPROCESSORS * _LARGE_THREADS * _ITEMS
"""Steps from which tiles are large."""


def solve_packed(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, initial: Any, states: Any, reverse: bool
) -> bool:
    """Write the states of contiguous rows; return False if the kernel does not apply.

    The arrays are (rows, steps, 1, 2, 2), (rows, steps, 1, 2), (1 or rows, 1, 1, 2) and
    (rows, steps, 2).
    """
    import cupy

    rows, steps, n = states.shape
    arrays = matrices, vectors, states
    is_packed = n == 2 and states.dtype == _FLOAT64 and has_scalar_map(matrix_map) and states.size
    if not is_packed or any(array.shape[:2] != states.shape[:2] for array in arrays):
        return False
    if any(array.data.ptr % 16 for array in arrays):
        return False
    launch = _prepare_packed(matrix_map, (rows, steps, 1), reverse, cupy.cuda.runtime.getDevice())
    if launch is None:
        return False
    if rows > 1:
        initial = cupy.ascontiguousarray(cupy.broadcast_to(initial[:, 0, 0], (rows, n)).T)
    columns = ((matrices, n * n, 8), (vectors, n, 8), (initial, n, 8 * rows), (states, n, 8))
    launch([array.data.ptr + k * size for array, count, size in columns for k in range(count)])
    return True


@lru_cache(maxsize=256)
def _prepare_packed(
    matrix_map: MatrixMap, shape: tuple[int, int, int], reverse: bool, device: int
) -> LaunchByAddress | None:
    n, transfer_map = matrix_map.n, scalar_map(matrix_map)
    slots = [Slot(k, shape, _FLOAT64) for k in range(n * n + 3 * n)]
    streams = slots[: n * n + n]
    steps = [f"items.v[{k}][r]" for k in range(len(streams))]
    source = Source(_FLOAT64, _FLOAT64, streams, steps=steps, widths=(n * n, n))
    chunk = Chunk((), shape, _FLOAT64, reverse)
    current = Device.current()
    layout = choose_layout(chunk, source, len(transfer_map.identity), n, current)
    if layout.walking or not layout.bulk:
        return None
    layout = replace(layout, packed=True)
    if shape[0] * shape[1] >= _LARGE and layout.threads == _LARGE_THREADS:
        layout = replace(layout, items=_ITEMS, stages=1, crowded=shape[1] < _ITEMS)
    carry_in, results = (tuple(slots[k : k + n]) for k in (n * n + n, n * n + 2 * n))
    launch, units = launch_single_pass(
        transfer_map, chunk, source, layout, carry_in, results, current.multiprocessors
    )
    return LaunchByAddress(PreparedLaunches(launch, units=max(units, 1)))
