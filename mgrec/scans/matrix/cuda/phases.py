"""Scans of matrix maps over CuPy arrays, and the phases of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cuda.device import fetch, on_device
from ..maps import MatrixMap
from ..recurrence import MatrixRecurrence, MatrixSummary, propagate
from . import single_pass
from .segments import Operand, Pass, Solver, print_pass
from .single_pass import solve_packed

if TYPE_CHECKING:
    from ..arguments import MatrixScan


_SMALL = 4
"""Most states of a map that a thread keeps in registers."""


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    return kernels_of_maps(_lay_out)


def kernels_of_maps(
    lay_out: Callable[[Any, Chunk, Any], tuple[Solver, list[Operand], Pass]],
) -> Kernels:
    """Return the phases of a chunk whose maps are matrix maps.

    ``lay_out(recurrence, chunk, dtype)`` returns a solver, its operands, and the pass that writes
    results of a dtype.
    """

    def determine(recurrence: Any, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
        solver, operands, solved = lay_out(recurrence, chunk, result.dtype)
        states = carry_in.reshape(-1, carry_in.shape[-1])
        maps = solver.maps_of(chunk, solved, operands, [None, None])
        solver.solve(solved, operands, [result, None], before=states, maps=maps)

    def precompute(recurrence: Any, chunk: Chunk) -> Callable[[], MatrixSummary]:
        solver, operands, solved = lay_out(recurrence, chunk, recurrence.dtype)
        maps = solver.maps(solved, operands, [None, None], chunk.kept)
        wait_for_maps, rows = fetch(maps.of_rows), chunk.row_shape
        return lambda: _as_summary(wait_for_maps(), recurrence.matrix_map, rows)

    return Kernels(determine, precompute, propagate)


def _as_summary(maps: np.ndarray, matrix_map: MatrixMap, rows: tuple[int, ...]) -> MatrixSummary:
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


def _lay_out(
    recurrence: MatrixRecurrence, chunk: Chunk, dtype: Any
) -> tuple[Solver, list[Operand], Pass]:
    solver = Solver(chunk.shape, 1, chunk.reverse)
    matrices, vectors, *resets = map(on_device, chunk.operands)
    marks, initial = resets or (None, None)
    operands = [*map(solver.laid_out, (matrices, vectors, initial, marks))]
    solved = matrix_pass(recurrence.matrix_map, matrices, vectors, chunk.reverse, dtype)
    return solver, operands, solved


def solve_on_gpu(scan: MatrixScan) -> Any:
    """Return the states (*shape, n) after each step."""
    matrix_map, n, reverse = scan.matrix_map, scan.matrix_map.n, scan.reverse
    solver = Solver(scan.shape, scan.axis, reverse)
    operands = [
        solver.operand(scan.M, matrix_map.matrix_shape),
        solver.operand(scan.b, (n,)),
        solver.state(scan.initial, 1),
        solver.operand(scan.marks, (), np.uint8),
    ]
    (M, _), (b, _), (before, _) = operands[:3]
    states, (outer, steps, inner) = solver.empty(scan.dtype, n), solver.shape
    if matrix_map.structure == "general":
        if scan.marks is None and inner == 1:
            rows = states.reshape(outer, steps, n)
            if solve_packed(matrix_map, M, b, before, rows, reverse):
                return states
        if single_pass.applies(solver, operands, states):
            flags = _flags(matrix_map, M, b, reverse) | single_pass.constants()
            text = print_pass(
                "scans/matrix/cuda/single_pass", n, _SMALL, tuple(flags.items()), scan.dtype,
                kernels="",
            )  # fmt: skip
            single_pass.solve(solver, text, operands, states)
            return states
    solver.solve(matrix_pass(matrix_map, M, b, reverse, scan.dtype), operands, [states, None])
    return states


def matrix_pass(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool, dtype: Any
) -> Pass:
    """Return the pass over operands M and b that writes states of a dtype."""
    n = matrix_map.n
    flags = _flags(matrix_map, matrices, vectors, reverse)
    text = print_pass("scans/matrix/cuda/matrix", n, _SMALL, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1
    return Pass(text, numbers, n, n + 1, summary_lanes=int(n <= _SMALL))


def _flags(matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool) -> dict[str, int]:
    return {
        "ALGEBRA": matrix_map.algebra_number,
        "IS_GENERAL": matrix_map.structure == "general",
        "IS_DIAGONAL": matrix_map.structure == "diagonal",
        "IS_COMPANION": matrix_map.structure == "companion",
        "REVERSE": reverse,
        "ALIGNED": matrices.data.ptr % 16 == vectors.data.ptr % 16 == 0,
        "SUMMARY_LANES": int(matrix_map.n <= _SMALL),
    }
