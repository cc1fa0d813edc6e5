"""Argument validation of :func:`mgrec.scan` with a matrix map, and its problems.

Whole arrays on a GPU are solved at once. Diagonals there are rows of a map of scalars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.arrays.array_types import cast, in_one_memory, is_lazy, to_host
from ...core.arrays.elements import broadcast_shape, merge_numbers
from ...core.arrays.resets import as_reset
from ...core.arrays.validation import as_any_array, as_axis, as_flag, check_dtype, check_out, is_one_of
from ...core.backends import common_backend
from ...core.contract.problem import Composed, Problem
from ...core.contract.scan import initial_states
from ...distributed.groups.calls import CALL
from ..arguments import check
from .maps import MatrixMap
from .recurrence import DIAGONAL_MAPS, MatrixRecurrence

Shape = tuple[Any, ...]
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True)
class MatrixScan:
    """The validated arguments of :func:`mgrec.scan` with a matrix map.

    `M`, `b`: operands, whose leading axes broadcast to `shape`.
    `initial`, array (..., n): its leading axes broadcast to the rows.
    `marks`: array of uint8, optional.
    """

    matrix_map: MatrixMap
    M: Any
    b: Any
    initial: Any
    shape: Shape
    axis: int
    reverse: bool = False
    marks: Any = None
    memory: str = "stream"
    method: str = "auto"
    out: Any = None

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.M, self.b, self.initial

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the states in the result."""
        return result_dtype(*self.arrays)

    def in_blocks(self) -> MatrixScan:
        """Return the scan of diagonal blocks, which are rows of the map of one block."""
        blocks = self.matrix_map.matrix_shape[:2]
        b, initial, out = (
            None if array is None else array.reshape(*array.shape[:-1], *blocks)
            for array in (self.b, self.initial, self.out)
        )
        marks = None if self.marks is None else self.marks[..., None]
        shape = (*self.shape, blocks[0])
        matrix_map = self.matrix_map.of_block
        return replace(self, matrix_map=matrix_map, b=b, initial=initial, shape=shape, marks=marks, out=out)

    def written(self, states: Any) -> Any:
        """Return the states, written to `out` if there is one."""
        if self.out is None:
            return states
        self.out[...] = states
        return self.out


def check_matrix_scan(
    matrix_map: MatrixMap,
    operands: Sequence[Any],
    initial: Any,
    axis: Any,
    reverse: Any,
    reset: Any,
    memory: str,
    method: str,
    out: Any,
) -> MatrixScan:
    """Return the validated arguments; raise if one is invalid."""
    check_two_operands(matrix_map, operands)
    n, matrix_shape = matrix_map.n, matrix_map.matrix_shape
    M, b = as_vectors("M", operands[0], matrix_shape), as_vectors("b", operands[1], (n,))
    before = as_vectors("initial", initial, (n,))
    data = [("b", b)]
    (M,) = in_one_memory(data, [("M", M)], [("initial", before)])
    shapes = {"M": M.shape[: -len(matrix_shape)], "b": b.shape[:-1]}
    shape = broadcast_shape(shapes, "the axes of steps and rows")
    if not shape:
        raise ValueError(f"M or b must have an axis of steps; got shapes {M.shape} and {b.shape}")
    axis, reverse = as_axis(axis, shape), as_flag("reverse", reverse)
    check_rows("initial", before.shape[:-1], shape, axis)
    marks = None if reset is None else as_reset(reset, shape, axis, reverse, data)
    scan = MatrixScan(matrix_map, M, b, before, shape, axis, reverse, marks, memory, method, out)
    if out is not None:
        check_out(out, (*shape, n), scan.dtype, scan.arrays)
    return scan


def check_two_operands(matrix_map: MatrixMap, operands: Sequence[Any]) -> None:
    """Raise ValueError unless there are two operands."""
    if len(operands) != 2:
        raise ValueError(f"{matrix_map.name} takes two operands, M and b; got {len(operands)}")


def as_vectors(name: str, value: Any, numbers: Shape) -> Any:
    """Return an array whose last axes have the shape `numbers`, of real numbers."""
    array = as_any_array(name, value)
    check_dtype(name, array, value, "?")
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real; got {array.dtype}")
    count = len(numbers)
    if array.ndim < count or array.shape[array.ndim - count :] != numbers:
        wanted = ", ".join(map(str, numbers))
        raise ValueError(f"{name} must have shape (..., {wanted}); got {array.shape}")
    return cast(array, _FLOAT64) if array.dtype.kind in "biu" else array


def result_dtype(*arrays: Any) -> np.dtype[Any]:
    """Return float32 or float64, to which the dtypes of the arrays are promoted."""
    return np.result_type(np.float32, *[array.dtype for array in arrays])


