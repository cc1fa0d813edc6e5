"""Scans of maps of two states in one pass over memory, by the kernel of contiguous rows.

Matrices and vectors are streams of the kernel as they are: its tiles have all numbers of a step.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....engines.cuda.device import MULTIPROCESSORS, Device
from ....engines.cuda.launches import LaunchByAddress, PreparedLaunches, Slot
from ...cuda.determine import launch_single_pass
from ...cuda.layouts import choose_layout
from ...cuda.sources import Source
from ..maps import MatrixMap
from ..scalar_maps import has_scalar_map, scalar_map

_FLOAT64 = np.dtype(np.float64)
_THREADS, _ITEMS = 224, 10
"""Sizes of large tiles: 3·10^7 steps ran at 0.66 of the floor on an H100, and with 6 items and two
stages at 0.61."""
_LARGE = 4 * MULTIPROCESSORS * _THREADS * _ITEMS
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
    launch = _prepare(matrix_map, (rows, steps, 1), reverse, cupy.cuda.runtime.getDevice())
    if launch is None:
        return False
    if rows > 1:
        initial = cupy.ascontiguousarray(cupy.broadcast_to(initial[:, 0, 0], (rows, n)).T)
    columns = ((matrices, n * n, 8), (vectors, n, 8), (initial, n, 8 * rows), (states, n, 8))
    launch([array.data.ptr + k * size for array, count, size in columns for k in range(count)])
    return True


@lru_cache(maxsize=256)
def _prepare(
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
    if shape[0] * shape[1] >= _LARGE and layout.threads == _THREADS:
        layout = replace(layout, items=_ITEMS, stages=1, crowded=shape[1] < _ITEMS)
    carry_in, results = (tuple(slots[k : k + n]) for k in (n * n + n, n * n + 2 * n))
    launch, units = launch_single_pass(
        transfer_map, chunk, source, layout, carry_in, results, current.multiprocessors
    )
    return LaunchByAddress(PreparedLaunches(launch, units=max(units, 1)))
