"""Scans of matrix maps over CuPy arrays that do not fit the registers of a thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays.chunk import canonical_shape
from ..maps import MatrixMap
from .segments import Pass, along_steps, print_pass, solve_in_segments, words_of_operand

_FLOAT64 = np.dtype(np.float64)


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
    states = cupy.empty((*shape, n), dtype)
    words = [word for _, of_array in operands for word in of_array] + [states.data.ptr]
    flags = {
        "ALGEBRA": matrix_map.algebra_number,
        "DIAGONAL": matrix_map.structure == "diagonal",
        "REVERSE": reverse,
    }
    text = print_pass("scans/matrix/cuda/matrix", n, 4, tuple(flags.items()), dtype)
    numbers = (n + 1) * n + n + 1
    solve_in_segments(
        Pass(text, len(words) + 5, numbers, n, n + 1), canonical_shape(shape, axis), words
    )
    return states