def check_rows(name: str, rows: Shape, shape: Shape, axis: int) -> None:
    """Raise ValueError unless leading axes broadcast to the rows of `shape`."""
    wanted = shape[:axis] + shape[axis + 1 :]
    pairs = zip(reversed(rows), reversed(wanted), strict=False)
    if len(rows) > len(wanted) or any(
        have not in (1, want) and have == have and want == want for have, want in pairs
    ):
        raise ValueError(
            f"{name} must have leading axes that broadcast to {wanted}, the shape without axis "
            f"{axis}; got {rows}"
        )


def is_in_gpu_memory(arrays: Iterable[Any]) -> bool:
    """Return whether whole arrays are on one GPU: none is a Dask array, or a part of a rank."""
    arrays = tuple(arrays)
    is_whole = CALL.get() is None and not any(map(is_lazy, arrays))
    return is_whole and not common_backend(arrays).is_host


def along_rows(states: Any, shape: Shape, axis: int) -> Any:
    """Return states (..., numbers) of rows as an operand, of length 1 along the axis."""
    full = merge_numbers(states[(None,) * (len(shape) - states.ndim) + (...,)], 1)
    index: list[Any] = [slice(None)] * (len(shape) - 1)
    index.insert(axis, None)
    return full[tuple(index)]


def matrix_problem(scan: MatrixScan) -> Problem | Composed:
    """Return the problem of a scan."""
    matrix_map = scan.matrix_map
    if matrix_map.structure == "block-diagonal":
        return _problem_of_blocks(scan)
    is_host = common_backend(scan.arrays).is_host
    if not is_host and matrix_map.structure == "diagonal" and matrix_map.algebra in DIAGONAL_MAPS:
        return diagonal_problem(scan)
    if not is_in_gpu_memory(scan.arrays):
        return _problem_of_chunks(scan)
    if not is_one_of(scan.method, MatrixRecurrence.methods):
        wanted = ", ".join(map(repr, MatrixRecurrence.methods))
        raise ValueError(f"method must be one of {wanted}; got {scan.method!r}")
    from .cuda.phases import solve_on_gpu

    return Composed("scan", lambda: scan.written(solve_on_gpu(scan)))


def _problem_of_blocks(scan: MatrixScan) -> Problem | Composed:
    """Return the problem of the diagonal blocks, which are rows of the map of one block."""
    problem = matrix_problem(scan.in_blocks())

    def joined(states: Any) -> Any:
        if scan.out is not None:
            return scan.out
        return states.reshape(*states.shape[:-2], scan.matrix_map.n)

    if isinstance(problem, Composed):
        return Composed(problem.name, lambda: joined(problem.solve()))
    to_states = problem.to_return_value
    return replace(problem, to_return_value=lambda *solved: joined(to_states(*solved)))


def diagonal_problem(scan: MatrixScan) -> Problem:
    """Return the problem of a diagonal, whose entries are rows of a map of scalars, in float64."""
    M, b, initial = (cast(array, _FLOAT64) for array in scan.arrays)
    problem = check(
        DIAGONAL_MAPS[scan.matrix_map.algebra],
        {"M": M, "b": b},
        initial,
        scan.axis,
        scan.reverse,
        memory=scan.memory,
        method=scan.method,
        reset=None if scan.marks is None else scan.marks[..., None] != 0,
    )

    def as_scan(states: tuple[Any, ...], final_state: Any) -> Any:
        return scan.written(cast(states[0], scan.dtype))

    return replace(problem, to_return_value=as_scan)


def _problem_of_chunks(scan: MatrixScan) -> Problem:
    """Return the problem whose chunks are of matrices."""
    matrix_map, shape, n, dtype = scan.matrix_map, scan.shape, scan.matrix_map.n, scan.dtype
    arrays = [merge_numbers(scan.M, len(matrix_map.matrix_shape)), merge_numbers(scan.b, 1)]
    states = cast(scan.initial, _FLOAT64)
    if not is_lazy(states):
        states = to_host(states)
    if scan.marks is not None:
        arrays += [scan.marks[..., None], along_rows(states, shape, scan.axis)]
    recurrence = MatrixRecurrence.over(
        arrays,
        shape,
        dtype,
        method=scan.method,
        axis=scan.axis,
        reverse=scan.reverse,
        state_dtype=_FLOAT64,
        state_shape=(n,),
        states=n,
        numbers=n,
        state_numbers=n,
        matrix_map=matrix_map,
    )
    initial = (initial_states(states, shape),)
    return Problem(recurrence, tuple(arrays), initial, (*shape, n), scan.memory, scan.out)
