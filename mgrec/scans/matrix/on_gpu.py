"""Matrix maps by array operations, for CuPy arrays: prefixes of composed maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.array_types import cast
from ...core.arrays.chunk import move_axis
from ...core.backends import CPU, backend_of
from ...solve.functions import broadcast_to
from .composition import Elements, prefixes
from .maps import MatrixMap
from .recurrence import log_sum_exp

_FLOAT64 = np.dtype(np.float64)


def solve_on_gpu(
    matrix_map: MatrixMap,
    matrices: Any,
    vectors: Any,
    initial: Any,
    shape: tuple[int, ...],
    axis: int,
    reverse: bool,
    marks: Any,
) -> Any:
    """Return the states (*shape, n) after each step, in float64."""
    arrays = [array for array in (matrices, vectors, initial) if array is not None]
    like = next((array for array in arrays if backend_of(array) is not CPU), vectors)
    m, b = (
        steps_first(array, shape, numbers, axis, reverse, like)
        for array, numbers in ((matrices, matrix_map.matrix_shape), (vectors, (matrix_map.n,)))
    )
    rows = m.shape[1 : m.ndim - len(matrix_map.matrix_shape)]
    before = broadcast_to(on_device(initial, like), (*rows, matrix_map.n))
    starts = np.zeros_like(m, dtype=bool, shape=(len(m), *rows))
    if marks is not None:
        starts |= steps_first(marks, shape, (), axis, reverse, like) != 0
    starts[:1] = True
    first = _apply(matrix_map, m, broadcast_to(before, b.shape))
    b = np.where(starts[..., None], _add(matrix_map, first, b), b)

    def compose(earlier: Elements, later: Elements) -> Elements:
        """Compose maps; a map that contains a start does not depend on the state before it."""
        matrix, offset, is_start = later
        product = _multiply(matrix_map, matrix, earlier[0])
        state = _add(matrix_map, _apply(matrix_map, matrix, earlier[1]), offset)
        return (
            product,
            np.where(is_start[..., None], offset, state),
            is_start | earlier[2],
        )

    _, states, _ = prefixes(compose, (m, b, starts))
    return move_axis(states[::-1] if reverse else states, 0, axis)


def on_device(array: Any, like: Any) -> Any:
    """Return an array of float64 in the memory of `like`; marks keep their dtype."""
    array = backend_of(like).from_host(array, like)
    return array if array.dtype == np.uint8 else cast(array, _FLOAT64)


def steps_first(
    array: Any,
    shape: tuple[int, ...],
    numbers: tuple[int, ...],
    axis: int,
    reverse: bool,
    like: Any,
) -> Any:
    """Return an operand (steps, *rows, *numbers), with the steps in the recurrence's order."""
    full = broadcast_to(on_device(array, like), (*shape, *numbers))
    ordered = move_axis(full, axis, 0)
    return ordered[::-1] if reverse else ordered


def _apply(matrix_map: MatrixMap, matrix: Any, vector: Any) -> Any:
    if matrix_map.structure == "diagonal":
        return matrix * vector if matrix_map.algebra == ("+", "*") else matrix + vector
    return _multiply(matrix_map, matrix, vector[..., None])[..., 0]


def _multiply(matrix_map: MatrixMap, later: Any, earlier: Any) -> Any:
    algebra = matrix_map.algebra
    if matrix_map.structure == "diagonal":
        return later * earlier if algebra == ("+", "*") else later + earlier
    if algebra == ("+", "*"):
        return np.matmul(later, earlier)
    terms = later[..., None] + earlier[..., None, :, :]
    if algebra == ("max", "+"):
        return terms.max(-2)
    return terms.min(-2) if algebra == ("min", "+") else log_sum_exp(terms, -2)


def _add(matrix_map: MatrixMap, x: Any, y: Any) -> Any:
    operators = {"+": np.add, "max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}
    return operators[matrix_map.algebra[0]](x, y)
