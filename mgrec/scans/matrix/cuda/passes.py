"""Scans of matrix maps over CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..maps import MatrixMap
from .packed import solve_packed
from .segments import Pass, Solver, print_pass

_SMALL = 4
"""Most states of a map that a thread keeps in registers."""


def solve_on_gpu(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, initial: Any, shape: tuple[int, ...],
    axis: int, reverse: bool, marks: Any, dtype: Any,
) -> Any:  # fmt: skip
    """Return the states (*shape, n) after each step."""
    n, solver = matrix_map.n, Solver(shape, axis, reverse)
    operands = [
        solver.operand(matrices, matrix_map.matrix_shape),
        solver.operand(vectors, (n,)),
        solver.state(initial, 1),
        solver.operand(marks, (), np.uint8),
    ]
    (m, _), (b, _), (before, _) = operands[:3]
    states, (outer, steps, inner) = solver.empty(dtype, n), solver.shape
    if marks is None and inner == 1 and matrix_map.structure == "general":
        rows = states.reshape(outer, steps, n)
        if solve_packed(matrix_map, m, b, before, rows, reverse):
            return states
    solver.solve(matrix_pass(matrix_map, m, b, reverse, dtype), operands, [states, None])
    return states


def matrix_pass(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, reverse: bool, dtype: Any
) -> Pass:
    """Return the pass over operands M and b that writes states of a dtype."""
    n = matrix_map.n
    flags = {
        "ALGEBRA": matrix_map.algebra_number,
        "IS_GENERAL": matrix_map.structure == "general",
        "IS_DIAGONAL": matrix_map.structure == "diagonal",
        "IS_COMPANION": matrix_map.structure == "companion",
        "REVERSE": reverse,
        "ALIGNED": matrices.data.ptr % 16 == vectors.data.ptr % 16 == 0,
        "SUMMARY_LANES": int(n <= _SMALL),
    }
    text = print_pass("scans/matrix/cuda/matrix", n, _SMALL, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1
    return Pass(text, numbers, n, n + 1, summary_lanes=int(n <= _SMALL))
