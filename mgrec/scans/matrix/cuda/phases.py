"""Scans of matrix maps over CuPy arrays, and the phases of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays.chunk import Chunk
from ....core.contract.kernels import Kernels
from ....engines.cuda.device import fetch, on_device
from ..cpu import propagate_rows
from ..maps import MatrixMap
from ..recurrence import MatrixRecurrence, MatrixSummary, propagate, with_rows_to_redo
from ..speculation import with_speculation
from .one_pass import SMALL, flags_of, may_solve_in_one_pass, operands_of, solve_in_one_pass
from .segments import Operand, Pass, Solver, print_pass
from .shards import prepare_shard

if TYPE_CHECKING:
    from ..arguments import MatrixScan


def kernels(method: str) -> Kernels:
    """Return the phases of a chunk; carry-ins are those of the CPU's phases."""
    phases, may_solve = kernels_of_maps(_lay_out), may_solve_in_one_pass

    def precompute(recurrence: MatrixRecurrence, chunk: Chunk) -> Callable[[], MatrixSummary]:
        wait = phases.precompute(
            recurrence, replace(chunk, kept=None) if may_solve(recurrence, chunk) else chunk
        )
        return lambda: with_rows_to_redo(recurrence, chunk, wait())

    def retain_maps(recurrence: MatrixRecurrence, chunk: Chunk) -> None:
        if phases.retain_maps and not may_solve(recurrence, chunk):
            phases.retain_maps(recurrence, chunk)

    def determine(recurrence: MatrixRecurrence, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
        if may_solve(recurrence, chunk):
            solver, operands = operands_of(chunk, carry_in)
            if solve_in_one_pass(recurrence.matrix_map, solver, operands, result):
                return
        phases.determine(recurrence, chunk, carry_in, result)

    kernels = Kernels(
        determine, precompute, propagate_rows, retain_maps=retain_maps, prepare_shard=prepare_shard
    )
    return with_speculation(kernels, may_solve, is_asynchronous=True)


def kernels_of_maps(lay_out: Callable[[Any, Chunk, Any], tuple[Solver, list[Operand], Pass]]) -> Kernels:
    """Return the phases of a chunk whose maps are matrix maps.

    ``lay_out(recurrence, chunk, dtype)`` returns a solver, its operands, and the pass that writes
    results of a dtype.
    """

    def determine(recurrence: Any, chunk: Chunk, carry_in: np.ndarray, result: Any) -> None:
        solver, operands, solved = lay_out(recurrence, chunk, result.dtype)
        states = carry_in.reshape(-1, carry_in.shape[-1])
        maps = solver.maps_of(chunk, solved, operands, [None, None])
        solver.solve(solved, operands, [result, None], before=states, maps=maps)

    def retain_maps(recurrence: Any, chunk: Chunk) -> Any:
        solver, operands, solved = lay_out(recurrence, chunk, recurrence.dtype)
        return solver.maps(solved, operands, [None, None], chunk.kept)

    def precompute(recurrence: Any, chunk: Chunk) -> Callable[[], MatrixSummary]:
        wait_for_maps, rows = fetch(retain_maps(recurrence, chunk).of_rows), chunk.row_shape
        return lambda: _as_summary(wait_for_maps(), recurrence.matrix_map, rows)

    return Kernels(determine, precompute, propagate, retain_maps=retain_maps)


def _as_summary(maps: np.ndarray, matrix_map: MatrixMap, rows: tuple[int, ...]) -> MatrixSummary:
    """Return the summary of a chunk from the maps of its rows: see ``struct Map``."""
    n = matrix_map.n
    images, power, starts = np.split(maps, np.cumsum([(n + 1) * n, n]), axis=1)
    is_reset = starts[:, 0] != 0
    # They do not count, and inf or nan in them would.
    images[is_reset, : n * n], power[is_reset] = matrix_map.one, 0.0
    # The power of a unit vector whose image is 0 is below all others.
    exponents = np.pad(power, ((0, 0), (0, 1))).clip(-1e9, 1e9).astype(np.int64)
    return MatrixSummary(
        images.reshape(*rows, n + 1, n), exponents.reshape(*rows, n + 1), is_reset.reshape(rows)
    )


def _lay_out(recurrence: MatrixRecurrence, chunk: Chunk, dtype: Any) -> tuple[Solver, list[Operand], Pass]:
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
    (M, _), (b, _) = operands[:2]
    states = solver.empty(scan.dtype, n)
    is_general = matrix_map.structure == "general" and scan.method != "p-scheme"
    if not (is_general and solve_in_one_pass(matrix_map, solver, operands, states)):
        solver.solve(matrix_pass(matrix_map, M, b, reverse, scan.dtype), operands, [states, None])
    return states


def matrix_pass(matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool, dtype: Any) -> Pass:
    """Return the pass over operands M and b that writes states of a dtype."""
    n = matrix_map.n
    measures = int(matrix_map.may_lose_digits)
    flags = flags_of(matrix_map, matrices, vectors, reverse) | {"MEASURES": measures}
    text = print_pass("scans/matrix/cuda/matrix", n, SMALL, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1 + measures
    return Pass(text, numbers, n, n + 1, summary_lanes=int(n <= SMALL), repair_lanes=32 * measures)
