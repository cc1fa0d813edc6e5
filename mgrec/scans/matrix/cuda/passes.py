"""Scans of matrix maps over CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import MatrixScan
from ..maps import MatrixMap
from . import single_pass
from .packed import solve_packed
from .segments import Pass, Solver, print_pass

_SMALL = 4
"""Most states of a map that a thread keeps in registers."""


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
                "scans/matrix/cuda/single_pass",
                n,
                _SMALL,
                tuple(flags.items()),
                scan.dtype,
                kernels="",
            )
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
