"""The phases of a chunk of matrix maps on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cuda.device import fetch, on_device
from ..maps import MatrixMap
from ..recurrence import MatrixRecurrence, MatrixSummary, propagate
from .passes import matrix_pass
from .segments import Operand, Pass, Solver


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    return Kernels(determine, precompute, propagate)


def determine(
    recurrence: MatrixRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any
) -> None:
    """Write the states after every step to `result` (outer, steps, inner, n)."""
    solver, operands, solved = _laid_out(recurrence, chunk, result.dtype)
    states = carry_in.reshape(-1, recurrence.matrix_map.n)
    maps = solver.maps_of(chunk, solved, operands, [None, None])
    solver.solve(solved, operands, [result, None], before=states, maps=maps)


def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> Callable[[], MatrixSummary]:
    """Launch the summary of a chunk; the returned function waits for it."""
    solver, operands, solved = _laid_out(recurrence, chunk, recurrence.dtype)
    maps = solver.maps(solved, operands, [None, None], chunk.kept)
    wait_for_maps, rows = fetch(maps.of_rows), chunk.row_shape
    return lambda: as_summary(wait_for_maps(), recurrence.matrix_map, rows)


def as_summary(maps: np.ndarray, matrix_map: MatrixMap, rows: tuple[int, ...]) -> MatrixSummary:
    """Return the summary of a chunk from the maps of its rows: see ``struct Map``."""
    n = matrix_map.n
    images, power, starts = np.split(maps, np.cumsum([(n + 1) * n, n]), axis=1)
    is_reset = starts[:, 0] != 0
    # They do not count, and inf or nan in them would.
    images[is_reset, : n * n] = matrix_map.one
    # The power of a unit vector whose image is 0 is below all others.
    exponents = np.pad(power, ((0, 0), (0, 1))).clip(-1e9, 1e9).astype(np.int64)
    return MatrixSummary(
        images.reshape(*rows, n + 1, n), exponents.reshape(*rows, n + 1), is_reset.reshape(rows)
    )


def _laid_out(
    recurrence: MatrixRecurrence, chunk: Chunk, dtype: Any
) -> tuple[Solver, list[Operand], Pass]:
    """Return a solver, its operands, and the pass."""
    solver = Solver(chunk.shape, 1, chunk.reverse)
    matrices, vectors, *resets = map(on_device, chunk.operands)
    marks, initial = resets or (None, None)
    operands = [*map(solver.laid_out, (matrices, vectors, initial, marks))]
    return (
        solver,
        operands,
        matrix_pass(recurrence.matrix_map, matrices, vectors, chunk.reverse, dtype),
    )
