"""Scans of matrix maps over CuPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays.chunk import canonical_shape
from ..maps import MatrixMap
from .packed import solve_packed
from .segments import Pass, along_steps, print_pass, solve_in_segments, words_of_operand

_FLOAT64 = np.dtype(np.float64)
_SMALL = 4
"""Most states of a map that a thread keeps in registers."""


def solve_on_gpu(
    matrix_map: MatrixMap, matrices: Any, vectors: Any, initial: Any, shape: tuple[int, ...],
    axis: int, reverse: bool, marks: Any, dtype: Any,
) -> Any:  # fmt: skip
    """Return the states (*shape, n) after each step."""
    import cupy

    n = matrix_map.n
    operands = [
        words_of_operand(array, numbers, shape, axis, of_numbers, reverse)
        for array, numbers, of_numbers in (
            (matrices, matrix_map.matrix_shape, _FLOAT64),
            (vectors, (n,), _FLOAT64),
            (along_steps(initial, 1, shape, axis), (n,), _FLOAT64),
            (marks, (), np.uint8),
        )
    ]
    states, layout = cupy.empty((*shape, n), dtype), canonical_shape(shape, axis)
    if marks is None and layout[2] == 1 and matrix_map.structure == "general":
        rows = states.reshape(*layout[:2], n)
        (m, _), (b, _), (before, _) = operands[:3]
        if solve_packed(matrix_map, m, b, before, rows, reverse):
            return states
    words = [word for _, of_array in operands for word in of_array] + [states.data.ptr]
    flags = {
        "ALGEBRA": matrix_map.algebra_number,
        "DIAGONAL": matrix_map.structure == "diagonal",
        "REVERSE": reverse,
        "ALIGNED": all(array.data.ptr % 16 == 0 for array, _ in operands[:2]),
        "SUMMARY_LANES": int(n <= _SMALL),
    }
    text = print_pass("scans/matrix/cuda/matrix", n, _SMALL, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1
    solved = Pass(text, len(words) + 5, numbers, n, n + 1, summary_lanes=int(n <= _SMALL))
    solve_in_segments(solved, layout, words)
    return states
