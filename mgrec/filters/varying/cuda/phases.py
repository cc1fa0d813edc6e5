"""The phases of a chunk of a varying filter on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays.array_types import cast
from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cuda.device import fetch, on_device
from ....scans.matrix.cuda.phases import as_summary
from ....scans.matrix.cuda.segments import Operand, Pass, Solver
from ....scans.matrix.recurrence import MatrixSummary, propagate
from ..recurrence import VaryingFilter
from .passes import as_numbers, filter_pass, read_dtype


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    return Kernels(determine, precompute, propagate)


def determine(recurrence: VaryingFilter, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
    """Write the outputs to `result` (outer, steps, inner)."""
    solver, operands, solved = _laid_out(recurrence, chunk)
    states = carry_in.reshape(-1, recurrence.state_numbers)
    maps = solver.maps_of(chunk, solved, operands, [None, None])
    solver.solve(solved, operands, [result, None], before=states, maps=maps)


def precompute(recurrence: VaryingFilter, chunk: Chunk) -> Callable[[], MatrixSummary]:
    """Launch the summary of a chunk; the returned function waits for it."""
    solver, operands, solved = _laid_out(recurrence, chunk)
    maps = solver.maps(solved, operands, [None, None], chunk.kept)
    wait_for_maps, rows = fetch(maps.of_rows), chunk.row_shape
    return lambda: as_summary(wait_for_maps(), recurrence.matrix_map, rows)


def _laid_out(recurrence: VaryingFilter, chunk: Chunk) -> tuple[Solver, list[Operand], Pass]:
    """Return a solver, its operands, and the pass."""
    solver = Solver(chunk.shape, 1, chunk.reverse)
    x, b, a, *resets = map(on_device, chunk.operands)
    marks, initial = (resets[0], as_numbers(resets[1])) if resets else (None, None)
    read = read_dtype((x, b, a))
    x, b, a = (cast(array, read) for array in (x, b, a))
    operands = [*map(solver.laid_out, (b, a, x, initial, marks))]
    return solver, operands, filter_pass(recurrence, read)
